"""Transforms objects to their stored form and back (upstream: ``storage/value/transformer.go``).

The store inserts the revision between two halves of an object, head and tail.  When encrypted, the head is the provider's
prefix and the ciphertext of both halves, and the tail is empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from prometheus_client.registry import CollectorRegistry
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate
from kapi.machinery.meters import Counter, Histogram, counter, exponential, histogram
from kapi.process.reactor import Reactor
from kapi.store.encryption.configuration import Rule, providers_of
from kapi.store.encryption.kms import Kms
from kapi.store.encryption.kms_metrics import KmsMeter
from kapi.store.encryption.providers import PREFIX, Provider, Undecryptable
from kapi.store.errors import NotEncryptable
from kapi.store.interface import DELETED, Change, Follower, StoredObject
from kapi.store.table import Value

log = Logger()
_MAX_WRITTEN = 1000  # objects
_LENGTH_BYTES = 4  # for the length of the head
#: put before plain text where no provider may read that; no JSON begins like this, so the object is unreadable
_REFUSED = b"\0not encrypted: "


class Encryption:
    """The transformer of one store.  Keys begin with group (``core`` for the core group) and resource.

    ``main`` is that of another store in this process: both then share the metrics, but not the rules and plugins.
    """

    def __init__(self, rules: Sequence[Rule], main: Encryption | None = None) -> None:
        self._known: dict[str, tuple[str, tuple[Provider, ...]]] = {}
        self._rules = tuple(rules)
        self._meter: KmsMeter = KmsMeter() if main is None else main._meter
        self._reactor: Reactor | None = None
        self._recovered: Callable[[], None] = lambda: None
        #: key -> the value just written: encrypted, head, tail; so its change, which arrives soon, need not be decrypted
        self._written: dict[str, tuple[bytes, bytes, bytes]] = {}
        #: key -> the ``Provider.mark`` of the stored value, for resources with a rule
        self._stored: dict[str, bytes] = {}
        self.operations: Counter = _operations() if main is None else main.operations
        self.seconds: Histogram = _seconds() if main is None else main.seconds

    def register(self, registry: CollectorRegistry) -> None:
        registry.register(self.operations)
        registry.register(self.seconds)
        self._meter.register(registry)

    def replace(self, rules: Sequence[Rule]) -> None:
        """Replaces the rules."""
        before = {(plugin.name, plugin.path): plugin for plugin in self.plugins}
        self._rules = tuple(rules)
        self._known.clear()
        if self._reactor is None:
            return
        for plugin in self.plugins:
            plugin.begin(self._reactor, self._meter, self._recovered, before.get((plugin.name, plugin.path)))
            Deferred.fromCoroutine(plugin.probe()).addErrback(_log_failure)
        for plugin in before.values():
            plugin.end()

    # -- KMS plugins

    @property
    def plugins(self) -> list[Kms]:
        return [one for rule in self._rules for one in rule.providers if isinstance(one, Kms)]

    async def begin(self, reactor: Reactor, recovered: Callable[[], None]) -> None:
        """Connects to the plugins and probes each once; unhealthy ones are probed again while the server runs.

        ``recovered`` is called when stored values can be decrypted that could not before.
        """
        self._reactor, self._recovered = reactor, recovered
        for plugin in self.plugins:
            plugin.begin(reactor, self._meter, recovered)
        await gatherResults([Deferred.fromCoroutine(plugin.probe()) for plugin in self.plugins])

    def end(self) -> None:
        if self._reactor is not None:
            self._reactor = None
            for plugin in self.plugins:
                plugin.end()

    def problem(self) -> str:
        """Why plugins are unhealthy, with their places among all plugins of the file; empty when all are healthy."""
        found = enumerate(plugin.problem for plugin in self.plugins)
        return aggregate(f"kms-provider-{number}: {problem}" for number, problem in found if problem)

    async def prepare(self, values: Iterable[StoredObject | Change]) -> None:
        """Lets the plugins decrypt the seeds that values need; call it before values are decrypted."""
        plugins = self.plugins
        if plugins:
            data = [value.data for value in values if value.data.startswith(PREFIX)]
            for plugin in plugins:
                await plugin.prepare(data)

    def _of(self, key: str) -> tuple[str, tuple[Provider, ...]]:
        """The resource of a key, as in metrics, and its providers."""
        place = key[: key.find("/", key.find("/") + 1)]
        found = self._known.get(place)
        if found is None:
            group, _, resource = place.partition("/")
            group = "" if group == "core" else group
            providers = providers_of(self._rules, group, resource)
            found = self._known[place] = (f"{resource}.{group}" if group else resource, providers)
        return found

    def to_storage(self, key: str, head: bytes, tail: bytes) -> tuple[bytes, bytes]:
        """The stored form of the halves.  Raises NotEncryptable."""
        resource, providers = self._of(key)
        if not providers or not providers[0].prefix or head.startswith(PREFIX):  # the head is the stored form already
            return head, tail
        provider, begun = providers[0], time.perf_counter()
        try:
            sealed = provider.encrypt(len(head).to_bytes(_LENGTH_BYTES, "big") + head + tail, key.encode())
        except NotEncryptable as error:
            self._count(resource, "to_storage", provider.prefix, begun, str(error))
            raise
        self._count(resource, "to_storage", provider.prefix, begun, "OK")
        sealed = provider.prefix + sealed
        if len(self._written) >= _MAX_WRITTEN:  # entries of failed writes, or of changes that arrived in a reload
            self._written.clear()
        self._written[key] = (sealed, head, tail)
        return sealed, b""

    def from_storage(self, key: str, revision: int, data: bytes) -> bytes:
        """The object of a stored value.  A value that cannot be decrypted is returned unchanged; it is unreadable for caches."""
        resource, providers = self._of(key)
        if not data.startswith(PREFIX):
            if not providers or not revision:  # a value without a revision was not written by kapi
                return data
            return data if any(not one.prefix for one in providers) else _REFUSED + data
        text = b"%d" % revision
        written = self._written.pop(key, None)
        if written is not None and data.startswith(written[0]):
            return written[1] + text + written[2]
        provider = next((one for one in providers if one.prefix and data.startswith(one.prefix)), None)
        begun = time.perf_counter()
        if provider is None:
            self._count(resource, "from_storage", b"unknown", begun, "no matching prefix found")
            return data
        try:
            plain = provider.decrypt(data[len(provider.prefix) : -len(text)], key.encode())
        except Undecryptable as error:
            self._count(resource, "from_storage", provider.prefix, begun, str(error))
            return data
        self._count(resource, "from_storage", provider.prefix, begun, "OK")
        cut = _LENGTH_BYTES + int.from_bytes(plain[:_LENGTH_BYTES], "big")
        return plain[_LENGTH_BYTES:cut] + text + plain[cut:]

    def _count(self, resource: str, kind: str, prefix: bytes, begun: float, status: str) -> None:
        shown = prefix.decode()
        self.operations.add(resource, status, kind, shown)
        if status == "OK":
            self.seconds.observe(time.perf_counter() - begun, resource, kind, shown)

    # -- values that were stored with another encryption key than writes use now

    def stale(self, key: str) -> bool:
        """Whether writing the same object again would change what is stored."""
        stored = self._stored.get(key)
        if stored is None:
            return False
        providers = self._of(key)[1]
        return stored != (providers[0].current if providers else b"")

    def forget(self) -> None:
        self._stored.clear()

    def note(self, key: str, data: bytes | None) -> None:
        """Notes the stored value of a key; None: the key was deleted."""
        if data is None:
            self._stored.pop(key, None)
            return
        _, providers = self._of(key)
        if providers:
            known = (one.mark(data) for one in providers if one.prefix and data.startswith(one.prefix))
            self._stored[key] = next(known, PREFIX if data.startswith(PREFIX) else b"")

    def following(self, follower: Follower) -> Follower:
        """A follower that decrypts and passes everything to ``follower``."""
        return DecryptingFollower(follower, self)

    def object(self, obj: StoredObject | Value) -> StoredObject:
        return StoredObject(obj.key, obj.revision, self.from_storage(obj.key, obj.revision, obj.data))

    def changes(self, changes: Iterable[Change]) -> list[Change]:
        return [
            Change(
                change.revision, change.kind, change.key, self.from_storage(change.key, change.revision, change.data)
            )
            for change in changes
        ]


def _operations() -> Counter:
    return counter("apiserver_storage_transformation_operations_total")


def _seconds() -> Histogram:
    return histogram("apiserver_storage_transformation_duration_seconds", exponential(5e-06, 2, 25))


def _log_failure(failure: Failure) -> None:
    log.failure("probing a KMS plugin failed", failure)


class DecryptingFollower:
    """Passes decrypted objects and changes to a follower."""

    def __init__(self, follower: Follower, encryption: Encryption) -> None:
        self._follower = follower
        self._encryption = encryption

    def reset(self, objects: Iterable[StoredObject | Value], history: Sequence[Change], revision: int) -> None:
        encryption, found = self._encryption, []
        encryption.forget()
        for obj in elements(objects):
            if "/" in obj.key.partition("/")[2]:
                encryption.note(obj.key, obj.data)
            found.append(encryption.object(obj))
        self._follower.reset(found, encryption.changes(elements(history)), revision)

    def changed(self, changes: Sequence[Change]) -> None:
        encryption = self._encryption
        for change in changes:
            if "/" in change.key.partition("/")[2]:
                encryption.note(change.key, None if change.kind == DELETED else change.data)
        self._follower.changed(encryption.changes(changes))
