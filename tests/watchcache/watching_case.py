"""Watches that read of the past."""

from __future__ import annotations

from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.watchcache.event import Batch
from tests.watchcache.cache_case import CacheTest, Client


class WatchingCase(CacheTest):
    def reader_of_the_past(self, since: int) -> Client:
        """A watcher that pauses after each batch."""
        client = Client()

        def slow(batch: Batch) -> None:
            client.batches.append(batch)
            client.watch.pause()

        client.watch = self.pods.watch(since, slow, client.ends.append)
        self.turn()
        return client

    def reader_of_all(self, labels: str = "") -> Client:
        """A watcher that begins with all objects and pauses after each batch."""
        client = Client()

        def slow(batch: Batch) -> None:
            client.batches.append(batch)
            client.watch.pause()

        predicate = Predicate(parse_labels(labels), parse_fields(""))
        client.watch = self.pods.watch(
            None, slow, client.ends.append, predicate=predicate, initial_events=True, initial_end=True
        )
        self.turn()
        return client
