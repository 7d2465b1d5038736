"""Where objects are kept.  Upstream's flags name etcd; ours name Redis, and a data directory for the embedded server."""

from __future__ import annotations

from typing import Any

from kapi.options.flags import FlagSet, duration, string


class StorageOptions(FlagSet):
    title = "Storage"

    def add(self) -> None:
        self.value(
            "data-dir", string, ".kapi", "Directory of the embedded store and of the generated keys; owner only."
        )
        self.strings("redis-servers", (), "URLs of Redis or Valkey servers (>= 7); empty starts an embedded one.")
        self.value("redis-prefix", string, "kapi", "Prefix of all keys in the store.")
        self.value("event-ttl", duration, 3600.0, "How long events are kept.")
        self.value("redis-compaction-interval", duration, 300.0, "How long history stays readable; 0 never compacts.")
        self.switch("enable-garbage-collector", True, "Collect objects whose owners are gone.")

    def complete(self, options: Any) -> None:
        self.embedded = not self.redis_servers

    def validate(self) -> list[str]:
        errors = []
        if not self.data_dir:
            errors.append("--data-dir must not be empty")
        if self.event_ttl <= 0:
            errors.append("--event-ttl must be positive")
        if self.redis_compaction_interval < 0:
            errors.append("--redis-compaction-interval can not be negative value")
        if not self.redis_prefix or any(char in self.redis_prefix for char in "{} \t\r\n"):
            errors.append("--redis-prefix must be a word without spaces and braces")
        return errors
