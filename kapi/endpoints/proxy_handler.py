"""Passes requests on to another server, for proxy subresources and aggregated APIs.

Upstream: apimachinery ``util/proxy/upgradeaware.go``.  The backend gets the client's request without its credentials, but with
the client's address (X-Forwarded-For); the client gets the backend's response.  A connection is upgraded only after the
backend's own 101.  Redirects are never followed, and nothing that the backend may have begun to process is
sent twice.

A browser takes the backend's pages for pages of this server.  With the console these must not read its data, nor act for its
user: they get an origin of their own, in which scripts, forms and links work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.web.http_headers import Headers

from kapi.endpoints.passing import body_to_pass, check_code, forwarded, piped
from kapi.endpoints.tunnel import Limit, TunnelBackend, wants_upgrade
from kapi.request.context import RequestContext
from kapi.request.response import CLOSE, HijackedResponse, Response
from kapi.request.streamed_body import StreamedBody
from kapi.request.trace import with_trace
from kapi.request.user import UserInfo
from kapi.wire.answer import Answer
from kapi.wire.connection import Abandoned
from kapi.wire.head import BadHead, Header, identity_headers, request_head
from kapi.wire.network_errors import describe
from kapi.wire.pool import Pool

log = Logger()
PLAIN = b"text/plain; charset=utf-8"
#: response headers of a single connection, and those that this server sets itself
_NOT_PASSED_BACK = frozenset(
    [b"access-control-allow-" + name for name in (b"credentials", b"headers", b"methods", b"origin")] +
    [b"connection", b"keep-alive", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding", b"upgrade",
     b"content-length", b"content-type"]
)  # fmt: skip

#: added to the backend's own policy, which still holds
_SANDBOX = (
    b"content-security-policy", b"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"
)  # fmt: skip
#: response headers with a meaning for the whole origin in a browser
_OF_ORIGIN = frozenset([b"alt-svc", b"clear-site-data", b"nel", b"report-to", b"strict-transport-security"])


class Destination(msgspec.Struct, frozen=True):
    """The backend that one request is passed on to.

    ``uri``: path and query as sent; ``host``: the value of the Host header; ``dialed``: host and port for the texts of errors.
    ``connect()`` returns the endpoint for a connection of this request only, ``pool()`` the connections for a request.
    """

    uri: bytes
    host: bytes
    dialed: tuple[str, int]
    connect: Callable[[], IStreamClientEndpoint]
    pool: Callable[[], Pool]
    user: UserInfo | None = None  # sent in headers to a backend that trusts this server's client certificate
    more: Sequence[Header] = ()  # further headers for the backend
    forwarded: Sequence[Header] = ()  # further headers, except when the request is an upgrade
    not_back: frozenset[bytes] = frozenset()  # further headers of the response that the client must not get
    relocated: Callable[[bytes], bytes] = lambda location: location  # rewrites the Location of a redirect


class NotPassedOn(Exception):
    """The backend did not respond.  The text is for the client."""

    def __init__(self, text: str, cause: Exception) -> None:
        super().__init__(text)
        #: False when the request itself, or its client, is the reason
        self.is_backends_fault = not isinstance(cause, (Abandoned, BadHead))


class NotUpgraded(NotPassedOn):
    """The backend did not upgrade the connection.  The text is for the client."""


class ProxyHandler:
    """Passes requests on.

    ``rejects_redirects``: a redirect by the backend is an error; ``limit`` makes the throttle of a tunnel.
    """

    def __init__(self, reactor: IReactorTime, *, rejects_redirects: bool = False, limit: Limit | None = None) -> None:
        self._reactor = reactor
        self._rejects_redirects = rejects_redirects
        self._limit = limit

    async def handle(self, ctx: RequestContext, to: Destination) -> Response:
        """The backend's response.  Raises NotPassedOn, and the errors of ``raw_body``."""
        return await (self._upgrade(ctx, to) if wants_upgrade(ctx) else self._request(ctx, to))

    async def _request(self, ctx: RequestContext, to: Destination) -> Response:
        ctx.passed_on = True
        body = body_to_pass(ctx)
        try:
            answer = await self._answer(ctx, to, body)
            check_code(answer)
        except (CancelledError, ConnectingCancelledError):
            raise CancelledError from None
        except Exception as error:  # whatever the network does
            raise NotPassedOn(f"error trying to reach service: {_text(ctx, to, error)}", error) from None
        found = list(_pairs(answer.headers))
        if self._is_rejected(answer.code, found):
            answer.abort()
            return _redirected()
        dropped = to.not_back | _OF_ORIGIN if ctx.sandboxed else to.not_back
        kept = [
            (name, to.relocated(value) if name.lower() == b"location" else value)
            for name, value in found
            if name.lower() not in _NOT_PASSED_BACK and name.lower() not in dropped
        ]
        if ctx.sandboxed:
            kept.append(_SANDBOX)
        return piped(ctx, answer, answer.code, _content_type(found, b""), kept)

    async def _answer(self, ctx: RequestContext, to: Destination, body: bytes | StreamedBody | None) -> Answer:
        """The backend's response.  Raises CancelledError when the client disconnects before its body is complete."""
        asked = to.pool().send(ctx.http.method, to.uri, _headers(ctx, to, to.forwarded), body)
        if isinstance(body, StreamedBody):
            ctx.http.notifyFinish().addBoth(lambda _: asked.cancel())
        return await asked

    async def _upgrade(self, ctx: RequestContext, to: Destination) -> Response:
        """Tunnels the client's connection to the backend; returns the backend's own response when it refuses to upgrade."""
        ctx.passed_on = True
        ctx.response_headers.append(CLOSE)  # without a 101, what follows the request is for neither server
        own = [(b"Connection", b"Upgrade"), (b"Upgrade", (ctx.header("upgrade") or "").encode())]
        if ctx.method != "GET":
            own.append((b"Content-Length", b"0"))
        try:
            head = request_head(ctx.http.method, to.uri, [*_headers(ctx, to), *own])
            tunnel = TunnelBackend(ctx.http, head, self._reactor, self._limit)
            await to.connect().connect(Factory.forProtocol(lambda: tunnel))
        except CancelledError:
            raise
        except Exception as error:  # whatever the network does
            raise NotUpgraded(f"error dialing backend: {_text(ctx, to, error)}", error) from None
        try:
            answer, start = await tunnel.decided
            code, headers = answer.code, _pairs(answer.headers)
            if code == 101:
                return HijackedResponse()
            rejected = self._is_rejected(code, headers)
            if not 400 <= code <= 599 and not rejected:
                raise ValueError(f"invalid upgrade response: status code {code}")
        except CancelledError:
            raise
        except Exception as error:
            raise NotUpgraded(_text(ctx, to, error), error) from None
        if rejected:
            return _redirected()
        return Response(code, start, _content_type(headers, PLAIN), (_SANDBOX,) if ctx.sandboxed else ())

    def _is_rejected(self, code: int, headers: Iterable[Header]) -> bool:
        if not self._rejects_redirects or not 300 <= code < 400:
            return False
        return any(name.lower() == b"location" and value for name, value in headers)


def _headers(ctx: RequestContext, to: Destination, more: Sequence[Header] = ()) -> list[Header]:
    """The headers for the backend: those of the client that are passed on, the user's identity, and ``more``.  Raises BadHead."""
    given = {name.lower() for name, _ in (*more, *to.more)}
    found = [(b"Host", to.host), *(pair for pair in forwarded(ctx) if pair[0].lower() not in given)]
    if to.user is not None:
        found.extend(identity_headers(to.user))
    return with_trace(ctx.trace, [*found, *more, *to.more])


def _redirected() -> Response:
    """The error instead of a redirect, which the client would follow with its credentials for this server (CVE-2022-3172)."""
    text = b"the backend attempted to redirect this request, which is not permitted"
    return Response(502, text, PLAIN, ((b"x-content-type-options", b"nosniff"),))


def _text(ctx: RequestContext, to: Destination, error: Exception) -> str:
    text = describe(error, *to.dialed)
    log.info("passing a request on failed: {text} (audit id {audit_id})", text=text, audit_id=ctx.audit_id)
    return text


def _pairs(headers: Headers) -> list[Header]:
    return [(name, value) for name, values in headers.getAllRawHeaders() for value in values]


def _content_type(headers: Iterable[Header], default: bytes) -> bytes:
    return next((value for name, value in headers if name.lower() == b"content-type"), default)
