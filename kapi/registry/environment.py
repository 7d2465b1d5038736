"""The environment of all resource stores of a server: clock, feature gates, options, listers, authorizer, uids, recent users.

The console's stream of changes shows the users: neither objects nor watch events carry the user who wrote them.  Tests that
compare answers with recorded ones use reproducible uids and generated names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Protocol

import msgspec
from twisted.internet.interfaces import IDelayedCall

from kapi.authorization.interface import Attributes, Authorizer, Verdict, decided
from kapi.machinery.gvk import GroupResource
from kapi.machinery.time import stamp
from kapi.machinery.uid import new_uid
from kapi.registry.metadata import ALPHABET, RANDOM_LENGTH
from kapi.resources.definition import Lister
from kapi.store.interface import Store

_MAX_WRITES = 2000
_MAX_NAME_LENGTH = 256  # characters of a user's name that are stored: a header may carry many kB
MAX_SEED_LENGTH = 256  # characters
_MAX_KEYS = 100_000  # keys with a count of their objects
DELETE_WORKERS = 128  # concurrent deletions: one after the other, each would wait for the store's disk


class Authors:
    """The users of the last ``_MAX_WRITES`` writes of this process."""

    def __init__(self) -> None:
        self._users: dict[tuple[GroupResource, int], str] = {}  # by resource and revision, oldest first

    def note(self, resource: GroupResource, revision: int, user: str) -> None:
        users = self._users
        users[resource, revision] = user[:_MAX_NAME_LENGTH]
        if len(users) > _MAX_WRITES:
            del users[next(iter(users))]

    def __iter__(self) -> Iterator[tuple[GroupResource, int, str]]:
        """(resource, revision, user), oldest first."""
        return ((resource, revision, user) for (resource, revision), user in self._users.items())


class Identities:
    """Values that depend on ``seed``, the object's key and the number of objects under that key so far, not on other writes."""

    def __init__(self, seed: str, *, origin: str = "") -> None:
        """``origin`` distinguishes servers that go on from copied data with the same seed."""
        self.seed = seed
        self._key = blake2b(f"{origin}/{seed}".encode()).digest()
        self._made: dict[str, int] = {}
        self._generation = 0  # how often the counts were cleared

    def uid(self, key: str) -> str:
        """In the form of a random (version 4) UUID; ``key`` is the object's in the store."""
        text = self._digest("uid", key).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"

    def suffix(self, key: str) -> str:
        """The suffix of a generated name; ``key`` is the store's key with the generateName in place of the name."""
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in self._digest("name", key)[:RANDOM_LENGTH])

    def _digest(self, kind: str, key: str) -> bytes:
        if len(self._made) >= _MAX_KEYS:
            self._made.clear()
            self._generation += 1
        place = f"{kind} {key}"
        made = self._made[place] = self._made.get(place, 0) + 1
        return blake2b(f"{place} {made} {self._generation}".encode(), digest_size=16, key=self._key).digest()


class Timers(Protocol):
    """The part of IReactorTime that time-outs use."""

    def callLater(self, delay: float, function: Callable[..., object], /, *arguments: object) -> IDelayedCall: ...


class Environment(msgspec.Struct):
    """Set up once by the composition root; ``clock`` gives unix seconds."""

    timers: Timers  # the reactor; in tests a clock that is moved
    clock: Callable[[], float] = time.time
    features: Mapping[str, bool] = msgspec.field(default_factory=dict)
    allow_privileged: bool = False  # privileged containers
    listers: Mapping[GroupResource, Lister] = msgspec.field(default_factory=dict)
    authorizer: Authorizer | None = None
    garbage_collection: bool = True
    event_ttl: float = 3600.0  # seconds
    min_request_timeout: int = 1800  # seconds; a watch without timeoutSeconds ends after one to two of it, 0: never
    delete_workers: int = DELETE_WORKERS  # concurrent deletions of a collection
    # the store of ResourceQuotas: a write to another store is not charged in the same transaction
    quotas: Store | None = None
    identities: Identities | None = None  # set in tests: reproducible uids and generated names
    authors: Authors | None = None  # set with the console: the users of recent writes
    _second: int = 0
    _stamp: str = ""

    async def authorize(self, attributes: Attributes) -> Verdict | None:
        """The authorizer's decision; None without an authorizer: everything is allowed."""
        if self.authorizer is None:
            return None
        return await decided(self.authorizer, attributes)

    def uid(self, key: str) -> str:
        """The uid of a new object that is stored under ``key``."""
        return new_uid() if self.identities is None else self.identities.uid(key)

    def now(self) -> str:
        """The time as metadata carries it: RFC 3339, UTC, whole seconds."""
        second = int(self.clock())
        if second != self._second:
            self._second = second
            self._stamp = stamp(second)
        return self._stamp
