"""The life of a store's connections: when they are tried again, what ends them, what is asked, and what the log says."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.logger import LogLevel, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from kapi.store import primary_connection
from kapi.store.errors import KeyMissing, StoreError, StoreLoading, StoreUnavailable
from kapi.store.interface import Deletion
from kapi.store.primary_connection import PrimaryConnection
from kapi.store.redis_store import RedisStore
from kapi.store.shared_revisions import SharedRevisions, make_shared_file
from tests.store.contract import Recorder
from tests.store.played_server import Server

LOADING = "-LOADING Valkey is loading the dataset in memory"


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.begin()
        observer = lambda event: (  # noqa: E731
            event["log_level"] >= LogLevel.info and self.lines.append(formatEvent(event))
        )
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def begin(self) -> None:
        """Another server, and no line of the log yet."""
        self.server = Server()
        self.clock = self.server.clock
        self.lines: list[str] = []

    def store(self, **options: Any) -> RedisStore:
        return RedisStore(self.server, self.clock, **options)  # type: ignore[arg-type]  # as much of both as is needed

    def started(self, **options: Any) -> RedisStore:
        store = self.store(**options)
        self.recorder = Recorder()
        starting = Deferred.fromCoroutine(store.start(self.recorder))
        self.clock.advance(0)
        self.successResultOf(starting)
        self.addCleanup(self.stop, store)
        return store

    def stop(self, store: PrimaryConnection) -> None:
        server: Any = store.address
        stopping = Deferred.fromCoroutine(store.stop())
        server.clock.pump([0.1] * 5)
        self.successResultOf(stopping)
        left = [call for call in server.clock.getDelayedCalls() if getattr(call.func, "__name__", "") != "_send"]
        self.assertEqual((server.open, left), ([], []))

    def lose(self) -> None:
        for each in list(self.server.open):
            each.lose(ConnectionDone())
        self.clock.advance(0)

    def run_for(self, seconds: float) -> None:
        """From one due call to the next, so that none is late."""
        end = self.clock.seconds() + seconds
        while (due := min((call.getTime() for call in self.clock.getDelayedCalls()), default=end + 1)) <= end:
            self.clock.advance(max(0.0, due - self.clock.seconds()))
        self.clock.advance(max(0.0, end - self.clock.seconds()))

    def tried(self) -> list[float]:
        """The seconds of the attempts since the last call, beginning with the first."""
        times = [when for when, _ in self.server.tried]
        self.server.tried.clear()
        return [round(when - times[0], 2) for when in times]


class Starting(Case):
    def starting(self, start_timeout: float) -> tuple[PrimaryConnection, Deferred[None]]:
        store = self.store(start_timeout=start_timeout)
        starting = Deferred.fromCoroutine(store.start())
        self.clock.advance(0)
        return store, starting

    def test_a_server_that_is_not_there_is_tried_less_and_less_often(self) -> None:
        self.server.refuses = ConnectionRefusedError("refused")
        _, starting = self.starting(4.0)
        self.run_for(3.94)
        self.assertNoResult(starting)
        self.assertEqual(self.tried(), [0.0, 0.05, 0.15, 0.35, 0.75, 1.55, 2.55, 3.55])
        self.run_for(0.7)
        self.assertEqual(str(self.failureResultOf(starting, StoreUnavailable).value), "there: cannot connect: refused")
        self.assertEqual(self.lines, ["waiting for the store: there: cannot connect: refused"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_without_time_to_wait_one_attempt_is_all(self) -> None:
        self.server.refuses = ConnectionRefusedError()
        _, starting = self.starting(0.0)
        failure = self.failureResultOf(starting, StoreUnavailable)
        self.assertEqual(str(failure.value), "there: cannot connect: ConnectionRefusedError")
        self.assertEqual((self.lines, self.clock.getDelayedCalls()), ([], []))

    def test_each_other_reason_is_logged_once_and_the_end_of_the_wait(self) -> None:
        self.server.refuses = ConnectionRefusedError("refused")
        store, starting = self.starting(60.0)
        self.run_for(1)
        self.server.refuses = TimeoutError("late")
        self.run_for(3)
        self.server.refuses = None
        self.run_for(1)
        self.successResultOf(starting)
        waiting = "waiting for the store: there: cannot connect: "
        self.assertEqual(self.lines, [waiting + "refused", waiting + "late", "the store is there: there"])
        self.stop(store)

    def test_silence_is_logged_after_three_seconds(self) -> None:
        for answers in (False, True):
            self.begin()
            self.server.answers = {"MGET" if answers else "INFO": ...}
            store = self.store(start_timeout=60.0)
            starting = Deferred.fromCoroutine(store.start(Recorder()))
            self.run_for(2.99)
            self.assertEqual(self.lines, [])
            self.run_for(0.02)
            self.assertEqual(self.lines, [] if answers else ["waiting for the store: there: no answer yet"])
            self.stop(store)
            self.failureResultOf(starting, StoreUnavailable)

    def test_a_server_that_loads_is_waited_for_longer(self) -> None:
        self.server.answers = {"INFO": LOADING}
        _, starting = self.starting(0.0)
        self.run_for(299.5)
        self.assertNoResult(starting)
        self.run_for(2)
        self.failureResultOf(starting, StoreLoading)
        self.assertEqual(self.lines, ["waiting for the store: there: the server is loading its data"])
        tried = self.tried()
        gaps = [after - before for before, after in zip(tried, tried[1:], strict=False)]
        for before, gap in zip(tried, gaps, strict=False):  # a part of the time that it has been loading
            self.assertTrue(abs(gap - min(max(0.05, before / 16), 1.0)) < 0.015, (before, gap))

    def test_a_store_that_is_stopped_before_it_started_says_so(self) -> None:
        self.server.refuses = ConnectionRefusedError("refused")
        store, starting = self.starting(60.0)
        self.stop(store)
        self.assertEqual(str(self.failureResultOf(starting, StoreUnavailable).value), "there: stopped")


class Running(Case):
    def test_what_is_asked_at_the_start(self) -> None:
        """Another connection reads the history; ours alone needs none, and others of ours are ended only later."""
        for exclusive, connections in ((False, 2), (True, 1)):
            self.begin()
            store = self.started(exclusive=exclusive)
            self.assertEqual(len(self.server.open), connections)
            self.assertEqual(self.server.count(b"XREAD"), connections - 1)
            self.assertEqual(
                bool(self.server.count(b"EVAL", primary_connection.check_rights.__globals__["CHECK"])), not exclusive
            )
            kill = (b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes")
            self.assertEqual(self.server.count(*kill), 0)
            self.lose()
            self.run_for(0.1)
            self.assertEqual((self.server.count(*kill), store.available), (int(exclusive), True))

    def test_back_off_begins_anew_only_after_a_stable_connection(self) -> None:
        self.started()
        delays = []
        for seconds in (9.0, 9.9, 10.1, 9.0):
            self.run_for(seconds)
            self.server.tried.clear()
            lost = self.clock.seconds()
            self.lose()
            while not self.server.tried:
                self.run_for(0.01)
            delays.append(round(self.server.tried[0][0] - lost, 2))
        self.assertEqual(delays, [0.02, 0.04, 0.02, 0.04])

    def test_a_server_that_has_gone_is_tried_at_least_every_five_seconds(self) -> None:
        self.started()
        self.server.refuses = ConnectionRefusedError("refused")
        self.server.tried.clear()
        self.lose()
        self.run_for(25)
        tried = self.tried()
        gaps = [round(after - before, 2) for before, after in zip(tried, tried[1:], strict=False)]
        self.assertEqual(gaps, [0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.0, 5.0, 5.0])
        lost, refused = (
            "store not available: there: " + why
            for why in ("connection lost: Connection was closed cleanly.", "cannot connect: refused")
        )
        self.assertEqual([line.partition("; if")[0] for line in self.lines], [lost, refused])
        self.server.refuses = None
        self.run_for(6)
        self.assertEqual(self.lines[2:], ["store available again: there"])

    def test_a_server_that_says_nothing_more_is_left_after_eight_seconds(self) -> None:
        store = self.started()
        self.run_for(1.5)
        asked = self.server.count(b"PING")
        self.assertEqual(asked, 1)
        self.server.silent = True
        self.run_for(8.4)
        self.assertTrue(store.available)
        self.assertTrue(7 <= store.silence <= 8, store.silence)
        self.server.silent = False
        self.run_for(1.2)
        self.assertEqual((store.available, store.silence), (True, 0.0))
        self.assertIn("store not available: there: connection lost: no answer for 8 s", "\n".join(self.lines))
        self.assertIn("store available again: there", self.lines)

    def test_silence_of_a_server_that_is_tried_again_is_logged_once(self) -> None:
        """Attempt after attempt: whoever reads the log knows it by then."""
        self.started()
        self.server.silent = True
        self.lose()
        self.lines.clear()
        self.run_for(60)
        [told] = self.lines
        self.assertTrue(told.startswith("store not available: there: the connection was lost: no answer for 8 s"), told)

    def test_its_settings_are_looked_at_every_five_seconds(self) -> None:
        self.started()
        for seconds, looks in ((4.9, 1), (0.2, 2), (4.7, 2), (0.2, 3)):
            self.run_for(seconds)
            self.assertEqual(self.server.count(b"INFO"), looks, seconds)

    def test_a_full_store_is_one_that_fails_writes(self) -> None:
        for used, full in ((99, False), (100, False), (101, True)):
            self.begin()
            self.server.info |= {"maxmemory": "100", "used_memory": f"{used}"}
            store = self.started()
            self.assertEqual(bool(store.checks()["store-writes"]()), full)
            if full:
                self.assertIn("there: the store is full", store.checks()["store-writes"]())

    def test_a_store_without_all_parts_has_fewer_checks(self) -> None:
        self.assertEqual(set(self.store().checks()), {"store-writes"})
        self.assertEqual(set(self.store(min_replicas=1).checks()), {"store-writes", "store-replicas"})
        self.server.master = "m"
        self.assertEqual(
            set(self.store(min_replicas=1).checks()), {"store-writes", "store-replicas", "store-sentinels"}
        )

    def test_before_and_after_it_runs_nothing_is_available(self) -> None:
        store = self.store()
        self.assertEqual((store.available, store.silence, store.run), (False, 0.0, b""))
        failure = self.failureResultOf(Deferred.fromCoroutine(store.revision()), StoreUnavailable)
        self.assertEqual(str(failure.value), "there: not connected yet")
        store = self.started()
        self.assertEqual((store.available, store.run), (True, b"first"))
        self.stop(store)
        failure = self.failureResultOf(Deferred.fromCoroutine(store.revision()), StoreUnavailable)
        self.assertEqual((store.available, str(failure.value)), (False, "there: stopped"))

    def test_the_end_waits_a_moment_for_commands_under_way(self) -> None:
        store = self.started()
        self.server.answers = {"MGET": ...}
        asked = Deferred.fromCoroutine(store.revision())
        self.clock.advance(0)
        stopping = Deferred.fromCoroutine(store.stop())
        self.clock.advance(0.19)
        self.assertNoResult(stopping)
        self.clock.advance(0.02)
        self.successResultOf(stopping)
        self.failureResultOf(asked, StoreUnavailable)


class GoneBack(Case):
    """A store that has lost what the follower had received."""

    def asked_for_its_revision(self, store: RedisStore) -> Any:
        asked = Deferred.fromCoroutine(store.revision())
        self.clock.advance(0)
        return asked

    def test_everything_is_loaded_again(self) -> None:
        self.server.counter = 7
        for counter, run, why in (
            (6, b"first", "it is at revision 6, and was at 7"),
            (7, b"other", "it is another one, or was emptied"),
        ):
            store = self.started()
            self.assertEqual(self.successResultOf(self.asked_for_its_revision(store)), 7)
            self.server.counter, self.server.run = counter, run
            resets = self.recorder.resets
            self.failureResultOf(self.asked_for_its_revision(store), StoreUnavailable)
            self.assertEqual((store.available, store.resets), (False, 1))
            self.assertIn(f"there: the store went back: {why}; loading everything again", self.lines)
            self.run_for(0.1)
            self.assertEqual((store.available, store.resets, self.recorder.resets), (True, 1, resets + 1))
            self.assertEqual(self.successResultOf(self.asked_for_its_revision(store)), counter)
            self.stop(store)
            self._cleanups.pop()
            self.server.counter, self.server.run = 7, b"first"

    def test_a_check_every_second_finds_it_too(self) -> None:
        store = self.started()
        self.server.run = b"other"
        self.run_for(0.9)
        self.assertEqual(store.resets, 0)
        self.run_for(0.3)
        self.assertEqual((store.resets, store.available, store.run), (1, True, b"other"))

    def test_a_newer_store_has_gone_on(self) -> None:
        store = self.started()
        self.server.counter = 9
        self.assertEqual(self.successResultOf(self.asked_for_its_revision(store)), 9)
        self.assertEqual((store.resets, store.available), (0, True))


class Workers(Case):
    """Processes that share memory about the revisions that were shown."""

    def test_a_store_without_its_supervisor_is_not_used(self) -> None:
        lives = True
        shared = SharedRevisions(make_shared_file(2), 0, lambda: lives)
        store = self.started(shared=shared)
        lives = False
        self.lose()
        self.run_for(0.1)
        self.assertFalse(store.available)
        self.assertIn("store not available: there: the supervisor has ended", self.lines)

    def test_a_question_agrees_on_the_history(self) -> None:
        file = make_shared_file(2)
        shared, other = (SharedRevisions(file, slot, lambda: True) for slot in (0, 1))
        store = self.started(shared=shared)
        self.assertFalse(shared.is_current(0))
        asked = Deferred.fromCoroutine(store.revision())
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(asked), 0)
        self.assertTrue(shared.is_current(0))
        other.connected()
        self.assertFalse(shared.is_current(0))

    def test_one_that_connects_while_it_is_asked_agrees_on_nothing(self) -> None:
        file = make_shared_file(2)
        shared, other = (SharedRevisions(file, slot, lambda: True) for slot in (0, 1))
        store = self.started(shared=shared)
        asked = Deferred.fromCoroutine(store.revision())
        other.connected()
        self.clock.advance(0)
        self.successResultOf(asked)
        self.assertFalse(shared.is_current(0))


class Primaries(Case):
    """Sentinels name the server."""

    def setUp(self) -> None:
        super().setUp()
        self.primary = ("one", 1)

        async def find(reactor: object, address: object) -> tuple[str, int]:
            return self.primary

        class Sentinels:
            def __init__(self, reactor: object, address: object, named: object) -> None:
                pass

            def start(self) -> None: ...

            stop = start

            def distrust(self, place: object) -> str:
                return ""

        self.patch(primary_connection, "find_primary", find)
        self.patch(primary_connection, "Sentinels", Sentinels)
        self.server.master = "m"

    def test_only_another_primary_ends_the_connections(self) -> None:
        store = self.started()
        store._named(("one", 1))
        self.assertTrue(store.available)
        self.primary = ("other", 1)
        store._named(self.primary)
        self.assertFalse(store.available)
        failure = self.failureResultOf(Deferred.fromCoroutine(store.revision()), StoreUnavailable)
        self.assertEqual(str(failure.value), "there: the primary is another one now: other:1")
        self.server.tried.clear()
        self.run_for(0.03)
        self.assertEqual({host for _, host in self.server.tried}, {"other"})
        self.assertTrue(store.available)

    def test_one_that_is_named_before_the_first_connection_changes_nothing(self) -> None:
        store = self.store()
        store._named(("other", 1))
        self.assertEqual(store._connections.place, ("", 0))
        store = self.started()
        self.stop(store)
        self._cleanups.pop()
        store._named(("other", 1))
        self.assertEqual(store._connections.place, ("one", 1))

    def test_while_there_is_none_it_is_looked_for_every_half_second(self) -> None:
        self.started()
        self.server.refuses = ConnectionRefusedError("refused")
        self.lose()
        self.run_for(3)
        self.server.tried.clear()
        self.run_for(2.2)
        self.assertIn(len(self.server.tried), (4, 5))


class Silence(Case):
    """Counted in checks, which come once a second; the first one finds what has been asked."""

    def test_only_one_that_owes_a_reply_is_ended_and_after_eight_checks(self) -> None:
        connections = self.store()._connections
        for _ in range(3):
            self.successResultOf(Deferred.fromCoroutine(connections.connect()))
        silent, answering, idle = connections.open
        self.server.answers = {"ECHO": ...}
        silent.execute_command("ECHO", "x").addErrback(lambda _: None)
        for number in range(8):
            answering.execute_command("PING")
            self.clock.advance(0)
            answering.execute_command("ECHO").addErrback(lambda _: None)
            connections.end_silent()
            self.assertEqual([connections.silence(each) for each in (silent, idle)], [float(number), 0.0])
            answering.pending.pop()
            self.assertEqual(len(self.server.open), 3)
        connections.end_silent()
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(silent.lost), "no answer for 8 s; if the port speaks TLS, use rediss://")
        self.assertEqual([each.gone for each in (answering, idle)], [False, False])
        self.assertEqual(connections.silence(idle), 0.0)
        connections.drop()
        self.assertEqual((connections.open, self.server.open), ([], []))


class Together(Case):
    def test_deletions_that_are_sent_one_by_one_have_their_outcomes_in_order(self) -> None:
        """As with encryption, whose objects the server cannot write by itself."""
        store = self.started()
        outcomes: dict[str, int | StoreError] = {"a": 5, "b": KeyMissing("b"), "c": 7}
        sent: list[str] = []

        async def delete(key: str, *of: Any) -> int:
            sent.append(key)
            found = outcomes[key]
            if isinstance(found, StoreError):
                raise found
            return found

        self.patch(store, "delete", lambda *of: Deferred.fromCoroutine(delete(*of)))
        deletions = [Deletion(key, 1, b"<", b">") for key in outcomes]
        found = self.successResultOf(Deferred.fromCoroutine(store._delete_each(deletions)))
        self.assertEqual((list(found), sent), (list(outcomes.values()), ["a", "b", "c"]))
