"""A disk that hangs, a mount that is away, a pipe that nobody reads: the thread waits for them, the reactor does not."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import orjson
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.audit import build, log_file, sinks
from kapi.audit.log_file import LogFile, LogWriter, file_system
from kapi.audit.metrics import Meter
from kapi.audit.policy import METADATA
from kapi.audit.record import Record
from kapi.audit.sinks import Blocking


def record(number: int, size: int = 0) -> Record:
    return Record(orjson.dumps({"number": number, "text": "x" * size}), METADATA)


class Ending:
    """A sink whose end the test decides."""

    lenient = True

    def __init__(self, name: str, end: Deferred[None], stopped: list[str]) -> None:
        self.name, self.end, self.stopped = name, end, stopped

    def process(self, *records: Record) -> bool:
        return True

    def stop(self) -> Deferred[None]:
        self.stopped.append(self.name)
        return self.end


class Reactor(Clock):
    """Time is the test's; threads are real."""

    def callFromThread(self, function: Callable[..., Any]) -> None:
        reactor.callFromThread(function)


class Hanging(TestCase):
    def setUp(self) -> None:
        self.patch(log_file, "file_system", lambda path: "ext4")  # wherever temporary files are here
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(self.directory))
        self.file = LogFile(str(self.directory / "audit.log"))
        self.clock = Reactor()
        self.writer = LogWriter(self.file, self.clock, seconds=self.clock.seconds)  # type: ignore[arg-type]
        self.meter = Meter()
        self.append: Callable[[bytes], bytes] = self.file.append
        self.goes_on = threading.Event()
        self.addCleanup(self.goes_on.set)
        self.writes: list[threading.Thread] = []
        self.log: list[LogEvent] = []
        globalLogPublisher.addObserver(self.log.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.log.append)

    def told(self) -> list[str]:
        return [line["log_level"].name for line in self.log if line["log_namespace"] == log_file.__name__]

    def hang(self) -> None:
        """The file is on a mount that does not answer for now."""
        self.file.may_wait = True

        def append(data: bytes, patient: bool = True) -> bytes:
            self.writes.append(threading.current_thread())
            self.goes_on.wait(60)
            return self.append(data)

        self.file.append = append  # type: ignore[method-assign]

    def numbers(self) -> list[int]:
        return [orjson.loads(line)["number"] for line in self.file.path.read_bytes().splitlines()]

    async def test_only_those_wait_whose_events_it_has(self) -> None:
        self.hang()
        sink = Blocking(self.writer, self.meter, strict=True)
        waiting = [sink.process(record(number)) for number in range(3)]
        self.assertEqual(self.numbers(), [])
        self.assertFalse(any(one.called for one in waiting if isinstance(one, Deferred)))
        self.goes_on.set()
        self.assertEqual([await one for one in waiting], [True] * 3)  # type: ignore[misc]
        self.assertEqual(self.numbers(), [0, 1, 2])
        self.assertNotIn(threading.current_thread(), self.writes)

    async def test_an_error_in_the_thread_is_counted_and_fails_a_strict_request(self) -> None:
        self.hang()
        self.goes_on.set()
        with patch.object(self, "append", side_effect=OSError("disk full")):
            self.assertIs(await Blocking(self.writer, self.meter, strict=True).process(record(1)), False)  # type: ignore[misc]
            self.assertIs(await Blocking(self.writer, self.meter, strict=False).process(record(2)), True)  # type: ignore[misc]
        self.assertEqual(self.meter.errors, {"log": 2})
        self.assertIsNone(await self.writer.send([record(3)]))  # type: ignore[misc]
        self.assertEqual(self.numbers(), [3])

    async def test_a_file_that_was_slow_is_the_threads_for_a_while(self) -> None:
        write = os.write

        def slow(file: int, data: bytes) -> int:
            self.clock.advance(log_file.SLOW_SECONDS * 2)
            return write(file, data)

        self.assertIsNone(self.writer.send([record(0)]))
        with patch("os.write", slow):
            self.assertIsNone(self.writer.send([record(1)]))
        waiting = self.writer.send([record(2)])
        self.assertIsInstance(waiting, Deferred)
        await waiting  # type: ignore[misc]
        self.clock.advance(log_file.QUICK_SECONDS)
        self.assertIsNone(self.writer.send([record(3)]))
        self.assertIsNone(self.writer.send([record(4)]))
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4])
        self.assertEqual(self.told(), ["warn"])

    async def test_what_waits_is_bounded_and_said(self) -> None:
        self.hang()
        with patch.object(log_file, "MAX_BUFFERED_BYTES", 3000):
            first = self.writer.send([record(0, 1000)])
            self.clock.advance(log_file.LATE_SECONDS + 1)
            second = self.writer.send([record(1, 1000)])
            self.assertIs(Blocking(self.writer, self.meter, strict=False).process(record(2, 1000)), True)
            self.assertEqual((self.meter.errors, self.told()), ({"log": 1}, ["error"]))
            self.goes_on.set()
            await first  # type: ignore[misc]
            await second  # type: ignore[misc]
            await self.writer.send([record(3, 1000)])  # type: ignore[misc]
        self.assertEqual((self.numbers(), self.told()), ([0, 1, 3], ["error", "warn"]))

    async def test_who_waits_and_leaves_is_recorded_nevertheless(self) -> None:
        self.hang()
        outcome = sinks.UnionSink([Blocking(self.writer, self.meter, strict=False)] * 2, self.meter).process(record(0))
        assert isinstance(outcome, Deferred)
        outcome.cancel()
        with self.assertRaises(CancelledError):
            await outcome
        self.goes_on.set()
        await self.writer.send([record(1)])  # type: ignore[misc]
        self.assertEqual(self.numbers(), [0, 0, 1])

    async def test_a_thread_that_cannot_be_started_is_started_later(self) -> None:
        """The limit of processes also counts threads.  Each event is counted as lost until then; no request waits for ever."""
        self.file.may_wait = True
        sink = Blocking(self.writer, self.meter, strict=True)
        with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            self.assertEqual([sink.process(record(number)) for number in range(2)], [False, False])
        self.assertEqual(self.meter.errors, {"log": 2})
        self.assertIs(await sink.process(record(2)), True)  # type: ignore[misc]
        self.assertEqual(self.numbers(), [2])

    async def test_the_rest_of_a_line_is_not_lost_with_the_thread(self) -> None:
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        with patch("sys.stdout", SimpleNamespace(fileno=lambda: writing)):
            writer = LogWriter(LogFile("-"), self.clock, seconds=self.clock.seconds)  # type: ignore[arg-type]
        with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            sink = Blocking(writer, self.meter, strict=False)
            self.assertEqual([sink.process(record(number, 40_000)) for number in range(2)], [True, True])
        found = os.read(reading, 100_000)
        waiting = writer.send([record(2)])
        if waiting is not None:
            await waiting
        found += os.read(reading, 100_000)
        whole = [line for line in found.splitlines() if line.endswith(b"}")]
        self.assertEqual([orjson.loads(line)["number"] for line in whole], [0, 2])

    async def test_the_end_waits_for_what_is_written_but_not_for_long(self) -> None:
        self.hang()
        sink = Blocking(self.writer, self.meter, strict=False)
        waiting = [sink.process(record(number)) for number in range(2)]
        stopping = ensureDeferred(sink.stop())  # type: ignore[arg-type]
        self.clock.advance(sinks.MAX_STOP_SECONDS - 1)
        self.assertNoResult(stopping)
        self.clock.advance(1)
        self.successResultOf(stopping)
        self.assertEqual([self.successResultOf(one) for one in waiting], [True, True])  # type: ignore[arg-type]
        self.assertEqual(self.meter.errors, {"log": 2})

    async def test_the_end_also_waits_for_lines_whose_requests_have_left(self) -> None:
        self.hang()
        waiting = self.writer.send([record(0)])
        assert isinstance(waiting, Deferred)
        waiting.addErrback(lambda failure: failure.trap(CancelledError))
        waiting.cancel()
        stopping = self.writer.close()
        self.assertIsNotNone(stopping)
        self.goes_on.set()
        await stopping  # type: ignore[misc]
        self.assertEqual(self.numbers(), [0])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    async def test_a_file_that_cannot_be_closed_keeps_nothing_else_from_its_end(self) -> None:
        """As one on the network, whose last error comes then."""
        sent: list[Record] = []
        closed: list[bool] = []
        backend: Any = SimpleNamespace(name="x", immediate=True, send=sent.extend, close=lambda: closed.append(True))
        other = sinks.Batching(backend, self.meter, self.clock)  # type: ignore[arg-type]
        union = sinks.UnionSink([Blocking(self.writer, self.meter, strict=False), other], self.meter)
        union.process(record(0))
        with patch.object(self.file, "close", side_effect=OSError("the quota is used up")):
            await union.stop()
        self.assertEqual((len(sent), closed), (1, [True]))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    async def test_back_ends_end_together(self) -> None:
        stopped: list[str] = []
        ends = Deferred[None](), Deferred[None]()
        union = sinks.UnionSink([Ending("log", ends[0], stopped), Ending("webhook", ends[1], stopped)], self.meter)
        whole = ensureDeferred(union.stop())
        self.assertEqual(stopped, ["log", "webhook"], "one that takes its time keeps the other waiting")
        ends[1].callback(None)
        self.assertNoResult(whole)
        ends[0].callback(None)
        self.successResultOf(whole)

    async def test_events_after_the_end_are_lost_and_counted(self) -> None:
        self.hang()
        self.goes_on.set()
        sink = Blocking(self.writer, self.meter, strict=True)
        self.assertIs(await sink.process(record(0)), True)  # type: ignore[misc]
        stopping = self.writer.close()
        if stopping is not None:
            await stopping
        for may_wait in (True, False):
            self.file.may_wait = may_wait
            self.assertIs(sink.process(record(1)), False)
        self.assertEqual((self.numbers(), self.meter.errors), ([0], {"log": 2}))

    async def test_the_end_of_a_file_that_goes_on(self) -> None:
        self.hang()
        self.writer.send([record(0)])
        stopping = ensureDeferred(self.writer.close())  # type: ignore[arg-type]
        self.goes_on.set()
        await stopping
        self.assertEqual(self.numbers(), [0])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    async def test_standard_output_that_nobody_reads(self) -> None:
        """What fits goes at once; the rest when it is read, without a line lost or torn."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        with patch("sys.stdout", SimpleNamespace(fileno=lambda: writing)):
            writer = LogWriter(LogFile("-"), self.clock, seconds=self.clock.seconds)  # type: ignore[arg-type]
        self.assertTrue(os.get_blocking(writing), "others write there, too")
        waiting = [writer.send([record(number, 20_000)]) for number in range(6)]
        self.assertIsNone(waiting[0])
        self.assertIsInstance(waiting[5], Deferred)
        stopping = ensureDeferred(writer.close())  # type: ignore[arg-type]
        found = b""
        while found.count(b"\n") < 6:
            found += os.read(reading, 100_000)
        await stopping
        self.assertEqual([orjson.loads(line)["number"] for line in found.splitlines()], list(range(6)))


class Opening(SynchronousTestCase):
    def test_a_mount_that_hangs_is_one_clear_line(self) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(directory))
        policy = directory / "policy.yaml"
        policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
        options: Any = SimpleNamespace(
            audit_policy_file=str(policy), audit_log_path=str(directory / "audit.log"), audit_webhook_config_file=""
        )
        goes_on = threading.Event()

        def hang(*arguments: Any, **more: Any) -> None:
            goes_on.wait(60)
            raise OSError("too late")

        with patch.object(build, "LogFile", hang), patch.object(build, "MAX_OPEN_SECONDS", 0.05):
            with self.assertRaisesRegex(OSError, "not opened within 0 seconds: .*audit.log"):
                build.build(options, Reactor(), Meter())  # type: ignore[arg-type]
        goes_on.set()
        with patch.object(build, "LogFile", hang), self.assertRaisesRegex(OSError, "too late"):
            build.build(options, Reactor(), Meter())  # type: ignore[arg-type]


class Tidying(SynchronousTestCase):
    def test_a_rotation_without_a_thread_is_tidied_after_the_next_one(self) -> None:
        self.patch(log_file, "file_system", lambda path: "ext4")
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(directory))
        options: Any = SimpleNamespace(
            audit_log_path=str(directory / "audit.log"), audit_log_maxsize=1, audit_log_maxbackup=1
        )
        writer = build._log_file(options, Reactor())  # type: ignore[arg-type]
        for year in (2020, 2021):
            (directory / f"audit-{year}-01-01T00-00-00.000.log").touch()
        with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            for number in range(2):
                self.assertIsNone(writer.send([record(number, 700_000)]))
        self.assertEqual(len(list(directory.glob("audit-*"))), 3)
        self.assertIsNone(writer.send([record(2, 700_000)]))
        for thread in threading.enumerate():
            if thread.name == "audit log tidying":
                thread.join(30)
        self.assertEqual(len(list(directory.glob("audit-*"))), 1)


class Mounts(SynchronousTestCase):
    def test_the_file_system_of_a_path(self) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(directory))
        (directory / "a b").mkdir()
        (directory / "ab").mkdir()
        log_file = directory / "mounts"
        named = str(directory).replace(" ", r"\040")
        log_file.write_text(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
            f"23 22 0:51 / {named}/a\\040b rw,relatime shared:1 - xfs /dev/sdb rw\n"
            f"24 22 0:51 / {named}/a\\040b rw,relatime shared:1 master:2 - nfs4 server:/a rw\n"
        )
        self.assertEqual(file_system(directory / "a b" / "audit.log", log_file), "nfs4")
        self.assertEqual(file_system(directory / "ab" / "audit.log", log_file), "ext4")
        for place, waits in (("a b", True), ("ab", False)):
            with open(directory / place / "out", "wb") as out:
                named_out = SimpleNamespace(fileno=out.fileno)
                with patch("sys.stdout", named_out), patch.object(file_system, "__defaults__", (log_file,)):
                    self.assertIs(LogFile("-").may_wait, waits, "standard output is a file, wherever the server runs")
        self.assertEqual(file_system(directory, directory / "nowhere"), "ext4")
