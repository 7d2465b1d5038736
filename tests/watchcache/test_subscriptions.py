"""Observers in the process: nothing is lost, and what fails is told again."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kapi.registry.client import Subscription
from kapi.store.interface import Change, StoredObject
from tests.watchcache.cache_case import CacheTest, halves


class Subscribed(CacheTest):
    """Watches inside the process are Reflectors."""

    def test_what_is_gone_after_a_lost_history_is_told_as_deleted(self) -> None:
        told: list[tuple[str, str]] = []

        def on_batch(batch: Any) -> None:
            told.extend((event.type, event.entry.key) for event in batch.events if event.entry is not None)

        self.create("a")
        self.create("b")
        Subscription(self.pods, on_batch)
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
        with patch.object(type(self.pods), "longest_queue", 2):
            Subscription(self.pods, on_batch)
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

        Subscription(self.pods, on_batch)
        self.turn()
        for name in ("a", "b"):
            self.create(name)
            self.turn()
        self.assertEqual(told, ["", "ns/a", "ns/b"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
