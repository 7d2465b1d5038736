"""Logical clusters, for ``--only testkit``: how long one takes, a fork of many objects, and the memory of thousands."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from tests.bench.cases import Bench, Row
from tests.bench.load import Connection

FLAG = "--enable-logical-clusters"
FRESH = 50  # clusters
OBJECTS = 10_000  # of a fork
MANY = (1_000, 10_000)  # clusters, rising
_PART = 2_000  # objects that are sent at once


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


def _fresh(bench: Bench, connection: Connection) -> None:
    """One that has been asked for, asked once, and written to."""
    made, asked, written = [], [], []
    for number in range(FRESH):
        path = f"/clusters/fresh-{number}"
        begun = time.perf_counter()
        _do(bench, connection, "PUT", path)
        made.append((time.perf_counter() - begun) * 1000)
        _do(bench, connection, "GET", f"{path}/api/v1/namespaces/default")
        asked.append((time.perf_counter() - begun) * 1000)
        _do(bench, connection, "POST", f"{path}/api/v1/namespaces/default/configmaps", {"metadata": {"name": "first"}})
        written.append((time.perf_counter() - begun) * 1000)
        time.sleep(0.05)  # its controllers start beside
    for name, took in (("made", made), ("first answer", asked), ("first write", written)):
        bench.add(Row(f"fresh cluster: {name}", statistics.median(took), "ms"))
    _do(bench, connection, "DELETE", "/clusters")


def _fork(bench: Bench, connection: Connection) -> None:
    """Of a snapshot with many objects: until it is there, until it answers, until they are listed."""
    made, asked, listed, reset = [], [], [], []
    for start in range(0, OBJECTS, _PART):
        lines = b"".join(_line(number) for number in range(start, start + _PART))
        headers = {"kind": "application/x-kapi-snapshot"}
        _do(bench, connection, "POST" if start else "PUT", "/snapshots/many", lines, **headers)
    for number in range(bench.runs * 3):
        path = f"/clusters/fork-{number}"
        begun = time.perf_counter()
        _do(bench, connection, "PUT", path, {"from": "many"})
        made.append((time.perf_counter() - begun) * 1000)
        _do(bench, connection, "GET", f"{path}/api/v1/namespaces/default/configmaps/m-00001")
        asked.append((time.perf_counter() - begun) * 1000)
        begun = time.perf_counter()
        _do(bench, connection, "GET", f"{path}/api/v1/configmaps?limit=1")
        listed.append((time.perf_counter() - begun) * 1000)
        begun = time.perf_counter()
        _do(bench, connection, "PATCH", path, {"from": "many"})
        reset.append((time.perf_counter() - begun) * 1000)
        _do(bench, connection, "DELETE", path)
    for name, took in (("fork", made), ("fork and first answer", asked), ("first list", listed), ("reset", reset)):
        bench.add(Row(f"{OBJECTS} objects: {name}", statistics.median(took), "ms"))
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
