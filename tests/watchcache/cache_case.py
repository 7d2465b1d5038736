"""A cache over a store in memory, and clients that watch it."""

from __future__ import annotations

from typing import Any

import orjson
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.store.memory import MemoryStore
from kapi.watchcache.caches import Caches
from kapi.watchcache.event import Batch
from kapi.watchcache.watch import Watch

PODS = GroupResource("", "pods")


def halves(name: str, namespace: str = "ns", node: str = "", **labels: str) -> tuple[bytes, bytes]:
    rest: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        rest["labels"] = labels
    tail = b'",' + orjson.dumps(rest)[1:]
    spec = orjson.dumps({"nodeName": node})
    return b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"', tail + b',"spec":' + spec + b"}"


class Client:
    """A watcher that writes down what it is told."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.ends: list[Exception | None] = []
        self.watch: Watch

    @property
    def told(self) -> list[tuple[str, str, int]]:
        out = []
        for batch in self.batches:
            for event in batch.events:
                key = event.entry.key if event.entry is not None else ("END" if event.initial_end else "")
                out.append((event.type, key, event.revision))
                if event.entry is not None:
                    assert event.object["metadata"]["resourceVersion"] == str(event.revision)
        return out


class CacheTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore()
        self.open()

    def open(self, **options: Any) -> None:
        self.caches = Caches(self.store, self.clock, **options)
        self.pods = self.caches.cache(PODS, {"spec.nodeName": lambda obj: obj["spec"].get("nodeName", "")}, True)
        self.run_async(self.caches.start())

    def run_async(self, coroutine: Any) -> Any:
        from twisted.internet.defer import ensureDeferred

        return self.successResultOf(ensureDeferred(coroutine))

    def create(self, name: str, namespace: str = "ns", **more: str) -> int:
        return int(self.run_async(self.store.create(f"core/pods/{namespace}/{name}", *halves(name, namespace, **more))))

    def update(self, name: str, revision: int, namespace: str = "ns", **more: str) -> int:
        key = f"core/pods/{namespace}/{name}"
        return int(self.run_async(self.store.update(key, revision, *halves(name, namespace, **more))))

    def delete(self, name: str, revision: int, namespace: str = "ns", **more: str) -> int:
        key = f"core/pods/{namespace}/{name}"
        return int(self.run_async(self.store.delete(key, revision, *halves(name, namespace, **more))))

    def watch(self, since: int | None = None, labels: str = "", fields: str = "", **options: Any) -> Client:
        client = Client()
        predicate = Predicate(parse_labels(labels), parse_fields(fields))
        client.watch = self.pods.watch(since, client.batches.append, client.ends.append, predicate=predicate, **options)
        self.turn()
        return client

    def turn(self) -> None:
        for _ in range(20):
            self.clock.advance(0)

    def keys(self, entries: Any) -> list[str]:
        return [entry.key for entry in entries]
