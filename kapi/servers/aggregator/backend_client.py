"""GET requests of the server itself to the servers behind APIServices, bounded in time and size."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent

from kapi.request.user import LOOPBACK_USER
from kapi.servers.aggregator.backend import Backends
from kapi.wire.collected import Collected
from kapi.wire.head import identity_headers

MAX_ANSWER_BYTES = 16 * 1024 * 1024  # of an OpenAPI document
MAX_DISCOVERY_BYTES = 1024 * 1024  # of a group version's APIResourceList, which becomes part of discovery here


class BackendClient:
    """Requests are made as the loopback user.  ``backends`` has the server of each APIService, by its name."""

    def __init__(self, reactor: IReactorTime, backends: Backends) -> None:
        self._reactor: IReactorTime = reactor
        self._backends = backends

    @cached_property
    def _agent(self) -> IAgent:
        return self._backends.agent(self._reactor)

    async def get(self, key: str, path: str, seconds: float, limit: int = 0) -> tuple[int, bytes]:
        """(status code, body of at most ``limit`` bytes; 0: MAX_ANSWER_BYTES).

        Raises any error of the network, and TimeoutError after ``seconds``.
        """
        request: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._get(key, path, limit or MAX_ANSWER_BYTES))
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
    """Raises one error in place of the agent's, which depend on how far the request has come."""
    raise TimeoutError("context deadline exceeded")
