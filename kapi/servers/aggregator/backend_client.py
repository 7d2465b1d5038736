"""GET requests of the server itself to the servers behind APIServices, bounded in time and size."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, NoReturn

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


class BackendAnswer(NamedTuple):
    """The answer of a server, with some of its headers, "" when they are missing."""

    code: int
    body: bytes
    content_type: str = ""
    etag: str = ""


class BackendClient:
    """Requests are made as the loopback user.  ``backends`` has the server of each APIService, by its name."""

    def __init__(self, reactor: IReactorTime, backends: Backends) -> None:
        self._reactor: IReactorTime = reactor
        self._backends = backends

    @cached_property
    def _agent(self) -> IAgent:
        return self._backends.agent(self._reactor)

    async def ask(
        self,
        key: str,
        path: str,
        seconds: float,
        limit: int = MAX_ANSWER_BYTES,
        accept: str = "application/json",
        etag: str = "",
    ) -> BackendAnswer:
        """The answer, with a body of at most ``limit`` bytes; an empty one with 304 for what still has this ``etag``.

        Raises any error of the network, and TimeoutError after ``seconds``.
        """
        request: Deferred[BackendAnswer] = Deferred.fromCoroutine(self._ask(key, path, limit, accept, etag))
        request.addTimeout(seconds, self._reactor, _late)
        return await request

    async def _ask(self, key: str, path: str, limit: int, accept: str, etag: str) -> BackendAnswer:
        uri, host = self._backends.request(key, path.encode())
        headers = Headers({b"Host": [host]})
        if accept:
            headers.addRawHeader(b"Accept", accept.encode())
        if etag:
            headers.addRawHeader(b"If-None-Match", etag.encode())
        for name, value in identity_headers(LOOPBACK_USER):
            headers.addRawHeader(name, value)
        answer = await self._agent.request(b"GET", uri, headers)
        collected = Collected(limit, until_close=True)
        answer.deliverBody(collected)
        try:
            body = await collected.done
        finally:
            collected.close()
        found = (answer.headers.getRawHeaders(name, [""])[0] for name in ("content-type", "etag"))
        return BackendAnswer(answer.code, body, *found)


def _late(_result: object, _seconds: float) -> NoReturn:
    """Raises one error in place of the agent's, which depend on how far the request has come."""
    raise TimeoutError("context deadline exceeded")
