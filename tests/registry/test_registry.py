"""The registry of all stored resources: shared stores, listers that follow, admission."""

from __future__ import annotations

import dataclasses

from twisted.internet.task import Clock

from kapi.admission.interface import AdmissionChain
from kapi.machinery.gvk import GroupResource
from kapi.registry.environment import Environment
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
    return Registry(store, Caches(store, clock), AdmissionChain(), Environment(clock=clock.seconds))


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
