"""A kopf operator with its own definition, end to end: create, change, delete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.operators import operator
from tests.integration.server_process import Kubectl, ServerProcess, api_request
from tests.waiting import until

OPERATOR = """
import kopf

@kopf.on.create("kopfexamples")
def created(spec, **_):
    return {"seen": spec.get("field", "")}

@kopf.on.update("kopfexamples")
def updated(spec, **_):
    return {"now": spec.get("field", "")}

@kopf.on.delete("kopfexamples")
def deleted(**_):
    pass
"""

_LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kopfexamples.kopf.dev"},
    "spec": {
        "scope": "Namespaced",
        "group": "kopf.dev",
        "names": {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample", "shortNames": ["kex"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _LOOSE, "status": _LOOSE}}},
                "additionalPrinterColumns": [{"name": "Field", "type": "string", "jsonPath": ".spec.field"}],
            }
        ],
    },
}


def test_an_operator_handles_its_objects(server: ServerProcess, kubectl: Kubectl, tmp_path: Path) -> None:
    pytest.importorskip("kopf")
    manifest = tmp_path / "crd.json"
    manifest.write_text(json.dumps(DEFINITION))
    kubectl.run("apply", "-f", str(manifest))
    kubectl.run("wait", "--for=condition=Established", "crd/kopfexamples.kopf.dev", "--timeout=120s")
    source, example = tmp_path / "operator.py", tmp_path / "one.json"
    source.write_text(OPERATOR)
    obj = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}, "spec": {"field": "hello"}}
    example.write_text(json.dumps(obj))
    try:
        with operator(server, source, "-A", "--standalone"):
            kubectl.run("apply", "-f", str(example))

            path = f"apis/kopf.dev/v1/namespaces/{kubectl.namespace}/kopfexamples/one"

            def status(key: str) -> Any:
                return until(lambda: json.loads(api_request(server, "GET", path)[1]).get("status", {}).get(key))

            assert status("created") == {"seen": "hello"}
            kubectl.run("patch", "kex", "one", "--type", "merge", "-p", '{"spec":{"field":"bye"}}')
            assert status("updated") == {"now": "bye"}
            assert "bye" in kubectl.run("get", "kex")
            kubectl.run("delete", "kex", "one", "--timeout=120s")
    finally:
        kubectl.run("delete", "crd", "kopfexamples.kopf.dev", "--timeout=120s")
