"""Four clients that each write an object of 1.5 to 2.5 MB again and again, one request after the other.

A PUT of a ConfigMap of 57,000 keys and of a Deployment with 13,200 variables, a merge patch of a custom resource with rules over
20,000 items, and a forced apply by two managers in turn.  Each client is a service account, so a flow of its own.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.bench.cases import Bench
from tests.bench.fairness import account
from tests.bench.load import Connection, Target

_KEYS, _VARIABLES, _ITEMS, _APPLIED_KEYS = 57_000, 13_200, 20_000, 40_000
_GROUP = "neighbours.example.com"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JSON, _MERGE, _APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
_PATIENCE = 300.0  # seconds that an answer may take
Object = dict[str, Any]


class LargeWrites:
    """Makes the objects in the bench's namespace, where all writes go."""

    def __init__(self, bench: Bench) -> None:
        base, namespace = bench.base, bench.namespace
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        larges = f"/apis/{_GROUP}/v1/namespaces/{namespace}/larges"
        _create(bench, _DEFINITIONS, _definition())
        _create(bench, f"{base}/configmaps", _keys("large", _KEYS, 0))
        _create(bench, deployments, _deployment(0))
        _create(bench, larges, _custom(0))
        kinds = (
            [("PUT", f"{base}/configmaps/large", _keys("large", _KEYS, turn), _JSON) for turn in (1, 0)],
            [("PUT", f"{deployments}/large", _deployment(turn), _JSON) for turn in (1, 0)],
            [("PATCH", f"{larges}/large", {"spec": _custom(turn)["spec"]}, _MERGE) for turn in (1, 0)],
            [
                ("PATCH", f"{base}/configmaps/applied?force=true&fieldManager={'ab'[turn]}", body, _APPLY)
                for turn in (0, 1)
                for body in [_keys("applied", _APPLIED_KEYS, turn)]
            ],
        )
        #: the requests of each client, which alternate so that each changes the object
        self._clients: list[tuple[Target, list[bytes]]] = []
        for number, requests in enumerate(kinds):
            target = account(bench, f"large-{number}", "cluster-admin")
            made = [target.request(verb, path, json.dumps(body).encode(), kind) for verb, path, body, kind in requests]
            self._clients.append((target, made))

    @contextlib.contextmanager
    def running(self) -> Iterator[Written]:
        """All clients write meanwhile, each in a process of its own; they have written once when the block begins."""
        written = Written(len(self._clients))
        processes = [
            multiprocessing.Process(target=_write, args=(target, requests, written, number), daemon=True)
            for number, (target, requests) in enumerate(self._clients)
        ]
        for process in processes:
            process.start()
        try:
            written.wait()
            yield written
        finally:
            written.end.set()
            for process in processes:
                process.join(_PATIENCE)
            assert not any(process.exitcode for process in processes), "a large write has failed"


class Written:
    """What the clients have written: how often, and when last."""

    def __init__(self, clients: int) -> None:
        self.end = multiprocessing.Event()
        self.counts = multiprocessing.Array("d", clients)
        self.times = multiprocessing.Array("d", clients)

    def wait(self, writes: int = 1) -> None:
        """Until each client has written so often more."""
        goals = [count + writes for count in self.counts]
        end = time.monotonic() + _PATIENCE
        while any(count < goal for count, goal in zip(self.counts, goals, strict=True)):
            assert time.monotonic() < end, "large writes are not answered"
            time.sleep(0.05)

    def rate(self, work: Callable[[], object], writes: int = 2) -> float:
        """Writes a second of all clients together while ``work`` is repeated, until each has written ``writes`` times."""
        before = list(zip(self.counts, self.times, strict=True))
        while any(count - done < writes for count, (done, _) in zip(self.counts, before, strict=True)):
            work()
        after = zip(self.counts, self.times, strict=True)
        return sum((n - done) / (time - since) for (n, time), (done, since) in zip(after, before, strict=True))


def _write(target: Target, requests: list[bytes], written: Written, number: int) -> None:
    connection = Connection(target)
    connection.socket.settimeout(_PATIENCE)
    turn = 0
    while not written.end.is_set():
        code, answer = connection.roundtrip(requests[turn % 2])
        assert code in (200, 201), answer[:300]
        written.times[number] = time.monotonic()
        written.counts[number] += 1
        turn += 1


def _create(bench: Bench, path: str, body: Object) -> None:
    """Again, until a definition that was just made is served."""
    for _ in range(100):
        code, answer = bench.ask("POST", path, json.dumps(body).encode())
        if code in (201, 409):
            return
        time.sleep(0.1)
    raise AssertionError(answer[:300])


def _keys(name: str, count: int, turn: int) -> Object:
    data = {f"key-{number}": f"value-{turn}-{number}" for number in range(count)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _deployment(turn: int) -> Object:
    env = [{"name": f"VARIABLE_{number}", "value": f"value {turn} " * 9} for number in range(_VARIABLES)]
    spec = {"containers": [{"name": "main", "image": "registry.example/app:1", "env": env}]}
    labels = {"app": "large"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "large"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def _custom(turn: int) -> Object:
    items = [{"name": f"item-{number}", "size": number, "text": f"text {turn} " * 5} for number in range(_ITEMS)]
    return {"apiVersion": f"{_GROUP}/v1", "kind": "Large", "metadata": {"name": "large"}, "spec": {"items": items}}


def _definition() -> Object:
    text = {"type": "string", "maxLength": 64}
    item = {
        "type": "object",
        "properties": {"name": text, "size": {"type": "integer"}, "text": text},
        "x-kubernetes-validations": [
            {"rule": "self.size >= 0"},
            {"rule": "self.name.startsWith('item-')"},
        ],
    }
    items = {"type": "array", "maxItems": _ITEMS, "items": item}
    items["x-kubernetes-validations"] = [{"rule": "self.all(item, item.size < 1000000)"}]
    spec = {"type": "object", "properties": {"items": items}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"larges.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "names": {"plural": "larges", "kind": "Large"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
