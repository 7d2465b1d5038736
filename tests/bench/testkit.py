"""What a test suite waits for: a fresh part of the server, and what goes with an owner; and what owners cost in memory."""

from __future__ import annotations

import json
import statistics
import time
import tracemalloc
import uuid
from typing import Any

from kapi.controllers.garbagecollector.graph import Graph
from kapi.controllers.garbagecollector.metadata import read
from kapi.machinery.gvk import GroupResource
from tests.bench.cases import Bench, Row
from tests.bench.load import Connection
from tests.bench.logical_clusters import logical_clusters

DEPENDENTS = 1000
OBJECTS = 100_000  # with owners, in memory
FRESH = 50  # namespaces
_LONGEST = 60.0  # seconds
_PROPAGATIONS = ("Background", "Foreground", "Orphan")


def testkit(bench: Bench) -> None:
    _fresh(bench)
    logical_clusters(bench)
    for propagation in _PROPAGATIONS:
        _collected(bench, propagation)
    for share in (1, 100):
        _memory(bench, share)


def _fresh(bench: Bench) -> None:
    """A namespace as the fixture ``kapi`` makes it, until it takes objects."""
    took = []
    for _ in range(FRESH):
        name = f"{bench.namespace}-{uuid.uuid4().hex[:6]}"
        begun = time.perf_counter()
        _done(bench, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        _done(bench, "POST", f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "first"}})
        took.append((time.perf_counter() - begun) * 1000)
        bench.ask("DELETE", f"/api/v1/namespaces/{name}")
    bench.add(Row("fresh namespace to first object", statistics.median(took), "ms", note="with two TLS handshakes"))


def _done(bench: Bench, method: str, path: str, body: Any = None) -> Any:
    code, answer = bench.ask(method, path, b"" if body is None else json.dumps(body).encode())
    if code >= 400:
        raise SystemExit(f"{method} {path}: {code} {answer.decode()}")
    return json.loads(answer)


def _collected(bench: Bench, propagation: str) -> None:
    """From the deletion of an owner until nothing is left to be done with its dependents."""
    took = []
    maps = f"{bench.base}/configmaps"
    for run in range(bench.runs):
        owner = f"owner-{propagation.lower()}-{run}"
        uid = _done(bench, "POST", maps, {"metadata": {"name": owner}})["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
        connection = Connection(bench.target)
        for number in range(DEPENDENTS):
            metadata = {"name": f"{owner}-{number}", "labels": {"of": owner}, "ownerReferences": [reference]}
            connection.roundtrip(bench.target.request("POST", maps, json.dumps({"metadata": metadata}).encode()))
        connection.close()
        begun = time.perf_counter()
        _done(bench, "DELETE", f"{maps}/{owner}?propagationPolicy={propagation}")
        while not _is_over(bench, maps, owner, propagation):
            if time.perf_counter() - begun > _LONGEST:
                raise SystemExit(f"the dependents of {owner} are still there")
            time.sleep(0.01)
        took.append(time.perf_counter() - begun)
        bench.ask("DELETE", f"{maps}?labelSelector=of%3D{owner}")
    bench.add(Row(f"{propagation} deletion, {DEPENDENTS} dependents", statistics.median(took), "s"))


def _is_over(bench: Bench, maps: str, owner: str, propagation: str) -> bool:
    if propagation == "Orphan":  # the owner goes last
        return bench.ask("GET", f"{maps}/{owner}")[0] == 404
    return not _done(bench, "GET", f"{maps}?labelSelector=of%3D{owner}&limit=1")["items"]


def _memory(bench: Bench, share: int) -> None:
    """What the garbage collector keeps of objects with owners; ``share`` of them have the same one."""
    graph, resource, names = Graph(), GroupResource("", "configmaps"), [f"name-{number}" for number in range(OBJECTS)]
    owner = ""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number, name in enumerate(names):
        if number % share == 0:
            owner = str(uuid.uuid4())
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": f"o{number // share}",
            "uid": owner,
            "controller": True,
        }
        metadata = {"uid": str(uuid.uuid4()), "ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
        graph.observe(resource, "namespace", name, read(json.dumps({"metadata": metadata}).encode()))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    bench.add(Row(f"{OBJECTS} dependents, {share} an owner", used / 1e6, "MB", note="of the garbage collector's graph"))
