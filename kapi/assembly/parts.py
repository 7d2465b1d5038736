"""What a server consists of once it is put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.logger import Logger

from kapi.audit.build import Auditor
from kapi.filters.chain import FilterChain
from kapi.filters.shutdown import RequestWaitGroup

if TYPE_CHECKING:
    from kapi.filters.tracing import RequestTracing  # of an extra, loaded when it is asked for
from kapi.flowcontrol.rounds import Rounds
from kapi.registry.registry import Registry
from kapi.server.generic import GenericServer
from kapi.server.lifecycle import Hooks
from kapi.server.metrics import Metrics
from kapi.server.slices import Slices
from kapi.watchcache.caches import Caches

_log = Logger()


class Assembly:
    """The parts that run."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.requests = RequestWaitGroup()
        self.watches = RequestWaitGroup()
        self.stopping = False  # not ready any more
        self.refusing = False  # takes no requests any more
        self.reloaders: list[Callable[[], object]] = []
        self.caches: Caches
        self.registry: Registry
        self.server: GenericServer
        self.chain: FilterChain
        #: makes a chain from a way to find the endpoint, and filters that come before all others or behind them
        self.chain_by: Callable[..., FilterChain]
        self.auditor: Auditor | None = None
        self.tracing: RequestTracing | None = None
        self.rounds: Rounds | None = None  # without priority and fairness all work is done as it comes
        self.slices: Slices
        self.hooks: Hooks

    def reload(self) -> None:
        for reload in self.reloaders:
            try:
                reload()
            except Exception:  # what one file has keeps no other from being read
                _log.failure("reading files again failed")
