"""Questions of our own to the servers behind APIServices: a GET, bounded in time and size."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent

from kapi.aggregator.backend import Backends
from kapi.client.collected import Collected
from kapi.client.head import identity_headers
from kapi.request.user import LOOPBACK_USER

MAX_ANSWER = 16 * 1024 * 1024  # bytes of an OpenAPI document
MAX_DISCOVERY = 1024 * 1024  # bytes of the list of a group version's resources, which becomes part of our own


class Questions:
    """Asks as ourselves.  ``backends`` knows where each APIService's server is, under its name."""

    def __init__(self, reactor: IReactorTime, backends: Backends) -> None:
        self._reactor: IReactorTime = reactor
        self._backends = backends

    @cached_property
    def _agent(self) -> IAgent:
        from twisted.web.client import Agent, HTTPConnectionPool  # for those alone who use it

        pool = HTTPConnectionPool(self._reactor, persistent=False)
        agent: IAgent = Agent.usingEndpointFactory(self._reactor, self._backends, pool)
        return agent

    async def get(self, key: str, path: str, seconds: float, limit: int = 0) -> tuple[int, bytes]:
        """Status and body, of at most ``limit`` bytes.  Raises whatever goes wrong, a TimeoutError after ``seconds``."""
        request: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._get(key, path, limit or MAX_ANSWER))
        request.addTimeout(seconds, self._reactor, _late)
        return await request

    async def _get(self, key: str, path: str, limit: int) -> tuple[int, bytes]:
        uri, host = self._backends.request(key, path.encode())
        headers = Headers({b"Accept": [b"application/json"], b"Host": [host]})
        for name, value in identity_headers(LOOPBACK_USER):
            headers.addRawHeader(name, value)
        answer = await self._agent.request(b"GET", uri, headers)
        collected = Collected(limit, until_close=True)
        answer.deliverBody(collected)
        try:
            return answer.code, await collected.done
        finally:
            collected.close()


def _late(_result: object, _seconds: float) -> NoReturn:
    """Whatever the agent makes of a request that is given up, which depends on how far it has come."""
    raise TimeoutError("context deadline exceeded")
