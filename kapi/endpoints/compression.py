"""Gzip, in threads (upstream: ``endpoints/handlers/responsewriters``, deferredResponseWriter).

Only a few bodies are compressed at a time: more threads would take too much time from the reactor's thread.  Documents that many
clients request are compressed once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from kapi.process.reactor import RequestReactor
from kapi.request.response import SLICE, Document

_LEVEL = 1  # upstream's
MAX_AT_ONCE = max(1, len(os.sched_getaffinity(0)) - 1)  # bodies; one core is for the reactor
_threads = DeferredSemaphore(MAX_AT_ONCE)


def compress(slices: Iterable[bytes]) -> bytes:
    """The slices as one gzip body.  Blocks: call it in a thread."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    out = [packer.compress(part) for part in slices]
    out.append(packer.flush())
    return b"".join(out)


async def compressed(reactor: RequestReactor, slices: Iterable[bytes]) -> bytes:
    """Compresses the body in a thread, as soon as one is free.  Cancelling the call takes it out of the queue."""
    await _threads.acquire()
    try:
        done: Deferred[bytes] = deferToThreadPool(reactor, reactor.getThreadPool(), compress, slices)
    except BaseException:  # no further thread can be started
        _threads.release()
        raise
    waiting: Deferred[bytes] = Deferred()

    def end(result: bytes | Failure) -> None:
        _threads.release()  # not before: a thread goes on when nobody waits any more
        waiting.callback(result)

    done.addBoth(end)
    return await waiting


async def compressed_document(reactor: RequestReactor, document: Document) -> bytes:
    """The compressed body of a document: made at the first request, and kept with the document."""
    found = document.compressed
    if isinstance(found, bytes):
        return found
    if isinstance(found, _Making):
        return await found.wait()
    making = document.compressed = _Making(document)
    waiting = making.wait()
    making.start(reactor)
    return await waiting


class _Making:
    """The compression of a document in progress; it goes on when some of the waiting clients go."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._waiting: list[Deferred[bytes]] = []

    def start(self, reactor: RequestReactor) -> None:
        body = self._document.body
        slices = (body[start : start + SLICE] for start in range(0, len(body), SLICE))
        Deferred.fromCoroutine(compressed(reactor, slices)).addBoth(self._made)

    def _made(self, result: bytes | Failure) -> None:
        self._document.compressed = None if isinstance(result, Failure) else result
        for one in self._waiting:
            one.callback(result)

    def wait(self) -> Deferred[bytes]:
        done: Deferred[bytes] = Deferred()
        self._waiting.append(done)
        return done
