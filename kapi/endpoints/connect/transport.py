"""Connections to kubelets, pods and services (upstream: apimachinery ``util/proxy/upgradeaware.go``).

A request is passed on as it is, but for the client's credentials; an upgrade happens only by the backend's own 101; redirects
are never followed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from OpenSSL import SSL
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.error import (
    ConnectionDone,
    ConnectionRefusedError,
    DNSLookupError,
    NoRouteError,
    TimeoutError,
)
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IBodyProducer, IResponse
from zope.interface import implementer

from kapi.client.dialer import Dialer
from kapi.client.egress import CLUSTER
from kapi.client.head import BadHead, checked, request_head
from kapi.client.tls_trust import authorities, identity, unverified_options, verified_options
from kapi.endpoints.exchange import Exchange, exchange, streamed_body
from kapi.endpoints.passing import BackendAnswer, body_to_pass, check_code, forwarded, is_cancelled, pipe
from kapi.endpoints.throttle import Throttle
from kapi.endpoints.tunnel import TunnelBackend
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.reactor import Reactor
from kapi.request.response import HijackedResponse, Response, StreamResponse
from kapi.request.streamed_body import StreamedBody
from kapi.request.trace import with_trace

log = Logger()
CONNECT_TIMEOUT = 5.0  # seconds
_NOT_PASSED_BACK = frozenset(
    [b"access-control-allow-" + name for name in (b"credentials", b"headers", b"methods", b"origin")] +
    [b"connection", b"keep-alive", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding", b"upgrade",
     b"content-length", b"content-type"]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TLS:
    """How a backend is trusted and what we show it; all PEM.  Without a CA its certificate is not verified."""

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = b""

    def creator(self, name: str) -> IOpenSSLClientConnectionCreator:
        """What Twisted makes connections with.  Raises ValueError for PEM that is none."""
        try:
            own = identity(self.certificate, self.key)
            if not self.ca:
                return unverified_options(name, own)
            trust = authorities(self.ca, required=False)
        except ValueError as error:
            raise ValueError(f"cannot read certificates: {error}") from None
        return verified_options(name, trust, own)


UNVERIFIED = TLS()


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.  ``path`` and ``query`` are as they go on the wire.

    ``proxied`` for one that a user names, which must not lead to this machine; ``addresses`` when they were looked up and
    judged already.
    """

    scheme: str
    host: str
    port: int
    path: bytes
    query: bytes = b""
    tls: TLS = UNVERIFIED
    proxied: bool = False
    addresses: Sequence[str] = ()

    @property
    def netloc(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()

    @property
    def uri(self) -> bytes:
        return self.path + (b"?" + self.query if self.query else b"")

    def endpoint(self, dialer: Dialer) -> IStreamClientEndpoint:
        plain = dialer.endpoint(self.host, self.port, proxied=self.proxied, addresses=self.addresses)
        if self.scheme != "https":
            return plain
        wrapped: IStreamClientEndpoint = wrapClientTLS(self.tls.creator(self.host), plain)
        return wrapped


@implementer(IAgentEndpointFactory)
class _Endpoints:
    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def endpointForURI(self, uri: object) -> IStreamClientEndpoint:
        return self._endpoint


def ask(
    reactor: Reactor,
    dialer: Dialer,
    target: Target,
    method: bytes,
    headers: Headers | None = None,
    body: IBodyProducer | None = None,
) -> Deferred[IResponse]:
    """The answer of a Twisted Agent, which follows no redirect."""
    from twisted.web.client import Agent  # for those alone who use it

    agent = Agent.usingEndpointFactory(reactor, _Endpoints(target.endpoint(dialer)))
    uri = target.scheme.encode() + b"://" + target.netloc + target.uri
    answer: Deferred[IResponse] = agent.request(method, uri, headers, body)
    return answer


class Unreachable(Exception):
    """No answer of a target was to be had; the text is Go's where it is a common one."""


def _why(error: BaseException, target: Target) -> str:
    from twisted.web.client import ResponseNeverReceived  # for those alone who use it

    if isinstance(error, ResponseNeverReceived) and error.reasons:
        error = error.reasons[0].value
    dialed = f"dial tcp {target.netloc.decode()}: "
    match error:
        case ConnectionRefusedError():
            return dialed + "connect: connection refused"
        case NoRouteError():
            return dialed + "connect: no route to host"
        case TimeoutError():
            return dialed + "i/o timeout"
        case DNSLookupError():
            return f"dial tcp: lookup {target.host}: no such host"
        case ConnectionDone():
            return "EOF"
        case SSL.Error() if "certificate verify failed" in str(error):
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    return str(error)


class Transport:
    """Passes requests on to targets.  ``timeout``: seconds until a connection must stand; ``rate``: the most bytes a second that
    a tunnel takes from either side, 0 is no limit.
    """

    def __init__(self, reactor: Reactor, timeout: float = CONNECT_TIMEOUT, rate: int = 0) -> None:
        self._limit = partial(Throttle, bytes_per_second=rate, clock=reactor) if rate else None
        self._reactor = reactor
        self.dialer = Dialer(reactor, timeout, CLUSTER)

    async def upgrade(self, ctx: RequestContext, target: Target) -> Response:
        """Tunnels the client's connection to the backend; the backend's own answer when that refuses to upgrade."""
        headers = [(b"Host", _host(ctx, target)), *with_trace(ctx.trace, forwarded(ctx))]
        headers += [(b"Connection", b"Upgrade"), (b"Upgrade", (ctx.header("upgrade") or "").encode())]
        if ctx.method != "GET":
            headers.append((b"Content-Length", b"0"))
        try:
            tunnel = TunnelBackend(ctx.http, request_head(ctx.http.method, target.uri, headers), self._limit)
            await target.endpoint(self.dialer).connect(Factory.forProtocol(lambda: tunnel))
        except CancelledError:
            raise
        except Exception as error:  # whatever the network does
            raise status.generic(f"error dialing backend: {self._unreachable(ctx, error, target)}") from None
        try:
            code, headers, start = await tunnel.decided
        except CancelledError:
            raise
        except Exception as error:
            raise status.generic(str(self._unreachable(ctx, error, target))) from None
        if code == 101:
            return HijackedResponse()
        if code < 400:
            raise status.generic(f"invalid upgrade response: status code {code}")
        ctx.response_headers.append((b"Connection", b"close"))
        return Response(code, start, _content_type(headers))

    async def request(self, ctx: RequestContext, target: Target, prefix: bytes = b"") -> Response:
        """The backend's answer.  A redirect goes back to the client, with ``prefix`` in front of its path."""
        ctx.passed_on = True
        headers = Headers({b"Host": [_host(ctx, target)]})
        try:
            for name, value in checked(forwarded(ctx)):
                headers.addRawHeader(name, value)
        except BadHead as error:
            raise status.ServiceUnavailable(f"error trying to reach service: {error}") from None
        if prefix:
            headers.setRawHeaders(b"X-Forwarded-Uri", [prefix + target.path])
        streamed = streamed_body(ctx)
        try:
            if streamed is not None:
                answer: BackendAnswer = await self._exchange(ctx, target, headers, streamed)
            else:
                answer = await self.fetch(ctx, target, ctx.http.method, headers, body_to_pass(ctx))
        except Unreachable as error:
            raise status.ServiceUnavailable(f"error trying to reach service: {error}") from None
        kept = [
            (name, _relocated(value, target, prefix, _host(ctx, target)) if name.lower() == b"location" else value)
            for name, values in answer.headers.getAllRawHeaders()
            if name.lower() not in _NOT_PASSED_BACK
            for value in values
        ]
        kind = _content_type(list(_pairs(answer.headers)), b"")
        return StreamResponse(lambda http: pipe(answer, http), answer.code, kind, kept)

    async def fetch(
        self, ctx: RequestContext, target: Target, method: bytes, headers: Headers, body: IBodyProducer | None = None
    ) -> IResponse:
        """The answer of a Twisted Agent.  Raises Unreachable."""
        trace = ctx.trace
        if trace is not None:
            for name, values in trace.headers.items():
                headers.setRawHeaders(name, values)
        try:
            answer = await ask(self._reactor, self.dialer, target, method, headers, body)
            check_code(answer.code)
            return answer
        except CancelledError:
            raise
        except Exception as error:  # whatever the network does
            if is_cancelled(error):
                raise CancelledError from None
            raise self._unreachable(ctx, error, target) from None

    async def _exchange(self, ctx: RequestContext, target: Target, headers: Headers, body: StreamedBody) -> Exchange:
        """The same for a body that has not come yet.  Raises Unreachable."""
        try:
            pairs = with_trace(ctx.trace, list(_pairs(headers)))
            answer = await exchange(self._reactor, target.endpoint(self.dialer), ctx, target.uri, pairs, body)
            check_code(answer.code)
            return answer
        except CancelledError:
            raise
        except Exception as error:  # whatever the network does
            raise self._unreachable(ctx, error, target) from None

    @staticmethod
    def _unreachable(ctx: RequestContext, error: Exception, target: Target) -> Unreachable:
        log.info("connecting failed: {error} (audit id {audit_id})", error=error, audit_id=ctx.audit_id)
        return Unreachable(_why(error, target))


def _pairs(headers: Headers) -> Iterator[tuple[bytes, bytes]]:
    return ((name, value) for name, values in headers.getAllRawHeaders() for value in values)


def _content_type(headers: list[tuple[bytes, bytes]], default: bytes = b"text/plain; charset=utf-8") -> bytes:
    return next((value for name, value in headers if name.lower() == b"content-type"), default)


def _host(ctx: RequestContext, target: Target) -> bytes:
    """The client's, which backends that serve several names go by."""
    return (ctx.header("host") or "").encode() or target.netloc


def _relocated(location: bytes, target: Target, prefix: bytes, asked: bytes) -> bytes:
    """A redirect of the backend to itself, as the client has to follow it."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc not in (target.netloc, target.host.encode(), asked):
        return location
    if not parts.path.startswith(b"/") or parts.path.startswith(prefix):
        return location
    return prefix + parts.path + (b"?" + parts.query if parts.query else b"")


def beginning(answer: BackendAnswer, limit: int) -> Awaitable[bytes]:
    """The first bytes of an Agent's answer, at most ``limit``; the rest is not waited for."""
    done: Deferred[bytes] = Deferred()
    answer.deliverBody(_Beginning(limit, done))
    return done


class _Beginning(Protocol):
    def __init__(self, limit: int, done: Deferred[bytes]) -> None:
        self._limit = limit
        self._done = done
        self._data = b""

    def dataReceived(self, data: bytes) -> None:
        self._data += data[: self._limit - len(self._data)]
        if len(self._data) >= self._limit:
            assert self.transport is not None
            self.transport.loseConnection()
            self._end()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end()

    def _end(self) -> None:
        if not self._done.called:
            self._done.callback(self._data)
