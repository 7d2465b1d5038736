"""OwnerReferencesPermissionEnforcement: which rights which owners need."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import UPDATE, Attributes, Plugin
from kapi.admission.plugins.owner_references_permission_enforcement import OwnerReferencesPermissionEnforcement
from kapi.machinery.tree import Object
from tests.admission.fakes import FakeClient, attributes, initializer, pod
from tests.admission.plugin_kit import Rules, admit, refusal

DELETE_PODS = ("delete", "pods")


def owner(kind: str = "Deployment", version: str = "apps/v1", uid: str = "1", block: bool = True) -> Object:
    return {"apiVersion": version, "kind": kind, "name": "o", "uid": uid, "blockOwnerDeletion": block}


def change(*new: Object, old: tuple[Object, ...] = (), **more: Any) -> Attributes:
    after, before = pod(), pod()
    after["metadata"]["ownerReferences"], before["metadata"]["ownerReferences"] = list(new), list(old)
    return attributes(after, before, operation=UPDATE, **more)


def definition(kind: str = "Thing", group: str = "example.com", **version: Any) -> Object:
    versions = [{"name": "v1", "served": True, **version}]
    spec = {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": "things"}, "versions": versions}
    return {"metadata": {"name": f"things.{group}"}, "spec": spec}


def plugin(*allowed: tuple[str, str], definitions: tuple[Object, ...] = ()) -> Plugin:
    client = FakeClient()
    client.put("apiextensions.k8s.io", "customresourcedefinitions", *definitions)
    return OwnerReferencesPermissionEnforcement(initializer(client, authorizer=Rules(*allowed)))


CANNOT_DELETE = "cannot set an ownerRef on a resource you can't delete: , <nil>"
CANNOT_BLOCK = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
)


@pytest.mark.parametrize(
    ("new", "old", "allowed", "text"),
    [
        ([], [], [], ""),
        ([owner()], [owner()], [], ""),
        ([owner(block=False)], [], [], CANNOT_DELETE),
        ([], [owner()], [], CANNOT_DELETE),
        ([owner(block=False)], [], [DELETE_PODS], ""),
        ([owner()], [], [DELETE_PODS], CANNOT_BLOCK),
        ([owner()], [], [DELETE_PODS, ("update", "deployments/finalizers")], ""),
        ([owner()], [], [DELETE_PODS, ("update", "*/finalizers")], ""),
        ([owner()], [], [DELETE_PODS, ("update", "deployments")], CANNOT_BLOCK),
        ([owner(), owner(uid="2", block=False)], [owner()], [DELETE_PODS], ""),
        ([owner(), owner(uid="2")], [owner()], [DELETE_PODS], CANNOT_BLOCK),
        ([owner()], [owner(block=False)], [DELETE_PODS], CANNOT_BLOCK),
        ([owner(uid="2"), owner("Node", "v1")], [], [DELETE_PODS, ("update", "deployments/finalizers")], CANNOT_BLOCK),
    ],
)
def test_update(new: list[Object], old: list[Object], allowed: list[tuple[str, str]], text: str) -> None:
    request = change(*new, old=tuple(old))
    if text:
        assert refusal(plugin(*allowed), request).endswith(text)
    else:
        admit(plugin(*allowed), request)


def test_a_new_object_needs_no_right_to_delete_it() -> None:
    obj = pod()
    obj["metadata"]["ownerReferences"] = [owner(block=False)]
    admit(plugin(), attributes(obj))
    obj["metadata"]["ownerReferences"] = [owner()]
    assert refusal(plugin(), attributes(obj)).endswith(CANNOT_BLOCK)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (definition(), True),
        (definition(kind="Other"), False),
        (definition(group="other.com"), False),
        (definition(name="v2"), False),
        (definition(served=False), False),
    ],
)
def test_owners_may_be_custom_resources(found: Object, known: bool) -> None:
    request = change(owner("Thing", "example.com/v1"))
    allowed = [DELETE_PODS, ("update", "things/finalizers")]
    if known:
        admit(plugin(*allowed, definitions=(found,)), request)
        assert refusal(plugin(DELETE_PODS, definitions=(found,)), request).endswith(CANNOT_BLOCK)
    else:
        assert refusal(plugin(*allowed, definitions=(found,)), request).endswith(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 "
            'Kind Thing: no matches for kind "Thing" in version "example.com/v1"'
        )
