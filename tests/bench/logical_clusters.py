"""Logical clusters, for ``--only testkit``: how long one takes, a fork of many objects, and the memory of thousands."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any, NamedTuple

from tests.bench.cases import Bench, Row
from tests.bench.load import Connection

FLAGS = ("--testbed", "--enable-logical-clusters")
FRESH = 30  # clusters
OBJECTS = 10_000  # of a fork
MANY = (1_000, 10_000)  # clusters, rising
_PART = 2_000  # objects that are sent at once
_PAUSE = 0.15  # seconds: the garbage collector begins to read a tenth of a second after the first write
_LONGEST = 3.0  # seconds that the server may work on after a request


def logical_clusters(bench: Bench) -> None:
    """Nothing against a server that has none."""
    if bench.ask("GET", "/clusters")[0] != 200:
        return
    connection = Connection(bench.target)
    _fresh(bench, connection)
    _fork(bench, connection)
    _many(bench, connection)
    connection.close()


def _do(bench: Bench, connection: Connection, method: str, path: str, body: Any = None, **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    code, answer = connection.roundtrip(bench.target.request(method, path, data, **headers))
    if code >= 400:
        raise SystemExit(f"{method} {path}: {code} {answer.decode()}")
    return bytes(answer)


class Took(NamedTuple):
    """Seconds until an answer: by the clock, and of the server's CPU; and the CPU of what it does afterwards."""

    wall: float = 0.0
    cpu: float = 0.0
    after: float = 0.0

    def __add__(self, other: tuple[float, ...]) -> Took:  # type: ignore[override]
        return Took(*map(sum, zip(self, other, strict=True)))


def _took(bench: Bench, connection: Connection, method: str, path: str, body: Any) -> Took:
    """Of one request; the server is at rest before the next one."""
    target = bench.target
    used, begun = target.precise_cpu(), time.perf_counter()
    _do(bench, connection, method, path, body)
    wall, answered = time.perf_counter() - begun, target.precise_cpu()
    resting = begun + _LONGEST
    while time.perf_counter() < resting:
        before = target.precise_cpu()
        time.sleep(_PAUSE)
        if target.precise_cpu() - before < _PAUSE / 10:
            break
    return Took(wall, answered - used, target.precise_cpu() - answered)


def _add(bench: Bench, name: str, took: list[Took]) -> None:
    wall, cpu, after = ([value * 1000 for value in values] for values in zip(*took, strict=True))
    middle = statistics.median
    note = f"at least {min(wall):.1f}; CPU {middle(cpu):.1f}, afterwards {middle(after):.1f}"
    bench.add(Row(name, middle(wall), "ms", note=note))


def _fresh(bench: Bench, connection: Connection) -> None:
    """Those that have been asked for, asked once, and written to: each with the steps before it."""
    paths = [f"/clusters/fresh-{number}" for number in range(FRESH)]
    body = {"metadata": {"name": "first"}}
    steps: tuple[tuple[str, str, str, Any], ...] = (
        ("made", "PUT", "", None),
        ("first answer", "GET", "/api/v1/namespaces/default", None),
        ("first write", "POST", "/api/v1/namespaces/default/configmaps", body),
    )
    before: list[Took] = []
    for name, method, rest, sent in steps:
        took = [_took(bench, connection, method, path + rest, sent) for path in paths]
        before = [one + other for one, other in zip(took, before or [Took()] * FRESH, strict=True)]
        _add(bench, f"fresh cluster: {name}", before)
    _do(bench, connection, "DELETE", "/clusters")


def _fork(bench: Bench, connection: Connection) -> None:
    """Of a snapshot with many objects: each step by itself."""
    for start in range(0, OBJECTS, _PART):
        lines = b"".join(_line(number) for number in range(start, start + _PART))
        headers = {"kind": "application/x-kapi-snapshot"}
        _do(bench, connection, "POST" if start else "PUT", "/snapshots/many", lines, **headers)
    paths = [f"/clusters/fork-{number}" for number in range(bench.runs * 3)]
    steps = (
        ("fork", "PUT", "", {"from": "many"}),
        ("first answer", "GET", "/api/v1/namespaces/default/configmaps/m-00001", None),
        ("first list", "GET", "/api/v1/configmaps?limit=1", None),
        ("reset", "PATCH", "", {"from": "many"}),
    )
    for name, method, rest, sent in steps:
        took = [_took(bench, connection, method, path + rest, sent) for path in paths]
        _add(bench, f"{OBJECTS} objects: {name}", took)
    _do(bench, connection, "DELETE", "/clusters")
    _do(bench, connection, "DELETE", "/snapshots/many")


def _line(number: int) -> bytes:
    name = f"m-{number:05}"
    metadata = {"name": name, "namespace": "default", "uid": f"u-{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"text": "x" * 200}}
    key = f"core/configmaps/default/{name}"
    return json.dumps({"key": key, "revision": number + 1, "object": obj}).encode() + b"\n"


def _many(bench: Bench, connection: Connection) -> None:
    """Each is asked once; as many as the server keeps awake are."""
    before, begun, there = bench.target.memory(), time.perf_counter(), 0
    for wanted in MANY:
        while there < wanted:
            _do(bench, connection, "PUT", f"/clusters/many-{there}")
            there += 1
        made = there / (time.perf_counter() - begun)
        bench.add(Row(f"{there} clusters", bench.target.memory() - before, "MB", note=f"made at {made:.0f}/s"))
    for number in range(MANY[0]):
        _do(bench, connection, "GET", f"/clusters/many-{number}/api/v1/namespaces/default")
    bench.add(Row(f"and {MANY[0]} of them asked", bench.target.memory() - before, "MB"))
    begun = time.perf_counter()
    _do(bench, connection, "DELETE", "/clusters")
    bench.add(Row(f"{there} clusters removed", time.perf_counter() - begun, "s"))
