"""Observers in the process: nothing is lost, and what fails is told again."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kapi.registry.client import RESTART_SECONDS, CacheReflector
from kapi.store.interface import Change, StoredObject
from kapi.watchcache.backlog import Initial
from kapi.watchcache.fan_out import FanOut
from kapi.watchcache.watch import Watch
from tests.watchcache.cache_case import CacheTest, halves


class Subscribed(CacheTest):
    """Watches inside the process are Reflectors."""

    def test_what_is_gone_after_a_lost_history_is_told_as_deleted(self) -> None:
        told: list[tuple[str, str]] = []

        def on_batch(batch: Any) -> None:
            told.extend((event.type, event.entry.key) for event in batch.events if event.entry is not None)

        self.create("a")
        self.create("b")
        CacheReflector(self.pods, on_batch)
        self.turn()
        self.create("c")
        self.turn()
        del told[:]
        head, tail = halves("b")
        self.caches.reset([StoredObject("core/pods/ns/b", 1, head + b"1" + tail)], [], 1)
        self.turn()
        self.assertEqual(told, [("ADDED", "ns/b"), ("DELETED", "ns/a"), ("DELETED", "ns/c")])
        del told[:]
        self.caches.changed([Change(2, "d", "core/pods/ns/b", head + b"2" + tail)])
        self.turn()
        self.assertEqual(told, [("DELETED", "ns/b")])

    def test_one_that_is_cut_off_begins_anew(self) -> None:
        """More happens than may wait before what there is to begin with was handed over."""
        told: list[str] = []

        def on_batch(batch: Any) -> None:
            told.extend(event.entry.key for event in batch.events if event.entry is not None)

        self.create("a")
        with patch.object(type(self.pods), "max_queued_events", 2):
            CacheReflector(self.pods, on_batch)
            for number in range(4):
                self.create(f"b{number}")
                self.caches._fan_out.flush()
            self.turn()
        self.assertEqual(set(told), {"ns/a", *(f"ns/b{number}" for number in range(4))})
        self.create("later")
        self.turn()
        self.assertEqual(told[-1], "ns/later")

    def test_a_batch_that_fails_is_not_the_last(self) -> None:
        told: list[str] = []

        def on_batch(batch: Any) -> None:
            told.append(batch.events[0].entry.key if batch.events[0].entry else "")
            if len(told) == 2:
                raise RuntimeError("a bug")

        CacheReflector(self.pods, on_batch)
        self.turn()
        for name in ("a", "b"):
            self.create(name)
            self.turn()
        self.assertEqual(told, ["", "ns/a", "ns/b"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def keys_of(self, told: list[str]) -> CacheReflector:
        """A reflector of the pods that notes in ``told`` the keys of its events."""

        def on_batch(batch: Any) -> None:
            told.extend(event.entry.key for event in batch.events if event.entry is not None)

        return CacheReflector(self.pods, on_batch)

    def test_one_that_a_fault_ends_begins_anew(self) -> None:
        """A controller in the process has nobody else who would notice that its events have ended."""
        told: list[str] = []
        self.keys_of(told)
        self.turn()
        for owner, name in ((Watch, "deliver"), (FanOut, "_dispatch_group")):
            with patch.object(owner, name, side_effect=MemoryError):
                self.create(f"{name}-1")
                self.turn()
            self.clock.advance(RESTART_SECONDS)
            self.turn()
            self.create(f"{name}-2")
            self.turn()
            self.assertLessEqual({f"ns/{name}-1", f"ns/{name}-2"}, set(told))
        self.flushLoggedErrors(MemoryError)

    def test_a_fault_that_stays_does_not_keep_the_thread_busy(self) -> None:
        told: list[str] = []
        self.create("a")
        with patch.object(Initial, "__next__", side_effect=MemoryError) as reads:
            reflector = self.keys_of(told)
            for _ in range(20):
                self.turn()
            self.assertEqual(reads.call_count, 1)
            self.clock.advance(RESTART_SECONDS)
            self.turn()
            self.assertEqual(reads.call_count, 2)
        self.clock.advance(RESTART_SECONDS)
        self.turn()
        self.assertEqual(told, ["ns/a"])
        with patch.object(Watch, "deliver", side_effect=MemoryError):
            self.create("b")
            self.turn()
        reflector.stop()
        self.clock.advance(RESTART_SECONDS)
        self.turn()
        self.assertEqual((told, self.pods.watches), (["ns/a"], 0))
        self.flushLoggedErrors(MemoryError)
