"""Lists that clients give empty: refused in upstream's words where they mean something, else as good as absent."""

from __future__ import annotations

from typing import Any

from kapi.testing.memory_api import MemoryAPI, succeed

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/n/ingresses"


def ingress(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec}


def test_an_ingress_of_no_rules() -> None:
    api = succeed(MemoryAPI.started())
    text = "Invalid value: {}: either `defaultBackend` or `rules` must be specified"
    for spec, shown in ({"rules": []}, "[]"), ({}, "null"):
        causes = api.ask("POST", INGRESSES, ingress(**spec)).json["details"]["causes"]
        assert causes == [{"reason": "FieldValueInvalid", "message": text.format(shown), "field": "spec"}]


def test_with_a_default_backend_they_are_as_good_as_absent() -> None:
    api = succeed(MemoryAPI.started())
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    stored = api.ask("POST", INGRESSES, ingress(defaultBackend=backend, rules=[])).json
    assert stored["spec"] == {"defaultBackend": backend}
    assert all("f:rules" not in str(entry) for entry in stored["metadata"].get("managedFields") or ())
    again = api.ask("PUT", INGRESSES + "/x", {**stored, "spec": {"defaultBackend": backend, "rules": []}}).json
    assert again["metadata"]["generation"] == 1
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
