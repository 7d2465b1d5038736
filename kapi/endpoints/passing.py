"""Helpers for passing a request on to another server: its headers and body, and the body of the response.

Upstream: apimachinery ``util/proxy/upgradeaware.go`` over Go's ``httputil.ReverseProxy``.
"""

from __future__ import annotations

import io
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IProtocol, IPushProducer
from twisted.internet.protocol import Protocol
from twisted.internet.protocol import connectionDone as CLEAN
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from zope.interface import implementer

from kapi.endpoints.body import raw_body
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.pending import BACKEND_BYTES, Pending, PendingBytes
from kapi.request.response import StreamResponse
from kapi.request.transport import StreamTransport
from kapi.wire.collected import abort

if TYPE_CHECKING:
    from twisted.web.client import FileBodyProducer

#: headers of a single connection, and those that we set ourselves; headers that name a user ("x-remote-") are found by their
#: prefix
NOT_PASSED_ON = frozenset(
    [b"connection", b"proxy-connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"host", b"content-length", b"authorization", b"expect"]
)  # fmt: skip
_BODYLESS = frozenset(["GET", "HEAD", "OPTIONS"])


def body_to_pass(ctx: RequestContext) -> FileBodyProducer | None:
    """The client's body for an Agent: a copy, because the client may go while it is sent.  Raises as ``raw_body``."""
    from twisted.web.client import FileBodyProducer  # imported only when it is used

    data = raw_body(ctx)
    return FileBodyProducer(io.BytesIO(data)) if data or ctx.method not in _BODYLESS else None


def passed_on(http: HTTPRequest) -> list[tuple[bytes, bytes]]:
    """The client's headers without credentials, headers that name a user, and headers of the client's connection."""
    request = http.requestHeaders
    named = {
        token.strip().lower() for value in request.getRawHeaders(b"connection") or () for token in value.split(b",")
    }
    found: list[tuple[bytes, bytes]] = []
    for name, values in request.getAllRawHeaders():
        lower = name.lower()
        if lower in NOT_PASSED_ON or lower in named or lower.startswith((b"x-remote-", b"impersonate-")):
            continue
        found.extend((name, value) for value in values)
    return found


def forwarded(ctx: RequestContext) -> list[tuple[bytes, bytes]]:
    """The headers ``passed_on``, with the client's address appended to X-Forwarded-For."""
    headers = passed_on(ctx.http)
    client = getattr(ctx.http, "getClientAddress", lambda: None)()
    address = getattr(client, "host", None)
    if not address:
        return headers
    before = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    came = b", ".join([*before, address.encode()])
    return [pair for pair in headers if pair[0].lower() != b"x-forwarded-for"] + [(b"X-Forwarded-For", came)]


def is_cancelled(error: Exception) -> bool:
    """Whether an Agent's request failed because it was cancelled; an Agent has errors of its own for that."""
    reasons: Iterable[Failure] = getattr(error, "reasons", ())
    return isinstance(error, ConnectingCancelledError) or any(reason.check(CancelledError) for reason in reasons)


class BackendAnswer(typing.Protocol):
    """The response of an Agent, or an Exchange."""

    code: int
    headers: Headers

    def deliverBody(self, protocol: IProtocol, /) -> None: ...


def piped(
    ctx: RequestContext,
    answer: BackendAnswer,
    status: int,
    content_type: bytes,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> StreamResponse:
    """A response with the body of another server's; without a client for it, the connection to that server ends."""
    return StreamResponse(
        lambda http: pipe(answer, http, ctx.pending), status, content_type, headers, unused=lambda: discard(answer)
    )


def discard(answer: BackendAnswer) -> None:
    """Ends the connection instead of reading the body.  An answer that is only forgotten stays open, as nobody reads it."""
    answer.deliverBody(_Discard())


def check_code(answer: BackendAnswer) -> None:
    """Raises ValueError for an invalid status code, which clients could not parse, and ends the connection."""
    if not 200 <= answer.code <= 599:
        discard(answer)
        raise ValueError(f"invalid status code {answer.code}")


class _Discard(Protocol):
    def connectionMade(self) -> None:
        abort(self.transport)


def pipe(answer: BackendAnswer, http: HTTPRequest, pending: Pending | None = None) -> Deferred[None]:
    """Writes the body of a response to the client, no faster than the client reads; fires at the end."""
    done: Deferred[None] = Deferred()
    answer.deliverBody(_Pipe(http, done, pending))
    return done


@implementer(IPushProducer)
class _Pipe(Protocol):
    transport: StreamTransport

    def __init__(self, http: HTTPRequest, done: Deferred[None], pending: Pending | None) -> None:
        self._http = http
        self._done = done
        self._over = False
        self._pending = pending
        self._held: PendingBytes | None = None  # while the client reads nothing

    def connectionMade(self) -> None:
        self._http.registerProducer(self, True)
        self._http.notifyFinish().addBoth(self._gone)

    def dataReceived(self, data: bytes) -> None:
        if not self._over:
            self._http.write(data)

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        from twisted.web.client import ResponseDone  # imported only when it is used

        if self._over:
            return
        self._over = True
        self._held = None
        self._http.unregisterProducer()
        if reason.check(ResponseDone):
            self._http.finish()
        else:
            self._http.abort()
        self._done.callback(None)

    def _gone(self, _: object) -> None:
        self.stopProducing()

    def pauseProducing(self) -> None:
        if self._pending is not None:
            self._held = PendingBytes(self._pending, BACKEND_BYTES)
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        self._held = None
        self.transport.resumeProducing()

    def stopProducing(self) -> None:
        if self._over:
            return
        self._over = True
        self._held = None
        stop = getattr(self.transport, "abortConnection", None) or getattr(self.transport, "stopProducing", None)
        if stop is not None:
            stop()
        self._done.callback(None)
