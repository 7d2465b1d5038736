"""What every resource store of a server shares: clock, feature gates, options, listers, authorizer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from twisted.internet.interfaces import IDelayedCall

from kapi.authorization.interface import Attributes, Authorizer, Verdict
from kapi.machinery.gvk import GroupResource
from kapi.machinery.time import stamp
from kapi.machinery.uid import new_uid
from kapi.registry.authors import Authors
from kapi.registry.identities import Identities
from kapi.resources.definition import Lister
from kapi.store.interface import Store

DELETE_WORKERS = 128  # deletions at once: one after the other, each would wait for the store's disk


class Timers(Protocol):
    """The part of IReactorTime that time-outs of watches use."""

    def callLater(self, delay: float, function: Callable[..., object], /) -> IDelayedCall: ...


class Environment(msgspec.Struct):
    """Set up once by the composition root; ``clock`` gives unix seconds."""

    clock: Callable[[], float] = time.time
    features: Mapping[str, bool] = msgspec.field(default_factory=dict)
    allow_privileged: bool = False  # containers
    listers: Mapping[GroupResource, Lister] = msgspec.field(default_factory=dict)
    authorizer: Authorizer | None = None
    garbage_collection: bool = True
    event_ttl: float = 3600.0  # seconds
    min_request_timeout: int = 1800  # seconds; a watch without timeoutSeconds ends after one to two of it, 0: never
    delete_workers: int = DELETE_WORKERS  # deletions of a collection that are under way at once
    quotas: Store | None = None  # of ResourceQuotas: a write to another store is not charged in the same transaction
    identities: Identities | None = None  # set in tests: reproducible uids and generated names
    authors: Authors | None = None  # set with the console: the users of recent writes
    timers: Timers | None = None  # for the time-outs of watches; None: the reactor
    _second: int = 0
    _stamp: str = ""

    async def authorize(self, attributes: Attributes) -> Verdict | None:
        """The authorizer's verdict; None without an authorizer, when everything is allowed."""
        if self.authorizer is None:
            return None
        verdict = self.authorizer.authorize(attributes)
        return verdict if isinstance(verdict, Verdict) else await verdict

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
