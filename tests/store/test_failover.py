"""Fail-over: what was acknowledged is there afterwards, once; what replicas do not have is not acknowledged."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from kapi.store import confirmation, connections
from kapi.store.errors import OutcomeUnknown, StoreError, StoreUnavailable
from kapi.store.factory import external_store
from kapi.store.redis_store import RedisStore
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.replicated import DURABLE, LOGIN, NAME, Replicated, ask
from tests.store.servers import Server
from tests.waiting import eventually

_WRITERS = 8


async def pause(seconds: float) -> None:
    await deferLater(reactor, seconds, lambda: None)


class Writers:
    """Create objects until they are told to end, and remember what was acknowledged."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.acknowledged: list[tuple[str, int]] = []
        self.errors: list[StoreError] = []
        self._ending = False
        self._running = [Deferred.fromCoroutine(self._write(number)) for number in range(_WRITERS)]

    async def _write(self, number: int) -> None:
        count = 0
        while not self._ending:
            count += 1
            key = f"core/things/ns/{number}-{count}"
            try:
                self.acknowledged.append((key, await self.store.create(key, HEAD, TAIL)))
            except StoreUnavailable as error:
                self.errors.append(error)
                await pause(0.02)

    async def end(self) -> None:
        self._ending = True
        await gatherResults(self._running)


class ReplicatedCase(TestCase):
    async def answered(self, ask: Callable[[], Awaitable[int]]) -> int:
        """The store's answer, asked again while it connects."""
        for _ in range(1000):
            try:
                return await ask()
            except StoreUnavailable:
                await pause(0.02)
        return await ask()

    def start_timeout(self, seconds: float) -> None:
        """How long a write waits to be confirmed from now on: short only while nothing can confirm it."""
        self.patch(confirmation, "CONFIRMATION_TIMEOUT", seconds)

    def replicated(self, *args: Any, **more: Any) -> Replicated:
        servers = Replicated(*args, **more)
        self.addCleanup(servers.stop)
        return servers

    async def connected(self, url: str, recorder: Recorder | None = None, **more: Any) -> RedisStore:
        store = external_store(url, reactor, **more)
        await store.start(recorder)
        self.addCleanup(store.stop)
        return store


class FailOver(ReplicatedCase):
    async def _fails_over(
        self,
        break_it: Callable[[Replicated], None],
        replicas: int = 2,
        servers: Replicated | None = None,
        url: str = "",
    ) -> tuple[Replicated, Any, Any]:
        servers, recorder = servers or self.replicated(replicas), Recorder()
        store = await self.connected(url or servers.url, recorder)
        writers = Writers(store)
        await eventually(lambda: len(writers.acknowledged) > 200)
        break_it(servers)
        await eventually(lambda: bool(writers.errors))
        before = len(writers.acknowledged)
        await eventually(lambda: len(writers.acknowledged) > before + 200)
        await writers.end()
        revisions = [revision for _, revision in writers.acknowledged]
        self.assertEqual(len(revisions), len(set(revisions)), "a revision was given twice")
        await recorder.reached(max(revisions))
        lost = [key for key, revision in writers.acknowledged if self._stored(recorder, key) != revision]
        self.assertEqual(lost, [], f"of {len(revisions)} acknowledged writes these are lost")
        self.assertNotEqual(store._connections.place, ("127.0.0.1", servers.primary.port))
        return servers, store, recorder

    def _stored(self, recorder: Recorder, key: str) -> int:
        found = recorder.objects.get(key)
        return found.revision if found is not None else 0

    async def test_a_primary_that_is_killed(self) -> None:
        await self._fails_over(lambda servers: servers.primary.process.kill())

    async def test_a_primary_that_is_stopped_and_comes_back(self) -> None:
        servers, store, _ = await self._fails_over(lambda servers: servers.signal(servers.primary, signal.SIGSTOP))
        place = store._connections.place
        servers.signal(servers.primary, signal.SIGCONT)
        await eventually(lambda: self._follows(servers.primary.port))
        self.assertEqual(store._connections.place, place)
        servers.calm()
        self.start_timeout(60.0)
        await eventually(lambda: not any(check() for check in store.checks().values()))
        await store.create("core/things/ns/after", HEAD, TAIL)

    def _follows(self, port: int) -> bool:
        try:
            return b"role:slave" in ask(port, "INFO", "replication")
        except ConnectionResetError:  # a Sentinel that makes it a replica ends all its connections
            return False

    async def test_a_fail_over_that_the_operator_wants(self) -> None:
        await self._fails_over(lambda servers: ask(servers.sentinels[0].port, "SENTINEL", "FAILOVER", "mymaster"), 1)

    async def test_a_fail_over_that_the_operator_wants_of_a_sentinel_that_nobody_hears(self) -> None:
        """Nobody votes for it; what shows is that the replica it promotes has left the primary."""
        servers = self.replicated(2)
        heard = (
            f"redis+sentinel://{LOGIN}@{','.join(f'127.0.0.1:{each.port}' for each in servers.sentinels[:2])}/{NAME}"
        )
        order = lambda servers: ask(servers.sentinels[2].port, "SENTINEL", "FAILOVER", NAME)  # noqa: E731
        await self._fails_over(order, servers=servers, url=heard)

    async def test_a_primary_that_is_cut_off_and_does_not_know(self) -> None:
        """It goes on taking writes, and never hears that another one is the primary."""
        servers, _, _ = await self._fails_over(lambda servers: servers.isolate())
        role = ask(servers.primary.port, "INFO", "replication", login=("kapi", "pw"))
        self.assertIn(b"role:master", role)

    async def test_a_server_that_starts_meanwhile_waits_for_its_end(self) -> None:
        servers, recorder = self.replicated(2), Recorder()
        servers.primary.process.kill()
        store = await self.connected(servers.url, recorder, start_timeout=120)
        await recorder.reached(await store.create("core/things/ns/a", HEAD, TAIL))

    async def test_a_replica_and_a_sentinel_that_end_fail_no_write(self) -> None:
        servers = self.replicated(2)
        servers.calm()
        self.start_timeout(60.0)
        store = await self.connected(servers.url)
        writers = Writers(store)
        await eventually(lambda: len(writers.acknowledged) > 50)
        servers.replicas[1].process.kill()
        servers.sentinels[2].process.kill()
        before = len(writers.acknowledged)
        await eventually(lambda: len(writers.acknowledged) > before + 200)
        await writers.end()
        self.assertEqual(writers.errors, [])

    async def test_a_replica_that_is_stopped_fails_no_write(self) -> None:
        """The primary goes on listing it."""
        servers = self.replicated(2)
        servers.calm()
        self.start_timeout(60.0)
        store = await self.connected(servers.url)
        writers = Writers(store)
        await eventually(lambda: len(writers.acknowledged) > 50)
        servers.cut_off(servers.replicas[1])
        before = len(writers.acknowledged)
        await eventually(lambda: len(writers.acknowledged) > before + 500)
        await writers.end()
        self.assertEqual(writers.errors, [])
        servers.signal(servers.replicas[1], signal.SIGCONT)

    async def test_a_primary_without_sentinels_in_sight_acknowledges_nothing(self) -> None:
        """It and its replicas may be on the wrong side of a partition, and be replaced on the other one."""
        servers = self.replicated(1)
        servers.calm()
        self.start_timeout(60.0)
        store = await self.connected(servers.url)
        await store.create("a/b/c/1", HEAD, TAIL)
        self.start_timeout(1.0)
        for sentinel in servers.sentinels[:2]:
            servers.signal(sentinel, signal.SIGSTOP)
        await eventually(lambda: "1 of 3 Sentinels" in store.checks()["store-sentinels"]())
        with self.assertRaises(OutcomeUnknown):
            await store.create("a/b/c/2", HEAD, TAIL)
        for sentinel in servers.sentinels[:2]:
            servers.signal(sentinel, signal.SIGCONT)
        self.start_timeout(60.0)
        await eventually(lambda: not any(check() for check in store.checks().values()))
        await store.create("a/b/c/3", HEAD, TAIL)


class Acknowledgement(ReplicatedCase):
    def setUp(self) -> None:
        self.start_timeout(60.0)

    async def test_without_replicas_nothing_is_acknowledged_shown_or_written(self) -> None:
        servers, recorder = self.replicated(1, sentinels=0), Recorder()
        store = await self.connected(servers.url, recorder, min_replicas=1)
        first = await store.create("a/b/c/1", HEAD, TAIL)
        self.start_timeout(1.0)
        servers.cut_off(*servers.replicas)
        with self.assertRaisesRegex(OutcomeUnknown, "0 of 1 replicas have what was written; the outcome"):
            await store.create("a/b/c/2", HEAD, TAIL)
        self.assertIn("0 of 1 replicas", store.checks()["store-replicas"]())
        self.assertEqual(int(ask(servers.primary.port, "GET", "{kapi}:revision")), first + 1)
        with self.assertRaisesRegex(StoreUnavailable, "writes are not confirmed: 0 of 1") as caught:
            await store.create("a/b/c/3", HEAD, TAIL)
        self.assertNotIsInstance(caught.exception, OutcomeUnknown)
        self.assertEqual(int(ask(servers.primary.port, "GET", "{kapi}:revision")), first + 1)
        for read in (store.revision, lambda: store.get("a/b/c/2"), lambda: store.scan("a/b/")):
            with self.assertRaisesRegex(StoreUnavailable, "written last is not confirmed"):
                await read()
        self.assertEqual(sorted(recorder.objects), ["a/b/c/1"], "what fail-over can lose is not shown")
        servers.signal(servers.replicas[0], signal.SIGCONT)
        self.start_timeout(60.0)
        await eventually(lambda: not store.checks()["store-replicas"]())
        await recorder.reached(await store.revision())
        self.assertEqual(sorted(recorder.objects), ["a/b/c/1", "a/b/c/2"])
        self.assertEqual(await store.create("a/b/c/3", HEAD, TAIL), first + 2)

    async def test_reads_go_on_without_replicas_while_all_is_confirmed(self) -> None:
        servers = self.replicated(1, sentinels=0)
        store = await self.connected(servers.url, Recorder(), min_replicas=1)
        first = await store.create("a/b/c/1", HEAD, TAIL)
        self.start_timeout(0.5)
        servers.cut_off(*servers.replicas)
        for _ in range(3):
            self.assertEqual(await store.revision(), first)
        self.assertIn("0 of 1", store.checks()["store-replicas"]())
        found = await store.get("a/b/c/1")
        assert found is not None
        self.assertEqual(found.revision, first)

    async def test_a_refusal_that_rests_on_what_may_be_lost_waits_as_well(self) -> None:
        servers = self.replicated(1, sentinels=0)
        store = await self.connected(servers.url, min_replicas=1)
        await store.create("a/b/c/1", HEAD, TAIL)
        self.start_timeout(1.0)
        servers.cut_off(*servers.replicas)
        attempts = [store.create("a/b/c/2", HEAD, TAIL), store.create("a/b/c/2", HEAD, TAIL)]
        for attempt in attempts:
            with self.assertRaises(OutcomeUnknown):
                await attempt

    async def test_replicas_without_append_only_files_are_waited_for_in_memory(self) -> None:
        servers = self.replicated(1, sentinels=0, appendonly="no")
        store = await self.connected(servers.url, min_replicas=1)
        self.assertEqual(store._confirmation._wait[0], "WAIT")
        await store.create("a/b/c/1", HEAD, TAIL)

    async def test_a_start_without_replicas_is_one_clear_line(self) -> None:
        self.start_timeout(1.0)
        store, recorder = external_store(self.replicated(0, sentinels=1).url, reactor), Recorder()
        with self.assertRaisesRegex(StoreUnavailable, "^redis.sentinel://.*: 0 of 1 replicas .*--redis-min-replicas=0"):
            await store.start(recorder)
        self.assertEqual(recorder.resets, 0, "what nobody has confirmed is not shown")
        await store.stop()

    async def test_a_stopped_server_does_not_hold_the_start(self) -> None:
        self.patch(connections, "REPLY_TIMEOUT", 1.0)
        servers = self.replicated(0, sentinels=0)
        servers.signal(servers.primary, signal.SIGSTOP)
        with self.assertRaisesRegex(StoreUnavailable, "connection was lost"):
            await external_store(servers.url, reactor).start(Recorder())
        servers.signal(servers.primary, signal.SIGCONT)

    async def test_zero_turns_it_off(self) -> None:
        servers = self.replicated(0)
        store = await self.connected(servers.url, min_replicas=0)
        await store.create("a/b/c/1", HEAD, TAIL)
        self.assertNotIn("store-replicas", store.checks())

    async def test_a_write_takes_milliseconds(self) -> None:
        """A replica by itself tells what it has on disk once a second."""
        servers = self.replicated(1, sentinels=0)
        store = await self.connected(servers.url, min_replicas=1)
        await store.create("a/b/c/0", HEAD, TAIL)
        started = reactor.seconds()
        for number in range(1, 31):
            await store.create(f"a/b/c/{number}", HEAD, TAIL)
        self.assertLess(reactor.seconds() - started, 25)  # and not 30, of which 29 are spent waiting

    async def test_a_change_beyond_the_counter_is_no_reason_to_wait_for_ever(self) -> None:
        """Another program wrote it: no cycle can confirm it before the counter has followed."""
        servers, recorder = self.replicated(1, sentinels=0), Recorder()
        store = await self.connected(servers.url, recorder, min_replicas=1)
        await recorder.reached(await store.create("a/b/c/1", HEAD, TAIL))
        ask(servers.primary.port, "XADD", "{kapi}:changes", "50-0", "ca/b/c/50", "{}")
        await eventually(lambda: recorder.revision == 50)  # the history is read again, and this is told before its end
        self.assertEqual(await self.answered(store.revision), 50)
        self.assertEqual(await store.create("a/b/c/51", HEAD, TAIL), 51)

    async def test_two_servers_see_only_what_is_confirmed(self) -> None:
        servers, recorder = self.replicated(1, sentinels=0), Recorder()
        writer = await self.connected(servers.url, min_replicas=1)
        await self.connected(servers.url, recorder, min_replicas=1)
        await recorder.reached(await writer.create("a/b/c/1", HEAD, TAIL))
        self.start_timeout(1.0)
        servers.cut_off(*servers.replicas)
        with self.assertRaises(OutcomeUnknown):
            await writer.create("a/b/c/2", HEAD, TAIL)
        self.assertEqual(sorted(recorder.objects), ["a/b/c/1"])
        servers.signal(servers.replicas[0], signal.SIGCONT)
        self.start_timeout(60.0)
        await recorder.reached(2)


class Reconnection(ReplicatedCase):
    """What a server finds when it connects again may be on its way out."""

    def setUp(self) -> None:
        self.start_timeout(60.0)

    async def _unconfirmed(self, servers: Replicated, *keys: str) -> None:
        """Somebody who waits for nothing writes to the primary."""
        url = servers.primary.url.replace("://", f"://{LOGIN}@")
        writer = await self.connected(url, min_replicas=0)
        for key in keys:
            await writer.create(key, HEAD, TAIL)
        await writer.stop()

    async def _reconnected(self, servers: Replicated, store: RedisStore) -> None:
        before = store._connection
        ask(servers.primary.port, "CLIENT", "KILL", "TYPE", "normal", login=tuple(LOGIN.split(":")))
        await eventually(lambda: store._connection not in (None, before))

    async def test_a_write_that_only_the_old_primary_had_is_never_shown(self) -> None:
        servers, recorder = self.replicated(1), Recorder()
        store = await self.connected(servers.url, recorder)
        first = await store.create("core/things/ns/kept", HEAD, TAIL)
        await recorder.reached(first)
        self.start_timeout(2.0)
        servers.calm()  # it is replaced when the test has seen it without its replicas
        servers.isolate()
        await self._unconfirmed(servers, "core/things/ns/lost-1", "core/things/ns/lost-2")
        await self._reconnected(servers, store)
        self.assertEqual(store._connections.place, ("127.0.0.1", servers.primary.port), "it was replaced too early")
        with self.assertRaises(StoreUnavailable):
            await store.revision()
        servers.alarm()
        await eventually(
            lambda: store._connections.place == ("127.0.0.1", servers.replicas[0].port) and store.available
        )
        self.assertEqual(sorted(recorder.objects), ["core/things/ns/kept"])
        self.assertEqual((recorder.resets, recorder.revision), (1, first), "a watch goes on where it was")
        servers.replicas.append(Server(replicaof=f"127.0.0.1 {servers.replicas[0].port}", **DURABLE))
        self.addCleanup(servers.replicas[-1].stop)
        servers.calm()
        self.start_timeout(60.0)
        await eventually(lambda: not any(check() for check in store.checks().values()))
        self.assertEqual(await store.create("core/things/ns/next", HEAD, TAIL), first + 1)
        await recorder.reached(first + 1)
        self.assertEqual([change.key.rpartition("/")[2] for change in recorder.history], ["kept", "next"])

    async def test_what_was_written_meanwhile_is_shown_once_it_is_confirmed(self) -> None:
        servers, recorder = self.replicated(1, sentinels=0), Recorder()
        store = await self.connected(servers.url, recorder, min_replicas=1)
        await recorder.reached(await store.create("a/b/c/1", HEAD, TAIL))
        self.start_timeout(1.0)
        servers.cut_off(*servers.replicas)
        await self._reconnected(servers, store)
        self.assertEqual(await store.revision(), 1, "what was confirmed before can be read")
        await self._unconfirmed(servers, "a/b/c/2")
        await self._reconnected(servers, store)
        with self.assertRaisesRegex(StoreUnavailable, "written last is not confirmed"):
            await store.revision()
        self.assertEqual((recorder.resets, sorted(recorder.objects)), (1, ["a/b/c/1"]))
        servers.signal(servers.replicas[0], signal.SIGCONT)
        self.start_timeout(60.0)
        await recorder.reached(2)
        self.assertEqual(await store.revision(), 2)
        self.assertEqual((recorder.resets, sorted(recorder.objects)), (1, ["a/b/c/1", "a/b/c/2"]))

    async def test_what_has_to_be_loaded_anew_waits_as_well(self) -> None:
        servers, recorder = self.replicated(1, sentinels=0), Recorder()
        store = await self.connected(servers.url, recorder, min_replicas=1)
        await recorder.reached(await store.create("a/b/c/1", HEAD, TAIL))
        self.start_timeout(0.5)
        servers.cut_off(*servers.replicas)
        await self._unconfirmed(servers, *(f"a/b/c/{number}" for number in range(2, 5)))
        ask(servers.primary.port, "XTRIM", "{kapi}:changes", "MINID", "=", "4-0")
        ask(servers.primary.port, "CLIENT", "KILL", "TYPE", "normal")
        await eventually(lambda: "0 of 1 replicas" in store._why)
        self.assertFalse(store.available)
        self.assertEqual((recorder.resets, sorted(recorder.objects)), (1, ["a/b/c/1"]))
        servers.signal(servers.replicas[0], signal.SIGCONT)
        self.start_timeout(60.0)
        await recorder.reached(4)
        self.assertEqual((recorder.resets, len(recorder.objects)), (2, 4))
        await eventually(lambda: store.available)
        self.assertEqual(await store.create("a/b/c/5", HEAD, TAIL), 5)
