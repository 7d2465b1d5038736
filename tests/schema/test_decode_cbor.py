"""Errors of values in CBOR that do not fit their field, made of those of JSON."""

from __future__ import annotations

import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema.builtin import type_of
from kapi.schema.decode_cbor import _is_struct

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
