"""HTTPS requests to configured servers: webhooks and identity providers.

Certificates are verified against the configured CA (or the system's) and the host name by service-identity; redirects
are not followed, answers are bounded, and everything has a timeout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from OpenSSL import crypto
from treq.client import HTTPClient
from twisted.internet import ssl
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from twisted.internet.protocol import Protocol
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IPolicyForHTTPS
from zope.interface import implementer

from kapi.client.dialer import CONNECT_TIMEOUT, Dialer
from kapi.client.head import checked
from kapi.client.kubeconfig import Endpoint

MAX_ANSWER = 4 * 1024 * 1024  # bytes


class AnswerTooLarge(Exception):
    """The server sent more than is read."""


class Answer(NamedTuple):
    status: int
    headers: Any
    body: bytes


@implementer(IPolicyForHTTPS)
class _Policy:
    """TLS as one endpoint wants it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        trust: Any = None
        if endpoint.ca:
            blocks = endpoint.ca.split(b"-----BEGIN CERTIFICATE-----")[1:]
            trust = ssl.trustRootFromCertificates(
                [ssl.Certificate.loadPEM(b"-----BEGIN CERTIFICATE-----" + block) for block in blocks]
            )
        own = None
        if endpoint.certificate:
            own = ssl.PrivateCertificate.fromCertificateAndKeyPair(
                ssl.Certificate.loadPEM(endpoint.certificate),
                ssl.KeyPair.load(endpoint.key, crypto.FILETYPE_PEM),
            )
        self._trust, self._own = trust, own

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:
        name = self.endpoint.server_name or hostname.decode("ascii")
        more = {} if self._trust is None else {"trustRoot": self._trust}
        return ssl.optionsForClientTLS(name, clientCertificate=self._own, **more)


@implementer(IAgentEndpointFactory)
class _Endpoints:
    def __init__(self, policy: _Policy, dialer: Dialer) -> None:
        self._policy, self._dialer = policy, dialer

    def endpointForURI(self, uri: Any) -> IStreamClientEndpoint:
        host: bytes = uri.host
        if uri.scheme != b"https":
            raise ValueError(f"URL scheme must be https: {uri.scheme.decode('ascii', 'replace')}")
        creator = self._policy.creatorForNetloc(host, uri.port)
        wrapped: IStreamClientEndpoint = wrapClientTLS(creator, self._dialer.endpoint(host.decode("ascii"), uri.port))
        return wrapped


def abort(transport: Any) -> None:
    """Ends the connection under an Agent's answer at once; its own way waits for the server to agree."""
    inner = getattr(transport, "_producer", None) or transport
    (getattr(inner, "abortConnection", None) or inner.loseConnection)()


class _Bounded(Protocol):
    def __init__(self, limit: int, done: Deferred[bytes]) -> None:
        self.limit, self.done, self.pieces, self.size = limit, done, [], 0  # type: ignore[var-annotated]

    def dataReceived(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self.limit:
            if (
                not self.done.called
            ):  # first: what comes with the end of the connection must not pass for a whole answer
                self.pieces.clear()
                self.done.errback(AnswerTooLarge(f"the answer is longer than {self.limit} bytes"))
                abort(self.transport)
            return
        self.pieces.append(data)

    def connectionLost(self, reason: Any = None) -> None:
        if self.done.called:
            return
        if reason is None or reason.check(ResponseDone):
            self.done.callback(b"".join(self.pieces))
        else:
            self.done.errback(reason)


def _timed_out(result: Any, timeout: float) -> Any:
    """Whatever the connection makes of being cancelled."""
    raise TimeoutError(timeout, "Deferred")


class HTTPSClient:
    """Requests to one endpoint, on kept-alive connections."""

    def __init__(self, reactor: Any, endpoint: Endpoint, timeout: float = 30.0) -> None:
        if urlsplit(endpoint.url).scheme != "https":
            raise ValueError(f"URL scheme must be https: {endpoint.url}")
        self.endpoint = endpoint
        self._reactor: IReactorTCP = reactor
        self._timeout = timeout
        self._pool: Any = HTTPConnectionPool(reactor, persistent=True)
        dialer = Dialer(reactor, min(timeout, CONNECT_TIMEOUT))
        agent = Agent.usingEndpointFactory(reactor, _Endpoints(_Policy(endpoint), dialer), self._pool)
        self._http = HTTPClient(agent)

    def close(self) -> Deferred[None]:
        """Closes idle connections."""
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

    def _headers(self, more: Mapping[str, str]) -> Headers:
        headers = {"User-Agent": "kapi", "Accept": "application/json", **more}
        given = checked((name.encode(), value.encode()) for name, value in headers.items())  # Headers mends, unasked
        made = Headers({name: [value] for name, value in given})
        for name, value in checked(self.endpoint.headers):
            made.setRawHeaders(name, [value])
        return made

    async def request(
        self, method: str, url: str = "", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """``url``: absolute, on any path of any host; "" for the endpoint's own.

        Raises what the connection raises, AnswerTooLarge and TimeoutError.
        """
        running: Deferred[Answer] = Deferred.fromCoroutine(
            self._run(method, url or self.endpoint.url, body, headers or {})
        )
        running.addTimeout(self._timeout, self._reactor, _timed_out)  # type: ignore[arg-type]
        return await running

    async def _run(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        response: Any = await self._http.request(
            method, url, data=body, headers=self._headers(headers), allow_redirects=False
        )
        done: Deferred[bytes] = Deferred()
        response.original.deliverBody(_Bounded(MAX_ANSWER, done))
        return Answer(response.code, response.headers, await done)
