"""The version and kind that a body says it has."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.codecs.reading import type_meta


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({}, ("", "")),
        ({"apiVersion": "v1", "kind": "K"}, ("v1", "K")),
        ({"data": 1, "apiVersion": "v1", "immutable0": {}, "kind": "K", "spec": []}, ("v1", "K")),
        ({"KIND": "K", "APIVERSION": "v1"}, ("v1", "K")),
        ({"KIND": None, "apiVersion": None, "kind": "K"}, ("", "K")),
        ({"KIND": "upper", "kind": "lower", "apiversion": "v1", "apiVersion": "v2"}, ("v1", "lower")),
        ({"Kınd": "K", "kinds": "L", "kin": "M"}, ("", "")),
    ],
)
def test_the_case_of_letters_does_not_matter(tree: dict[str, Any], found: tuple[str, str]) -> None:
    assert type_meta(tree) == found


@pytest.mark.parametrize(
    ("tree", "field", "kind"),
    [({"KIND": 1}, "kind", "number"), ({"ApiVersion": []}, "apiVersion", "array"), ({"kind": {}}, "kind", "object")],
)
def test_other_values_are_refused(tree: dict[str, Any], field: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"cannot unmarshal {kind} into Go struct field .{field} of type string"):
        type_meta(tree)
