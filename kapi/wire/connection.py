"""One HTTP/1.1 connection to a server: idle, or busy with one request whose answer is whole bytes or a stream.

Twisted's own client reads answers line by line through half a dozen objects and as many Deferreds, which takes three times as
long as TLS.  This one writes a request in one piece, reads an answer in the pieces in which it comes, and fires one Deferred.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from kapi.request.transport import StreamTransport
from kapi.wire.answer import Answer, AnswerTooLarge, BadAnswer, final_head, framing
from kapi.wire.transport import Stream

if TYPE_CHECKING:
    from twisted.web.http import _ChunkedTransferDecoder

Answered = TypeVar("Answered")  # what the Deferred of a request fires with


class Pool(Protocol[Answered]):
    """Makes connections and keeps those that are idle."""

    limit: int  # bytes of a whole answer

    def answered(self, answer: Answer, body: bytes, stream: Stream | None = None) -> Answered:
        """The result of a request's Deferred, at the end of the answer, or before the body of a stream."""

    def free(self, connection: Connection[Answered]) -> None:
        """Called when a connection has given an answer and may be used again."""

    def lost(self, connection: Connection[Answered]) -> None:
        """Called when a connection has ended."""


class Connection(protocol.Protocol, Generic[Answered]):
    """One request at a time: ``ask`` may be called again when the pool has got the connection back."""

    transport: StreamTransport

    def __init__(self, pool: Pool[Answered]) -> None:
        self._pool = pool
        self.idle_since = 0.0  # when it became idle, in seconds of the reactor
        self.busy: Deferred[Answered] | None = None
        self._begin()

    def _begin(self) -> None:
        self._raw = b""
        self._answer: Answer | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._left: int | None = None  # bytes of the body still to come; None: till the end of the connection
        self._chunks: _ChunkedTransferDecoder | None = None
        self._streaming = self._bodiless = False
        self._stream: Stream | None = None

    def has_unsolicited_data(self) -> bool:
        """Whether an idle connection has something to read.

        Most likely the server has closed it, and the reactor has not read that yet.
        """
        sock: socket.socket | None = getattr(self.transport, "socket", None)
        try:
            return sock is not None and len(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)) >= 0
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            return True

    def ask(self, data: bytes, busy: Deferred[Answered], streaming: bool = False, bodiless: bool = False) -> None:
        """Sends ``data``, a complete request; ``busy`` fires with the answer.

        ``streaming``: it fires before the body when the code is below 300.  ``bodiless``: the answer has no body (HEAD).
        """
        self.busy, self._streaming, self._bodiless = busy, streaming, bodiless
        self.transport.write(data)

    def abort(self) -> None:
        """Ends the connection; ``busy`` never fires."""
        self.busy = self._stream = None
        self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        if self.busy is None and self._stream is None:
            self.abort()  # data without a request
            return
        try:
            if self._answer is None:
                self._raw += data
                self._read_head()
            else:
                self._read_body(data)
        except (BadAnswer, AnswerTooLarge) as problem:
            self._fail(Failure(problem))

    def _read_head(self) -> None:
        answer, rest = final_head(self._raw)
        if answer is None:
            self._raw = rest
            return
        self._raw = b""
        self._answer = answer
        self._expect_body(answer)
        if self._streaming and answer.code < 300:
            self._stream = Stream(self._flow, self.abort)
            busy, self.busy = self.busy, None
            assert busy is not None
            busy.callback(self._pool.answered(answer, b"", self._stream))
        elif self._left is not None and self._left > self._pool.limit:
            raise AnswerTooLarge(f"the answer is larger than {self._pool.limit} bytes")
        self._read_body(rest)

    def _expect_body(self, answer: Answer) -> None:
        in_chunks, self._left = framing(answer, self._bodiless)
        if in_chunks:
            from twisted.web.http import _ChunkedTransferDecoder  # long to load, and seldom needed by a command

            self._chunks = _ChunkedTransferDecoder(self._add, self._end)

    def _flow(self, wait: bool) -> None:
        if self.transport is not None:
            (self.transport.pauseProducing if wait else self.transport.resumeProducing)()

    def _read_body(self, data: bytes) -> None:
        if self._chunks is not None:
            try:
                self._chunks.dataReceived(data)
            except (AnswerTooLarge, BadAnswer):
                raise
            except Exception as problem:  # the decoder has several classes of errors
                raise BadAnswer(f"malformed chunked encoding: {problem}") from None
        elif self._left is None:
            self._add(data)
        elif len(data) > self._left:
            raise BadAnswer("the answer is longer than its Content-Length")
        else:
            self._left -= len(data)
            if data:
                self._add(data)
            if not self._left:
                self._end(b"")

    def _add(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(data)
            return
        self._size += len(data)
        if self._size > self._pool.limit:
            raise AnswerTooLarge(f"the answer is larger than {self._pool.limit} bytes")
        self._parts.append(data)

    def _end(self, extra: bytes) -> None:
        """The answer is whole."""
        answer, busy, stream = self._answer, self.busy, self._stream
        if answer is None or (busy is None and stream is None):
            return  # its reader has closed the stream
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self.busy = None
        self._begin()
        closing = answer.headers.getRawHeaders(b"connection", ())
        if extra or answer.version[2] == 0 or any(b"close" in value.lower() for value in closing):
            self.transport.loseConnection()
        else:
            if stream is not None:
                self._flow(wait=False)
            self._pool.free(self)
        if stream is not None:
            stream.finish()
        elif busy is not None:
            busy.callback(self._pool.answered(answer, body))

    def _fail(self, why: Failure) -> None:
        busy, stream = self.busy, self._stream
        self.abort()
        if stream is not None:
            stream.finish(why)
        elif busy is not None:
            busy.errback(why)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self._pool.lost(self)
        busy, stream, self.busy = self.busy, self._stream, None
        if busy is None and stream is None:
            return
        if self._answer is not None and self._left is None and self._chunks is None and reason.check(ConnectionDone):
            self.busy = busy
            self._end(b"closed")
        elif stream is not None:
            stream.finish(Failure(BadAnswer("unexpected EOF")))
        elif busy is not None:
            busy.errback(reason if self._answer is None else Failure(BadAnswer("unexpected EOF")))
