"""Definitions with their versions, installed and waited for."""

from __future__ import annotations

from typing import Any

from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/example.com/v1/namespaces/n/foos"


def version(name: str = "v1", *, storage: bool = True, spec: Object | None = None, **more: Any) -> Object:
    properties = {"spec": {"type": "object", "properties": spec or {"size": {"type": "integer"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def definition(*versions: Object, plural: str = "foos", kind: str = "Foo") -> Object:
    names = {"plural": plural, "kind": kind}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": list(versions or (version(),))}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": spec,
    }


def install(api: MemoryAPI, crd: Object) -> None:
    answer = api.ask("POST", DEFINITIONS, crd)
    assert answer.code == 201, answer.json
    for _ in range(5):
        api.turn()


def create(api: MemoryAPI, name: str, spec: Object, api_version: str = "v1") -> Object:
    body = {"apiVersion": f"example.com/{api_version}", "kind": "Foo", "metadata": {"name": name}, "spec": spec}
    answer = api.ask("POST", FOOS.replace("/v1/", f"/{api_version}/"), body)
    assert answer.code == 201, answer.json
    found: Object = answer.json
    return found
