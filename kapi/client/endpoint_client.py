"""Requests to a configured server, such as a webhook or an identity provider: by https, or by http where a kubeconfig says so.

Certificates are verified against the configured CA (or the system's) and the host name by service-identity, unless a kubeconfig
has ``insecure-skip-tls-verify``.  A redirect leads to no other scheme, the size of
answers is limited, and every request has a timeout.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.web.http_headers import Headers

from kapi.client.exchange import AnswerTooLarge as AnswerTooLarge
from kapi.client.exchange import Exchange
from kapi.client.kubeconfig import Endpoint
from kapi.client.rest_url import rest_url
from kapi.machinery.golang import duration_text
from kapi.process.reactor import Reactor
from kapi.wire.agent import Agent
from kapi.wire.dial import CONNECT_TIMEOUT, Dialer
from kapi.wire.egress import EgressProxy
from kapi.wire.head import checked
from kapi.wire.http2.pool import NegotiatingPool, offered_protocols
from kapi.wire.pool import Pool
from kapi.wire.tls.faults import WEBHOOKS
from kapi.wire.tls.trust import client_options, identity
from kapi.wire.transport import Response

_MAX_HOSTS = 20
_PORTS = {"https": 443, "http": 80}
MAX_ANSWER = 4 * 1024 * 1024  # bytes


class EndpointClient:
    """Sends requests to one endpoint, on kept-alive connections.  ``proxy`` is an egress selection's proxy.

    ``url`` is the endpoint's as client-go's REST client asks it: without a query of its own, with the time-out.
    """

    def __init__(
        self, reactor: Reactor, endpoint: Endpoint, timeout: float = 30.0, proxy: EgressProxy | None = None
    ) -> None:
        self.endpoint = endpoint
        self._scheme = urlsplit(endpoint.url).scheme
        if self._scheme not in _PORTS:
            raise ValueError(f"URL scheme must be https: {endpoint.url}")
        self.url = f"{rest_url(endpoint.url)}?timeout={duration_text(timeout)}"
        self._reactor = reactor
        self._timeout = timeout
        self._dialer = Dialer(reactor, min(timeout, CONNECT_TIMEOUT), proxy)
        self._own = identity(endpoint.certificate, endpoint.key)
        self._options(urlsplit(endpoint.url).hostname or "")  # so that an invalid bundle is an error at once
        self._agents: OrderedDict[tuple[str, int], Agent] = OrderedDict()
        self._exchange = Exchange(reactor, self._agent, MAX_ANSWER)

    def _options(self, host: str) -> IOpenSSLClientConnectionCreator:
        endpoint = self.endpoint
        name = endpoint.server_name or host
        return client_options(name, endpoint.ca, self._own, insecure=endpoint.insecure, tolerant=True)

    def _agent(self, url: str) -> Agent:
        """The connections to the host of a URL.  Raises ValueError for a scheme other than the endpoint's."""
        parsed = urlsplit(url)
        if parsed.scheme != self._scheme:
            raise ValueError(f"URL scheme must be {self._scheme}: {parsed.scheme}")
        key = host, port = parsed.hostname or "", parsed.port or _PORTS[parsed.scheme]
        found = self._agents.pop(key, None)
        if found is None:
            tls = self._options(host) if self._scheme == "https" else None
            faults = None if self.endpoint.insecure or tls is None else WEBHOOKS
            if tls is None:
                pool = Pool(self._reactor, self._dialer.endpoint(host, port).connect)
            else:
                endpoint = self._dialer.endpoint(host, port, tls, faults=faults, protocols=offered_protocols())
                pool = NegotiatingPool(self._reactor, endpoint.connect)
            found = Agent(pool, self.endpoint.headers)
        self._agents[key] = found
        if len(self._agents) > _MAX_HOSTS:
            self._agents.popitem(last=False)[1].pool.close()
        return found

    def close(self) -> Deferred[list[None]]:
        """Closes idle connections at once and busy ones after their answer; fires when none is open."""
        return gatherResults([agent.pool.close() for agent in self._agents.values()])

    async def request(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """``url``: an absolute URL, of any host.

        Raises the errors of the connection, AnswerTooLarge, BrokenBody and TimeoutError.
        """
        given = {"User-Agent": "kapi", "Accept": "application/json", **(headers or {})}
        return await self._exchange.request(method, url, body, _checked(given), self._timeout, retries=False)

    async def post(self, body: bytes) -> Response:
        """Posts JSON to the endpoint's own URL, and again when the answer asks for it.  Raises as ``request``."""
        return await self._exchange.request("POST", self.url, body, _POST, self._timeout, retries=True)


def _checked(given: Mapping[str, str]) -> Headers:
    """Headers, checked before Headers silently repairs invalid values.  Raises BadHead."""
    pairs = checked((name.encode(), value.encode()) for name, value in given.items())
    return Headers({name: [value] for name, value in pairs})


_POST = _checked({"User-Agent": "kapi", "Accept": "application/json", "Content-Type": "application/json"})
