"""An API server in memory: the real endpoints, registry, strategies and watch cache over the memory store.

No sockets, no files, no authentication; time is a Twisted ``Clock``.  The test passes admission plugins and the authorizer.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar, cast

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.admission.interface import AdmissionChain, Plugin
from kapi.authorization.fixed import AlwaysAllow
from kapi.authorization.interface import Authorizer
from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.filters.chain import FilterChain
from kapi.filters.request_info import received_timestamp, request_info
from kapi.machinery.lifecycles import CURRENT
from kapi.process.reactor import Reactor
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.user import ALL_AUTHENTICATED, UserInfo
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.servers.core.handlers import built_in_handlers
from kapi.servers.core.install import install, switched_off
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.routes import Version
from kapi.serving.run import RequestRunner
from kapi.serving.site import Connections
from kapi.store.memory import MemoryStore
from kapi.testing.http import MemoryRequest
from kapi.watchcache.caches import Caches

EPOCH = 1_700_000_000.0
TESTER = UserInfo("tester", groups=(ALL_AUTHENTICATED,))

Result = TypeVar("Result")


class _Alone(Clock):
    """A clock in the place of a reactor, without threads and network: what is not refused at once is never answered."""

    def addReader(self, reader: object) -> None:
        pass

    addWriter = removeReader = removeWriter = addReader


class MemoryAPI:
    """``await MemoryAPI.started()`` makes one that is ready; ``ask`` sends a request."""

    def __init__(
        self,
        rows: Iterable[Resource] = BUILT_IN,
        plugins: Iterable[Plugin] = (),
        authorizer: Authorizer | None = None,
        user: UserInfo = TESTER,
    ) -> None:
        self.clock = _Alone()
        self.clock.advance(EPOCH)
        self.user = user
        self.store = MemoryStore(self.clock, self.clock.seconds)
        self.caches = Caches(self.store, self.clock)
        self.environment = Environment(self.clock, clock=self.clock.seconds)
        self.environment.authorizer = authorizer or AlwaysAllow()
        self.registry = Registry(self.store, self.caches, AdmissionChain(list(plugins)), self.environment)
        self.server = GenericServer("kube-apiserver", NotFound())
        self.server.app.include(Version(CURRENT))
        self.table = self.server.table
        self.rows = list(rows)
        install(self.table, self.registry, self.rows)
        self.registry.stores.off = switched_off(self.registry)
        self.server.fixed_groups = frozenset(self.table.groups())
        reactor = cast(Reactor, self.clock)
        self.table.handlers.update(built_in_handlers(self.registry, reactor, KubeletSettings()))
        self.site = Connections(self.server, reactor)
        filters = [received_timestamp(self.clock.seconds), request_info, self._identify]
        self.runner = RequestRunner(FilterChain(filters, self.site.answer), reactor)
        self.site.run_by(self.runner)

    @classmethod
    async def started(cls, rows: Iterable[Resource] = BUILT_IN, *, authorizer: Authorizer | None = None) -> MemoryAPI:
        api = cls(rows, authorizer=authorizer)
        await api.caches.start()
        return api

    def _identify(self, ctx: RequestContext) -> None:
        ctx.user = self.user

    def ask(
        self, method: str, uri: str, body: object = None, *, headers: dict[str, str] | None = None, type: str = ""
    ) -> MemoryRequest:
        """Sends a request, which is already answered on return unless it has to wait.

        ``body`` is bytes, text, or a tree that is sent as JSON.
        """
        given = {"User-Agent": "tests/1", **(headers or {})}
        if body is not None:
            given.setdefault("Content-Type", type or "application/json")
        data = body if isinstance(body, bytes) else b"" if body is None else _encoded(body)
        request = MemoryRequest(method, uri, given, data)
        self.runner.serve(request)
        return request

    def turn(self, seconds: float = 0.0) -> None:
        """Advances the clock, and so runs scheduled calls."""
        self.clock.advance(seconds)


def _encoded(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else orjson.dumps(body)


def succeed(coroutine: Coroutine[Deferred[object], object, Result]) -> Result:
    """The result of a coroutine that never waits.  Raises its error, or AssertionError when it waits."""
    results: list[Any] = []
    Deferred.fromCoroutine(coroutine).addBoth(results.append)
    if not results:
        raise AssertionError("the coroutine waits")
    if isinstance(results[0], BaseException) or hasattr(results[0], "raiseException"):
        results[0].raiseException()
    found: Result = results[0]
    return found
