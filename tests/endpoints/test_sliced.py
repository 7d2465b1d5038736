"""A computation that is suspended at each checkpoint comes to the same answer as one that is not."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from kapi.process.slices import Slices
from kapi.testing.memory_api import MemoryAPI, succeed

BASE = "/api/v1/namespaces/default/"
_OWN = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
APPLY, STRATEGIC = "application/apply-patch+yaml", "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def pod(name: str, count: int = 70) -> dict[str, Any]:
    env = [{"name": f"V{number}", "value": "x"} for number in range(count)]
    volumes = [{"name": f"v{number}", "emptyDir": {}} for number in range(count)]
    mounts = [{"name": f"v{number}", "mountPath": f"/m/{number}"} for number in range(count)]
    container = {"name": "main", "image": "i", "env": env, "volumeMounts": mounts}
    labels = {f"l{number}": "a" for number in range(count)}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container], "volumes": volumes}}


def requests() -> list[tuple[Any, ...]]:
    """Method, path, body, its type, and what is accepted if that is not all."""
    maps = {"metadata": {"name": "m"}, "data": {f"k{number}": "v" for number in range(100)}}
    finalizers = [f"example.com/{number}" for number in range(100)]
    declared = {"apiVersion": "v1", "kind": "ConfigMap", **maps}
    return [
        ("POST", "pods", pod("p"), "application/json"),
        ("POST", "pods?fieldValidation=Strict", {**pod("q"), "unknown": {"a": [1, 2]}}, "application/json"),
        ("POST", "pods", pod("Wrong Name"), "application/json"),
        ("POST", "configmaps", maps, "application/json"),
        ("PUT", "configmaps/m", {**maps, "data": {f"k{number}": "w" for number in range(50, 150)}}, "application/json"),
        (
            "PATCH",
            "configmaps/m",
            {"data": {f"k{number}": None for number in range(60)}},
            "application/merge-patch+json",
        ),
        ("PATCH", "configmaps/m", {"metadata": {"finalizers": finalizers}}, STRATEGIC),
        ("PATCH", "configmaps/m", {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers[:50]}}, STRATEGIC),
        (
            "PATCH",
            "configmaps/m",
            [{"op": "add", "path": f"/data/n{number}", "value": "1"} for number in range(100)],
            "application/json-patch+json",
        ),
        ("PATCH", "configmaps/m?fieldManager=one&force=true", declared, APPLY),
        ("PATCH", "configmaps/m?fieldManager=two", {**declared, "data": {"k1": "other"}}, APPLY),
        ("PATCH", "configmaps/y?fieldManager=one", "kind: ConfigMap\napiVersion: v1\ndata: &d {a: b}\n", APPLY),
        ("GET", "configmaps?labelSelector=a!=b", None, ""),
        ("GET", "configmaps?labelSelector=a!=b&pretty=1", None, ""),
        ("GET", "configmaps", None, "", TABLE),
        ("GET", "configmaps?includeObject=Object&pretty=1", None, "", TABLE),
        ("GET", "configmaps?labelSelector=none&pretty=1", None, ""),
        ("GET", "configmaps", None, "", "application/yaml"),
        ("GET", "configmaps/m", None, "", "application/yaml"),
        ("GET", "configmaps/m?pretty=1", None, "", "application/json"),
        ("DELETE", "configmaps/m", None, ""),
    ]


class Sliced(SynchronousTestCase):
    def answers(self, slices: bool) -> list[tuple[int, bytes]]:
        api = succeed(MemoryAPI.started())
        if slices:
            api.runner._slices = Slices(api.clock, length=-1.0)
        found = []
        for method, path, body, kind, *accept in requests():
            headers = {"User-Agent": "tests/1", "Accept": accept[0] if accept else "*/*"}
            request = api.ask(method, BASE + path, body, headers=headers, type=kind)
            self.turns += not request.finished
            for _ in range(20_000):
                if request.finished:
                    break
                api.turn()
            self.assertTrue(request.finished, path)
            found.append((request.code, _OWN.sub(b"uid", request.written)))
        return found

    def test_each_write_and_list_is_the_same(self) -> None:
        self.turns = 0
        expected = self.answers(False)
        self.assertEqual(self.turns, 0)
        with patch("kapi.endpoints.body.LARGE", 0), patch("kapi.endpoints.objects.LARGE", 0):
            self.assertEqual(self.answers(True), expected)
        self.assertGreater(self.turns, 10, "they were suspended")
        self.assertEqual({code for code, _ in expected}, {200, 201, 400, 409, 422})
