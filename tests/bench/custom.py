"""A custom resource beside a built-in one: the same requests for objects of the same content."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from tests.bench.cases import Bench, Row, _cpu, _spread, configmap, small
from tests.bench.load import Connection
from tests.bench.watchers import fan_out

GROUP, PLURAL, KIND = "bench.example.com", "maps", "Map"
_LISTED = 2000
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition() -> dict[str, Any]:
    """The shape of a ConfigMap."""
    schema = {
        "type": "object",
        "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": PLURAL, "kind": KIND, "singular": "map"}
    spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": spec,
    }


def _custom(body: bytes) -> bytes:
    return body.replace(b'"v1"', f'"{GROUP}/v1"'.encode(), 1).replace(b"ConfigMap", KIND.encode(), 1)


def compare(bench: Bench, watchers: int = 100) -> None:
    """Rows in pairs, each pair measured one after the other.

    The third of a kind is the resource after its definition has changed, as those in use have.
    """
    assert bench.ask("POST", _DEFINITIONS, json.dumps(definition()).encode())[0] == 201
    configmaps, maps = f"{bench.base}/configmaps", f"/apis/{GROUP}/v1/namespaces/{bench.namespace}/{PLURAL}"
    while bench.ask("GET", maps)[0] != 200:
        time.sleep(0.01)
    kinds = (("ConfigMap", configmaps, lambda body: body), ("custom", maps, _custom))
    for _, path, form in kinds:
        bench.ask("POST", path, form(configmap("one")))
    for changed in (False, True):
        if changed:
            crd = json.loads(bench.ask("GET", f"{_DEFINITIONS}/{PLURAL}.{GROUP}")[1])
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
            assert bench.ask("PUT", f"{_DEFINITIONS}/{PLURAL}.{GROUP}", json.dumps(crd).encode())[0] == 200
            time.sleep(0.5)
            kinds = (("custom, definition changed", maps, _custom),)
        for name, path, _ in kinds:
            get = bench.target.request("GET", f"{path}/one")
            bench.throughput(f"GET {name} 2.6 kB", lambda n, get=get: get, (16,))  # type: ignore[misc]
        for name, path, form in kinds:

            def create(n: int, path: str = path, form: Any = form) -> bytes:
                return bench.target.request("POST", path, form(small(bench.number())))

            bench.throughput(f"CREATE {name}", create, (16,))
            while json.loads(bench.ask("DELETE", f"{path}?limit=2000")[1])["items"]:
                pass
            bench.ask("POST", path, form(configmap("one")))
        _lists(bench, kinds)
        for name, path, _ in kinds:
            runs = [fan_out(bench.target, path, watchers, 100) for _ in range(bench.runs)]
            rates = [run["rate"] for run in runs]
            cpu = _cpu(bench.target, [run["cpu"] for run in runs])
            bench.add(
                Row(f"WATCH {name}, fan-out to {watchers}", statistics.median(rates), "events/s", _spread(rates), cpu)
            )
    bench.ask("DELETE", f"{_DEFINITIONS}/{PLURAL}.{GROUP}")


def _lists(bench: Bench, kinds: Any) -> None:
    for name, path, form in kinds:
        connection = Connection(bench.target)
        for _ in range(_LISTED):
            assert connection.roundtrip(bench.target.request("POST", path, form(small(bench.number()))))[0] == 201
        times, cpus = [], []
        request = bench.target.request("GET", f"{path}?resourceVersion=0")
        for _ in range(bench.runs):
            before, begin = bench.target.cpu(), time.perf_counter()
            for _ in range(20):
                assert connection.roundtrip(request)[0] == 200
            times.append((time.perf_counter() - begin) / 20 * 1000)
            cpus.append((bench.target.cpu() - before) / 20 * 1e6)
        connection.close()
        bench.add(
            Row(f"LIST {_LISTED} {name}", statistics.median(times), "ms", _spread(times), _cpu(bench.target, cpus))
        )
        while json.loads(bench.ask("DELETE", f"{path}?limit=2000")[1])["items"]:
            pass
        bench.ask("POST", path, form(configmap("one")))
