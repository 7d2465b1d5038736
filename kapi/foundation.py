"""The data directory and the store of a server, whose start takes longest.

This module is separate from ``kapi.app`` and imported before it, so that the embedded store's server can read its files while the
rest of kapi is imported and built.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kapi.machinery.gvk import GroupResource
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.process.reactor import Reactor
from kapi.store.address import Address, Dial
from kapi.store.embedded import make_private
from kapi.store.errors import UnsuitableStore
from kapi.store.factory import EmbeddedStore, external_store, shared_store
from kapi.store.redis_store import RedisStore
from kapi.store.shared_revisions import SharedRevisions
from kapi.wire.egress import DIRECT, STORE, Egress

_CONNECT_TIMEOUT = 5.0  # seconds, as without a proxy


def egress_of(options: Options) -> Egress:
    """The proxies of the flags.  Raises ConfigError."""
    selections = options.egress.selections()
    if not selections:
        return DIRECT
    from kapi.options.egress_proxies import make_egress  # imported only when it is used

    return make_egress(selections)


def dial_to_stores(options: Options, egress: Egress) -> Dial | None:
    """The dialer for stores behind an egress proxy; None when stores are reached directly.  Raises ConfigError."""
    proxy = egress.proxy(STORE)
    if proxy is None:
        return None
    if options.storage.embedded and not options.storage.overrides:
        raise ConfigError(
            f"--egress-selector-config-file: {STORE}: no proxy leads to the embedded store, which is in --data-dir; use "
            "--redis-servers"
        )
    from kapi.wire.dial import Dialer  # imported only when it is used

    return lambda reactor, host, port: Dialer(reactor, _CONNECT_TIMEOUT, proxy).endpoint(host, port)


class Foundation:
    """The data directory, which it locks, and the store.  Raises ConfigError.

    ``shared`` is set in a worker process, whose supervisor locks the directory and runs the embedded store's server.
    ``revisions`` is the memory that workers share.
    """

    def __init__(
        self, options: Options, reactor: Reactor, *, shared: bool = False, revisions: SharedRevisions | None = None
    ) -> None:
        self._shared = shared
        self._revisions = revisions
        self.directory = Path(options.storage.data_dir).absolute()
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self.directory, 0o700)
            self._lock: int | None = None if shared else self._take_lock()
        except OSError as error:
            raise ConfigError(f"--data-dir: {self.directory}: {error.strerror or error}") from None
        #: the proxies to other servers, also to stores
        self.egress = egress_of(options)
        self.store = self._make_store(options, reactor)
        #: the stores of the resources that are not in ``store``
        self.overrides = self._make_others(options, reactor)
        for store in (self.store, *dict.fromkeys(self.overrides.values())):
            store.max_object_bytes = options.storage.redis_max_object_bytes
            if options.storage.encryption_provider_config:
                from kapi.store.encryption.transformer import Encryption  # imported only when it is used

                store.encryption = Encryption(options.storage.encryption()[0], self.store.encryption)

    def _take_lock(self) -> int:
        lock = os.open(self.directory / "kapi.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigError(f"--data-dir: {self.directory} is in use by another kapi") from None
        return lock

    def _make_store(self, options: Options, reactor: Reactor) -> RedisStore:
        storage, start_timeout = options.storage, options.generic.storage_initialization_timeout
        self._dial = dial_to_stores(options, self.egress)
        if storage.embedded:
            if self._shared:
                return shared_store(
                    self.directory / "store",
                    reactor,
                    prefix=storage.redis_prefix,
                    start_timeout=start_timeout,
                    shared=self._revisions,
                )
            return EmbeddedStore(self.directory / "store", reactor, prefix=storage.redis_prefix)
        if len(storage.redis_servers) > 1:
            raise ConfigError("--redis-servers: one URL is needed; name several Sentinels inside it")
        try:
            return self._external(options, reactor, storage.redis_servers[0])
        except UnsuitableStore as error:
            raise ConfigError(str(error)) from None

    def _make_others(self, options: Options, reactor: Reactor) -> dict[GroupResource, RedisStore]:
        overrides = options.storage.overrides
        made = {address: self._external(options, reactor, address) for address in dict.fromkeys(overrides.values())}
        return {resource: made[address] for resource, address in overrides.items()}

    def _external(self, options: Options, reactor: Reactor, where: str | Address) -> RedisStore:
        storage = options.storage
        return external_store(
            where,
            reactor,
            prefix=storage.redis_prefix,
            min_replicas=storage.min_replicas,
            start_timeout=options.generic.storage_initialization_timeout,
            dial=self._dial,
        )

    def make_private(self) -> None:
        """Makes existing files, and new files of this process and its store, accessible only for their owner."""
        os.umask(0o077)
        make_private(self.directory)

    def launch(self) -> None:
        """Begins to start the store.  Only in the process that will serve, since the store's server ends with its parent.

        Raises ConfigError.
        """
        try:
            self.store.launch()
        except UnsuitableStore as error:
            raise ConfigError(str(error)) from None

    async def start_server(self) -> None:
        """Starts only the embedded store's server, for other processes.  Raises StoreError."""
        if isinstance(self.store, EmbeddedStore):
            await self.store.server.start()

    def supervise_server(self) -> None:
        """Called when the embedded store's server works: from now on it is started again whenever it ends."""
        if isinstance(self.store, EmbeddedStore):
            self.store.server.supervise()

    async def stop_server(self) -> None:
        if isinstance(self.store, EmbeddedStore):
            await self.store.server.stop()

    def abandon(self) -> None:
        """Undoes the preparation; the store was not started."""
        self.store.abandon()
        self.release()

    def release(self) -> None:
        """Unlocks the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
