"""HTTPS requests to configured servers: webhooks and identity providers.

Certificates are verified against the configured CA (or the system's) and the host name by service-identity, unless a kubeconfig
has ``insecure-skip-tls-verify``.  Redirects are not followed, the size of answers is limited, and every request has a timeout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit

from treq.client import HTTPClient
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IStreamClientEndpoint
from twisted.web.client import URI, Agent, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IPolicyForHTTPS
from zope.interface import implementer

from kapi.client import metrics
from kapi.client.kubeconfig import Endpoint
from kapi.process.reactor import Reactor
from kapi.wire.answer import AnswerTooLarge as AnswerTooLarge
from kapi.wire.collected import Collected
from kapi.wire.dial import CONNECT_TIMEOUT, Dialer
from kapi.wire.egress import CONTROL_PLANE
from kapi.wire.head import checked
from kapi.wire.tls.client import counted
from kapi.wire.tls.faults import WEBHOOKS
from kapi.wire.tls.trust import client_options, identity

MAX_ANSWER = 4 * 1024 * 1024  # bytes


class Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


@implementer(IPolicyForHTTPS)
class _Policy:
    """The TLS options for one endpoint.  Raises ValueError for a bundle that cannot be read."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._own = identity(endpoint.certificate, endpoint.key)
        self._options(
            endpoint.server_name or urlsplit(endpoint.url).hostname or ""
        )  # a bundle that cannot be read is an error at once

    def creatorForNetloc(self, hostname: bytes, port: int) -> IOpenSSLClientConnectionCreator:
        options = self._options(self.endpoint.server_name or hostname.decode("ascii"))
        return options if self.endpoint.insecure else counted(options, WEBHOOKS)

    def _options(self, name: str) -> IOpenSSLClientConnectionCreator:
        return client_options(name, self.endpoint.ca, self._own, insecure=self.endpoint.insecure, tolerant=True)


@implementer(IAgentEndpointFactory)
class _Endpoints:
    def __init__(self, policy: _Policy, dialer: Dialer) -> None:
        self._policy, self._dialer = policy, dialer

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        host: bytes = uri.host
        if uri.scheme != b"https":
            raise ValueError(f"URL scheme must be https: {uri.scheme.decode('ascii', 'replace')}")
        creator = self._policy.creatorForNetloc(host, uri.port)
        wrapped: IStreamClientEndpoint = wrapClientTLS(creator, self._dialer.endpoint(host.decode("ascii"), uri.port))
        return wrapped


def _timed_out(result: object, timeout: float) -> NoReturn:
    """Replaces the error that the cancelled connection fails with."""
    raise TimeoutError(timeout, "Deferred")


class HTTPSClient:
    """Requests to one endpoint, on kept-alive connections.  ``network``: its name in an egress selection; "": always directly."""

    def __init__(
        self, reactor: Reactor, endpoint: Endpoint, timeout: float = 30.0, network: str = CONTROL_PLANE
    ) -> None:
        if urlsplit(endpoint.url).scheme != "https":
            raise ValueError(f"URL scheme must be https: {endpoint.url}")
        self.endpoint = endpoint
        self._reactor = reactor
        self._timeout = timeout
        self._pool = HTTPConnectionPool(reactor, persistent=True)
        dialer = Dialer(reactor, min(timeout, CONNECT_TIMEOUT), network)
        agent = Agent.usingEndpointFactory(reactor, _Endpoints(_Policy(endpoint), dialer), self._pool)
        self._http = HTTPClient(agent)

    def close(self) -> Deferred[None]:
        """Closes idle connections."""
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

    def _headers(self, more: Mapping[str, str]) -> Headers:
        headers = {"User-Agent": "kapi", "Accept": "application/json", **more}
        given = checked(
            (name.encode(), value.encode()) for name, value in headers.items()
        )  # before Headers, which repairs invalid values silently
        made = Headers({name: [value] for name, value in given})
        for name, value in checked(self.endpoint.headers):
            made.setRawHeaders(name, [value])
        return made

    async def request(
        self, method: str, url: str = "", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """``url``: an absolute URL, of any host; "" for the endpoint's own.

        Raises the errors of the connection, AnswerTooLarge and TimeoutError.
        """
        target = url or self.endpoint.url
        running: Deferred[Answer] = Deferred.fromCoroutine(self._run(method, target, body, headers or {}))
        running.addTimeout(self._timeout, self._reactor, _timed_out)
        began: float = self._reactor.seconds()
        answer: Answer | None = None
        try:
            answer = await running
        finally:
            code, size = (None, 0) if answer is None else (answer.status, len(answer.body))
            took = self._reactor.seconds() - began
            metrics.sent(method, urlsplit(target).netloc.rpartition("@")[2], code, took, len(body or b""), size)
        return answer

    async def _run(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        response = await self._http.request(
            method, url, data=body, headers=self._headers(headers), allow_redirects=False
        )
        collected = Collected(MAX_ANSWER)
        response.original.deliverBody(collected)
        return Answer(response.code, response.headers, await collected.done)
