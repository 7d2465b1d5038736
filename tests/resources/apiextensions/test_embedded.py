"""Embedded resources: stored metadata takes its form without an error; what kind, version and metadata are refused for."""

from __future__ import annotations

import pytest

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.embedded import metadata_errors
from kapi.schema.structural.coercion import coerce
from tests.resources.strategy_kit import short

SCHEMA: Object = {"type": "object", "x-kubernetes-embedded-resource": True}


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ([42], [42]),
        ("name", "name"),
        ({"name": "a", "labels": 7}, {"name": "a"}),
        ({"name": 5, "creationTimestamp": None}, {}),
    ],
)
def test_of_odd_metadata_the_fields_that_fit_stay_and_what_is_no_object_stays_whole(
    stored: object, kept: object
) -> None:
    value = {"kind": "A", "apiVersion": 1, "metadata": stored}
    assert coerce(Path("spec"), value, SCHEMA, drop=True) is None
    assert value == {"kind": "A", "metadata": kept}


def test_new_metadata_that_is_no_object_is_refused() -> None:
    error = coerce(Path("spec"), {"metadata": [42]}, SCHEMA, drop=False)
    assert error is not None
    assert str(error.field) == "spec.metadata"


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"apiVersion": "a.b/v1", "kind": "Any", "metadata": {"name": "A_", "namespace": "n"}}, []),
        ({}, ["apiVersion: Required value", "kind: Required value"]),
        ({"apiVersion": 1, "kind": 2}, [
             "apiVersion: Invalid value: 1: must be a string",
             "kind: Invalid value: 2: must be a string",
         ]),
        ({"apiVersion": "", "kind": ""}, [
             'apiVersion: Invalid value: "": must not be empty',
             'kind: Invalid value: "": must not be empty',
         ]),
        ({"apiVersion": "a/b/c", "kind": "A."}, [
             'apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
             'kind: Invalid value: "A.": may have mixed case, but should otherwise match: <DNS-1035 label>',
         ]),
        ({"apiVersion": "v1", "kind": "A", "metadata": [42]}, [
             "metadata: Invalid value: [42]: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
         ]),
        ({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a/b"}}, [
             "metadata.name: Invalid value: \"a/b\": may not contain '/'",
         ]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("above", "place"),
    [
        ({"type": "object", "properties": {"a": SCHEMA}}, "[0].a."),
        ({"type": "object", "additionalProperties": SCHEMA}, "[0][a]."),
    ],
)
def test_what_an_embedded_resource_is_refused_for(above: Object, place: str, value: Object, texts: list[str]) -> None:
    found = metadata_errors(Path("spec"), [{"a": value}], {"type": "array", "items": above})
    assert short([str(error) for error in found], f"spec{place}") == texts
