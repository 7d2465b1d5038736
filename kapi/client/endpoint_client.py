"""Requests to a configured server, such as a webhook or an identity provider: by https, or by http where a kubeconfig says so.

Certificates are verified against the configured CA (or the system's) and the host name by service-identity, unless a kubeconfig
has ``insecure-skip-tls-verify``.  Redirects are not followed, the size of answers is limited, and every request has a timeout.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred, TimeoutError, gatherResults
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.web.http_headers import Headers

from kapi.client import metrics
from kapi.client.kubeconfig import Endpoint
from kapi.client.rest_url import rest_url
from kapi.machinery.golang import duration_text
from kapi.process.reactor import Reactor
from kapi.wire.agent import Agent
from kapi.wire.answer import AnswerTooLarge as AnswerTooLarge
from kapi.wire.collected import Collected
from kapi.wire.dial import CONNECT_TIMEOUT, Dialer
from kapi.wire.egress import EgressProxy
from kapi.wire.head import checked
from kapi.wire.http2.pool import NegotiatingPool, offered_protocols
from kapi.wire.pool import Pool
from kapi.wire.tls.faults import WEBHOOKS
from kapi.wire.tls.trust import client_options, identity

_MAX_HOSTS = 20
_PORTS = {"https": 443, "http": 80}
MAX_ANSWER = 4 * 1024 * 1024  # bytes


class Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


def _timed_out(result: object, timeout: float) -> NoReturn:
    """Replaces the error of the cancelled connection by TimeoutError."""
    raise TimeoutError(timeout, "Deferred")


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
                found = Agent(Pool(self._reactor, self._dialer.endpoint(host, port).connect))
            else:
                endpoint = self._dialer.endpoint(host, port, tls, faults=faults, protocols=offered_protocols())
                found = Agent(NegotiatingPool(self._reactor, endpoint.connect))
        self._agents[key] = found
        if len(self._agents) > _MAX_HOSTS:
            self._agents.popitem(last=False)[1].pool.close()
        return found

    def close(self) -> Deferred[list[None]]:
        """Closes idle connections at once and busy ones after their answer; fires when none is open."""
        return gatherResults([agent.pool.close() for agent in self._agents.values()])

    def _headers(self, more: Mapping[str, str]) -> Headers:
        headers = {"User-Agent": "kapi", "Accept": "application/json", **more}
        given = checked(
            (name.encode(), value.encode()) for name, value in headers.items()
        )  # checked before Headers, which silently repairs invalid values
        made = Headers({name: [value] for name, value in given})
        for name, value in checked(self.endpoint.headers):
            made.setRawHeaders(name, [value])
        return made

    async def request(
        self, method: str, url: str = "", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """``url``: an absolute URL, of any host; "" for its own.

        Raises the errors of the connection, AnswerTooLarge and TimeoutError.
        """
        target = url or self.url
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
        response = await self._agent(url).ask(method, url, body, self._headers(headers))
        collected = Collected(MAX_ANSWER)
        response.deliverBody(collected)
        return Answer(response.code, response.headers, await collected.done)
