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

DELETE_WORKERS = 128  # one after the other, each deletion would wait for the store's disk


class Timers(Protocol):
    """The part of IReactorTime that ends what lasts long."""

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
    quotas: Store | None = (
        None  # where they are kept: what is kept elsewhere can be charged to them, but not in one step
    )
    identities: Identities | None = None  # where uids and generated names are to come out the same each time
    authors: Authors | None = None  # where the users of writes are noted, for the console
    timers: Timers | None = None  # what the ends of watches go by, where that is not the process's clock
    _second: int = 0
    _stamp: str = ""

    async def judge(self, asked: Attributes) -> Verdict | None:
        """What the authorizer says; None without one, when everybody may do everything."""
        if self.authorizer is None:
            return None
        verdict = self.authorizer.authorize(asked)
        return verdict if isinstance(verdict, Verdict) else await verdict

    def uid(self, key: str) -> str:
        """For a new object under this key."""
        return new_uid() if self.identities is None else self.identities.uid(key)

    def now(self) -> str:
        """The time as metadata carries it: RFC 3339, UTC, whole seconds."""
        second = int(self.clock())
        if second != self._second:
            self._second = second
            self._stamp = stamp(second)
        return self._stamp
