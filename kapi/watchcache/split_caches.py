"""Combines the watch caches of several stores (--redis-servers-overrides): each resource is in one of the stores.

Every store has its own history and its own revisions.  Upstream: a cacher for each resource, and revisions for each etcd cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from twisted.internet.defer import Deferred, DeferredList, FirstError, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery.gvk import GroupResource
from kapi.process.timers import Repeated
from kapi.request.pending import Pending
from kapi.store.errors import UnsuitableStore
from kapi.store.interface import Store
from kapi.store.storage_size import store_id
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches
from kapi.watchcache.entry import Fields
from kapi.watchcache.observers import Observer

log = Logger()


class SplitCaches:
    """``main`` holds the resources that are not in ``others``.  ``parts`` are in order of the stores' numbers (``store_id``)."""

    def __init__(self, main: Caches, others: Mapping[GroupResource, Caches], reactor: IReactorTime) -> None:
        self.main = main
        self._others = others
        self.parts: Sequence[Caches] = (main, *dict.fromkeys(others.values()))
        self._reactor = reactor
        self._ticker = Repeated(self._tick, reactor, "bookmarks and the trimming of history")
        self._stopping = False

    def of(self, resource: GroupResource) -> Caches:
        """The caches of the store that holds a resource."""
        return self._others.get(resource, self.main)

    # -- for readers

    def cache(self, resource: GroupResource, fields: Fields | None = None, namespaced: bool | None = None) -> Cache:
        return self.of(resource).cache(resource, fields, namespaced)

    def find(self, resource: GroupResource) -> Cache | None:
        return self.of(resource).find(resource)

    def remove(self, resource: GroupResource) -> None:
        self.of(resource).remove(resource)

    def all(self) -> list[Cache]:
        return [cache for part in self.parts for cache in part.all()]

    def observe(self, observer: Observer) -> None:
        for part in self.parts:
            part.observe(observer)

    def ignore(self, observer: Observer) -> None:
        for part in self.parts:
            part.ignore(observer)

    @property
    def ready(self) -> bool:
        return all(part.ready for part in self.parts)

    @property
    def revision(self) -> int:
        """The main store's revision."""
        return self.main.revision

    @property
    def pending(self) -> Pending | None:
        return self.main.pending

    @pending.setter
    def pending(self, pending: Pending | None) -> None:
        for part in self.parts:
            part.pending = pending

    def wait_fresh(self) -> Deferred[None] | None:
        """Waits until every write that any store acknowledged before the call is in the caches.  Errs with StoreUnavailable."""
        waiting = [deferred for deferred in (part.wait_fresh() for part in self.parts) if deferred is not None]
        return Deferred.fromCoroutine(_all(waiting)) if waiting else None

    def behind(self) -> str:
        return "; ".join(filter(None, (part.behind() for part in self.parts)))

    # -- starting and stopping

    async def start(self) -> None:
        """Starts all stores.  Raises UnsuitableStore, StoreUnavailable when one fails; the others are then stopped."""
        starting = [Deferred.fromCoroutine(part.start()) for part in self.parts]
        try:
            await _all(starting)
            self._check_distinct()
        except Exception:
            await self._end()
            raise
        self._ticker.start(1.0)

    def _check_distinct(self) -> None:
        """Raises UnsuitableStore when two of the stores are the same: they would mistake each other's revisions for gaps."""
        known: dict[bytes, int] = {}
        for number, part in enumerate(self.parts):
            other = known.setdefault(part.store.run, number) if part.store.run else number
            if other != number:
                raise UnsuitableStore(
                    f"--redis-servers-overrides: {store_id(number)} is the same store as {store_id(other)}: give it one URL, "
                    "or another database"
                )

    async def stop(self) -> None:
        """Ends all watches and the stores."""
        self._ticker.stop()
        await self._end()

    async def _end(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        stopping = [Deferred.fromCoroutine(part.stop()) for part in self.parts]
        for succeeded, failure in await DeferredList(stopping, consumeErrors=True):
            if not succeeded:
                log.failure("a store could not be stopped in order", failure)

    def _tick(self) -> None:
        for part in self.parts[1:]:  # the main store's caches have their own ticker
            part.tick()


#: the caches of a server with one store or with several
AnyCaches = Caches | SplitCaches


async def caught_up(caches: AnyCaches) -> None:
    """With several stores, waits until observers have received every write acknowledged before the call.

    With one store it returns at once: events are in order there, so any later event implies the earlier ones.  Raises
    StoreUnavailable.
    """
    if len(caches.parts) > 1:
        waiting = caches.wait_fresh()
        if waiting is not None:
            await waiting
        for part in caches.parts:  # events are dispatched at the end of the turn, or in later ones
            waiting = part.wait_observed()
            if waiting is not None:
                await waiting


def split(
    main: Caches,
    overrides: Mapping[GroupResource, Store],
    make: Callable[[Store, Callable[[GroupResource], bool]], Caches],
    reactor: IReactorTime,
) -> SplitCaches:
    """``make(store, keeps)`` must return the caches of a store that holds the resources for which ``keeps`` is true."""

    def keeps(store: Store) -> Callable[[GroupResource], bool]:
        return lambda resource: overrides.get(resource) is store

    made = {store: make(store, keeps(store)) for store in dict.fromkeys(overrides.values())}
    return SplitCaches(main, {resource: made[store] for resource, store in overrides.items()}, reactor)


async def _all(waiting: Iterable[Deferred[None]]) -> None:
    """Waits for all; raises the error of the first one that fails."""
    try:
        await gatherResults(list(waiting), consumeErrors=True)
    except FirstError as first:
        raise first.subFailure.value from None  # type: ignore[misc]
