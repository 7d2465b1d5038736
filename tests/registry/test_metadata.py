"""ObjectMeta, as every type has it."""

from __future__ import annotations

import pytest

from kapi.machinery.gvk import GroupResource, GroupVersionResource
from kapi.machinery.status import BadRequest, Conflict
from kapi.machinery.tree import Object
from kapi.registry import metadata

PODS = GroupVersionResource("", "v1", "pods")


def test_a_generated_name_is_its_base_and_five_characters() -> None:
    name = metadata.generate_name("web-")
    assert name.startswith("web-") and len(name) == 9
    assert len({metadata.generate_name("web-") for _ in range(20)}) > 1


def test_a_long_base_is_cut_so_that_the_name_remains_a_label() -> None:
    assert len(metadata.generate_name("x" * 300)) == 63


def test_clients_do_not_choose_what_the_server_sets() -> None:
    given = {"name": "a", "uid": "u", "creationTimestamp": "t", "deletionTimestamp": "t", "selfLink": "/", "labels": {}}
    metadata.wipe_system_fields(given)
    assert given == {"name": "a", "labels": {}}


@pytest.mark.parametrize(
    ("given", "namespace", "resource", "left"),
    [
        ({}, "a", PODS, {"namespace": "a"}),
        ({"namespace": "a"}, "a", PODS, {"namespace": "a"}),
        ({"namespace": "a"}, "", GroupVersionResource("", "v1", "nodes"), {}),
        ({"namespace": "a"}, "a", GroupVersionResource("", "v1", "namespaces"), {}),
    ],
)
def test_the_namespace_is_that_of_the_request(
    given: Object, namespace: str, resource: GroupVersionResource, left: Object
) -> None:
    obj: Object = {"metadata": given}
    metadata.ensure_namespace(obj, namespace, resource)
    assert obj["metadata"] == left


def test_another_namespace_or_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="does not match the namespace"):
        metadata.ensure_namespace({"metadata": {"namespace": "b"}}, "a", PODS)
    with pytest.raises(BadRequest, match=r"the name of the object \(b\)"):
        metadata.ensure_name({"metadata": {"name": "b"}}, "a")


def test_owners_given_twice_are_kept_once_and_warned_of() -> None:
    one, other = {"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}
    obj: Object = {"metadata": {"ownerReferences": [one, other, dict(one)]}}
    assert metadata.dedup_owner_references(obj, after_admission=False).endswith("observed: 1")
    assert obj["metadata"]["ownerReferences"] == [one, other]
    assert metadata.dedup_owner_references(obj, after_admission=True) == ""
    obj = {"metadata": {"ownerReferences": [one, dict(one), other, dict(one)]}}
    assert metadata.dedup_owner_references(obj, after_admission=False).endswith("observed: 1, 1")


def test_a_uid_names_one_object() -> None:
    resource = GroupResource("", "pods")
    metadata.check_uid("", None, resource, "ns", "a")
    metadata.check_uid("1", {"metadata": {"uid": "1"}}, resource, "ns", "a")
    for obj in (None, {"metadata": {"uid": "2"}}):
        with pytest.raises(Conflict, match="Precondition failed: UID in precondition: 1"):
            metadata.check_uid("1", obj, resource, "ns", "a")
