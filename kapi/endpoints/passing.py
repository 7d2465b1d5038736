"""Passing a request on to another server: its headers and body, and the body of the response.

Upstream: apimachinery ``util/proxy/upgradeaware.go`` over Go's ``httputil.ReverseProxy``.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.endpoints.body import raw_body
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.pending import BACKEND_BYTES, Pending, PendingBytes
from kapi.request.response import StreamResponse
from kapi.request.streamed_body import StreamedBody
from kapi.wire.answer import Answer

#: headers of a single connection, and those that we set ourselves; headers that name a user ("x-remote-") are found by their
#: prefix
NOT_PASSED_ON = frozenset(
    [b"connection", b"proxy-connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade", b"host", b"content-length", b"authorization", b"expect"]
)  # fmt: skip
_BODYLESS = frozenset(["GET", "HEAD", "OPTIONS"])


def body_to_pass(ctx: RequestContext) -> bytes | StreamedBody | None:
    """The client's body, which may still arrive.  Raises as ``raw_body``."""
    streamed: StreamedBody | None = getattr(ctx.http, "streamed", None)
    if streamed is not None:
        return streamed
    data = raw_body(ctx)
    return data if data or ctx.method not in _BODYLESS else None


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


def piped(
    ctx: RequestContext, answer: Answer, status: int, content_type: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> StreamResponse:
    """A response with the body of another server's; without a client for it, the connection to that server ends."""
    return StreamResponse(
        lambda http: pipe(answer, http, ctx.pending), status, content_type, headers, unused=answer.abort
    )


def check_code(answer: Answer) -> None:
    """Raises ValueError for an invalid status code, which clients could not parse, and ends the connection."""
    if not 200 <= answer.code <= 599:
        answer.abort()
        raise ValueError(f"invalid status code {answer.code}")


def pipe(answer: Answer, http: HTTPRequest, pending: Pending | None = None) -> Deferred[None]:
    """Writes the body of a response to the client, no faster than the client reads; fires at the end."""
    pipe = _Pipe(answer, http, pending)
    answer.read(pipe.write, pipe.end)
    pipe.begin()
    return pipe.done


@implementer(IPushProducer)
class _Pipe:
    def __init__(self, answer: Answer, http: HTTPRequest, pending: Pending | None) -> None:
        self.done: Deferred[None] = Deferred()
        self._answer, self._http = answer, http
        self._over = self._begun = False
        self._pending = pending
        self._held: PendingBytes | None = None  # while the client reads nothing
        http.registerProducer(self, True)
        http.notifyFinish().addBoth(lambda _: self.stopProducing())

    def write(self, data: bytes) -> None:
        if not self._over:
            self._begun = True
            self._http.write(data)

    def begin(self) -> None:
        """Sends the headers if no part of the body is there yet: the first event of a watch may come late."""
        if not self._begun:
            self.write(b"")

    def end(self, why: Failure | None) -> None:
        if self._over:
            return
        self._over = True
        self._held = None
        self._http.unregisterProducer()
        if why is None:
            self._http.finish()
        else:
            self._http.abort()
        self.done.callback(None)

    def pauseProducing(self) -> None:
        if self._pending is not None:
            self._held = PendingBytes(self._pending, BACKEND_BYTES)
        self._answer.flow(wait=True)

    def resumeProducing(self) -> None:
        self._held = None
        self._answer.flow(wait=False)

    def stopProducing(self) -> None:
        if not self._over:
            self._over = True
            self._held = None
            self._answer.abort()
            self.done.callback(None)
