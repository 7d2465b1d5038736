"""Large answers are compressed in threads, few at a time, and what many ask for once."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints import writer
from kapi.endpoints.writer import MIN_GZIP_BYTES, compressed, compressed_document
from kapi.filters.chain import FilterChain
from kapi.request.packed import packed
from kapi.request.response import Document, DocumentResponse, Response
from kapi.serving.run import RequestRunner
from kapi.testing.http import MemoryRequest


class Threads:
    """A reactor's, in which things are done when the test says so."""

    def __init__(self, clock: Any) -> None:
        self.jobs: list[Callable[[], None]] = []
        clock.getThreadPool = lambda: self
        clock.callFromThread = lambda function, *arguments: function(*arguments)

    def callInThreadWithCallback(self, done: Any, function: Any, *arguments: Any, **named: Any) -> None:
        def job() -> None:
            try:
                result = function(*arguments, **named)
            except Exception as error:
                done(False, Failure(error))
            else:
                done(True, result)

        self.jobs.append(job)

    def work(self) -> None:
        """All that there is to do, and what comes of it."""
        while self.jobs:
            self.jobs.pop(0)()


class Compressions(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.threads = Threads(self.clock)
        self.patch(writer, "_threads", DeferredSemaphore(2))

    def several(self, number: int) -> list[Deferred[bytes]]:
        return [Deferred.fromCoroutine(compressed(self.clock, [b"%d" % i])) for i in range(number)]

    def of(self, document: Document) -> Deferred[bytes]:
        return Deferred.fromCoroutine(compressed_document(self.clock, document))

    def test_few_are_compressed_at_a_time_in_the_order_of_their_arrival(self) -> None:
        waiting = self.several(5)
        order: list[bytes] = []
        for one in waiting:
            one.addCallback(lambda body: order.append(zlib.decompress(body, 31)))
        self.assertEqual(len(self.threads.jobs), 2)
        self.threads.jobs.pop(0)()
        self.assertEqual(len(self.threads.jobs), 2)
        self.threads.work()
        self.assertEqual(order, [b"%d" % i for i in range(5)])

    def test_who_leaves_the_queue_is_not_waited_for(self) -> None:
        waiting = self.several(4)
        waiting[2].cancel()
        self.failureResultOf(waiting[2], CancelledError)
        self.threads.work()
        self.assertEqual(zlib.decompress(self.successResultOf(waiting[3]), 31), b"3")

    def test_a_thread_counts_until_it_is_done_whoever_waits_for_it(self) -> None:
        waiting = self.several(3)
        waiting[0].cancel()
        self.failureResultOf(waiting[0], CancelledError)
        self.assertEqual(len(self.threads.jobs), 2)
        self.threads.work()
        for one in waiting[1:]:
            self.successResultOf(one)

    def test_a_document_is_compressed_once_for_all_who_ask(self) -> None:
        document = Document(b"x" * 300_000)
        with patch.object(writer, "compress", wraps=writer.compress) as compress:
            waiting = [self.of(document) for _ in range(200)]
            self.threads.work()
            found = [self.successResultOf(one) for one in waiting]
            later = self.successResultOf(self.of(document))
        self.assertEqual(compress.call_count, 1)
        self.assertEqual(zlib.decompress(later, 31), document.body)
        self.assertEqual({id(one) for one in found}, {id(later)}, "they share it")

    def test_the_others_get_it_when_the_first_goes(self) -> None:
        document = Document(b"abc")
        first, second = self.of(document), self.of(document)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.threads.work()
        self.assertEqual(zlib.decompress(self.successResultOf(second), 31), b"abc")

    def test_one_that_failed_is_made_again(self) -> None:
        document = Document(b"abc")
        with patch.object(writer, "compress", side_effect=MemoryError):
            waiting = [self.of(document) for _ in range(2)]
            self.threads.work()
        for one in waiting:
            self.failureResultOf(one, MemoryError)
        again = self.of(document)
        self.threads.work()
        self.assertEqual(zlib.decompress(self.successResultOf(again), 31), b"abc")

    def test_without_a_thread_it_fails_and_is_made_as_soon_as_there_is_one(self) -> None:
        document = Document(b"abc")
        with patch.object(self.threads, "callInThreadWithCallback", side_effect=RuntimeError("can't start new thread")):
            for one in (*self.several(3), self.of(document)):
                self.failureResultOf(one, RuntimeError)
        waiting = [*self.several(3), self.of(document)]
        self.threads.work()
        for one in waiting:
            self.successResultOf(one)

    def test_bodies_are_compressed_from_128_kib_on(self) -> None:
        for size, encoding in ((128 * 1024 - 1, None), (128 * 1024, [b"gzip"])):
            runner = RequestRunner(FilterChain([], lambda _, size=size: Response(200, b"x" * size)), self.clock)
            request = MemoryRequest("GET", "/apis", {"accept-encoding": "gzip"})
            runner.serve(request)
            self.threads.work()
            self.assertEqual(request.responseHeaders.getRawHeaders(b"content-encoding"), encoding)

    def test_streams_of_one_document_are_compressed_once(self) -> None:
        body = b'"' + b"x" * MIN_GZIP_BYTES + b'"'
        document = Document(body)
        runner = RequestRunner(FilterChain([], lambda _: DocumentResponse(document)), self.clock)
        requests = [MemoryRequest("GET", "/apis", {"accept-encoding": "gzip"}) for _ in range(5)]
        with patch.object(writer, "compress", wraps=writer.compress) as compress:
            for request in requests:
                runner.serve(request)
            self.threads.work()
        self.assertEqual(compress.call_count, 1)
        for request in requests:
            self.assertEqual(zlib.decompress(request.written, 31), body)

    def test_a_client_that_goes_meanwhile_gets_nothing(self) -> None:
        document = Document(b"x" * MIN_GZIP_BYTES)
        runner = RequestRunner(FilterChain([], lambda _: DocumentResponse(document)), self.clock)
        request = MemoryRequest("GET", "/apis", {"accept-encoding": "gzip"})
        runner.serve(request)
        request.disconnect()
        self.threads.work()
        self.assertEqual((request.written, self.flushLoggedErrors()), (b"", []))

    def test_without_the_gate_only_what_is_kept_compressed_is_sent_so(self) -> None:
        body = b"x" * MIN_GZIP_BYTES
        kept = packed(body)
        for response, written in (
            (Response(200, body), body),
            (DocumentResponse(Document(body)), body),
            (Response(200, kept), kept.gzip),
        ):
            runner = RequestRunner(FilterChain([], lambda _, it=response: it), self.clock, compresses=False)  # type: ignore[misc]
            request = MemoryRequest("GET", "/", {"accept-encoding": "gzip"})
            runner.serve(request)
            self.threads.work()
            self.assertEqual(request.written, written)
            encoding = request.responseHeaders.getRawHeaders(b"content-encoding")
            self.assertEqual(encoding, None if written is body else [b"gzip"])

    def test_what_is_kept_compressed_is_sent_as_it_is(self) -> None:
        body = b"".join(b"%d," % number for number in range(100_000))
        kept = packed(body)
        runner = RequestRunner(FilterChain([], lambda _: Response(200, kept)), self.clock)
        compressed, plain = (MemoryRequest("GET", "/", headers) for headers in ({"accept-encoding": "gzip"}, {}))
        for request in (compressed, plain):
            runner.serve(request)
        self.assertEqual((compressed.written, plain.written), (kept.gzip, body))
        self.assertEqual(compressed.responseHeaders.getRawHeaders(b"content-length"), [b"%d" % len(kept.gzip)])
        self.assertEqual(self.threads.jobs, [])
