"""Custom resources in CBOR: the object, its status and its scale, behind the feature gate."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.codecs.cbor_reading import MAX_DEPTH
from kapi.codecs.cbor_writing import dumps
from kapi.testing.memory_api import MemoryAPI
from tests.endpoints.cbor_case import APPLY, CBOR, SUPPORTED, answered, ask
from tests.servers.apiextensions.definition_kit import FOOS, create, definition, install, version

SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}


@pytest.fixture
def foos(api: MemoryAPI) -> MemoryAPI:
    crd = definition(version(subresources=SUBRESOURCES))
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = {"type": "object", "properties": {"size": {"type": "integer"}}}
    install(api, crd)
    create(api, "a", {"size": 1})
    return api


@pytest.fixture
def on(foos: MemoryAPI) -> MemoryAPI:
    foos.table.cbor = True
    return foos


def foo(name: str, size: Any = 1, **more: Any) -> dict[str, Any]:
    spec = {"size": size, **more}
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec}


SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 5}}
WRITES = [
    ("POST", FOOS, foo("b"), 201, "Foo"),
    ("PUT", f"{FOOS}/a/scale", SCALE, 200, "Scale"),
    ("DELETE", f"{FOOS}/a", {"kind": "DeleteOptions", "apiVersion": "v1"}, 200, "Status"),
    ("DELETE", FOOS, {"kind": "DeleteOptions", "apiVersion": "v1"}, 200, "FooList"),
]


@pytest.mark.parametrize("path", [f"{FOOS}/a", f"{FOOS}/a/status", f"{FOOS}/a/scale", FOOS])
def test_reads(foos: MemoryAPI, path: str) -> None:
    refused = ask(foos, "GET", path)
    assert refused.code == 406
    assert refused.json["message"].endswith(SUPPORTED)
    foos.table.cbor = True
    assert answered(ask(foos, "GET", path)) == foos.ask("GET", path).json


@pytest.mark.parametrize(("method", "path", "body", "code", "kind"), WRITES)
def test_writes(foos: MemoryAPI, method: str, path: str, body: Any, code: int, kind: str) -> None:
    refused = ask(foos, method, path, body, "application/json")
    why = f"the body of the request was in an unknown format - accepted media types include: {SUPPORTED}"
    assert (refused.code, refused.json["message"]) == (415, why)
    foos.table.cbor = True
    assert answered(ask(foos, method, path, body), code)["kind"] == kind


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_unknown_fields_are_dropped_in_silence(on: MemoryAPI, validation: str) -> None:
    body = {**foo("b", unknown=1), "more": 2}
    made = ask(on, "POST", f"{FOOS}?fieldValidation={validation}", body)
    assert answered(made, 201)["spec"] == {"size": 1}
    assert not made.warnings
    if validation == "Strict":
        assert on.ask("POST", f"{FOOS}?fieldValidation=Strict", body).code == 400  # in JSON


def test_a_body_without_a_version(on: MemoryAPI) -> None:
    body = {"kind": "Foo", "metadata": {"name": "b"}}
    assert answered(ask(on, "POST", FOOS, body), 400)["message"] == (
        'Foo in version "" cannot be handled as a Foo: '
        "Object 'apiVersion' is missing in '55799({'kind': 'Foo', 'metadata': {'name': 'b'}})'"
    )


def test_a_replacement_and_its_status(on: MemoryAPI) -> None:
    found = answered(ask(on, "GET", f"{FOOS}/a"))
    found["status"] = {"size": 7}
    found = answered(ask(on, "PUT", f"{FOOS}/a/status", found))
    assert found["status"] == {"size": 7}
    found["spec"] = {"size": 3}
    assert answered(ask(on, "PUT", f"{FOOS}/a", found))["spec"] == {"size": 3}


def test_an_apply(on: MemoryAPI) -> None:
    path = f"{FOOS}/b?fieldManager=m"
    assert answered(ask(on, "PATCH", path, foo("b", 2), content_type=APPLY), 201)["spec"] == {"size": 2}
    assert answered(ask(on, "PATCH", path, foo("b", 4), content_type=APPLY))["spec"] == {"size": 4}
    refused = ask(on, "PATCH", path, foo("b"), content_type=CBOR)
    types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, " + APPLY
    why = f"the body of the request was in an unknown format - accepted media types include: {types}"
    assert answered(refused, 415)["message"] == why


def test_numbers_keep_their_type(on: MemoryAPI) -> None:
    refused = ask(on, "POST", FOOS, foo("b", "1"))
    assert (
        'spec.size: Invalid value: "string": spec.size in body must be of type integer'
        in answered(refused, 422)["message"]
    )
    assert answered(ask(on, "POST", FOOS, foo("b", 70_000)), 201)["spec"] == {"size": 70_000}


@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
def test_a_body_without_a_kind_is_shown_in_diagnostic_notation(on: MemoryAPI, validation: str) -> None:
    body = {"apiVersion": "example.com/v1", "spec": {"size": 1}}
    message = answered(ask(on, "POST", f"{FOOS}?fieldValidation={validation}", body), 400)["message"]
    shown = "55799({'apiVersion': 'example.com/v1', 'spec': {'size': 1}})"
    start = dumps(body)[:30].hex()
    why = f"Object 'Kind' is missing in '{shown}' ({start} ...)"
    assert message == f"the object provided is unrecognized (must be of type Foo): {why}"


def test_a_duplicate_key_is_refused_whatever_the_validation(on: MemoryAPI) -> None:
    head = {name: value for name, value in foo("b").items() if name != "spec"}
    body = b"\xa4" + dumps(head)[4:] + dumps("spec")[3:] + b"\xa2\x44size\x01\x44size\x02"
    for validation in ("Ignore", "Warn", "Strict"):
        message = answered(ask(on, "POST", f"{FOOS}?fieldValidation={validation}", body), 400)["message"]
        why = 'cbor: found duplicate map key "size" at map element index 1'
        assert message == f'Foo in version "v1" cannot be handled as a Foo: {why}'


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH, 2000])
@pytest.mark.parametrize("kind", [CBOR, APPLY])
def test_deep_objects_are_refused(on: MemoryAPI, levels: int, kind: str) -> None:
    """With the words of the decoder, and not by an error of the server; also those without a kind, which are shown."""
    deep = b"\xa1\x41a" * levels + b"\x00"
    for body in (b"\xa1" + dumps("spec")[3:] + deep, b"\xa2" + dumps("kind")[3:] + dumps("Foo")[3:] + b"\x41x" + deep):
        method, path = ("PATCH", f"{FOOS}/b?fieldManager=m") if kind == APPLY else ("POST", FOOS)
        assert answered(ask(on, method, path, body, content_type=kind), 400)["status"] == "Failure"
