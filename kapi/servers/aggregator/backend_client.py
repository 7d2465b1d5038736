"""GET requests of the server itself to the servers behind APIServices, bounded in time and size."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

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
        from kapi.wire.agent import Agent  # imported only when it is used

        pool, host = self._backends.pool(key)
        headers = identity_headers(LOOPBACK_USER)
        if accept:
            headers.append((b"Accept", accept.encode()))
        if etag:
            headers.append((b"If-None-Match", etag.encode()))
        answer = await Agent(pool, headers).ask("GET", f"https://{host.decode()}{path}")
        collected = Collected(limit)
        answer.deliverBody(collected)
        body = await collected.done
        found = (answer.headers.getRawHeaders(name, [""])[0] for name in ("content-type", "etag"))
        return BackendAnswer(answer.code, body, *found)


def _late(_result: object, _seconds: float) -> NoReturn:
    """Raises one error in place of the agent's, which depend on how far the request has come."""
    raise TimeoutError("context deadline exceeded")
