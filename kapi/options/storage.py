"""Storage flags.  Upstream's flags name etcd; ours name Redis, and a data directory for the embedded server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kapi.options.errors import ConfigError, read_file
from kapi.options.flags import FlagSet, duration, integer, string, strings, switch, value
from kapi.store.interface import MAX_OBJECT_BYTES

if TYPE_CHECKING:
    from kapi.machinery.gvk import GroupResource
    from kapi.store.address import Address
    from kapi.store.encryption.configuration import Rule

#: flag, default, type, replacement
_NOT_ETCD = (
    ("etcd-servers", "", "strings", "use --redis-servers, or nothing for an embedded store in --data-dir"),
    ("etcd-servers-overrides", "", "strings", "use --redis-servers-overrides"),
    ("etcd-cafile", "", "string", "use ca= in the URL of --redis-servers"),
    ("etcd-certfile", "", "string", "use cert= in the URL of --redis-servers"),
    ("etcd-keyfile", "", "string", "use key= in the URL of --redis-servers"),
    ("etcd-prefix", "/registry", "string", "use --redis-prefix"),
    ("storage-backend", "", "string", "the store is Redis or Valkey"),
    ("storage-media-type", "application/vnd.kubernetes.protobuf", "string", "objects are stored as JSON"),
    ("lease-reuse-duration-seconds", "60", "int", "use --event-ttl; there are no leases in the store"),
)


class StorageOptions(FlagSet):
    """Upstream's flags for etcd apply to kapi's store, or are refused with the name of a replacement."""

    title = "Storage"
    data_dir = value(string, ".kapi", "Directory of the embedded store and of the generated keys; owner only.")
    redis_servers = strings(
        (),
        "URL of a Redis or Valkey server (>= 7), or of its Sentinels: redis+sentinel://host1:26379,host2:26379/NAME; "
        "empty starts an embedded one.",
    )
    redis_servers_overrides = strings(
        (),
        "Stores of single resources, comma separated; each is group/resource#servers, where servers are URLs as of "
        "--redis-servers, the Sentinels of one service semicolon separated. group/* is all resources of a group. "
        "Only for resources compiled into this server. E.g. /events#redis://host2:6379",
    )
    redis_min_replicas = value(
        integer,
        -1,
        "How many replicas must have a write on disk before it is acknowledged, so that fail-over cannot lose it; "
        "0 turns this off, -1 means 1 with Sentinels and 0 without.",
    )
    redis_max_object_bytes = value(
        integer,
        MAX_OBJECT_BYTES,
        "How many bytes of JSON one object may have in the store, managed fields included; larger ones are answered 413, "
        "0 is no limit.",
    )
    redis_prefix = value(string, "kapi", "Prefix of all keys in the store.")
    event_ttl = value(duration, 3600.0, "How long events are kept.", group="Misc")
    redis_compaction_interval = value(duration, 300.0, "How long history stays readable; 0 never compacts.")
    enable_garbage_collector = switch(True, "Collect objects whose owners are gone.", group="Etcd")
    delete_collection_workers = value(
        integer, 1, "How many objects of a collection are deleted at once; 64 when nothing is said.", group="Etcd"
    )
    etcd_compaction_interval = value(
        duration, 300.0, "The same as --redis-compaction-interval, which wins.", group="Etcd"
    )
    etcd_healthcheck_timeout = value(
        duration, 2.0, "How long the store may owe an answer before /healthz and /livez fail.", group="Etcd"
    )
    etcd_readycheck_timeout = value(duration, 2.0, "How long it may before /readyz fails.", group="Etcd")
    etcd_count_metric_poll_period = value(
        duration,
        60.0,
        "0: metrics do not tell how many objects there are; otherwise they tell how many there are when asked.",
        group="Etcd",
    )
    etcd_db_metric_poll_interval = value(
        duration,
        30.0,
        "How often, at the most, the store is asked how large it is for metrics; 0 does not.",
        group="Etcd",
    )
    watch_cache_sizes = strings(
        (),
        "Sizes of watch caches, resource[.group]#size.",
        group="Etcd",
        inert="caches hold what there is, and history by age",
    )
    encryption_provider_config = value(
        string, "", "EncryptionConfiguration file: what is encrypted in the store.", group="Etcd"
    )
    encryption_provider_config_automatic_reload = switch(
        False, "Take that file up again when it changes.", group="Etcd"
    )

    def add(self) -> None:
        self.declare(
            "watch-cache",
            switch(
                True,
                "Answer from memory.",
                group="Etcd",
                inert="all reads and watches use it, and are as fresh as the store",
            ),
        )
        self.declare(
            "default-watch-cache-size",
            value(
                integer,
                100,
                "Default size of watch caches.",
                deprecated="watch caches are sized automatically and this flag will be removed in a future version",
                group="Etcd",
            ),
        )
        for name, default, kind, use in _NOT_ETCD:
            parse, parsed = (integer, int(default)) if kind == "int" else (string, default)
            if kind == "strings":
                self.declare(name, strings((), "Of etcd.", group="Etcd", refused=use))
            else:
                self.declare(name, value(parse, parsed, "Of etcd.", refused=use, group="Etcd"))

    def complete(self) -> None:
        #: None: not given, and the server chooses
        self.delete_workers = self.delete_collection_workers if self.is_set("delete-collection-workers") else None
        if self.is_set("etcd-compaction-interval") and not self.is_set("redis-compaction-interval"):
            self.redis_compaction_interval = self.etcd_compaction_interval
        self.redis_servers = whole_urls(self.redis_servers)
        self.embedded = not self.redis_servers
        self._errors: Sequence[str] = ()
        #: the stores of the resources that are not in the main one
        self.overrides: Mapping[GroupResource, Address] = self._overrides() if self.redis_servers_overrides else {}
        self.min_replicas: int | None = None if self.redis_min_replicas < 0 else self.redis_min_replicas

    def _overrides(self) -> Mapping[GroupResource, Address]:
        from kapi.options.store_overrides import store_overrides  # imported only when it is used

        try:
            return store_overrides(self.redis_servers_overrides, self.redis_servers)
        except ConfigError as error:
            self._errors = error.messages
            return {}

    def encryption(self) -> tuple[list[Rule], bytes]:
        """The rules of the encryption configuration, and the content of its file.  Raises ConfigError."""
        from kapi.store.encryption.configuration import (
            EncryptionError,
            load_encryption,
        )  # imported only when it is used

        content = read_file(self.encryption_provider_config, "encryption-provider-config")
        try:
            return load_encryption(content), content
        except EncryptionError as error:
            lines = str(error).splitlines()
            raise ConfigError(*(f"--encryption-provider-config: {line}" for line in lines)) from None

    def validate(self) -> list[str]:
        errors = list(self._errors)
        if not self.data_dir:
            errors.append("--data-dir must not be empty")
        if self.event_ttl <= 0:
            errors.append("--event-ttl must be positive")
        for name, resource, size in (each.partition("#") for each in self.watch_cache_sizes):
            if not resource or not size.isdigit():
                errors.append(f"--watch-cache-sizes: invalid value of watch cache size: {name}{resource}{size}")
        if self.encryption_provider_config_automatic_reload and not self.encryption_provider_config:
            errors.append("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config")
        if self.delete_collection_workers < 1:
            errors.append("--delete-collection-workers must be positive")
        if self.redis_compaction_interval < 0:
            errors.append("--redis-compaction-interval can not be negative value")
        if self.redis_max_object_bytes < 0:
            errors.append("--redis-max-object-bytes can not be negative value")
        if self.redis_min_replicas < -1:
            errors.append("--redis-min-replicas must be a number of replicas, or -1")
        if self.embedded and self.redis_min_replicas > 0 and not self.overrides:
            errors.append("--redis-min-replicas needs --redis-servers: the embedded store has no replicas")
        if not self.redis_prefix or any(char in self.redis_prefix for char in "{} \t\r\n"):
            errors.append("--redis-prefix must be a word without spaces and braces")
        return errors


def whole_urls(items: Sequence[str]) -> list[str]:
    """Joins URLs that were split at a comma between their hosts: an item without ``://`` belongs to the URL before it."""
    urls: list[str] = []
    for item in items:
        if urls and "://" not in item:
            urls[-1] += f",{item}"
        else:
            urls.append(item)
    return urls
