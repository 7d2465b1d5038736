"""Connections and requests to kubelets, pods and services (upstream: the ``ProxyREST`` and ``LogREST`` of core)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IStreamClientEndpoint
from twisted.logger import Logger

from kapi.endpoints.passing import check_code
from kapi.endpoints.proxy_handler import Destination, NotPassedOn, NotUpgraded, ProxyHandler
from kapi.endpoints.tunnel import Throttle
from kapi.machinery import status
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.trace import with_trace
from kapi.wire.answer import Answer
from kapi.wire.collected import Collected
from kapi.wire.dial import Dialer
from kapi.wire.egress import CLUSTER, DIRECT, Egress
from kapi.wire.network_errors import describe
from kapi.wire.pool import Pool
from kapi.wire.tls.trust import client_options, identity

log = Logger()
CONNECT_TIMEOUT = 5.0  # seconds


class TLS(msgspec.Struct, frozen=True):
    """The CA that verifies a backend, and our client certificate; all PEM.  Without a CA nothing is verified."""

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = b""

    def creator(self, name: str) -> IOpenSSLClientConnectionCreator:
        """The object that makes Twisted's TLS connections.  Raises ValueError for invalid PEM."""
        try:
            own = identity(self.certificate, self.key)
            return client_options(name, self.ca, own, insecure=not self.ca, tolerant=True)
        except ValueError as error:
            raise ValueError(f"cannot read certificates: {error}") from None


UNVERIFIED = TLS()


class Target(msgspec.Struct, frozen=True):
    """The server that a request goes to.  ``path`` and ``query`` are as sent.

    ``proxied``: a user chose the host, so it must not be this machine.  ``addresses`` are those of the host, when they have been
    looked up and checked already.
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
        tls = self.tls.creator(self.host) if self.scheme == "https" else None
        return dialer.endpoint(self.host, self.port, tls, proxied=self.proxied, addresses=self.addresses)

    def pool(self, dialer: Dialer) -> Pool:
        """Connections of which each is for one request."""
        return Pool(dialer.reactor, self.endpoint(dialer).connect, idle_seconds=0.0)


class Unreachable(Exception):
    """A target did not answer; common errors have Go's texts."""


class Transport:
    """Sends requests to targets, and passes clients' requests on to them.

    ``timeout``: seconds for making a connection; ``rate``: maximum bytes per second of a tunnel in each direction, 0 for no
    limit.
    """

    def __init__(
        self, reactor: Reactor, timeout: float = CONNECT_TIMEOUT, rate: int = 0, egress: Egress = DIRECT
    ) -> None:
        limit = partial(Throttle, bytes_per_second=rate, clock=reactor) if rate else None
        self._handler = ProxyHandler(reactor, limit=limit)
        self.dialer = Dialer(reactor, timeout, egress.proxy(CLUSTER))

    async def pass_on(self, ctx: RequestContext, target: Target, prefix: bytes = b"") -> Response:
        """The backend's answer, or a tunnel to it.  A redirect goes back to the client, with ``prefix`` in front of its path."""
        host = (
            ctx.header("host") or ""
        ).encode() or target.netloc  # backends that serve several names choose by the Host header
        destination = Destination(
            uri=target.uri,
            host=host,
            dialed=(target.host, target.port),
            connect=lambda: target.endpoint(self.dialer),
            pool=lambda: target.pool(self.dialer),
            forwarded=[(b"X-Forwarded-Uri", prefix + target.path)] if prefix else [],
            relocated=lambda location: _relocated(location, target, prefix, host),
        )
        try:
            return await self._handler.handle(ctx, destination)
        except NotUpgraded as problem:
            raise status.generic(str(problem)) from None
        except NotPassedOn as problem:
            raise status.ServiceUnavailable(str(problem)) from None

    async def get(self, ctx: RequestContext, target: Target) -> Answer:
        """Sends a GET of the server's own.  Raises Unreachable."""
        headers = with_trace(ctx.trace, [(b"Host", target.netloc)])
        try:
            answer = await target.pool(self.dialer).send(b"GET", target.uri, headers)
            check_code(answer)
            return answer
        except CancelledError:
            raise
        except Exception as error:  # any network error
            text = describe(error, target.host, target.port)
            log.info("connecting failed: {text} (audit id {audit_id})", text=text, audit_id=ctx.audit_id)
            raise Unreachable(text) from None


def _relocated(location: bytes, target: Target, prefix: bytes, asked: bytes) -> bytes:
    """The Location of a redirect: the client must reach the backend's own paths through the proxy."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc not in (target.netloc, target.host.encode(), asked):
        return location
    if not parts.path.startswith(b"/") or parts.path.startswith(prefix):
        return location
    return prefix + parts.path + (b"?" + parts.query if parts.query else b"")


def beginning(answer: Answer, limit: int) -> Awaitable[bytes]:
    """The first bytes of a response's body, at most ``limit``; does not wait for the rest."""
    return Collected(limit, cut=True).read(answer)
