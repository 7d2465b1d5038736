"""A request whose body is passed on while it comes (upstream: ``net/http`` transport under ``httputil.ReverseProxy``).

Twisted's agent gives nobody an answer before the request is sent, but a server may refuse a body that it has not read, and
may answer while it reads.  Here both directions go on by themselves, each no faster than its reader.  The connection is for
this request alone, and nothing is ever sent twice.
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

from kapi.client.answer import BadAnswer, final_head, framing
from kapi.client.head import Header, request_head
from kapi.request.context import RequestContext
from kapi.request.streamed_body import StreamedBody
from kapi.request.transport import StreamTransport

STALL_SECONDS = 315.0  # seconds in which a server has to take something of what it is sent


class Abandoned(Exception):
    """The exchange ended on the client's side."""


class Stalled(Exception):
    """The server takes nothing of what it is sent."""


def streamed_body(ctx: RequestContext) -> StreamedBody | None:
    """The body of a request that was begun before it had come."""
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
    """The answer to the request, as soon as its head is here.

    ``headers`` are without those of the body and of the connection.  Raises BadHead, BadAnswer, Abandoned, Stalled, and what the
    connection failed with.
    """
    framing = (b"Transfer-Encoding", b"chunked") if body.length is None else (b"Content-Length", b"%d" % body.length)
    head = request_head(ctx.http.method, target, [*headers, (b"Connection", b"close"), framing])
    made = Exchange(reactor, head, body, bodyless=ctx.method == "HEAD")
    ctx.http.notifyFinish().addBoth(lambda _: made.give_up())
    try:
        await endpoint.connect(Factory.forProtocol(lambda: made))
    except BaseException:
        made.answered.addErrback(lambda _: None)  # of a client that leaves now, which nobody asks for
        raise
    await made.answered
    return made


@implementer(IPushProducer)
class Exchange(Protocol):
    """One request and its answer, which has ``code``, ``headers`` and ``deliverBody`` as an agent's has.

    ``answered`` fires when the head of the answer is here.
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
        self._raw = b""  # of the head, and then what came with it
        self._reader: IProtocol | None = None  # of the answer's body
        self._left: int | None = None  # bytes of it still to come; None: until the end of the connection
        self._chunks: _ChunkedTransferDecoder | None = None
        self._over = False  # nothing is expected any more
        self._lost: Failure | None = None
        self._stalled: IDelayedCall | None = None  # the timer of a server that takes nothing

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
        """The body has ended, one way or the other."""
        self._patience_ends()
        if why is not None:
            self._end(Failure(Abandoned(f"the body did not come: {why.getErrorMessage()}")))
            return
        if self._body.length is None:
            self.transport.write(b"0\r\n\r\n")
        self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        """The server takes nothing for now."""
        self._body.pause()
        if self._stalled is None:
            late = Failure(Stalled("the server does not read the request"))
            self._stalled = self._reactor.callLater(STALL_SECONDS, self._end, late)

    def resumeProducing(self) -> None:
        self._patience_ends()
        self._body.resume()

    def stopProducing(self) -> None:
        """The connection is lost; ``connectionLost`` follows."""

    def _patience_ends(self) -> None:
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
        self.transport.pauseProducing()  # until somebody reads the body
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
        """The answer is here, whether or not all of the request is sent."""
        self._end(_done())

    # -- the end

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self._end(Failure(Abandoned("nobody waits for the answer")))

    def _end(self, why: Failure) -> None:
        if self._over:
            return
        self._over = True
        self._patience_ends()
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
            self._patience_ends()
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
    """How a body that is whole ends, to who reads an Agent's answers."""
    from twisted.web.client import ResponseDone  # for those alone who use it

    return Failure(ResponseDone())
