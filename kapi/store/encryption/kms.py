"""The provider kms of EncryptionConfiguration, version 2: a plugin holds the key that encrypts seeds.

Writes use one seed until the plugin returns another key id, so they need no call of the plugin.  Its status is requested
regularly; three minutes after the last healthy one the seed expires, and writes fail.  Reads need the plugin once for each
seed, before the objects are passed to the caches.  Objects whose seed it cannot decrypt are unreadable, and loaded again when
it can.

A stored value is encrypted with a key that each write derives from a seed; the seed, encrypted by the plugin, is stored with it.

Upstream: apiserver ``server/options/encryptionconfig/config.go`` (kmsv2PluginProbe), ``kmsv2/envelope.go``,
``kmsv2/grpc_service.go``, ``encrypt/aes/aes_extended_nonce.go``, KEP-3299.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.logger import Logger

from kapi.machinery.golang import aggregate
from kapi.machinery.meters import hashed
from kapi.process.reactor import Reactor
from kapi.process.timers import Repeated
from kapi.store.encryption.kms_metrics import CACHE_MISSES, DATA_KEY_FAILURES, DATA_KEY_SECONDS, KmsMeter
from kapi.store.encryption.providers import PREFIX, Undecryptable, cut
from kapi.store.errors import NotEncryptable
from kapi.wire.plugin_calls import Calls, Observe, PluginError
from kapi.wire.plugin_messages import (
    WireError,
    decode,
    decode_map,
    encode,
    encode_map,
    last_bytes,
    last_number,
    last_text,
)

_SERVICE = "v2.KeyManagementService"
_MAX_MESSAGE = 64 * 1024  # bytes of an answer
SEED_BYTES = 32
_INFO_BYTES = 32  # random bytes that derive a key from a seed
_NONCE_BYTES = 12
_KEY, _SEED_TYPE = 0, 1  # the type of the encrypted source: the key itself (until 1.28), or a seed
_MAX_KEY_ID_BYTES = 1024
_MAX_SOURCE_BYTES = 1024
_MAX_ANNOTATIONS_BYTES = 32 * 1024
log = Logger()
_HEALTHY_SECONDS, _UNHEALTHY_SECONDS = 20.0, 3.0  # until the next probe of a plugin
_SEED_USABLE_SECONDS = 180.0  # a seed may be used for writes for so long after the plugin was healthy
_MAX_SEEDS = 10_000  # decrypted seeds kept for reads
_MAX_MISSING = 1000  # seeds that the plugin failed to decrypt, kept to try them again
_MAX_CALLS = 16  # calls at a time
_VERSIONS = ("v2", "v2beta1")


class Plugin:
    """One plugin.  ``timeout``: seconds for each call."""

    def __init__(self, reactor: Reactor, path: str, timeout: float, observe: Observe) -> None:
        self._calls = Calls(reactor, path, _SERVICE, _MAX_MESSAGE, observe)
        self._timeout = timeout

    def close(self) -> None:
        """Closes the connection; running calls fail."""
        self._calls.close()

    async def status(self) -> tuple[str, str, str]:
        """Returns version, health ("ok") and key id.  Raises PluginError, WireError."""
        fields = decode(await self._calls.call("Status", b"", self._timeout))
        return last_text(fields, 1), last_text(fields, 2), last_text(fields, 3)

    async def encrypt(self, plain: bytes, uid: str) -> tuple[bytes, str, dict[str, bytes]]:
        """Returns ciphertext, key id and annotations.  Raises PluginError, WireError."""
        request = encode([(1, plain), (2, uid.encode())])
        fields = decode(await self._calls.call("Encrypt", request, self._timeout))
        return last_bytes(fields, 1), last_text(fields, 2), decode_map(fields, 3)

    async def decrypt(self, ciphertext: bytes, uid: str, key_id: str, annotations: Mapping[str, bytes]) -> bytes:
        """Returns the plain text.  Raises PluginError, WireError."""
        request = encode([(1, ciphertext), (2, uid.encode()), (3, key_id.encode()), *encode_map(4, annotations)])
        return last_bytes(decode(await self._calls.call("Decrypt", request, self._timeout)), 1)


@dataclass(frozen=True, slots=True)
class Source:
    """An encrypted seed (upstream: DEK source), with the key id and annotations that the plugin needs to decrypt it."""

    key_id: str
    ciphertext: bytes
    annotations: tuple[tuple[str, bytes], ...]
    kind: int = _SEED_TYPE

    @classmethod
    def make(cls, key_id: str, ciphertext: bytes, annotations: Mapping[str, bytes], kind: int = _SEED_TYPE) -> Source:
        """Raises ValueError where upstream would refuse to store it."""
        problem = key_id_problem(key_id)
        if problem:
            raise ValueError(f"failed to validate key id: {problem[1]}")
        if kind not in (_KEY, _SEED_TYPE):
            raise ValueError(f"unknown encryptedDEKSourceType: {kind}")
        if not ciphertext:
            raise ValueError("failed to validate encrypted DEK source: encrypted DEK source is empty")
        if len(ciphertext) > _MAX_SOURCE_BYTES:
            raise ValueError(
                f"failed to validate encrypted DEK source: encrypted DEK source is {len(ciphertext)} bytes, which exceeds "
                f"the max size of {_MAX_SOURCE_BYTES}"
            )
        size = sum(len(key) + len(value) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS_BYTES:
            raise ValueError(
                f"failed to validate annotations: total size of annotations is {size}, which exceeds the max size of "
                f"{_MAX_ANNOTATIONS_BYTES}"
            )
        return cls(key_id, ciphertext, tuple(sorted(annotations.items())), kind)


def key_id_problem(key_id: str) -> tuple[str, str] | None:
    """The error's label in metrics and its text; None for a valid key id."""
    if not key_id:
        return "empty", "keyID is empty"
    if len(key_id.encode()) > _MAX_KEY_ID_BYTES:
        return "too_long", f"keyID is {len(key_id.encode())} bytes, which exceeds the max size of {_MAX_KEY_ID_BYTES}"
    return None


def split(data: bytes) -> tuple[Source, bytes]:
    """The source and the ciphertext of a stored value.  Raises Undecryptable."""
    try:
        fields = decode(data)
        source = Source.make(last_text(fields, 2), last_bytes(fields, 3), decode_map(fields, 4), last_number(fields, 5))
        sealed = last_bytes(fields, 1)
    except (WireError, ValueError) as error:
        raise Undecryptable(str(error)) from None
    if not sealed:
        raise Undecryptable("encrypted data is empty")
    return source, sealed


def tail_of(source: Source) -> bytes:
    """The part of a stored value after the ciphertext."""
    return encode([
        (2, source.key_id.encode()), (3, source.ciphertext), *encode_map(4, dict(source.annotations)), (5, source.kind)
    ])  # fmt: skip


def seal(seed: bytes, tail: bytes, plain: bytes, key: bytes) -> bytes:
    """Encrypts ``plain`` into a stored value; ``key`` is authenticated, ``tail`` (of ``tail_of``) identifies the seed."""
    info, nonce = os.urandom(_INFO_BYTES), os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_derived(seed, info)).encrypt(nonce, plain, key)
    return encode([(1, info + nonce + sealed)]) + tail


def unseal(source: Source, secret: bytes, sealed: bytes, key: bytes) -> bytes:
    """Decrypts the ciphertext ``sealed`` with the decrypted source, ``secret``.  Raises Undecryptable."""
    if source.kind == _SEED_TYPE:
        info, sealed = cut(sealed, _INFO_BYTES)
        secret = _derived(secret, info)
    nonce, sealed = cut(sealed, _NONCE_BYTES)
    try:
        return AESGCM(secret).decrypt(nonce, sealed, key)
    except (InvalidTag, ValueError):
        raise Undecryptable("cipher: message authentication failed") from None


def _derived(seed: bytes, info: bytes) -> bytes:
    return HKDFExpand(SHA256(), 32, info).derive(seed)


@dataclass(frozen=True, slots=True)
class _Write:
    """The seed that writes use now."""

    source: Source
    seed: bytes
    tail: bytes
    mark: bytes
    until: float  # reactor seconds


class Kms:
    """A Provider.  ``path`` is that of the plugin's socket, ``timeout`` the time in seconds for each call."""

    def __init__(self, name: str, path: str, timeout: float) -> None:
        self.name, self.path, self.timeout = name, path, timeout
        self.prefix = PREFIX + b"kms:v2:" + name.encode() + b":"
        #: why it is unhealthy; empty when it is healthy
        self.problem = f"kmsv2 Provider {name} is not healthy, error: its status is not known yet"
        self._version = ""
        self._write: _Write | None = None
        self._seeds: dict[Source, bytes] = {}
        self._missing: set[Source] = set()
        self._reactor: Reactor
        self._plugin: Plugin
        self._meter: KmsMeter
        self._recovered: Callable[[], None] = lambda: None
        self._probing: Repeated | None = None
        self._next = 0.0  # reactor seconds

    # -- starting and stopping

    def begin(
        self, reactor: Reactor, meter: KmsMeter, recovered: Callable[[], None], before: Kms | None = None
    ) -> None:
        """Connects.  ``recovered`` is called when seeds can be decrypted that could not before.

        ``before`` is a provider of the same name and socket that this one replaces.
        """
        self._reactor, self._meter, self._recovered = reactor, meter, recovered
        if before is not None:
            self._write, self._seeds, self._missing = before._write, before._seeds, before._missing
            self.problem, self._version = before.problem, before._version
        self._plugin = Plugin(
            reactor, self.path, self.timeout, lambda *what: meter.latency.observe(what[2], self.name, what[0], what[1])
        )
        self._probing = Repeated(
            lambda: Deferred.fromCoroutine(self._probe_if_due()), reactor, f"probing the KMS plugin {self.name}"
        )
        self._probing.start(1.0)

    def end(self) -> None:
        if self._probing is not None:
            self._probing.stop()
        self._plugin.close()

    async def _probe_if_due(self) -> None:
        if self._reactor.seconds() >= self._next:
            await self.probe()

    async def probe(self) -> None:
        """Requests the plugin's status, and lets it decrypt the seeds for which it failed before; never fails."""
        try:
            text = await self._check()
        except CancelledError:
            raise
        except (PluginError, WireError) as error:
            text = f"failed to perform status section of the healthz check for KMS Provider {self.name}, error: {error}"
        except Exception as error:
            log.failure("probing the KMS plugin {name} failed", name=self.name)
            text = str(error) or type(error).__name__
        if text and text != self.problem:
            log.error("kms plugin failed health check probe {name}: {why}", name=self.name, why=text)
        self.problem = text
        self._next = self._reactor.seconds() + (_UNHEALTHY_SECONDS if text else _HEALTHY_SECONDS)
        if not text and self._missing:
            missing, self._missing = self._missing, set()
            try:
                fetched = await self._fetch(missing)
            except BaseException:
                self._miss(missing)
                raise
            if fetched:
                self._recovered()

    async def _check(self) -> str:
        until = self._reactor.seconds() + _SEED_USABLE_SECONDS
        version, health, key_id = await self._plugin.status()
        problems = []
        if health != "ok":
            problems.append(f"got unexpected healthz status: {health}")
        if version not in _VERSIONS:
            problems.append(f"expected KMSv2 API version {_VERSIONS[0]}, got {version}")
        else:
            self._version = self._version or version
            if self._version != version:
                problems.append(
                    "KMSv2 API version should not change after the initial status response version "
                    f"{self._version}, got {version}"
                )
        wrong = key_id_problem(key_id)
        if wrong is not None:
            self._meter.invalid_key_ids.add(self.name, wrong[0])
            problems.append(f'got invalid KMSv2 KeyID hash "{hashed(key_id)}": {wrong[1]}')
        else:
            self._meter.status(self.name, hashed(key_id))
            why = await self._rotate(key_id, until)
            if why:
                problems.append(why)
        text = aggregate(problems)
        return f"kmsv2 Provider {self.name} is not healthy, error: {text}" if text else ""

    async def _rotate(self, key_id: str, until: float) -> str:
        """Makes a seed for the key id unless it is the present one.  Returns why that failed, "" for success."""
        write = self._write
        if write is not None and write.source.key_id == key_id:
            self._write = _Write(write.source, write.seed, write.tail, write.mark, until)
            return ""
        seed, uid = _new_seed(), str(uuid.uuid4())
        try:
            ciphertext, given, annotations = await self._plugin.encrypt(seed, uid)
            source = Source.make(given, ciphertext, annotations)
        except (PluginError, ValueError) as error:
            return f'failed to rotate DEK uid="{uid}", errGen=failed to encrypt DEK, error: {error}'
        if given != key_id:
            return (
                f'failed to rotate DEK uid="{uid}", statusKeyIDHash="{hashed(key_id)}", '
                f'encryptKeyIDHash="{hashed(given)}"'
            )
        self._write = _Write(source, seed, tail_of(source), self.prefix + key_id.encode(), until)
        self._remember(source, seed)
        log.info("KMS provider {name} writes with another key: {hash}", name=self.name, hash=hashed(key_id))
        return ""

    # -- values

    @property
    def current(self) -> bytes:
        return self._write.mark if self._write is not None else self.prefix

    def mark(self, data: bytes) -> bytes:
        try:
            return self.prefix + split(_without_revision(data, len(self.prefix)))[0].key_id.encode()
        except Undecryptable:
            return self.prefix

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        """Raises NotEncryptable."""
        write = self._write
        if write is None:
            raise NotEncryptable(self.problem or f"KMS provider {self.name} has no key yet")
        late = self._reactor.seconds() - write.until
        if late > 0:
            now = time.time()
            raise NotEncryptable(
                f'encryptedDEKSource with keyID hash "{hashed(write.source.key_id)}" expired at {_stamp(now - late)} '
                f"(current time is {_stamp(now)})"
            )
        self._meter.used("to_storage", self.name, hashed(write.source.key_id))
        return seal(write.seed, write.tail, plain, key)

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        source, sealed = split(data)
        secret = self._seeds.get(source)
        if secret is None:
            raise Undecryptable("failed to decrypt DEK")
        self._meter.used("from_storage", self.name, hashed(source.key_id))
        return unseal(source, secret, sealed, key)

    def _remember(self, source: Source, secret: bytes) -> None:
        while len(self._seeds) >= _MAX_SEEDS:
            del self._seeds[next(iter(self._seeds))]
        self._seeds[source] = secret
        self._meter.sources.set(len(self._seeds), self.name)

    async def prepare(self, values: Iterable[bytes]) -> None:
        """Lets the plugin decrypt the seeds that stored values need; those that it cannot are tried again later."""
        wanted: dict[Source, None] = {}
        for data in values:
            if data.startswith(self.prefix):
                try:
                    source = split(_without_revision(data, len(self.prefix)))[0]
                except Undecryptable:
                    continue
                if source not in self._seeds:
                    wanted[source] = None
        if wanted:
            await self._fetch(wanted)

    async def _fetch(self, wanted: Iterable[Source]) -> int:
        """Decrypts seeds; returns how many succeeded.  When all calls of a batch fail, the other seeds are left for later."""
        rest, done = list(wanted), 0
        while rest:
            batch, rest = rest[:_MAX_CALLS], rest[_MAX_CALLS:]
            found = await gatherResults([Deferred.fromCoroutine(self._decrypted(source)) for source in batch])
            done += sum(found)
            if not any(found):
                self._miss(rest)
                break
        return done

    async def _decrypted(self, source: Source) -> bool:
        CACHE_MISSES.add()
        try:
            secret = await self._plugin.decrypt(
                source.ciphertext, str(uuid.uuid4()), source.key_id, dict(source.annotations)
            )
        except (PluginError, WireError) as error:
            log.error("KMS provider {name}: failed to decrypt DEK, error: {why}", name=self.name, why=str(error))
            self._miss([source])
            return False
        self._remember(source, secret)
        return True

    def _miss(self, sources: Iterable[Source]) -> None:
        for source in sources:
            if len(self._missing) < _MAX_MISSING:
                self._missing.add(source)


def _new_seed() -> bytes:
    began = time.perf_counter()
    try:
        return os.urandom(SEED_BYTES)
    except OSError:
        DATA_KEY_FAILURES.add()
        raise
    finally:
        DATA_KEY_SECONDS.observe(time.perf_counter() - began)


def _without_revision(data: bytes, begin: int) -> bytes:
    """Cuts the revision, which is not encrypted, off the end of a stored value.  The byte before it is no digit but a type."""
    end = len(data)
    while end > begin and 0x30 <= data[end - 1] <= 0x39:
        end -= 1
    return data[begin:end]


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
