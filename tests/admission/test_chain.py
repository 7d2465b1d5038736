"""What the chain of plugins does to the objects that pass it."""

from __future__ import annotations

import pytest

from kapi.admission.catalogue import PLUGINS, enabled_names
from kapi.admission.chain import Chain
from kapi.admission.interface import Attributes, Plugin, denied
from kapi.machinery.tree import Object, Tree
from tests.admission.fakes import attributes, finish


@pytest.mark.parametrize(
    ("name", "metadata", "shown"),
    [
        ("a", {"name": "b"}, "a"), ("", {"name": "b", "generateName": "c"}, "b"), ("", {"generateName": "c-"}, "c-"),
        ("", {}, "Unknown"), ("", None, "Unknown"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_object(name: str, metadata: Object | None, shown: str) -> None:
    request = attributes({"metadata": metadata})
    request.name = name
    assert denied(request, "why").message == f'pods "{shown}" is forbidden: why'
    request.obj = None
    assert denied(request, "why").message == f'pods "{name or "Unknown"}" is forbidden: why'


KNOWN = [
    {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}
]


class Sets(Plugin):
    def __init__(self, managed: Tree) -> None:
        self.managed = managed

    def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        attributes.obj["metadata"]["managedFields"] = self.managed


@pytest.mark.parametrize(
    ("managed", "kept"),
    [(KNOWN, True), ([], True), ([{**KNOWN[0], "operation": "Other"}], False), ("x", False), ([5], False)],
)
def test_managed_fields_that_cannot_be_read_are_restored(managed: Tree, kept: bool) -> None:
    before = [{**KNOWN[0], "manager": "before"}]
    request = attributes({"metadata": {"name": "a", "managedFields": before}}, resource="configmaps", kind="ConfigMap")
    finish(Chain([Sets(managed)]).admit(request))
    assert request.obj is not None
    assert request.obj["metadata"]["managedFields"] == (managed if kept else before)
    warned = [text.startswith(".metadata.managedFields was in an invalid state") for text in request.warnings]
    assert warned == ([] if kept else [True])


@pytest.mark.parametrize(("managed", "kept"), [(KNOWN, True), ("x", False)])
def test_managed_fields_that_a_plugin_adds_can_be_read(managed: Tree, kept: bool) -> None:
    request = attributes({"metadata": {"name": "a"}}, resource="configmaps", kind="ConfigMap")
    finish(Chain([Sets(managed)]).admit(request))
    assert request.obj == {"metadata": {"name": "a", **({"managedFields": managed} if kept else {})}}
    assert len(request.warnings) == (not kept)


@pytest.mark.parametrize("before", [KNOWN, "x", None])
def test_managed_fields_that_no_plugin_touches_stay(before: Tree) -> None:
    """The server has made them: they are not read again."""
    obj = {"metadata": {"name": "a", "managedFields": before}}
    request = attributes(obj, resource="configmaps", kind="ConfigMap")
    finish(Chain([Sets(before)]).admit(request))
    assert request.obj == obj and request.warnings == []


def test_the_plugins_that_are_on_by_default_are_upstream_s() -> None:
    others = {
        "AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "DenyServiceExternalIPs", "EventRateLimit",
        "ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "NamespaceAutoProvision",
        "NamespaceExists", "NodeRestriction", "OwnerReferencesPermissionEnforcement", "PodNodeSelector",
        "PodTolerationRestriction",
    }  # fmt: skip
    assert PLUGINS.keys() - enabled_names() == others
