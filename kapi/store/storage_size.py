"""The size of the store (upstream: apiserver ``storage/etcd3/metrics``, apiserver_storage_size_bytes)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from prometheus_client.core import Metric
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery.meters import metric_family
from kapi.store.errors import StoreError

log = Logger()
Info = Callable[[], Awaitable[Mapping[str, str]]]


def store_id(number: int) -> str:
    """The name of a store in metrics and health checks; the main store has number 0.  Upstream numbers its etcd servers."""
    return f"redis-{number}"


class StorageSize:
    """The size of one store.  A scrape requests it for the next scrape, at most every ``interval`` seconds."""

    def __init__(self, info: Info, reactor: IReactorTime, interval: float) -> None:
        self._info, self._reactor, self._interval = info, reactor, interval
        self.bytes = 0  # 0: not known yet
        self._asked: float | None = None  # when a scrape has requested it
        self._asking = False

    async def ask(self) -> None:
        """Requests the size; it stays unchanged when the store cannot be reached."""
        self._asking = True
        try:
            self.bytes = size_of(await self._info())
        except StoreError:
            pass
        finally:
            self._asking = False

    def known(self) -> int:
        """The size in the last answer; 0 before there was one."""
        now = self._reactor.seconds()
        if not self._asking and (self._asked is None or now - self._asked >= self._interval):
            self._asked = now
            asking = Deferred.fromCoroutine(self.ask())
            asking.addErrback(lambda failure: log.failure("requesting the size of the store failed", failure))
        return self.bytes


def size_families(sizes: Sequence[StorageSize]) -> Callable[[], Iterator[Metric]]:
    """Returns what makes the metric; ``sizes`` are in the order of the stores' numbers."""

    def make() -> Iterator[Metric]:
        family = metric_family("apiserver_storage_size_bytes")
        for number, size in enumerate(sizes):
            found = size.known()
            if found:
                family.add_metric([store_id(number)], found)
        yield family

    return make


def size_of(info: Mapping[str, str]) -> int:
    """The bytes of the append-only file; without one, of the memory used."""
    if info.get("aof_enabled") == "1" and info.get("aof_current_size", "").isdigit():
        return int(info["aof_current_size"])
    used = info.get("used_memory", "")
    return int(used) if used.isdigit() else 0
