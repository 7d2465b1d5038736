"""The client library over an API server in memory: one process, no sockets, and a clock that the test advances.

::

    api = await MemoryAPI.started()
    client = memory_client(api)
    pods = (await client.resource("pods")).namespace("default")

Timers use ``api.clock``, which ``api.turn(seconds)`` advances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from kapi.client.discovery import APIGroup, APIResource, Discovered
from kapi.client.dynamic import DynamicClient
from kapi.client.mapper import RESTMapper
from kapi.client.session import Session
from kapi.request.http import HTTPRequest
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI
from kapi.wire.transport import Header, Response, Stream


class _Request(MemoryRequest):
    """A request whose answer goes to a client of the library."""

    def __init__(
        self,
        method: str,
        uri: str,
        headers: dict[str, str],
        body: bytes,
        *,
        answer: Deferred[Response],
        streaming: bool,
    ) -> None:
        super().__init__(method, uri, headers, body)
        self._answer = answer
        self._streaming = streaming
        self.stream: Stream | None = None

    def write(self, data: bytes) -> None:
        if self._streaming and self.code < 300:
            if self.stream is None:
                self.stream = Stream(self._flow, self._closed)
                self._answer.callback(Response(self.code, self.responseHeaders, stream=self.stream))
            if data:
                self.stream.feed(data)
            return
        super().write(data)

    def _flow(self, wait: bool) -> None:
        if self.producer is not None:
            (self.producer.pauseProducing if wait else self.producer.resumeProducing)()

    def _closed(self) -> None:
        if not self.gone:
            self.disconnect()

    def finish(self) -> None:
        super().finish()
        if self.stream is not None:
            self.stream.finish()
        elif not self._answer.called:
            self._answer.callback(Response(self.code, self.responseHeaders, self.written))

    def abort(self) -> None:
        self.lose()

    def lose(self) -> None:
        """Simulates a broken connection."""
        if not self.gone:
            self.disconnect()
        why = Failure(ConnectionLost())
        if self.stream is not None:
            self.stream.finish(why)
        elif not self._answer.called:
            self._answer.errback(why)


class MemoryTransport:
    """A Transport.  ``lose`` breaks the connections of running requests; while ``down`` is set, new requests fail."""

    def __init__(self, api: MemoryAPI) -> None:
        self.api = api
        self.down = False
        self.requests: list[tuple[str, str]] = []  # method and target of each
        self._running: list[_Request] = []

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        self.requests.append((method, target))
        answer: Deferred[Response] = Deferred(lambda _: request.disconnect())
        given = {name.decode(): value.decode() for name, value in headers}
        request = _Request(method, target, given, body or b"", answer=answer, streaming=streaming)
        if self.down:
            answer.errback(ConnectionLost())
            return answer
        self._running = [one for one in self._running if not (one.finished or one.gone)] + [request]
        self.api.runner.serve(cast(HTTPRequest, request))  # it has what the runner uses
        return answer

    def lose(self) -> None:
        running, self._running = self._running, []
        for request in running:
            if not (request.finished or request.gone):
                request.lose()

    def close(self) -> Deferred[None]:
        self.lose()
        return succeed(None)


class _Catalogue:
    """Discovery without requests, from the rows of the server."""

    def __init__(self, api: MemoryAPI) -> None:
        self._api = api

    async def discover(self) -> Discovered:
        rows = [
            APIResource(
                row.group, row.version, row.plural, row.kind, row.namespaced, row.verbs, row.short_names,
                row.categories, row.singular,
            )
            for row in self._api.rows
        ]  # fmt: skip
        versions: dict[str, dict[str, None]] = {}
        for one in rows:
            versions.setdefault(one.group, {})[one.version] = None
        return Discovered(
            [APIGroup(group, tuple(known), next(iter(known))) for group, known in versions.items()], rows, {}
        )


def memory_client(api: MemoryAPI, transport: MemoryTransport | None = None) -> DynamicClient:
    """A client of the server, with its clock."""
    session = Session(
        api.clock, transport or MemoryTransport(api), headers=[(b"User-Agent", b"kapi-testing")], limiter=None
    )
    return DynamicClient(session, RESTMapper(_Catalogue(api)))
