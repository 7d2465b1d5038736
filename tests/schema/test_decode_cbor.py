"""Errors of values in CBOR that do not fit their field, made of those of JSON."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema.builtin import type_of
from kapi.schema.decode_cbor import _is_struct, unknown_field

POD = type_of(GroupVersionKind("", "v1", "Pod"))
DEPLOYMENT = type_of(GroupVersionKind("apps", "v1", "Deployment"))


@pytest.mark.parametrize(
    ("names", "target", "struct"),
    [
        ("spec", "v1.PodSpec", True), ("spec", "v1.Pod", False), ("spec.containers", "v1.Container", True),
        ("spec.containers.ports", "v1.ContainerPort", True), ("spec.containers", "[]v1.Container", False),
        ("spec.containers.name", "string", False), ("spec.containers.resources.limits", "resource.Quantity", False),
        ("spec.nodeSelector", "map[string]string", False), ("spec.none.more", "v1.PodSpec", False), ("none", "v1.PodSpec", False),
        ("spec.securityContext", "v1.PodSecurityContext", True), ("metadata", "v1.ObjectMeta", True),
        ("metadata.ownerReferences", "v1.OwnerReference", True), ("metadata.ownerReferences.uid", "types.UID", False),
    ],
)  # fmt: skip
def test_whether_a_field_is_a_struct(names: str, target: str, struct: bool) -> None:
    assert _is_struct(POD, names.split("."), target) is struct
    assert not _is_struct(None, names.split("."), target)


@pytest.mark.parametrize(
    ("body", "problems", "index"),
    [
        ({"a": 1, "b": 2, "c": 3}, ["b"], 1), ({"a": 1, "b": 2, "c": 3}, ["c", "b"], 1), ({"a": 1, "b": 2}, ["a"], 0),
        ({"a": 1, "b": {"c": 1, "d": 2, "e": 3}}, ["b.e"], 2), ({"a": [{"c": 1}, {"c": 1, "d": 2}]}, ["a[1].d"], 1),
        ({"a": {"x": 1, "y": 2}, "b": {"z": 1}}, ["b.z", "a.y"], 1), ({"a": 1}, ["other"], 0), ({}, [], 0),
        ({"a": {"x": 0}, "b": 1, "c": 2}, ["a.x", "c"], 2),
    ],
)  # fmt: skip
def test_the_position_of_an_unknown_field(body: Any, problems: list[str], index: int) -> None:
    found = unknown_field(body, [f'unknown field "{problem}"' for problem in problems])
    assert found == f"cbor: found unknown field at map element index {index}"
