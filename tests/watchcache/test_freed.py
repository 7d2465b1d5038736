"""Caches that were stopped are freed, whatever of their entries is kept elsewhere."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.gvk import GroupResource
from kapi.store.memory import MemoryStore
from kapi.testing.memory_api import succeed
from kapi.watchcache.caches import Caches
from tests.watchcache.cache_case import halves


class TestFreed(SynchronousTestCase):
    def test_neither_kept_entries_nor_their_own_keep_caches_alive(self) -> None:
        store, clock = MemoryStore(), Clock()
        process = Caches(store, clock)
        caches = Caches(store, clock, main=process)
        succeed(caches.start())
        pods = caches.cache(GroupResource("", "pods"))
        ended: list[Any] = []
        pods.watch(None, lambda batch: None, ended.append)
        succeed(store.create("core/pods/ns/a", *halves("a")))
        clock.advance(0)
        kept = pods.list()[0][0]
        self.assertEqual(kept.object["kind"], "Pod")  # from now on it is among what is decoded, which all caches share
        succeed(caches.stop())
        gone = [ref(caches), ref(pods)]
        del caches, pods
        gc.collect()
        self.assertEqual([one() for one in gone], [None, None])
        self.assertEqual((kept.labels, ended), ({}, [None]))
