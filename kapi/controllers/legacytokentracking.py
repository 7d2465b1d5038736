"""Records since when the use of legacy tokens is tracked: ``kube-system/kube-apiserver-legacy-service-account-token-tracking``.

The day in it is kept while it is a date.  Upstream: ``pkg/controlplane/controller/legacytokentracking``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.authentication.service_account.usage import day_of
from kapi.controllers.watching import ConfigMapController
from kapi.machinery.status import AlreadyExists, Conflict, NotFound
from kapi.runtime.interface import Client

NAMESPACE, NAME = "kube-system", "kube-apiserver-legacy-service-account-token-tracking"
CREATION_SECONDS = 1800.0  # between two creations: servers of an older version may delete it


class LegacyTokenTrackingController(ConfigMapController):
    """``clock`` returns unix seconds."""

    name = "start-legacy-token-tracking-controller"
    namespace, map_name = NAMESPACE, NAME

    def __init__(self, client: Client, reactor: IReactorTime, clock: Callable[[], float]) -> None:
        self._seconds = reactor.seconds
        self._clock = clock
        self._may_create = 0.0  # seconds of the reactor
        super().__init__(client, reactor)

    async def _handle(self, key: str) -> float | None:
        existing = self._maps.lister.get(NAMESPACE, NAME)
        if existing is None:
            return await self._create()
        data = existing.get("data") or {}
        if not _is_day(data.get("since", "")):
            # another writer that was faster is observed
            await self._maps.update({**existing, "data": {**data, "since": day_of(self._clock())}}, NAMESPACE)
        return None

    async def _create(self) -> float | None:
        """The seconds after which it may be created."""
        now = self._seconds()
        if now < self._may_create:
            return self._may_create - now
        obj = {"metadata": {"name": NAME}, "data": {"since": day_of(self._clock())}}
        try:
            await self._maps.create(obj, NAMESPACE)
        except NotFound as error:  # the namespace does not exist yet
            raise Conflict(error.message) from None
        except AlreadyExists:
            pass
        self._may_create = now + CREATION_SECONDS
        return None


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
