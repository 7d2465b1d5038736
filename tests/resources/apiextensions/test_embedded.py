"""Stored metadata of embedded resources takes its form without an error."""

from __future__ import annotations

import pytest

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.embedded import coerce

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
