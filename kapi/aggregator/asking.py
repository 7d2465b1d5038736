"""Questions of our own to the servers behind APIServices: a GET, bounded in time and size."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers

from kapi.aggregator.backend import Backends
from kapi.client.head import identity_headers
from kapi.client.https import abort
from kapi.request.user import LOOPBACK_USER

MAX_ANSWER = 16 * 1024 * 1024  # bytes of a discovery or OpenAPI document


class Questions:
    """Asks as ourselves.  ``backends`` knows where each APIService's server is, under its name."""

    def __init__(self, reactor: Any, backends: Backends) -> None:
        self._reactor: IReactorTime = reactor
        self._agent = Agent.usingEndpointFactory(reactor, backends, HTTPConnectionPool(reactor, persistent=False))

    async def get(self, key: str, path: str, seconds: float) -> tuple[int, bytes]:
        """Status and body.  Raises whatever goes wrong, a TimeoutError after ``seconds``."""
        request: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._get(key, path))
        request.addTimeout(seconds, self._reactor)
        return await request

    async def _get(self, key: str, path: str) -> tuple[int, bytes]:
        headers = Headers({b"Accept": [b"application/json"]})
        for name, value in identity_headers(LOOPBACK_USER):
            headers.addRawHeader(name, value)
        answer: Any = await self._agent.request(b"GET", f"https://{key}{path}".encode(), headers)
        done: Deferred[bytes] = Deferred()
        bounded = _Bounded(done)
        answer.deliverBody(bounded)
        try:
            return answer.code, await done
        finally:
            bounded.close()


class _Bounded(Protocol):
    """The body of an answer, unless it is too long."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done = done
        self._body = bytearray()
        self._over = False

    def close(self) -> None:
        """Ends the connection of a body that nobody waits for any more."""
        if not self._over and self.transport is not None:
            abort(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > MAX_ANSWER and not self._done.called:
            self._done.errback(ValueError("the answer is too long"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._over = True
        if self._done.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self._done.callback(bytes(self._body))
        else:
            self._done.errback(reason)
