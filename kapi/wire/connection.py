"""One HTTP/1.1 connection to a server: idle, or busy with one request and its answer, which may overlap.

Twisted's own client reads answers line by line through half a dozen objects and as many Deferreds, which takes three times as
long as TLS; and it returns an answer only after the request has been sent, but a server may refuse a body before it has read it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.request.streamed_body import StreamedBody
from kapi.request.transport import StreamTransport
from kapi.wire.answer import MAX_HEAD, Answer, BadAnswer, Body, final_head

STALL_SECONDS = 315.0  # a request fails when the server reads nothing of it for so long


class Abandoned(Exception):
    """The client of a proxied request has disconnected."""


class Stalled(Exception):
    """The server does not read the request."""


class Sink(Protocol):
    """Takes a body, piece by piece."""

    def write(self, data: bytes) -> object: ...

    def registerProducer(self, producer: IPushProducer, streaming: bool) -> object: ...

    def unregisterProducer(self) -> object:
        """Called at the end of the body, or when the rest is not needed."""


class Owner(Protocol):
    """Makes connections and keeps those that are idle."""

    def free(self, connection: Connection) -> None:
        """Called when a connection has given an answer and may be used again."""

    def lost(self, connection: Connection) -> None:
        """Called when a connection has ended."""


def has_unread_data(transport: StreamTransport) -> bool:
    """Whether an idle connection has something to read.

    Most likely the server has closed it, and the reactor has not read that yet.
    """
    sock: socket.socket | None = getattr(transport, "socket", None)
    try:
        return sock is not None and len(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)) >= 0
    except BlockingIOError:
        return False
    except (OSError, ValueError):
        return True


class Connection(protocol.Protocol):
    """One request at a time: ``ask`` may be called again when the owner has got the connection back."""

    transport: StreamTransport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.idle_since = 0.0  # when it became idle, in seconds of the reactor
        self._begin()

    def _begin(self) -> None:
        self._answered: Deferred[Answer] | None = None
        self._raw = b""
        self._skipped = 0  # bytes of interim answers so far
        self._answer: Answer | None = None
        self._body: Body | None = None
        self._bodiless = False
        self._upload: Upload | None = None

    def ask(self, data: bytes, answered: Deferred[Answer], bodiless: bool = False) -> None:
        """Sends ``data``, a head and possibly its body; ``answered`` fires when the head of the answer has come.

        ``bodiless``: the answer has no body (HEAD).
        """
        self._answered, self._bodiless = answered, bodiless
        self.transport.write(data)

    def upload(self, body: StreamedBody, reactor: IReactorTime) -> None:
        """Sends a body while it arrives, beside the answer."""
        self._upload = Upload(self.transport, body, self._fail, reactor, chunked=body.length is None)
        self._upload.begin()

    def abort(self) -> None:
        """Ends the connection; the request under way gets no answer."""
        self._end_upload()
        self._begin()
        if self.transport is not None:
            self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        try:
            if self._body is not None:
                self._body.read(data)
            elif self._answered is not None:
                self._raw += data
                self._read_head(self._answered)
            else:
                self.abort()  # data without a request
        except BadAnswer as problem:
            self._fail(Failure(problem))

    def _read_head(self, answered: Deferred[Answer]) -> None:
        size = len(self._raw)
        answer, self._raw = final_head(self._raw)
        if answer is None:
            self._skipped += size - len(self._raw)
            if self._skipped > MAX_HEAD:
                raise BadAnswer(f"server response headers exceeded {MAX_HEAD} bytes")
            return
        rest, self._raw = self._raw, b""
        self._body = body = Body(answer, answer.feed, self._whole, bodiless=self._bodiless)
        if body.length is not None:
            answer.length = body.length
        self._answer, self._answered = answer, None
        answer.begin(self.transport, self.abort)
        answered.callback(answer)
        if self._answer is answer:
            body.read(rest)
        if self._answer is answer and not answer.has_reader:
            answer.flow(wait=True)

    def _whole(self, extra: bytes) -> None:
        """The answer is complete, even if the request is not."""
        answer, upload = self._answer, self._upload
        if answer is None:
            return  # the reader has ended the connection
        closing = answer.headers.getRawHeaders(b"connection", ())
        if upload is not None and not upload.over:
            self.abort()
        elif extra or answer.version[2] == 0 or any(b"close" in value.lower() for value in closing):
            self._begin()
            self.transport.loseConnection()
        else:
            self._begin()
            self._owner.free(self)
        answer.finish()

    def _fail(self, why: Failure) -> None:
        answered, answer = self._answered, self._answer
        self.abort()
        if answer is not None:
            answer.finish(why)
        elif answered is not None:
            answered.errback(why)

    def _end_upload(self) -> None:
        if self._upload is not None:
            self._upload.stop()

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self._owner.lost(self)
        self._end_upload()
        answered, answer, body = self._answered, self._answer, self._body
        if answer is not None and body is not None and body.ends_with_connection and reason.check(ConnectionDone):
            answer.finish()
        elif answer is not None:
            answer.finish(Failure(BadAnswer("unexpected EOF")))
        elif answered is not None:
            answered.errback(Failure(BadAnswer("unexpected EOF")) if self._raw else reason)
        self._begin()


@implementer(IPushProducer)
class Upload:
    """Sends a body while it arrives.  ``fail`` ends the request; ``chunked``: the body's end is a chunk of its own."""

    def __init__(
        self,
        transport: Sink,
        body: StreamedBody,
        fail: Callable[[Failure], None],
        reactor: IReactorTime,
        *,
        chunked: bool,
    ) -> None:
        self._transport, self._body, self._fail, self._reactor = transport, body, fail, reactor
        self._chunked = chunked
        self._stalled: IDelayedCall | None = None  # the timeout, while the server reads nothing
        self.over = False

    def begin(self) -> None:
        self._transport.registerProducer(self, True)
        self._body.read(self._send, self._sent)

    def _send(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def _sent(self, why: Failure | None) -> None:
        """Called when the client's body has ended; ``why`` is not None when it is incomplete."""
        if why is not None:
            self._fail(Failure(Abandoned(f"the body did not come: {why.getErrorMessage()}")))
            return
        if self._chunked:
            self._transport.write(b"0\r\n\r\n")
        self.stop()

    def stop(self) -> None:
        """The body is sent, or the rest is not needed."""
        if not self.over:
            self.over = True
            self._cancel_stall_timer()
            self._body.stop()
            self._transport.unregisterProducer()

    def pauseProducing(self) -> None:
        """Called when the server reads too slowly."""
        self._body.pause()
        if self._stalled is None:
            late = Failure(Stalled("the server does not read the request"))
            self._stalled = self._reactor.callLater(STALL_SECONDS, self._fail, late)

    def resumeProducing(self) -> None:
        self._cancel_stall_timer()
        self._body.resume()

    def stopProducing(self) -> None:
        """The connection is lost; ``connectionLost`` follows."""

    def _cancel_stall_timer(self) -> None:
        stalled, self._stalled = self._stalled, None
        if stalled is not None and stalled.active():
            stalled.cancel()
