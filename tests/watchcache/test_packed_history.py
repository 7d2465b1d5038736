"""What has been in the history for some seconds is packed; nobody who reads it notices."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.store.errors import Compacted
from kapi.watchcache import caches
from kapi.watchcache.event import CacheEvent
from kapi.watchcache.history import MAX_BYTES, History, PackedEvents
from tests.examples import examples
from tests.watchcache.cache_case import CacheTest, halves

Seen = list[tuple[int, str, str, int, bytes, int, bytes]]


def seen(events: Iterable[CacheEvent]) -> Seen:
    return [
        (
            event.revision, event.kind, event.entry.key, event.entry.revision, event.entry.data,
            event.previous.revision if event.previous else 0, event.previous.data if event.previous else b"",
        )
        for event in events
    ]  # fmt: skip


class PackedHistory(CacheTest):
    @property
    def history(self) -> History:
        return self.pods._history

    def fill(self, count: int = 60) -> None:
        """Objects that come, change their labels and their node, and go."""
        for number in range(count):
            revision = self.create(f"p{number}", node="a", app="one")
            revision = self.update(f"p{number}", revision, node="b", app="two")
            if number % 2:
                self.delete(f"p{number}", revision, node="b", app="two")
        self.turn()

    def rest(self, seconds: int = 25) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def test_it_takes_a_fraction_of_the_memory(self) -> None:
        self.fill()
        size = sum(len(event.entry.data) for event in self.history.events)
        self.rest()
        self.assertEqual((len(self.history.events), len(self.history)), (0, 150))
        self.assertLess(sum(pack.size for pack in self.history._packs), size / 5)

    def test_what_is_new_is_not_packed(self) -> None:
        self.fill()
        self.clock.advance(1)
        self.assertEqual(len(self.history.events), 150)

    def test_it_waits_while_many_write(self) -> None:
        self.fill()
        for second in range(25):
            with patch.object(caches, "_MAX_CALM_CHANGES", 5):
                self.clock.advance(1)
                self.create(f"busy{second}-1")
                self.create(f"busy{second}-2")
        self.assertEqual(len(self.history.events), len(self.history))
        self.rest()
        self.assertLess(len(self.history.events), len(self.history))

    def test_little_is_not_packed(self) -> None:
        self.fill(5)
        self.rest()
        self.assertEqual(len(self.history.events), len(self.history))

    def test_a_pack_is_small_though_what_was_before_is_large(self) -> None:
        revisions = {f"p{number}": self.create(f"p{number}", node="x" * 60_000) for number in range(60)}
        self.caches.trim()
        self.history.trim(self.caches.revision)
        for name, revision in revisions.items():
            self.update(name, revision)
        self.turn()
        self.rest()
        sizes = [
            sum(len(event.previous.data) for event in pack.events() if event.previous) for pack in self.history._packs
        ]
        self.assertEqual((len(self.history.events), len(self.history)), (0, 60))
        self.assertLess(max(sizes), MAX_BYTES + 70_000)

    def decoded_after(self, count: int, seconds: int) -> None:
        self.fill(count)
        entries = [entry for event in self.history.events for entry in (event.entry, event.previous) if entry]
        for entry in entries:
            self.assertTrue(entry.object)
        self.create("later")  # the newest change stays
        self.rest(seconds)
        decoded = [entry for entry in entries if entry.decoded]
        self.assertEqual(decoded, [entry for entry in entries if self.pods.get("ns", entry.name) is entry])

    def test_nothing_of_what_is_no_more_stays_decoded_when_it_is_packed(self) -> None:
        self.decoded_after(60, 25)

    def test_nor_when_it_leaves_the_history(self) -> None:
        self.decoded_after(5, 320)

    def test_watches_get_the_same(self) -> None:
        self.fill()
        wanted = [
            self.watch(since, labels, fields).told
            for since in (0, 1, 70, 149)
            for labels, fields in (("", ""), ("app=one", ""), ("", "spec.nodeName=b"), ("app!=two", "metadata.name=p7"))
        ]
        self.rest()
        self.create("new")
        self.turn()
        found = [
            [event for event in self.watch(since, labels, fields).told if event[1] != "ns/new"]
            for since in (0, 1, 70, 149)
            for labels, fields in (("", ""), ("app=one", ""), ("", "spec.nodeName=b"), ("app!=two", "metadata.name=p7"))
        ]
        self.assertEqual(found, wanted)
        self.assertEqual(len(wanted[0]), 150)

    def test_former_lists_are_the_same(self) -> None:
        self.fill()
        wanted = [[entry.data for entry in self.pods.list_at(revision)] for revision in range(1, 151)]
        self.rest()
        self.assertEqual([[entry.data for entry in self.pods.list_at(revision)] for revision in range(1, 151)], wanted)

    def test_changes_of_all_resources_are_the_same(self) -> None:
        self.fill()
        wanted = seen(logged.event for logged in self.caches.between(10, 140))
        self.rest()
        self.assertEqual(seen(logged.event for logged in self.caches.between(10, 140)), wanted)
        self.assertEqual(seen(self.pods.events(10, 140)), wanted)
        self.assertEqual([revision for revision, *_ in wanted], list(range(11, 141)))

    def test_changes_of_several_resources_are_in_order(self) -> None:
        for number in range(3):
            self.create(f"p{number}")
            self.run_async(self.store.create(f"core/configmaps/ns/m{number}", *halves(f"m{number}")))
        found = self.caches.between(1, 6)
        self.assertEqual([logged.event.revision for logged in found], [2, 3, 4, 5, 6])
        self.assertEqual([logged.cache.resource.resource for logged in found][:2], ["configmaps", "pods"])
        self.caches.reset([], [], 6)
        self.assertEqual(self.caches.between(6, 6), [])
        self.assertRaisesRegex(Compacted, r"version: 5 \(6\)$", self.caches.between, 5, 6)

    def test_who_reads_its_changes_is_told_when_it_was_loaded_anew(self) -> None:
        self.fill()
        changes = self.pods.events(10, 140)
        self.assertEqual(next(changes).revision, 11)
        self.caches.reset([], [], 150)
        self.assertRaisesRegex(Compacted, r"too old resource version: \d+ \(150\)$", list, changes)

    def test_it_goes_with_its_age(self) -> None:
        self.fill()
        self.rest()
        self.rest(200)
        later = self.create("later")
        self.rest(290)
        self.assertEqual((len(self.history), self.pods.list_at(later)[0].key), (1, "ns/later"))
        self.assertRaises(Compacted, self.watch, 149)

    def test_it_goes_with_its_size(self) -> None:
        self.open(history_bytes=100_000)
        self.fill(120)
        self.rest()
        floor = self.caches.floor
        self.assertGreater(floor, 100)
        self.assertEqual([revision for _, _, revision in self.watch(floor).told], list(range(floor + 1, 301)))
        self.assertRaisesRegex(Compacted, rf"version: {floor - 1} \({floor}\)$", self.watch, floor - 1)

    def test_a_fault_takes_it(self) -> None:
        self.fill()
        self.rest()
        self.pods.forget_history()
        self.assertEqual(len(self.history), 0)
        self.assertRaises(Compacted, self.watch, 149)

    def test_what_goes_while_it_is_packed_is_gone(self) -> None:
        self.fill()

        def made(events: list[CacheEvent]) -> PackedEvents:
            self.pods.trim(10)
            return PackedEvents(events)

        with patch("kapi.watchcache.history.PackedEvents", made):
            self.pods.pack(150)
        self.assertEqual((len(self.history), self.history.floor), (140, 10))


class AnyOrder(CacheTest):
    @settings(max_examples=examples(60), deadline=None)
    @given(st.data())
    def test_it_is_as_a_plain_list(self, data: st.DataObject) -> None:
        self.setUp()
        history = self.pods._history
        known: Seen = []
        for step in range(data.draw(st.integers(1, 6))):
            for number in range(data.draw(st.integers(0, 80))):
                name = f"p{step}-{number}"
                revision = self.create(name)
                if number % 3:
                    self.delete(name, self.update(name, revision, node="n"))
            known += [one for one in seen(list(history.events)) if not known or one[0] > known[-1][0]]
            newest = known[-1][0] if known else 0
            history.pack(data.draw(st.integers(0, newest)))
            history.trim(data.draw(st.integers(0, newest)))
            since = data.draw(st.integers(history.floor, newest))
            until = data.draw(st.integers(since, newest))
            found = seen(history.all_after(since, until))
            self.assertEqual(found, [one for one in known if since < one[0] <= until])
            if history.floor:
                self.assertRaises(Compacted, history.after, history.floor - 1, newest)
