"""Metadata on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update


def told(metadata: Object) -> list[str]:
    errors: list[Any] = []
    validate_metadata({"metadata": {"name": "a", "namespace": "n"} | metadata}, errors)
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A_b"}, 'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of'),
        ({"name": "a" * 254}, "metadata.name: Invalid value: "),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"labels": {"a b": "c"}}, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        ({"labels": {"a": "-"}}, 'metadata.labels: Invalid value: "-": a valid label must be an empty string'),
        ({"annotations": {"/": ""}}, 'metadata.annotations: Invalid value: "/": '),
        ({"annotations": {"a": "x" * (1 << 18)}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b": name part must consist of'),
        ({"ownerReferences": [{}]}, "metadata.ownerReferences.apiVersion: Invalid value"),
    ],
)
def test_what_metadata_may_not_be(metadata: Object, text: str) -> None:
    assert any(line.startswith(text) for line in told(metadata)), told(metadata)


def test_plain_metadata_is_fine() -> None:
    assert (
        told({"labels": {"example.com/a": "b"}, "annotations": {"A.b/c": "anything: \n"}, "finalizers": ["a/b"]}) == []
    )


def test_one_controller_at_most() -> None:
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": True}
    assert told({"ownerReferences": [owner]}) == []
    lines = told({"ownerReferences": [owner, owner | {"name": "p"}]})
    assert len(lines) == 1 and "Only one reference can have Controller set to true" in lines[0]


def test_names_and_uids_stay() -> None:
    old = {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}}
    new = {"metadata": {"name": "b", "namespace": "n", "uid": "w", "resourceVersion": "1"}}
    errors: list[Any] = []
    validate_metadata_update(new, old, errors)
    assert [error.field for error in errors] == ["metadata.name", "metadata.uid"]
    assert all(error.detail == "field is immutable" for error in errors)


def test_no_finalizers_for_what_is_being_deleted() -> None:
    base = {"name": "a", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "2024-01-01T00:00:00Z"}
    base["deletionGracePeriodSeconds"] = 0  # type: ignore[assignment]
    errors: list[Any] = []
    validate_metadata_update(
        {"metadata": base | {"finalizers": ["a/b", "a/c"]}}, {"metadata": base | {"finalizers": ["a/b"]}}, errors
    )
    assert [str(error) for error in errors] == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a/c"}'
    ]
