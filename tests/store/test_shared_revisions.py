"""What processes on one store show each other, so that a linearizable read needs no question to the store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from twisted.internet import defer, reactor
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.machinery.gvk import GroupResource
from kapi.store.address import parse
from kapi.store.connection import Connection, Pending, PendingWrite
from kapi.store.entries import Skipped
from kapi.store.errors import KeyExists, KeyMissing, OutcomeUnknown, RevisionConflict, StoreError, StoreUnavailable
from kapi.store.feed import StreamReader
from kapi.store.interface import CREATED, DELETED, UPDATED, Change
from kapi.store.redis_store import RedisStore
from kapi.store.script import SHA, Keys
from kapi.store.shared_revisions import SharedRevisions, make_shared_file, take_slot
from kapi.store.writing import Replies, Writing
from kapi.watchcache.caches import Caches
from tests.store.contract import Recorder
from tests.store.servers import Server
from tests.watchcache.cache_case import halves

PODS = GroupResource("", "pods")


def views(count: int, lives: Any = lambda: True) -> list[SharedRevisions]:
    """Of as many processes that share a file."""
    file = make_shared_file(count)
    return [SharedRevisions(file, slot, lives) for slot in range(count)]


def asked(*shared: SharedRevisions) -> None:
    """The store has answered a question of each."""
    for one in shared:
        one.agree(one.connections())


class Slots(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = make_shared_file(2)
        self.one, self.other = (SharedRevisions(self.file, slot, lambda: True) for slot in range(2))
        for shared in (self.one, self.other):
            shared.connected()
        asked(self.one, self.other)

    def test_who_has_what_anybody_has_shown_is_current(self) -> None:
        assert self.one.is_current(0)
        self.other.show(5)
        assert not self.one.is_current(4)
        assert self.one.is_current(5)
        assert self.one.is_current(6)
        assert not self.one.is_current(4), "having been current at another revision tells nothing"

    def test_what_the_process_itself_has_shown_counts_too(self) -> None:
        """A write's answer may come before its change does."""
        self.one.show(5)
        assert not self.one.is_current(4)

    def test_what_was_shown_later_but_is_older_lowers_nothing(self) -> None:
        self.other.show(5)
        self.other.show(3)
        assert not self.one.is_current(4)

    def test_nobody_is_current_before_the_store_was_asked(self) -> None:
        fresh = SharedRevisions(self.file, 0, lambda: True)
        assert not fresh.is_current(100)

    def test_after_somebody_has_connected_anew_all_have_to_ask_once(self) -> None:
        """The store may have another history since, whose revisions are smaller."""
        self.one.show(5)
        assert self.one.is_current(5)
        self.other.connected()
        assert not self.one.is_current(5)
        asked(self.one)
        assert self.one.is_current(5)

    def test_a_question_from_before_that_does_not_count(self) -> None:
        before = self.one.connections()
        self.other.connected()
        self.one.agree(before)
        assert not self.one.is_current(5)

    def test_who_has_connected_anew_has_to_ask_as_well(self) -> None:
        self.one.connected()
        assert not self.one.is_current(5)

    def test_a_history_that_went_back_lowers_what_is_shown(self) -> None:
        for shared in (self.one, self.other):
            shared.show(100)
        for shared in (self.one, self.other):
            shared.connected()
            shared.loaded(50)
        asked(self.one, self.other)
        assert self.one.is_current(50)
        self.other.show(51)
        assert not self.one.is_current(50)

    def test_while_one_still_shows_the_lost_history_the_others_ask(self) -> None:
        for shared in (self.one, self.other):
            shared.show(100)
        self.one.connected()
        self.one.loaded(50)
        asked(self.one)
        assert not self.one.is_current(50)

    def test_what_a_process_has_shown_stays_when_it_has_ended(self) -> None:
        self.other.show(7)
        successor = SharedRevisions(self.file, 1, lambda: True)
        assert not self.one.is_current(6)
        successor.show(6)
        assert not self.one.is_current(6), "the next one in its slot lowers nothing"
        successor.connected()
        successor.show(8)
        asked(self.one)
        assert not self.one.is_current(7)

    def test_its_follower_gets_nothing_that_is_not_shown(self) -> None:
        seen: list[bool] = []
        other = self.other

        class Follower(Recorder):
            def reset(self, objects: Any, history: Any, revision: int) -> None:
                seen.append(other.is_current(revision - 1))

            def changed(self, changes: Sequence[Change]) -> None:
                seen.append(other.is_current(changes[-1].revision - 1))

        follower = self.one.following(Follower())
        follower.reset([], [], 3)
        follower.changed([Change(4, CREATED, "k", b""), Change(5, CREATED, "l", b"")])
        assert seen == [False, False]
        assert not self.other.is_current(4)
        assert self.other.is_current(5)


class TakenSlots(SynchronousTestCase):
    """By processes, for which they are held until these end."""

    def holder(self, file: int) -> subprocess.Popen[str]:
        code = (
            "import sys\nfrom kapi.store.shared_revisions import take_slot\n"
            f"try: print(take_slot({file}), flush=True)\nexcept OSError as error: print(error, flush=True)\n"
            "sys.stdin.read()"
        )
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, pass_fds=[file])

        def end() -> None:
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def taken(self, file: int) -> tuple[subprocess.Popen[str], str]:
        process = self.holder(file)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    def test_each_living_process_has_one_of_its_own_and_a_killed_ones_is_free_again(self) -> None:
        file = make_shared_file(3)
        first, slot = self.taken(file)
        assert slot == "0"
        assert self.taken(file)[1] == "1"
        assert take_slot(file) == 2
        assert "no slot is free" in self.taken(file)[1]
        first.kill()
        first.wait()
        assert self.taken(file)[1] == "0"


class Answers(SynchronousTestCase):
    """Nothing that the store tells is handed on before others can know of it."""

    def setUp(self) -> None:
        self.one, self.other = views(2)
        asked(self.one, self.other)
        self.showing: list[defer.Deferred[None]] = []
        self.back: list[str] = []

        async def show_newest() -> None:
            self.showing.append(defer.Deferred())
            await self.showing[-1]

        keys = Keys.under("kapi")
        self.replies = Replies(
            "here", keys, Skipped(), Writing(keys), None, lambda: None, self.back.append, self.one, show_newest
        )
        self.replies.begin(Connection(), compares=True)

    def write(self, kind: str, *replies: object, known: int = 0) -> defer.Deferred[object]:
        """What becomes of a write, or of several that went together; whether the other one is current at revision 6 meanwhile."""
        written: defer.Deferred[object] = defer.Deferred()
        writes: list[PendingWrite] = [(kind, f"k{n}", 1, b"", b"", 0.0, (), known, SHA) for n in range(len(replies))]
        pending: Pending = (written, writes if len(replies) > 1 else writes[0])
        told: defer.Deferred[object] = defer.Deferred()
        written.addBoth(lambda result: told.callback((result, self.other.is_current(6))))
        self.replies.take([(pending, list(replies) if len(replies) > 1 else replies[0])])
        return told

    def test_a_written_revision_is_shown_first(self) -> None:
        assert self.successResultOf(self.write(CREATED, 7)) == (7, False)

    def test_what_an_object_was_found_at_instead_is_shown_first(self) -> None:
        for kind, expected in ((CREATED, KeyExists), (UPDATED, RevisionConflict)):
            failure, current = self.successResultOf(self.write(kind, -7))
            assert failure.check(expected) and not current

    def test_that_an_object_is_gone_is_told_when_the_stores_revision_is_shown(self) -> None:
        told = self.write(UPDATED, 0)
        self.assertNoResult(told)
        self.one.show(7)
        self.showing[0].callback(None)
        failure, current = self.successResultOf(told)
        assert failure.check(KeyMissing) and not current

    def test_that_it_is_gone_is_not_told_when_the_store_does_not_answer(self) -> None:
        told = self.write(UPDATED, 0)
        self.showing[0].errback(StoreUnavailable("gone"))
        failure, _ = self.successResultOf(told)
        assert failure.check(StoreUnavailable)

    def test_of_deletions_that_went_together_each_revision_is_shown_first(self) -> None:
        results, current = self.successResultOf(self.write(DELETED, 5, -7))
        assert results[0] == 5 and isinstance(results[1], RevisionConflict) and not current
        assert self.showing == []
        told = self.write(DELETED, 8, 0)
        self.assertNoResult(told)
        self.showing[0].callback(None)
        (revision, error), _ = self.successResultOf(told)
        assert revision == 8 and isinstance(error, KeyMissing)

    def test_of_deletions_some_of_which_were_done_the_outcome_is_unknown_without_the_stores_revision(self) -> None:
        told = self.write(DELETED, 8, 0)
        self.showing[0].errback(StoreUnavailable("gone"))
        failure, _ = self.successResultOf(told)
        assert failure.check(OutcomeUnknown)

    def test_a_revision_that_was_known_before_the_write_was_sent_is_of_another_history(self) -> None:
        failure, _ = self.successResultOf(self.write(CREATED, 5, known=6))
        assert failure.check(OutcomeUnknown)
        assert self.back


class TwoProcesses(TestCase):
    """Two stores over one server, as two workers have them."""

    async def setUp(self) -> None:
        self.server = Server()
        self.alive = True
        self.shared = views(2, lambda: self.alive)
        self.stores = [
            RedisStore(parse(self.server.url), reactor, shared=shared)  # type: ignore[arg-type]
            for shared in self.shared
        ]
        self.caches = [Caches(store, reactor) for store in self.stores]  # type: ignore[arg-type]
        self.questions = [0, 0]
        for number, caches in enumerate(self.caches):
            self._count(number)
            await caches.start()
        self.addCleanup(self.server.stop)
        for caches in self.caches:
            self.addCleanup(lambda caches=caches: defer.Deferred.fromCoroutine(caches.stop()))

    def _count(self, number: int) -> None:
        revision = self.stores[number].revision

        async def counted() -> int:
            self.questions[number] += 1
            return await revision()

        self.patch(self.stores[number], "revision", counted)

    async def fresh(self, number: int) -> Caches:
        """The caches, as a linearizable read finds them."""
        waiting = self.caches[number].wait_fresh()
        if waiting is not None:
            await waiting
        return self.caches[number]

    async def back(self, number: int) -> Caches:
        """The same, however long the store is away."""
        while True:
            try:
                return await self.fresh(number)
            except StoreError:
                await self.pause()

    async def pause(self, seconds: float = 0.01) -> None:
        done: defer.Deferred[None] = defer.Deferred()
        reactor.callLater(seconds, done.callback, None)  # type: ignore[attr-defined]
        await done

    async def test_what_one_acknowledged_the_other_reads(self) -> None:
        for n in range(100):
            await self.stores[n % 2].create(f"core/pods/ns/p{n}", *halves(f"p{n}"))
            assert (await self.fresh(1 - n % 2)).cache(PODS).get("ns", f"p{n}") is not None
            assert (await self.fresh(n % 2)).cache(PODS).get("ns", f"p{n}") is not None

    async def test_reads_while_nothing_is_written_ask_the_store_once(self) -> None:
        await self.stores[0].create("core/pods/ns/p", *halves("p"))
        for number in (0, 1):
            await self.fresh(number)
        before = list(self.questions)
        for _ in range(10):
            for number in (0, 1):
                assert self.caches[number].wait_fresh() is None
        assert self.questions == before

    async def test_who_reads_the_store_itself_leaves_nobody_who_reads_what_was_before(self) -> None:
        revision = await self.stores[0].create("core/pods/ns/p", *halves("p"))
        writing = RedisStore(parse(self.server.url), reactor)  # type: ignore[arg-type]
        await writing.start()
        revision = await writing.update("core/pods/ns/p", revision, *halves("p"))
        found = await self.stores[0].get("core/pods/ns/p")
        assert found is not None and found.revision == revision
        entry = (await self.fresh(1)).cache(PODS).get("ns", "p")
        assert entry is not None and entry.revision == revision
        await writing.delete("core/pods/ns/p", revision, *halves("p"))
        assert await self.stores[0].get("core/pods/ns/p") is None
        assert (await self.fresh(1)).cache(PODS).get("ns", "p") is None
        await writing.stop()

    def hold_feeds(self, *numbers: int) -> defer.Deferred[None]:
        """What the stream brings to those is taken when the result is fired."""
        gate: defer.Deferred[None] = defer.Deferred()
        held = [self.stores[number]._progress for number in numbers]
        take = StreamReader._take

        async def later(reader: StreamReader, entries: Any) -> bool:
            if reader._progress in held:
                await gate
            return await take(reader, entries)

        self.patch(StreamReader, "_take", later)
        return gate

    async def both_current(self) -> None:
        await self.stores[0].create("core/pods/ns/p", *halves("p"))
        for number in (0, 1):
            await self.fresh(number)
            assert self.caches[number].wait_fresh() is None

    async def test_who_has_not_got_what_another_has_acknowledged_waits_for_it(self) -> None:
        await self.both_current()
        gate = self.hold_feeds(1)
        await self.stores[0].create("core/pods/ns/new", *halves("new"))
        waiting = self.caches[1].wait_fresh()
        assert waiting is not None
        await self.pause(0.1)
        assert not waiting.called
        gate.callback(None)
        await waiting
        assert self.caches[1].cache(PODS).get("ns", "new") is not None

    async def test_who_has_not_got_a_deletion_that_another_was_refused_for_waits_for_it(self) -> None:
        """It was done by a process that ended before it could tell."""
        await self.both_current()
        gate = self.hold_feeds(0, 1)
        deleting = RedisStore(parse(self.server.url), reactor)  # type: ignore[arg-type]
        await deleting.start()
        await deleting.delete("core/pods/ns/p", 1, *halves("p"))
        await deleting.stop()
        try:
            await self.stores[0].update("core/pods/ns/p", 1, *halves("p"))
        except KeyMissing:
            pass
        waiting = self.caches[1].wait_fresh()
        assert waiting is not None
        gate.callback(None)
        await waiting
        assert self.caches[1].cache(PODS).get("ns", "p") is None

    async def test_after_a_lost_connection_reads_ask_once_more(self) -> None:
        await self.stores[0].create("core/pods/ns/p", *halves("p"))
        for number in (0, 1):
            await self.fresh(number)
            assert self.caches[number].wait_fresh() is None
        self.stores[0]._drop()
        while not self.stores[0].available:
            await self.pause()
        waiting = self.caches[1].wait_fresh()
        assert waiting is not None
        await waiting
        assert self.caches[1].wait_fresh() is None

    async def test_a_store_that_was_emptied_under_them_is_not_read_from_what_was_before(self) -> None:
        """The first write after that is not acknowledged: its revision is not new."""
        await self.stores[0].create("core/pods/ns/old", *halves("old"))
        for number in (0, 1):
            await self.fresh(number)
        assert self.stores[0]._connection is not None
        await self.stores[0]._connection.execute_command("FLUSHALL")
        try:
            await self.stores[0].create("core/pods/ns/new", *halves("new"))
        except OutcomeUnknown:
            while True:
                try:
                    await self.stores[0].create("core/pods/ns/newer", *halves("newer"))
                    break
                except StoreError:
                    await self.pause()
        else:
            raise AssertionError("a revision was given twice")
        cache = (await self.back(1)).cache(PODS)
        assert cache.get("ns", "old") is None
        assert cache.get("ns", "newer") is not None

    async def test_without_the_parent_nothing_is_connected_to(self) -> None:
        """What listens there may be the server of the next one, whose workers know nothing of this process."""
        self.alive = False
        self.stores[0]._drop()
        for _ in range(20):
            await self.pause()
            assert not self.stores[0].available
        with self.assertRaises(StoreUnavailable):
            await self.stores[0].create("core/pods/ns/p", *halves("p"))
