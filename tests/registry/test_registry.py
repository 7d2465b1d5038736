"""The registry of all stored resources: shared stores, listers that follow, admission."""

from __future__ import annotations

import dataclasses

import pytest
from twisted.internet.task import Clock

from kapi.admission.interface import AdmissionChain
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import BadRequest
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.registry.environment import Environment
from kapi.registry.operation import Operation
from kapi.registry.registry import Registry
from kapi.registry.resource_store import ResourceStore
from kapi.resources.catalogue import BUILT_IN
from kapi.store.memory import MemoryStore
from kapi.watchcache.caches import Caches

CONFIG_MAPS = GroupResource("", "configmaps")
[ROW] = [row for row in BUILT_IN if row.group_resource == CONFIG_MAPS]


def registry() -> Registry:
    clock = Clock()
    store = MemoryStore(clock, clock.seconds)
    return Registry(store, Caches(store, clock), AdmissionChain(), Environment(clock, clock=clock.seconds))


def test_versions_of_a_resource_share_a_store() -> None:
    one = registry()
    assert one.add(ROW) is one.add(dataclasses.replace(ROW, version="v2")) is one.stores[CONFIG_MAPS]


def test_a_lister_is_made_once_and_follows_its_store() -> None:
    one = registry()
    one.add(ROW)
    listers = one.environment.listers
    before = listers[CONFIG_MAPS]
    assert listers[CONFIG_MAPS] is before
    other = ResourceStore(ROW, one.caches.cache(CONFIG_MAPS), one.store, one.admission, one.environment)
    one.put(CONFIG_MAPS, other)
    assert one.stores[CONFIG_MAPS] is other and listers[CONFIG_MAPS] is not before


def test_what_is_removed_has_no_lister() -> None:
    one = registry()
    one.add(ROW)
    listers = one.environment.listers
    assert listers[CONFIG_MAPS].list() == []
    one.remove(CONFIG_MAPS)
    assert CONFIG_MAPS not in one.stores and listers.get(CONFIG_MAPS) is None


def test_admission_is_for_stores_of_before_and_after() -> None:
    one, chain = registry(), AdmissionChain()
    before = one.add(ROW)
    one.admit_by(chain)
    secrets = next(row for row in BUILT_IN if row.group_resource == GroupResource("", "secrets"))
    assert before.admission is chain and one.add(secrets).admission is chain


def test_a_name_with_a_slash_is_refused_before_it_is_looked_up() -> None:
    """No path of a request has one in a name, but a program in the same process may ask with one."""
    asked = read.get(registry().add(ROW), "n", "a/b")
    with pytest.raises(BadRequest) as caught:
        asked.send(None)
    assert caught.value.message == "Name parameter invalid: \"a/b\": may not contain '/'"


def late() -> Registry:
    """Of the rows of another registry."""
    clock, rows = Clock(), {ROW.storage_resource: ROW}
    store = MemoryStore(clock, clock.seconds)
    return Registry(
        store, Caches(store, clock), AdmissionChain(), Environment(clock, clock=clock.seconds), lazy_rows=rows
    )


def test_a_late_registry_has_what_nobody_has_asked_for() -> None:
    one = late()
    assert CONFIG_MAPS in one.stores and one.client.resources() == [("", "configmaps", True)]
    assert one.environment.listers.get(CONFIG_MAPS) is not None
    assert GroupResource("", "pods") not in one.stores and one.stores.get(GroupResource("", "pods")) is None
    assert one.caches.all() == []
    assert one.client.resource("", "configmaps").lister.list() == []
    assert [cache.resource for cache in one.caches.all()] == [CONFIG_MAPS]


def test_a_late_registry_makes_each_store_once_and_takes_others_beside() -> None:
    one = late()
    store = one.stores[CONFIG_MAPS]
    assert one.stores.get(CONFIG_MAPS) is store
    things = GroupResource("example.com", "things")
    row = dataclasses.replace(ROW, group="example.com", plural="things", namespaced=False)
    one.put(things, ResourceStore(row, one.caches.cache(things), one.store, one.admission, one.environment))
    assert sorted(one.client.resources()) == [("", "configmaps", True), ("example.com", "things", False)]
    one.remove(things)
    assert one.client.resources() == [("", "configmaps", True)]


@pytest.mark.parametrize("first", [True, False])
def test_rows_are_amended_whether_their_stores_are_made_or_not(first: bool) -> None:
    one = late()
    if first:
        assert one.stores[CONFIG_MAPS].row is ROW
    one.amend(CONFIG_MAPS, lambda: {"list_kind": "OldList"})
    assert one.stores[CONFIG_MAPS].row == dataclasses.replace(ROW, list_kind="OldList")
    eager = registry()
    eager.add(ROW)
    eager.amend(CONFIG_MAPS, lambda: {"list_kind": "OldList"})
    eager.amend(GroupResource("", "pods"), lambda: {"list_kind": "nobody has them"})
    assert eager.stores[CONFIG_MAPS].row.list_kind == "OldList" and list(eager.stores) == [CONFIG_MAPS]
    assert eager.rows == {CONFIG_MAPS: ROW}


def test_a_late_store_is_admitted_by_the_chain_of_its_time() -> None:
    one, chain = late(), AdmissionChain()
    one.admit_by(chain)
    assert one.stores[CONFIG_MAPS].admission is chain


@pytest.mark.parametrize("sent", ["CreateOptions", "UpdateOptions", "PatchOptions"])
@pytest.mark.parametrize(("operation", "kind"), [("CREATE", "CreateOptions"), ("UPDATE", "UpdateOptions")])
def test_admission_sees_the_options_of_the_operation_whatever_the_method(sent: str, operation: str, kind: str) -> None:
    store = registry().add(ROW)
    options: Object = {"kind": sent, "apiVersion": "meta.k8s.io/v1", "fieldManager": "m", "dryRun": ["All"]}
    if sent == "PatchOptions":
        options["force"] = True
    attributes = store.attributes(Operation(store.row, "ns", "a", options=options), operation, {}, {})
    wanted = {"kind": kind, "apiVersion": "meta.k8s.io/v1", "fieldManager": "m", "dryRun": ["All"]}
    assert attributes.options == wanted


def test_a_deletion_keeps_its_options() -> None:
    store = registry().add(ROW)
    options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0}
    operation = Operation(store.row, "ns", "a", options=options)
    assert store.attributes(operation, "DELETE", None, {}).options == options
    assert store.attributes(operation, "UPDATE", {}, {}).options == options
