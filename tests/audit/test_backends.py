"""Log files and their rotation, batching, throttling, truncation; a webhook on a real HTTPS server."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
from twisted.internet import defer, reactor, ssl
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web import resource, server

from kapi.audit import log_file, sinks
from kapi.audit.build import Webhook
from kapi.audit.log_file import LogFile, LogWriter
from kapi.audit.metrics import Meter
from kapi.audit.policy import METADATA, REQUEST
from kapi.audit.record import Record
from kapi.audit.sinks import Batching, Blocking, Truncating
from kapi.client.config_error import ConfigError
from kapi.client.endpoint_client import EndpointClient
from kapi.client.kubeconfig import load_kubeconfig
from tests.store.certificates import make_authority, make_certificate


def record(number: int = 0, size: int = 0, level: int = METADATA) -> Record:
    tree: dict[str, Any] = {"kind": "Event", "number": number}
    if size:
        tree["requestObject"] = "x" * size
    return Record(orjson.dumps(tree), level)


class Backend:
    name = "test"
    immediate = True

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.error: Exception | None = None
        self.closed = False

    def send(self, records: Sequence[Record]) -> None:
        if self.error is not None:
            raise self.error
        self.batches.append([orjson.loads(item.data)["number"] for item in records])

    def close(self) -> None:
        self.closed = True


class Files(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(log_file, "file_system", lambda path: "ext4")  # wherever temporary files are here
        self.patch(log_file, "SLOW_SECONDS", float("inf"))  # else a disk that is slow here gets a thread
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(self.directory))
        self.path = self.directory / "logs" / "audit.log"

    def open(self, **options: Any) -> LogWriter:
        return LogWriter(LogFile(str(self.path), **options), reactor)

    def test_lines_are_appended_and_the_file_is_private(self) -> None:
        for number in range(2):
            log = self.open()
            log.send([record(number), record(number)])
            log.close()
        lines = self.path.read_bytes().splitlines()
        self.assertEqual([orjson.loads(line)["number"] for line in lines], [0, 0, 1, 1])
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)

    def test_rotation_by_size_count_and_age(self) -> None:
        now = [1700000000.123]
        log = self.open(max_size=1, max_backups=2, max_age=1, clock=lambda: now[0])
        for number in range(5):
            log.send([record(number, 700_000)])
            now[0] += 60
        names = sorted(file.name for file in self.path.parent.iterdir())
        self.assertEqual(names, ["audit-2023-11-14T22-16-20.123.log", "audit-2023-11-14T22-17-20.123.log", "audit.log"])
        now[0] += 2 * 86400
        log.send([record(9, 700_000)])
        self.assertEqual(len(list(self.path.parent.iterdir())), 2, "only the one just rotated is young enough")
        log.close()

    def test_compression(self) -> None:
        log = self.open(max_size=1, compress=True)
        log.send([record(1, 700_000)])
        log.send([record(2, 700_000)])
        log.close()
        (packed,) = self.path.parent.glob("*.gz")
        self.assertEqual(orjson.loads(gzip.decompress(packed.read_bytes()))["number"], 1)
        self.assertEqual(len(list(self.path.parent.iterdir())), 2)

    def test_no_rotation_with_size_zero(self) -> None:
        log = self.open(max_size=0)
        for number in range(3):
            log.send([record(number, 1_500_000)])
        log.close()
        self.assertEqual(os.listdir(self.path.parent), ["audit.log"])

    def test_a_file_that_was_copied_and_emptied_is_not_rotated_for_what_was_in_it(self) -> None:
        log = self.open(max_size=1)
        log.send([record(1, 700_000)])
        os.truncate(self.path, 0)  # logrotate's copytruncate
        log.send([record(2, 700_000)])
        self.assertEqual(os.listdir(self.path.parent), ["audit.log"])
        log.send([record(3, 700_000)])
        log.close()
        self.assertEqual(len(os.listdir(self.path.parent)), 2)

    def test_a_rotation_that_fails_loses_nothing(self) -> None:
        """A directory that was taken away, a table of files that is full: it goes on in the file that there is."""
        log = self.open(max_size=1)
        log.send([record(1, 700_000)])
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        with patch("os.open", side_effect=OSError(errno.EMFILE, "Too many open files")):
            for number in (2, 3):
                log.send([record(number, 700_000)])
        told = [line for line in lines if line["log_namespace"] == "kapi.audit.log_file"]
        self.assertEqual(len(told), 1)
        (kept,) = self.path.parent.iterdir()
        self.assertEqual([orjson.loads(line)["number"] for line in kept.read_bytes().splitlines()], [1, 2, 3])
        log.send([record(4)])
        log.close()
        self.assertEqual(orjson.loads(self.path.read_bytes())["number"], 4)

    def test_a_rotation_that_fails_writes_into_no_other_file(self) -> None:
        """The descriptor of a file that was closed is soon somebody's connection."""
        log = self.open(max_size=1)
        log.send([record(1, 700_000)])
        shutil.move(self.path.parent, self.directory / "elsewhere")
        with contextlib.suppress(OSError):
            log.send([record(2, 700_000)])
        other = os.open(self.directory / "other", os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, other)
        log.send([record(3)])
        self.assertEqual(os.fstat(other).st_size, 0)
        log.close()
        lines = (self.directory / "elsewhere" / "audit.log").read_bytes().splitlines()
        self.assertEqual([orjson.loads(line)["number"] for line in lines], [1, 2, 3])

    def test_a_line_that_was_cut_off_by_a_full_disk_spoils_no_other(self) -> None:
        log = self.open()
        log.send([record(1)])
        write, room = os.write, [10]

        def full(file: int, data: bytes) -> int:
            if not room:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data[: room.pop()])

        with patch("os.write", full), self.assertRaises(OSError):
            log.send([record(2)])
        log.send([record(3)])
        log.close()
        lines = self.path.read_bytes().splitlines()
        self.assertEqual([orjson.loads(line)["number"] for line in (lines[0], lines[-1])], [1, 3])

    def test_a_fifo_that_nobody_reads_holds_up_nobody(self) -> None:
        """Neither at the start nor when it is full; what fits no more is an error."""
        self.path.parent.mkdir()
        os.mkfifo(self.path)
        log = self.open(max_size=1)
        with self.assertRaises(OSError):
            for number in range(100):
                log.send([record(number, 100_000)])
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        while True:
            try:
                os.read(reader, 1_000_000)
            except BlockingIOError:
                break
        log.send([record(7)])
        self.assertEqual(orjson.loads(os.read(reader, 10_000).splitlines()[-1])["number"], 7)
        log.close()


class Sinks(SynchronousTestCase):
    def setUp(self) -> None:
        self.backend, self.meter, self.clock = Backend(), Meter(), Clock()

    def hold(self) -> list[Deferred[None]]:
        """The back end takes batches and does not answer: a Deferred of each answer, which grows."""
        waiting: list[Deferred[None]] = []

        def send(records: Sequence[Record]) -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        self.backend.send = send  # type: ignore[method-assign,assignment]
        return waiting

    def batching(self, **options: Any) -> Batching:
        return Batching(
            self.backend, self.meter, self.clock, **{"max_size": 3, "max_wait": 10.0, "qps": 0.0, **options}
        )

    def test_batches_go_when_full_or_old(self) -> None:
        sink = self.batching()
        for number in range(4):
            sink.process(record(number))
        self.assertEqual(self.backend.batches, [[0, 1, 2]])
        self.clock.advance(10)
        self.assertEqual(self.backend.batches, [[0, 1, 2], [3]])

    def test_a_full_buffer_loses_and_counts(self) -> None:
        sink = self.batching(max_size=100, buffer_size=5)
        for number in range(8):
            self.assertTrue(sink.process(record(number)))
        self.clock.advance(10)
        self.assertEqual(self.backend.batches, [[0, 1, 2, 3, 4]])
        self.assertEqual(self.meter.errors, {"buffered": 3})

    def test_events_are_bounded_in_bytes_until_they_have_arrived(self) -> None:
        """Ten thousand events with objects of 3 MB are no buffer; nor is what is on its way to a server that is away."""
        waiting = self.hold()
        sink = self.batching(max_size=1)
        with patch.object(sinks, "MAX_BUFFERED_BYTES", 10_000):
            for number in range(20):
                self.assertTrue(sink.process(record(number, 1000)))
            self.assertEqual((len(waiting), self.meter.errors), (9, {"buffered": 11}))
            waiting[0].callback(None)
            sink.process(record(20, 1000))
        self.assertEqual((len(waiting), self.meter.errors), (10, {"buffered": 11}))

    def test_a_server_that_is_away_has_a_bounded_number_of_batches_on_their_way(self) -> None:
        waiting = self.hold()
        sink = self.batching(max_size=1, buffer_size=100)
        for number in range(300):
            sink.process(record(number))
        self.assertEqual(len(waiting), sinks.MAX_SENDING)
        self.assertEqual(self.meter.errors, {"buffered": 300 - sinks.MAX_SENDING - 100})
        for sent in waiting:  # grows while it is walked
            sent.callback(None)
        self.assertEqual(len(waiting), sinks.MAX_SENDING + 100)

    def test_batches_are_throttled(self) -> None:
        sink = self.batching(max_size=1, qps=2.0, burst=2)
        for number in range(6):
            sink.process(record(number))
        self.assertEqual(len(self.backend.batches), 2)
        for _ in range(24):
            self.clock.advance(0.05)
        self.assertEqual(len(self.backend.batches), 4, "two at once, then two a second")

    def test_batches_are_split_by_size(self) -> None:
        sink = self.batching(max_bytes=2500)
        for number in range(3):
            sink.process(record(number, 1000))
        self.clock.advance(10)
        self.assertEqual(self.backend.batches, [[0, 1], [2]])

    def test_stop_sends_the_rest(self) -> None:
        sink = self.batching(qps=0.001, burst=1)
        for number in range(2):
            sink.process(record(number))
        self.successResultOf(defer.ensureDeferred(sink.stop()))
        self.assertEqual((self.backend.batches, self.backend.closed), ([[0, 1]], True))
        sink.process(record(9))
        self.assertEqual(self.meter.errors, {"buffered": 1})

    def test_what_a_slow_server_has_not_taken_does_not_hold_the_end(self) -> None:
        """Five attempts of 30 seconds, with pauses, would be longer than a service manager waits."""
        waiting = self.hold()
        sink = self.batching(max_size=2)
        for number in range(5):
            sink.process(record(number))
        stopping = defer.ensureDeferred(sink.stop())
        waiting[0].callback(None)
        self.clock.advance(sinks.MAX_STOP_SECONDS - 1)
        self.assertNoResult(stopping)
        self.clock.advance(1)
        self.successResultOf(stopping)
        self.assertEqual((self.meter.errors, self.backend.closed), ({"test": 3}, True))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_that_cannot_be_cancelled_does_not_hold_the_end_either(self) -> None:
        """As one that is cancelled while it connects, and takes that for a failed attempt."""

        async def send(records: Sequence[Record]) -> None:
            for _ in range(5):
                with contextlib.suppress(defer.CancelledError):
                    await Deferred()

        self.backend.send = send  # type: ignore[method-assign,assignment]
        sink = self.batching(max_size=2)
        for number in range(4):
            sink.process(record(number))
        stopping = defer.ensureDeferred(sink.stop())
        self.clock.advance(sinks.MAX_STOP_SECONDS)
        self.successResultOf(stopping)
        self.assertEqual((self.meter.errors, self.backend.closed), ({"test": 4}, True))

    def test_errors_are_counted_and_fail_strict_requests_only(self) -> None:
        self.backend.error = OSError("disk full")
        self.assertIs(Blocking(self.backend, self.meter, strict=False).process(record()), True)
        self.assertIs(Blocking(self.backend, self.meter, strict=True).process(record()), False)
        self.batching(max_size=1).process(record())
        self.assertEqual(self.meter.errors, {"test": 3})

    def test_a_full_disk_is_one_line_a_second(self) -> None:
        self.backend.error = OSError("disk full")
        sink = Blocking(self.backend, self.meter, strict=False)
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        for now in (1.0, 1.1, 1.9, 2.1):
            with patch.object(sinks, "monotonic", lambda now=now: now):
                sink.process(record())
        told = [line["count"] for line in lines if line["log_namespace"] == sinks.__name__]
        self.assertEqual((told, self.meter.errors), ([1, 3], {"test": 4}))

    def test_truncation(self) -> None:
        kept: list[Record] = []

        class Keep:
            lenient = True

            def process(self, *records: Record) -> bool:
                kept.extend(records)
                return True

            def stop(self) -> None:
                pass

        sink = Truncating(Keep(), self.meter, 500)
        sink.process(record(1, 1000, REQUEST))
        sink.process(record(2, 100, REQUEST), record(3, 1000, METADATA))
        self.assertEqual(
            orjson.loads(kept[0].data),
            {"kind": "Event", "number": 1, "annotations": {"audit.k8s.io/truncated": "true"}},
        )
        self.assertIn("requestObject", orjson.loads(kept[1].data))
        self.assertEqual((len(kept), self.meter.errors), (2, {"truncate": 1}))


class Receiver(resource.Resource):
    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[Any] = []
        self.tokens: list[str | None] = []
        self.answers = [500, 429]

    def render_POST(self, request: Any) -> bytes:
        self.lists.append(orjson.loads(request.content.read()))
        self.tokens.append(request.getHeader("authorization"))
        request.setResponseCode(self.answers.pop(0) if self.answers else 200)
        return b"{}"


class WebhookTest(TestCase):
    async def test_lists_are_posted_and_tried_again(self) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(directory))
        authority = make_authority(directory / "ca.pem")
        make_certificate(authority, directory / "server.pem", "localhost")
        certificate = ssl.PrivateCertificate.loadPEM((directory / "server.pem").read_bytes())
        receiver = Receiver()
        port = reactor.listenSSL(0, server.Site(receiver), certificate.options(), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        (directory / "config").write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: a, user: u}}]\n"
            f"clusters: [{{name: a, cluster: {{server: 'https://localhost:{port.getHost().port}/audit',"
            " certificate-authority: ca.pem}}]\nusers: [{name: u, user: {token: tok}}]\n"
        )
        client = EndpointClient(reactor, load_kubeconfig(str(directory / "config")))
        self.addCleanup(client.close)
        webhook = Webhook(client, reactor, initial_backoff=0.01)
        await webhook.send([record(1), record(2)])
        self.assertEqual(len(receiver.lists), 3, "two failures, then success")
        self.assertEqual(receiver.tokens[-1], "Bearer tok")
        self.assertEqual(receiver.lists[-1]["kind"], "EventList")
        self.assertEqual([item["number"] for item in receiver.lists[-1]["items"]], [1, 2])
        receiver.answers = [500] * 10
        with self.assertRaisesRegex(Exception, "an error on the server"):
            await webhook.send([record(3)])
        self.assertEqual(len(receiver.lists), 8, "five attempts")
        await port.stopListening()
        await client.close()
        webhook = Webhook(EndpointClient(reactor, client.endpoint), reactor, initial_backoff=0.01)
        told = r'^Post "https://localhost:\d+/audit\?timeout=30s": dial tcp .*connection refused$'
        with self.assertRaisesRegex(Exception, told):
            await webhook.send([record(4)])


class Kubeconfigs(SynchronousTestCase):
    def refuse(self, text: str, why: str) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, str(directory))
        path = directory / "config"
        path.write_text(text)
        with self.assertRaisesRegex(ConfigError, why):
            load_kubeconfig(str(path))

    def test_refusals(self) -> None:
        context = "current-context: c\ncontexts: [{name: c, context: {cluster: a}}]\n"
        self.refuse("[", "yaml")
        self.refuse("current-context: x\n", 'context "x" does not exist')
        self.refuse(context, 'cluster "a" does not exist')
        self.refuse(
            context + "clusters: [{name: a, cluster: {server: 'ftp://x'}}]", 'unsupported protocol scheme "ftp"'
        )
        self.refuse(
            context + "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority: nope}}]",
            r"unable to read certificate-authority .*/nope for a due to open .*/nope: no such file or directory",
        )
