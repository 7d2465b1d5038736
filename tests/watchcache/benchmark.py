"""What the cache costs: ``python -m tests.watchcache.benchmark``.

No network: events into the cache, bytes out to callbacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.store.memory import MemoryStore
from kapi.watchcache.caches import Caches
from kapi.watchcache.counts import Sent
from kapi.watchcache.event import Batch

HEAD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"'
PODS = GroupResource("", "pods")


def tail(n: int) -> bytes:
    text = '","name":"p%d","namespace":"ns","labels":{"app":"x"}},"spec":{"nodeName":"n%d"},"x":"%s"}'
    return (text % (n, n % 1000, "y" * 2600)).encode()


def resident() -> float:
    """MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


class Bench:
    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore()
        self.caches = Caches(self.store, self.clock)
        ensureDeferred(self.caches.start())
        self.pods = self.caches.cache(PODS, {"spec.nodeName": lambda obj: obj["spec"]["nodeName"]}, True)
        self.count = 0
        self.bytes = 0
        self.sent = Sent()

    def put(self, count: int) -> None:
        for _ in range(count):
            ensureDeferred(self.store.create(f"core/pods/ns/p{self.count}", HEAD, tail(self.count)))
            self.count += 1

    def sink(self, batch: Batch) -> None:
        self.bytes += len(
            batch.encoded("json", lambda event: event.json if event.entry is not None else b"{}", self.sent)
        )

    def watch(self, count: int, predicate: Callable[[int], Predicate | None], **more: bool) -> list[object]:
        return [
            self.pods.watch(None, self.sink, lambda error: None, predicate=predicate(n), **more) for n in range(count)
        ]

    def stop(self, watches: list[object]) -> None:
        for watch in watches:
            watch.stop()  # type: ignore[attr-defined]


def timed(title: str, function: Callable[[], object], per: float = 1.0) -> None:
    start = time.process_time()
    function()
    print(f"{title}: {(time.process_time() - start) / per * 1e6:.2f} us")


def main() -> None:
    bench = Bench()

    def run(turns: int, each: int) -> None:
        for _ in range(turns):
            bench.put(each)
            bench.clock.advance(0)

    timed("an event into the cache", lambda: run(1, 10000), 10000)
    watches = bench.watch(1000, lambda n: None)
    timed("a delivery, 1,000 watchers, one event a turn", lambda: run(200, 1), 200 * 1000)
    timed("a delivery, 1,000 watchers, 20 events a turn", lambda: run(20, 20), 400 * 1000)
    bench.stop(watches)
    watches = bench.watch(1000, lambda n: Predicate(parse_labels(""), parse_fields(f"spec.nodeName=n{n}")))
    timed("an event among 1,000 watchers of a node each", lambda: run(1000, 1), 1000)
    bench.stop(watches)
    watches = bench.watch(1000, lambda n: Predicate(parse_labels(f"app=x,z!=a{n}")))
    timed("an event among 1,000 different label selectors", lambda: run(100, 1), 100)
    bench.stop(watches)
    before = resident()
    watches = bench.watch(10000, lambda n: None, bookmarks=True)
    print(f"10,000 idle watches: {resident() - before:.1f} MB")

    def minute() -> None:
        for _ in range(60):
            bench.clock.advance(1)

    timed("a bookmark (10,000 idle watches for a minute)", minute, 10000)
    bench.stop(watches)
    objects = len(bench.pods)
    timed(f"a list of {objects}", lambda: bench.pods.list())
    revision = bench.caches.revision - 50
    timed("a list as it was 50 writes ago", lambda: bench.pods.list_at(revision))
    selected = Predicate(parse_labels("app=x"))
    timed("a list by label, first", lambda: bench.pods.list("", selected))
    timed("a list by label, again", lambda: bench.pods.list("", selected))
    print(f"resident with {objects} pods and their history: {resident():.0f} MB")


if __name__ == "__main__":
    main()
