"""Passes a request on while its body arrives (upstream: ``net/http`` transport under ``httputil.ReverseProxy``).

Twisted's Agent returns the response only after the request has been sent.  But a server may respond before it has read the whole
body, to refuse it for example.  Here both directions are independent, each limited by the speed of its reader.  The connection is
only used for this request, and nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IProtocol, IPushProducer, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.http_headers import Headers
from zope.interface import implementer

from kapi.request.context import RequestContext
from kapi.request.streamed_body import StreamedBody
from kapi.request.transport import StreamTransport
from kapi.wire.answer import BadAnswer, final_head, framing
from kapi.wire.head import Header, request_head

STALL_SECONDS = 315.0  # after so long without reading anything the server is given up


class Abandoned(Exception):
    """The client ended the exchange."""


class Stalled(Exception):
    """The server does not read the request."""


def streamed_body(ctx: RequestContext) -> StreamedBody | None:
    """The body of a request that is handled while its body still arrives, else None."""
    found: StreamedBody | None = getattr(ctx.http, "streamed", None)
    return found


async def exchange(
    reactor: IReactorTime,
    endpoint: IStreamClientEndpoint,
    ctx: RequestContext,
    target: bytes,
    headers: Iterable[Header],
    body: StreamedBody,
) -> Exchange:
    """Sends the request; returns the response as soon as its head has arrived.

    ``headers`` must not contain those of the body's framing and of the connection.  Raises BadHead, BadAnswer, Abandoned,
    Stalled, and errors of the connection.
    """
    length = (b"Transfer-Encoding", b"chunked") if body.length is None else (b"Content-Length", b"%d" % body.length)
    head = request_head(ctx.http.method, target, [*headers, (b"Connection", b"close"), length])
    made = Exchange(reactor, head, body, bodyless=ctx.method == "HEAD")
    ctx.http.notifyFinish().addBoth(lambda _: made.give_up())
    try:
        await endpoint.connect(Factory.forProtocol(lambda: made))
    except BaseException:
        made.answered.addErrback(lambda _: None)  # it is not awaited any more
        raise
    await made.answered
    return made


@implementer(IPushProducer)
class Exchange(Protocol):
    """One request and its response, which has ``code``, ``headers`` and ``deliverBody`` as an Agent's.

    ``answered`` fires when the head of the response has arrived.
    """

    transport: StreamTransport

    def __init__(self, reactor: IReactorTime, head: bytes, body: StreamedBody, bodyless: bool) -> None:
        self._reactor = reactor
        self._head = head
        self._body = body
        self._bodyless = bodyless
        self.answered: Deferred[None] = Deferred(lambda _: self.give_up())
        self.code = 0
        self.headers = Headers()
        self._raw = b""  # received bytes: of the head, then the beginning of the body
        self._reader: IProtocol | None = None  # gets the response's body
        self._left: int | None = None  # bytes of the body still to come; None: until the end of the connection
        self._chunks: _ChunkedTransferDecoder | None = None
        self._over = False  # whether the exchange has ended
        self._lost: Failure | None = None
        self._stalled: IDelayedCall | None = None  # the timer while the server reads nothing

    def connectionMade(self) -> None:
        if self._over:
            self.transport.abortConnection()
            return
        self.transport.write(self._head)
        self.transport.registerProducer(self, True)
        self._body.read(self._send, self._sent)

    # -- the request

    def _send(self, data: bytes) -> None:
        self.transport.write(data if self._body.length is not None else b"%x\r\n%s\r\n" % (len(data), data))

    def _sent(self, why: Failure | None) -> None:
        """Called when the client's body has ended; ``why`` is not None when it is incomplete."""
        self._cancel_stall_timer()
        if why is not None:
            self._end(Failure(Abandoned(f"the body did not come: {why.getErrorMessage()}")))
            return
        if self._body.length is None:
            self.transport.write(b"0\r\n\r\n")
        self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        """Called when the server reads too slowly."""
        self._body.pause()
        if self._stalled is None:
            late = Failure(Stalled("the server does not read the request"))
            self._stalled = self._reactor.callLater(STALL_SECONDS, self._end, late)

    def resumeProducing(self) -> None:
        self._cancel_stall_timer()
        self._body.resume()

    def stopProducing(self) -> None:
        """The connection is lost; ``connectionLost`` follows."""

    def _cancel_stall_timer(self) -> None:
        stalled, self._stalled = self._stalled, None
        if stalled is not None and stalled.active():
            stalled.cancel()

    # -- the answer

    def dataReceived(self, data: bytes) -> None:
        if self._over:
            return
        if self._reader is not None:
            self._decode(data)
            return
        self._raw += data
        if not self.code:
            try:
                self._read_head()
            except BadAnswer as error:
                self._end(Failure(error))

    def _read_head(self) -> None:
        found, self._raw = final_head(self._raw)
        if found is None:
            return
        in_chunks, self._left = framing(found, self._bodyless)
        if in_chunks:
            self._chunks = _ChunkedTransferDecoder(self._deliver, self._whole)
        self.code, self.headers = found.code, found.headers
        self.transport.pauseProducing()  # until ``deliverBody``
        self.answered.callback(None)

    def deliverBody(self, reader: IProtocol) -> None:
        """Gives the body to a protocol, whose connection is lost with ResponseDone at the body's end."""
        self._reader = reader
        reader.makeConnection(self.transport)
        raw, self._raw = self._raw, b""
        if self._left == 0:
            self._whole(b"")
        elif raw:
            self._decode(raw)
        if self._over:
            return
        if self._lost is not None:
            self._end_with_connection(self._lost)
        else:
            self.transport.resumeProducing()

    def _decode(self, data: bytes) -> None:
        if self._chunks is not None:
            try:
                self._chunks.dataReceived(data)
            except Exception as problem:  # the decoder has a class for each of its complaints
                self._end(Failure(BadAnswer(f"malformed chunked encoding: {problem}")))
        elif self._left is None:
            self._deliver(data)
        else:
            data = data[: self._left]
            self._left -= len(data)
            self._deliver(data)
            if not self._left:
                self._whole(b"")

    def _deliver(self, data: bytes) -> None:
        if not self._over and self._reader is not None:
            self._reader.dataReceived(data)

    def _whole(self, rest: bytes) -> None:
        """Called when the response is complete, even if the request is not."""
        self._end(_done())

    # -- the end

    def give_up(self) -> None:
        """Ends the exchange because the client has gone."""
        self._end(Failure(Abandoned("nobody waits for the answer")))

    def _end(self, why: Failure) -> None:
        if self._over:
            return
        self._over = True
        self._cancel_stall_timer()
        self._body.stop()
        transport: StreamTransport | None = self.transport
        if transport is not None and self._lost is None:
            transport.unregisterProducer()
            transport.abortConnection()
        if not self.answered.called:
            self.answered.errback(why)
        elif self._reader is not None:
            self._reader.connectionLost(why)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._lost = reason
        if self.code and self._reader is None:
            self._body.stop()
            self._cancel_stall_timer()
        else:
            self._end_with_connection(reason)

    def _end_with_connection(self, reason: Failure) -> None:
        if not self.code:
            self._end(Failure(BadAnswer("unexpected EOF")) if self._raw else reason)
        elif self._chunks is None and self._left is None and reason.check(ConnectionDone):
            self._end(_done())
        else:
            self._end(Failure(BadAnswer("unexpected EOF")))


def _done() -> Failure:
    """The reason that tells the reader of a body that it is complete, as with an Agent."""
    from twisted.web.client import ResponseDone  # imported only when it is used

    return Failure(ResponseDone())
