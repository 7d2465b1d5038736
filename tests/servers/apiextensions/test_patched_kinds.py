"""Patches that change what a custom resource says it is."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.testing.memory_api import MemoryAPI
from tests.servers.apiextensions.definition_kit import FOOS, create, definition, install

JSON = "application/json-patch+json"


@pytest.mark.parametrize(
    ("path", "value", "code", "message"),
    [
        ("/apiVersion", "", 500, "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'"),
        ("/apiVersion", "v2", 422, 'Foo "a" is invalid: apiVersion: Invalid value: "v2": must be example.com/v1'),
        ("/kind", "Bar", 422, 'Bar.example.com "a" is invalid: kind: Invalid value: "Bar": must be Foo'),
    ],
)  # fmt: skip
def test_an_object_that_is_no_longer_of_its_kind(
    api: MemoryAPI, path: str, value: str, code: int, message: str
) -> None:
    install(api, definition())
    create(api, "a", {"size": 1})
    answer = api.ask("PATCH", f"{FOOS}/a", [{"op": "replace", "path": path, "value": value}], type=JSON)
    assert (answer.code, answer.json["message"]) == (code, message)


@pytest.mark.parametrize(("name", "value", "found"), [("kind", 1.5, "number"), ("apiVersion", {}, "object")])
def test_kind_and_version_must_be_texts(api: MemoryAPI, name: str, value: Any, found: str) -> None:
    install(api, definition())
    create(api, "a", {"size": 1})
    answer = api.ask("PATCH", f"{FOOS}/a", [{"op": "replace", "path": f"/{name}", "value": value}], type=JSON)
    why = f"json parse error: json: cannot unmarshal {found} into Go struct field .{name} of type string"
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "patch")
    assert answer.json["message"].endswith(why)


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": "number", "minimum": 0.5, "unknown": 1}, {"type": "number", "minimum": 0.5}),
        ({"type": "integer", "minimum": 2**53 + 1}, {"type": "integer", "minimum": 9007199254740992}),
    ],
)
def test_numbers_of_schemas_are_float64(api: MemoryAPI, schema: Any, field: Any) -> None:
    """A body with an unknown field is read with care for how its numbers are written; what is kept are numbers."""
    crd = definition()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {"n": schema}
    install(api, crd)
    stored = api.ask("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com").json
    properties = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert properties == {"n": field}
