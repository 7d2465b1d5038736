"""Where objects are kept.  Upstream's flags name etcd; ours name Redis, and a data directory for the embedded server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapi.options.flags import FlagSet, duration, integer, string


class StorageOptions(FlagSet):
    title = "Storage"
    redis_servers: list[str]

    def add(self) -> None:
        self.value(
            "data-dir", string, ".kapi", "Directory of the embedded store and of the generated keys; owner only."
        )
        self.strings(
            "redis-servers",
            (),
            "URL of a Redis or Valkey server (>= 7), or of its Sentinels: redis+sentinel://host1:26379,host2:26379/NAME; "
            "empty starts an embedded one.",
        )
        self.value(
            "redis-min-replicas",
            integer,
            -1,
            "How many replicas must have a write on disk before it is acknowledged, so that fail-over cannot lose it; "
            "0 turns this off, -1 means 1 with Sentinels and 0 without.",
        )
        self.value("redis-prefix", string, "kapi", "Prefix of all keys in the store.")
        self.value("event-ttl", duration, 3600.0, "How long events are kept.")
        self.value("redis-compaction-interval", duration, 300.0, "How long history stays readable; 0 never compacts.")
        self.switch("enable-garbage-collector", True, "Collect objects whose owners are gone.")

    def complete(self, options: Any) -> None:
        self.redis_servers = whole_urls(self.redis_servers)
        self.embedded = not self.redis_servers
        self.min_replicas: int | None = None if self.redis_min_replicas < 0 else self.redis_min_replicas

    def validate(self) -> list[str]:
        errors = []
        if not self.data_dir:
            errors.append("--data-dir must not be empty")
        if self.event_ttl <= 0:
            errors.append("--event-ttl must be positive")
        if self.redis_compaction_interval < 0:
            errors.append("--redis-compaction-interval can not be negative value")
        if self.redis_min_replicas < -1:
            errors.append("--redis-min-replicas must be a number of replicas, or -1")
        if self.embedded and self.redis_min_replicas > 0:
            errors.append("--redis-min-replicas needs --redis-servers: the embedded store has no replicas")
        if not self.redis_prefix or any(char in self.redis_prefix for char in "{} \t\r\n"):
            errors.append("--redis-prefix must be a word without spaces and braces")
        return errors


def whole_urls(items: Sequence[str]) -> list[str]:
    """The URLs of a list that was split at each comma: what begins no URL goes on with the hosts of the one before."""
    urls: list[str] = []
    for item in items:
        if urls and "://" not in item:
            urls[-1] += f",{item}"
        else:
            urls.append(item)
    return urls
