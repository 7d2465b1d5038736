"""What every store must do; each store's test case mixes this in and says how one is made."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

from twisted.internet import defer
from twisted.trial.unittest import TestCase

from kapi.store.errors import KeyExists, KeyMissing, ObjectTooLarge, Outdated, RevisionConflict
from kapi.store.interface import MAX_DELETIONS, Change, Charge, Deletion, StoredObject

HEAD, TAIL = b'{"kind":"X","metadata":{"resourceVersion":"', b'","name":"a"}}'


def data(revision: int, head: bytes = HEAD, tail: bytes = TAIL) -> bytes:
    return head + str(revision).encode() + tail


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


class Recorder:
    """A follower that remembers, and checks that changes have no gaps."""

    def __init__(self) -> None:
        self.resets = 0
        self.objects: dict[str, StoredObject] = {}
        self.history: list[Change] = []
        self.revision = 0
        self._waiting: list[tuple[int, defer.Deferred[None]]] = []

    def reset(self, objects: Iterable[StoredObject], history: Sequence[Change], revision: int) -> None:
        self.resets += 1
        self.objects = {obj.key: obj for obj in objects}
        self.history = list(history)
        self.revision = revision
        self._wake()

    def changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            assert change.revision == self.revision + 1, (change.revision, self.revision)
            self.revision = change.revision
            self.history.append(change)
            if change.kind == "d":
                del self.objects[change.key]
            else:
                self.objects[change.key] = StoredObject(change.key, change.revision, change.data)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for revision, deferred in waiting:
            if self.revision >= revision:
                deferred.callback(None)
            else:
                self._waiting.append((revision, deferred))

    def reached(self, revision: int) -> defer.Deferred[None]:
        if self.revision >= revision:
            return defer.succeed(None)
        deferred: defer.Deferred[None] = defer.Deferred()
        self._waiting.append((revision, deferred))
        return deferred


class StoreContract:
    """Mixed into a TestCase that offers ``make_store() -> Store`` (awaited) over a server that ``self`` keeps."""

    store: Any
    follower: Recorder

    async def setUp(self) -> None:
        self.follower = Recorder()
        self.store = await self.make_store()
        await self.store.start(self.follower)

    async def tearDown(self) -> None:
        await self.store.stop()
        await self.clean_up()

    async def make_store(self) -> Any:
        raise NotImplementedError

    async def clean_up(self) -> None:
        pass

    async def restart(self) -> Recorder:
        """Stops the store and starts another one over the same data."""
        await self.store.stop()
        self.follower = Recorder()
        self.store = await self.make_store()
        await self.store.start(self.follower)
        return self.follower

    async def test_create_splices_the_revision_in(self: Any) -> None:
        revision = await self.store.create("g/r/n/a", HEAD, TAIL)
        self.assertEqual(revision, 1)
        self.assertEqual(await self.store.get("g/r/n/a"), StoredObject("g/r/n/a", 1, data(1)))
        self.assertEqual(await self.store.revision(), 1)

    async def test_get_of_nothing(self: Any) -> None:
        self.assertIsNone(await self.store.get("g/r/n/none"))
        self.assertEqual(await self.store.revision(), 0)

    async def test_create_twice_is_refused_and_takes_no_revision(self: Any) -> None:
        await self.store.create("k", HEAD, TAIL)
        with self.assertRaises(KeyExists):
            await self.store.create("k", HEAD, b"other")
        self.assertEqual(await self.store.revision(), 1)
        self.assertEqual((await self.store.get("k")).data, data(1))

    async def test_update_compares(self: Any) -> None:
        first = await self.store.create("k", HEAD, TAIL)
        second = await self.store.update("k", first, HEAD, b"2")
        self.assertEqual(second, 2)
        with self.assertRaises(RevisionConflict) as caught:
            await self.store.update("k", first, HEAD, b"3")
        self.assertEqual(caught.exception.revision, second)
        self.assertEqual((await self.store.get("k")).data, data(2, tail=b"2"))

    async def test_update_and_delete_of_nothing(self: Any) -> None:
        with self.assertRaises(KeyMissing):
            await self.store.update("k", 1, HEAD, TAIL)
        with self.assertRaises(KeyMissing):
            await self.store.delete("k", 1, HEAD, TAIL)
        self.assertEqual(await self.store.revision(), 0)

    async def test_delete_compares_and_allows_to_create_again(self: Any) -> None:
        first = await self.store.create("k", HEAD, TAIL)
        second = await self.store.update("k", first, HEAD, TAIL)
        with self.assertRaises(RevisionConflict):
            await self.store.delete("k", first, HEAD, TAIL)
        self.assertEqual(await self.store.delete("k", second, HEAD, TAIL), 3)
        self.assertIsNone(await self.store.get("k"))
        self.assertEqual(await self.store.create("k", HEAD, TAIL), 4)

    async def test_deletions_together_are_writes_of_their_own(self: Any) -> None:
        for key in "abc":
            await self.store.create(key, HEAD, key.encode(), expires=100.0 if key == "c" else None)
        late = await self.store.update("b", 2, HEAD, b"newer")
        deletions = [Deletion(key, at, HEAD, key.encode()) for key, at in (("a", 1), ("b", 2), ("none", 7), ("c", 3))]
        first, conflict, missing, last = await self.store.delete_all(deletions)
        self.assertEqual((first, last), (5, 6))
        self.assertIsInstance(conflict, RevisionConflict)
        self.assertEqual(conflict.revision, late)
        self.assertIsInstance(missing, KeyMissing)
        self.assertEqual(await self.store.revision(), 6)
        self.assertEqual((await self.store.get("b")).data, data(late, tail=b"newer"))
        self.assertIsNone(await self.store.get("a"))
        self.assertEqual(await self.store.due(200.0, 10), [])
        await self.follower.reached(6)
        deleted = [Change(5, "d", "a", data(5, tail=b"a")), Change(6, "d", "c", data(6, tail=b"c"))]
        self.assertEqual(self.follower.history[-2:], deleted)
        self.assertEqual(await self.store.create("a", HEAD, TAIL), 7)
        follower = await self.restart()
        self.assertEqual(follower.history[-3:-1], deleted)
        self.assertEqual(sorted(follower.objects), ["a", "b"])

    async def test_deletions_together_that_delete_nothing_take_no_revision(self: Any) -> None:
        await self.store.create("a", HEAD, TAIL)
        refused = await self.store.delete_all([Deletion("a", 3, HEAD, TAIL), Deletion("b", 1, HEAD, TAIL)])
        self.assertEqual([type(error) for error in refused], [RevisionConflict, KeyMissing])
        self.assertEqual(await self.store.revision(), 1)
        self.assertEqual(await self.store.create("c", HEAD, TAIL), 2)

    async def test_the_most_deletions_together_beside_other_writes(self: Any) -> None:
        for number in range(MAX_DELETIONS):
            await self.store.create(f"k{number}", HEAD, TAIL)
        deletions = [Deletion(f"k{number}", number + 1, HEAD, TAIL) for number in range(MAX_DELETIONS)]
        writes = [
            defer.ensureDeferred(_wait(self.store.create("before", HEAD, TAIL))),
            defer.ensureDeferred(_wait(self.store.delete_all(deletions))),
            defer.ensureDeferred(_wait(self.store.create("after", HEAD, TAIL))),
        ]
        before, revisions, after = await defer.gatherResults(writes)
        self.assertEqual([before, *revisions, after], list(range(MAX_DELETIONS + 1, 2 * MAX_DELETIONS + 3)))
        await self.follower.reached(after)
        self.assertEqual(self.follower.resets, 1)

    async def test_an_account_deleted_together_with_others_begins_anew(self: Any) -> None:
        account = await self.store.create("account", HEAD, TAIL)
        counted = await self.store.update("account", account, HEAD, TAIL, counted=account)
        other = await self.store.create("other", HEAD, TAIL)
        kept = await self.store.update("other", other, HEAD, TAIL, counted=other)
        late = Deletion("other", other, HEAD, TAIL)
        await self.store.delete_all([Deletion("account", counted, HEAD, TAIL), late])
        account = await self.store.create("account", HEAD, TAIL)
        await self.store.create("k", HEAD, TAIL, charges=[Charge("account", 1)])
        with self.assertRaises(Outdated):  # what was not deleted keeps its account
            await self.store.create("l", HEAD, TAIL, charges=[Charge("other", kept - 1)])

    async def test_any_bytes_are_kept(self: Any) -> None:
        odd = bytes(range(256)) + b"\r\n$5\r\n" * 3
        await self.store.create("core/x//\u00fc", odd, odd[::-1])
        self.assertEqual((await self.store.get("core/x//\u00fc")).data, odd + b"1" + odd[::-1])
        await self.follower.reached(1)
        self.assertEqual(self.follower.objects["core/x//\u00fc"].data, odd + b"1" + odd[::-1])

    async def test_of_concurrent_updates_one_wins(self: Any) -> None:
        first = await self.store.create("k", HEAD, TAIL)
        attempts = [defer.ensureDeferred(self._update("k", first, str(n).encode())) for n in range(20)]
        results = await defer.gatherResults(attempts)
        self.assertEqual(sum(1 for result in results if result == 2), 1)
        self.assertEqual(await self.store.revision(), 2)

    async def _update(self: Any, key: str, expected: int, tail: bytes) -> int:
        try:
            return int(await self.store.update(key, expected, HEAD, tail))
        except RevisionConflict:
            return 0

    async def test_a_charge_that_was_counted_away_is_refused_and_takes_no_revision(self: Any) -> None:
        account = await self.store.create("account", HEAD, TAIL)
        charge = await self.store.update("account", account, HEAD, b"1")
        counted = await self.store.update("account", charge, HEAD, b"0", counted=charge)
        with self.assertRaises(Outdated):
            await self.store.create("late", HEAD, TAIL, charges=[Charge("account", charge)])
        other = await self.store.create("other", HEAD, TAIL)
        with self.assertRaises(Outdated):
            await self.store.update("other", other, HEAD, TAIL, charges=[Charge("account", charge)])
        self.assertEqual(await self.store.revision(), other)
        self.assertIsNone(await self.store.get("late"))
        self.assertEqual(await self.store.create("late", HEAD, TAIL, charges=[Charge("account", counted)]), other + 1)

    async def test_a_count_that_misses_what_was_charged_is_refused(self: Any) -> None:
        account = await self.store.create("account", HEAD, TAIL)
        charge = await self.store.update("account", account, HEAD, b"1")
        stored = await self.store.create("k", HEAD, TAIL, charges=[Charge("account", charge)])
        with self.assertRaises(Outdated):
            await self.store.update("account", charge, HEAD, b"0", counted=charge)
        await self.store.update("account", charge, HEAD, b"1", counted=stored)

    async def test_an_account_made_anew_begins_anew(self: Any) -> None:
        account = await self.store.create("account", HEAD, TAIL)
        counted = await self.store.update("account", account, HEAD, TAIL, counted=account)
        await self.store.delete("account", counted, HEAD, TAIL)
        account = await self.store.create("account", HEAD, TAIL)
        await self.store.create("k", HEAD, TAIL, charges=[Charge("account", account), Charge("no account", 1)])

    async def test_follower_sees_every_write_once_in_order(self: Any) -> None:
        rev = await self.store.create("a", HEAD, TAIL)
        rev = await self.store.update("a", rev, HEAD, b"x")
        await self.store.create("b", HEAD, TAIL)
        await self.store.delete("a", rev, HEAD, b"last")
        await self.follower.reached(4)
        self.assertEqual(
            self.follower.history,
            [
                Change(1, "c", "a", data(1)),
                Change(2, "u", "a", data(2, tail=b"x")),
                Change(3, "c", "b", data(3)),
                Change(4, "d", "a", data(4, tail=b"last")),
            ],
        )
        self.assertEqual(self.follower.resets, 1)

    async def test_exclusive_store_feeds_before_it_acknowledges(self: Any) -> None:
        if not self.store.exclusive:
            return
        for n in range(50):
            revision = await self.store.create(f"k{n}", HEAD, TAIL)
            self.assertEqual(self.follower.revision, revision)

    async def test_compaction_keeps_the_newest_change(self: Any) -> None:
        for n in range(5):
            await self.store.create(f"k{n}", HEAD, TAIL)
        await self.store.compact(2)
        follower = await self.restart()
        self.assertEqual([change.revision for change in follower.history], [3, 4, 5])
        await self.store.compact(99)
        follower = await self.restart()
        self.assertEqual([change.revision for change in follower.history], [5])
        self.assertEqual(len(follower.objects), 5)
        self.assertEqual(follower.revision, 5)

    async def test_restart_tells_everything_there_is(self: Any) -> None:
        a = await self.store.create("a", HEAD, TAIL)
        await self.store.create("b", HEAD, TAIL)
        await self.store.delete("a", a, HEAD, TAIL)
        await self.store.create("a", HEAD, b"again")
        follower = await self.restart()
        self.assertEqual(follower.revision, 4)
        self.assertEqual(
            sorted((stored.key, stored.revision, stored.data) for stored in follower.objects.values()),
            [("a", 4, data(4, tail=b"again")), ("b", 2, data(2))],
        )
        self.assertEqual([change.revision for change in follower.history], [1, 2, 3, 4])
        self.assertEqual(await self.store.create("c", HEAD, TAIL), 5)

    async def test_no_object_is_larger_than_the_limit(self: Any) -> None:
        self.store.max_object_bytes = 100
        with self.assertRaises(ObjectTooLarge) as refused:
            await self.store.create("a", b"", b"x" * 101)
        self.assertEqual((refused.exception.size, refused.exception.limit), (101, 100))
        first = await self.store.create("a", b"x" * 50, b"x" * 50)
        self.assertEqual(first, 1)  # what was refused has no revision
        with self.assertRaises(ObjectTooLarge):
            await self.store.update("a", first, b"x", b"x" * 100, replaced=100)
        self.assertEqual(await self.store.update("a", first, b"", b"x" * 100, replaced=100), 2)
        self.assertEqual(await self.store.get("a"), StoredObject("a", 2, b"2" + b"x" * 100))

    async def test_an_object_from_before_the_limit_is_changed_and_deleted(self: Any) -> None:
        self.store.max_object_bytes = 0
        revision = await self.store.create("a", b"", b"x" * 500)
        self.store.max_object_bytes = 100
        with self.assertRaises(ObjectTooLarge):
            await self.store.update("a", revision, b"", b"x" * 501, replaced=500)
        revision = await self.store.update("a", revision, b"", b"y" * 500, replaced=500)
        with self.assertRaises(ObjectTooLarge):
            await self.store.update("a", revision, b"", b"y" * 200_000, replaced=500, going=True)
        revision = await self.store.update("a", revision, b"", b"y" * 600, replaced=500, going=True)
        revision = await self.store.update("a", revision, b"", b"y" * 300, replaced=600)
        await self.store.delete("a", revision, b"", b"z" * 700)
        self.assertIsNone(await self.store.get("a"))

    async def test_what_goes_does_not_grow_write_by_write(self: Any) -> None:
        self.store.max_object_bytes = 100
        revision, size = await self.store.create("a", b"", b"x" * 100), 100
        with self.assertRaises(ObjectTooLarge):
            for _ in range(20):
                new = size + 30_000
                revision = await self.store.update("a", revision, b"", b"x" * new, replaced=size, going=True)
                size = new
        self.assertLess(size, 100_000)

    async def test_expired_objects_are_due_until_swept(self: Any) -> None:
        await self.store.create("old", HEAD, TAIL, expires=100.0)
        rev = await self.store.create("renewed", HEAD, TAIL, expires=100.0)
        await self.store.update("renewed", rev, HEAD, TAIL, expires=300.0)
        kept = await self.store.create("kept-deadline", HEAD, TAIL, expires=100.0)
        await self.store.update("kept-deadline", kept, HEAD, b"new")
        await self.store.create("forever", HEAD, TAIL)
        self.assertEqual(await self.store.due(99.0, 10), [])
        due = await self.store.due(200.0, 10)
        self.assertEqual(sorted(item.key for item in due), ["kept-deadline", "old"])
        for item in due:
            await self.store.delete(item.key, item.revision, item.head, item.tail)
        self.assertEqual(await self.store.due(200.0, 10), [])
        await self.follower.reached(8)
        deleted = {change.key: change.data for change in self.follower.history if change.kind == "d"}
        self.assertEqual(sorted(deleted), ["kept-deadline", "old"])
        for change in self.follower.history:
            if change.kind == "d":
                tail = b"new" if change.key == "kept-deadline" else TAIL
                self.assertEqual(change.data, data(change.revision, tail=tail))

    async def test_a_deleted_object_is_not_due(self: Any) -> None:
        rev = await self.store.create("gone", HEAD, TAIL, expires=100.0)
        await self.store.delete("gone", rev, HEAD, TAIL)
        self.assertEqual(await self.store.due(200.0, 10), [])


__all__ = ["HEAD", "TAIL", "Recorder", "StoreContract", "TestCase", "data"]
