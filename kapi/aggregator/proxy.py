"""Requests passed on to the server behind an APIService (upstream: kube-aggregator ``handler_proxy.go``).

The backend learns who asks from request headers, which it believes because of our client certificate.  The client's own
credentials are never passed on, redirects are neither followed nor handed to the client, and a connection is upgraded
only by the backend's own 101.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent

from kapi.aggregator.backend import Backends
from kapi.client.head import BadHead, checked, identity_headers, request_head
from kapi.endpoints.exchange import Abandoned, exchange, streamed_body
from kapi.endpoints.passing import BackendAnswer, body_to_pass, check_code, forwarded, is_cancelled, pipe
from kapi.endpoints.tunnel import TunnelBackend, wants_upgrade
from kapi.request.context import RequestContext
from kapi.request.reactor import Reactor
from kapi.request.response import HijackedResponse, Response, StreamResponse
from kapi.request.trace import with_trace

if TYPE_CHECKING:
    from twisted.web.client import HTTPConnectionPool

log = Logger()
_PLAIN = b"text/plain; charset=utf-8"
UNAVAILABLE = b"service unavailable\n"
_NOT_PASSED_BACK = frozenset(
    [b"connection", b"keep-alive", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding", b"upgrade",
     b"content-length", b"audit-id"]
)  # fmt: skip
IDLE = 240.0  # seconds a connection to a backend is kept


def unavailable() -> Response:
    """The answer (503) while no endpoint of the service is available."""
    return Response(503, UNAVAILABLE, _PLAIN, ((b"x-content-type-options", b"nosniff"),))


class ReverseProxy:
    """Passes requests on.  ``backends`` knows where each APIService's server is, under its name.

    ``failed`` is told the name of one that could not be asked; ``rejects_redirects``: a server's redirect is an error, and no
    answer.
    """

    def __init__(
        self,
        reactor: Reactor,
        backends: Backends,
        failed: Callable[[str], None] = lambda key: None,
        rejects_redirects: bool = True,
    ) -> None:
        self._rejects_redirects = rejects_redirects
        self._reactor = reactor
        self._failed = failed
        self.backends = backends
        self._pool: HTTPConnectionPool | None = None

    @cached_property
    def _agent(self) -> IAgent:
        from twisted.web.client import Agent, HTTPConnectionPool  # for those alone who use it

        self._pool = pool = HTTPConnectionPool(self._reactor, persistent=True)
        pool.cachedConnectionTimeout = int(IDLE)
        pool.retryAutomatically = False  # a request may have had its effect
        agent: IAgent = Agent.usingEndpointFactory(self._reactor, self.backends, pool)
        return agent

    def close(self) -> Deferred[None]:
        if self._pool is None:
            return succeed(None)
        closing: Deferred[None] = self._pool.closeCachedConnections()
        return closing

    def handle(self, ctx: RequestContext, key: str) -> Response | Awaitable[Response]:
        """The backend's answer; 503 when it cannot be reached."""
        if self.backends.get(key) is None or ctx.user is None:
            return unavailable()
        if wants_upgrade(ctx):
            return self._upgrade(ctx, key)
        return self._request(ctx, key)

    async def _request(self, ctx: RequestContext, key: str) -> Response:
        ctx.passed_on = True
        headers = Headers()
        try:
            for name, value in checked(_request_headers(ctx)):
                headers.addRawHeader(name, value)
        except BadHead as error:
            return _bad_gateway(error)
        backend = self.backends.get(key)
        assert backend is not None
        headers.setRawHeaders(b"host", [backend.name.encode()])
        streamed = streamed_body(ctx)
        body = body_to_pass(ctx) if streamed is None else None
        try:
            if streamed is not None:
                pairs = [(name, value) for name, values in headers.getAllRawHeaders() for value in values]
                endpoint = backend.endpoint(self._reactor)
                answer: BackendAnswer = await exchange(self._reactor, endpoint, ctx, ctx.http.uri, pairs, streamed)
            else:
                uri, _ = self.backends.request(key, ctx.http.uri)
                answer = await self._agent.request(ctx.http.method, uri, headers, body)
            check_code(answer.code)
        except CancelledError:
            raise
        except Abandoned as error:
            return _bad_gateway(error)
        except Exception as error:  # whatever the network does
            if is_cancelled(error):
                raise CancelledError from None
            log.info(
                "proxy to {key} failed: {error} (audit id {audit_id})", key=key, error=error, audit_id=ctx.audit_id
            )
            self._failed(key)
            return _bad_gateway(error)
        location = answer.headers.getRawHeaders(b"location")
        if self._rejects_redirects and 300 <= answer.code < 400 and location:
            answer.deliverBody(_Discard())
            return _redirected()
        kept = [
            (name, value)
            for name, values in answer.headers.getAllRawHeaders()
            if name.lower() not in _NOT_PASSED_BACK
            for value in values
        ]
        kind = next((value for name, value in kept if name.lower() == b"content-type"), b"")
        rest = [(name, value) for name, value in kept if name.lower() != b"content-type"]
        return StreamResponse(lambda http: pipe(answer, http), answer.code, kind, rest)

    async def _upgrade(self, ctx: RequestContext, key: str) -> Response:
        backend = self.backends.get(key)
        assert backend is not None
        try:
            headers_sent = [
                (b"Host", backend.name.encode()),
                *_request_headers(ctx),
                (b"Connection", b"Upgrade"),
                (b"Upgrade", (ctx.header("upgrade") or "").encode()),
            ]
            tunnel = TunnelBackend(ctx.http, request_head(ctx.http.method, ctx.http.uri, headers_sent))
            await backend.endpoint(self._reactor).connect(Factory.forProtocol(lambda: tunnel))
            status, headers, start = await tunnel.decided
        except CancelledError:
            raise
        except BadHead as error:
            return _bad_gateway(error)
        except Exception as error:
            self._failed(key)
            return _bad_gateway(error)
        if status == 101:
            return HijackedResponse()
        ctx.response_headers.append((b"Connection", b"close"))
        if self._rejects_redirects and 300 <= status < 400 and any(name.lower() == b"location" for name, _ in headers):
            return _redirected()
        kind = next((value for name, value in headers if name.lower() == b"content-type"), _PLAIN)
        return Response(status, start, kind)


class _Discard(Protocol):
    """Ends the connection instead of reading a body."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()


def _redirected() -> Response:
    """Instead of a redirect, which the client would follow with its credentials for us (CVE-2022-3172)."""
    text = b"the backend attempted to redirect this request, which is not permitted"
    return Response(502, text, _PLAIN, ((b"x-content-type-options", b"nosniff"),))


def _bad_gateway(error: Exception) -> Response:
    return Response(503, f"error trying to reach service: {error}\n".encode(), _PLAIN)


def _request_headers(ctx: RequestContext) -> list[tuple[bytes, bytes]]:
    """The client's headers as far as they concern the backend, and who the client is.  Raises BadHead."""
    found = forwarded(ctx)
    assert ctx.user is not None
    found.extend(identity_headers(ctx.user))
    found.append((b"X-Forwarded-Proto", b"https"))
    found.append((b"X-Forwarded-Uri", ctx.http.uri))
    found.append((b"Audit-ID", ctx.audit_id.encode()))
    return with_trace(ctx.trace, found)
