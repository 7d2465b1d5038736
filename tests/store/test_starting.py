"""A start beside a server that loads its data, and beside one that has objects and a history."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from kapi.store import loading
from kapi.store.factory import external_store
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.test_external import ExternalCase

STEP = 0.01  # seconds
LOADING = 20  # seconds that the server takes


class Transport(StringTransport):
    def doWrite(self) -> None:
        """All is written already."""


class WhileItLoads(SynchronousTestCase):
    def test_it_is_asked_again_soon_beside_the_time_that_it_takes(self) -> None:
        clock = cast(Any, MemoryReactorClock())
        store = external_store("redis://127.0.0.1:6379", clock)
        started = Deferred.fromCoroutine(store.start(Recorder()))
        asked: list[float] = []
        lines: list[tuple[float, str]] = []
        observer = lambda event: lines.append((clock.seconds(), formatEvent(event)))  # noqa: E731
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        while clock.seconds() < LOADING:
            if len(clock.tcpClients) > len(asked):
                asked.append(clock.seconds())
                protocol = clock.tcpClients[-1][2].buildProtocol(None)
                protocol.makeConnection(Transport())
                clock.advance(0)
                protocol.dataReceived(b"-LOADING Valkey is loading the dataset in memory\r\n")
            clock.advance(STEP)
        self.assertNoResult(started)
        for before, after in zip(asked, asked[1:], strict=False):
            self.assertLess(after - before, max(0.05, before / 16) + 2 * STEP)
        self.assertLess(len(asked), 150)  # and not all the time
        told = [at for at, line in lines if line.startswith("waiting for the store: ")]
        self.assertEqual([1 <= at < 2 for at in told], [True])  # once, and not when it is ready in a moment
        stopped = Deferred.fromCoroutine(store.stop())
        self.failureResultOf(started)
        self.successResultOf(stopped)
        self.flushLoggedErrors()


class BesideObjects(ExternalCase):
    async def test_what_is_written_between_the_objects_and_the_history_is_not_lost(self) -> None:
        server = self.server()
        writer = external_store(server.url, reactor)
        await writer.start(Recorder())
        self.addCleanup(lambda: Deferred.fromCoroutine(writer.stop()))
        kept, old, gone = [await writer.create(key, HEAD, TAIL) for key in ("kept", "changed", "gone")]
        written: dict[str, int] = {"kept": kept}
        scan = loading.scan

        async def then_written(*arguments: Any) -> dict[str, Any]:
            found = await scan(*arguments)
            written["changed"] = await writer.update("changed", old, HEAD, TAIL)
            await writer.delete("gone", gone, HEAD, TAIL)
            written["new"] = await writer.create("new", HEAD, TAIL)
            short = await writer.create("short", HEAD, TAIL)
            await writer.delete("short", short, HEAD, TAIL)
            return found

        self.patch(loading, "scan", then_written)
        recorder = Recorder()
        reader = external_store(server.url, reactor)
        await reader.start(recorder)
        self.addCleanup(lambda: Deferred.fromCoroutine(reader.stop()))
        self.assertEqual({key: one.revision for key, one in recorder.objects.items()}, written)

    async def test_what_objects_and_history_have_in_common_is_there_once(self) -> None:
        server = self.server()
        store = external_store(server.url, reactor)
        await store.start(Recorder())
        kept = await store.create("kept", HEAD, TAIL)
        old = await store.create("changed", HEAD, TAIL)
        new = await store.update("changed", old, HEAD, TAIL)
        gone = await store.create("gone", HEAD, TAIL)
        deleted = await store.delete("gone", gone, HEAD, TAIL)
        await store.stop()
        recorder = Recorder()
        store = external_store(server.url, reactor)
        await store.start(recorder)
        self.addCleanup(lambda: Deferred.fromCoroutine(store.stop()))
        written = [
            (kept, "c", "kept"), (old, "c", "changed"), (new, "u", "changed"), (gone, "c", "gone"), (deleted, "d", "gone"),
        ]  # fmt: skip
        self.assertEqual([change[:3] for change in recorder.history], written)
        for change in recorder.history:
            self.assertEqual(change.data, HEAD + b"%d" % change.revision + TAIL)
        self.assertEqual({key: one.revision for key, one in recorder.objects.items()}, {"kept": kept, "changed": new})
        self.assertIs(recorder.history[0].data, recorder.objects["kept"].data)
        self.assertIs(recorder.history[2].data, recorder.objects["changed"].data)
        self.assertEqual(await store.revision(), deleted)
