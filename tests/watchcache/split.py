"""A registry over two stores in memory, and a store that hands its changes on when the test says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from twisted.internet.task import Clock

from kapi.admission.interface import AdmissionChain
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.gvk import GroupResource
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry
from kapi.resources.catalogue import BUILT_IN
from kapi.servers.core.install import install
from kapi.store.interface import Change, Follower, StoredObject
from kapi.store.memory import MemoryStore
from kapi.watchcache.caches import Caches
from kapi.watchcache.split_caches import SplitCaches, split


class LaggingStore(MemoryStore):
    """As one that others write to as well: with ``lags`` its changes wait for ``catch_up``."""

    exclusive = False
    lags = False

    async def start(self, follower: Follower | None = None) -> None:
        self._own = follower
        self._held: list[Change] = []
        await super().start(self)

    def reset(self, objects: Iterable[StoredObject], history: Sequence[Change], revision: int) -> None:
        assert self._own is not None
        self._own.reset(objects, history, revision)

    def changed(self, changes: Sequence[Change]) -> None:
        self._held += changes
        if not self.lags:
            self.catch_up()

    def catch_up(self) -> None:
        """Hands on what has waited."""
        assert self._own is not None
        held, self._held = self._held, []
        if held:
            self._own.changed(held)


class SplitRegistry:
    """``apart`` are in the store ``other``."""

    def __init__(self, *apart: GroupResource) -> None:
        self.clock = Clock()
        self.clock.advance(1_700_000_000.0)
        self.main, self.other = (LaggingStore(self.clock, self.clock.seconds) for _ in range(2))
        main = Caches(self.main, self.clock, keeps=lambda resource: resource not in apart)

        def make(store: Any, keeps: Any) -> Caches:
            return Caches(store, self.clock, main=main, keeps=keeps)

        self.caches: SplitCaches = split(main, dict.fromkeys(apart, self.other), make, self.clock)
        environment = Environment(self.clock, clock=self.clock.seconds)
        self.registry = Registry(self.main, self.caches, AdmissionChain(), environment)
        install(ResourceTable(), self.registry, BUILT_IN)

    def pass_time(self, seconds: float = 3.0) -> None:
        for _ in range(int(seconds * 10)):
            self.clock.advance(0.1)
