"""What many custom resource definitions cost: time, CPU and memory of each, and a start with all of them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from kapi.machinery.tree import Object
from tests.bench.cases import Row
from tests.bench.load import Connection, Target

EDGE = 20  # definitions at each end whose costs are compared
_DESCRIPTION = "says how this part of the resource behaves; it is told at some length, as generated schemas do. "


def definition(group: str, number: int) -> Object:
    """A definition as code generators make them: some 10 kB, two versions, subresources, columns, rules, defaults."""
    kind, plural = f"Widget{number}", f"widget{number}s"
    names = {"plural": plural, "singular": f"widget{number}", "kind": kind, "listKind": f"{kind}List"}
    columns = [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    versions = [
        {
            "name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": _schema(kind)},
            "subresources": {"status": {}}, "additionalPrinterColumns": columns,
        }
        for name in ("v1", "v1beta1")
    ]  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": versions},
    }


def _text(**more: Any) -> Object:
    return {"type": "string", "description": _DESCRIPTION, **more}


def _schema(kind: str) -> Object:
    quantity = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    template = {
        "type": "object",
        "properties": {
            "image": _text(pattern="^[a-z0-9./:-]+$", maxLength=200),
            "resources": {
                "type": "object",
                "properties": {
                    part: {"type": "object", "additionalProperties": quantity} for part in ("limits", "requests")
                },
            },
            "env": {
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": _text(maxLength=63), "value": _text()},
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            **{f"option{index}": _text() for index in range(10)},
        },
    }
    spec = {
        "type": "object",
        "description": _DESCRIPTION,
        "required": ["replicas"],
        "properties": {
            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 1},
            "paused": {"type": "boolean", "default": False},
            "strategy": _text(enum=["Recreate", "RollingUpdate"], default="RollingUpdate"),
            "selector": {"type": "object", "additionalProperties": {"type": "string"}},
            "template": template,
        },
        "x-kubernetes-validations": [
            {"rule": "!self.paused || self.replicas > 0", "message": "a paused one needs replicas"},
            {"rule": "self.strategy != 'Recreate' || self.replicas <= 10"},
        ],
    }
    conditions = {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "status"],
            "properties": {name: _text() for name in ("type", "status", "reason", "message", "lastTransitionTime")},
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    state = {"type": "object", "properties": {"phase": _text(), "conditions": conditions}}
    return {
        "type": "object",
        "description": f"{kind} {_DESCRIPTION}",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": state,
        },
    }


class Definitions:
    """Creates ``count`` definitions on a fresh server; ``restart`` stops and starts it and gives the seconds it took."""

    def __init__(
        self, target: Target, count: int, add: Callable[[Row], None], restart: Callable[[], tuple[Target, float]] | None
    ) -> None:
        self.target = target
        self.count = count
        self.add = add
        self.restart = restart

    def run(self, *, one_group: bool) -> None:
        where = "in one group" if one_group else "in groups of their own"
        before = self.target.memory()
        connection = Connection(self.target)
        edge = min(EDGE, self.count // 2)
        costs: list[tuple[list[float], float]] = []
        for number in range(0, edge):
            self._create(connection, number, one_group)  # what is made once is made now
        for start, stop in ((edge, 2 * edge), (2 * edge, self.count - edge), (self.count - edge, self.count)):
            used = self.target.cpu()
            times = [self._create(connection, number, one_group) for number in range(start, stop)]
            time.sleep(1.0)  # what follows a creation belongs to it
            costs.append((times, (self.target.cpu() - used) / max(1, stop - start) * 1e6))
        (early, early_cpu), _, (late, late_cpu) = costs
        for when, times, cpu in (("first", early, early_cpu), ("last", late, late_cpu)):
            self.add(
                Row(
                    f"{when} {edge} of {self.count} CRDs, {where}",
                    statistics.median(times) * 1000,
                    "ms",
                    (max(times) - min(times)) / 2 / statistics.median(times) * 100,
                    cpu if self.target.pids else None,
                    "until the resource answers",
                )
            )
        self.add(Row(f"last to first, {where}", late_cpu / early_cpu if early_cpu else 0.0, "x", note="of CPU"))
        self.add(Row(f"memory of {self.count} CRDs, {where}", self.target.memory() - before, "MB"))
        self._discover(connection, one_group, where)
        connection.close()
        if self.restart is not None:
            self.target, took = self.restart()
            self.add(Row(f"start with {self.count} CRDs, {where}", took, "s", note=f"{self.target.cpu():.2f} s of CPU"))
            time.sleep(1.0)
            self.add(Row(f"memory then, {where}", self.target.memory() - before, "MB"))

    def _create(self, connection: Connection, number: int, one_group: bool) -> float:
        """Seconds until a list of the resource is answered."""
        group = "bench.example.com" if one_group else f"group{number}.bench.example.com"
        crd = definition(group, number)
        body = json.dumps(crd).encode()
        ask = self.target.request
        begin = time.perf_counter()
        code, answer = connection.roundtrip(
            ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        )
        assert code == 201, (code, answer[:500])
        plural = crd["spec"]["names"]["plural"]
        while connection.roundtrip(ask("GET", f"/apis/{group}/v1/{plural}"))[0] != 200:
            time.sleep(0.002)
        return time.perf_counter() - begin

    def _discover(self, connection: Connection, one_group: bool, where: str) -> None:
        """What it costs to learn of a further one: each time the aggregated document is another."""
        request = self.target.request("GET", "/apis").replace(
            b"application/json", b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        )
        times, used, size = [], 0.0, 0
        for number in range(self.count, self.count + EDGE):
            self._create(connection, number, one_group)
            time.sleep(0.2)
            before, begin = self.target.cpu(), time.perf_counter()
            code, body = connection.roundtrip(request)
            times.append(time.perf_counter() - begin)
            used += self.target.cpu() - before
            size = len(body)
            assert code == 200 and f"widget{number}s".encode() in body
        self.add(
            Row(
                f"discovery after the next, {where}",
                statistics.median(times) * 1000,
                "ms",
                (max(times) - min(times)) / 2 / statistics.median(times) * 100,
                used / EDGE * 1e6 if self.target.pids else None,
                f"{size / 1e3:.0f} kB",
            )
        )
