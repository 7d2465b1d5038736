"""When legacy tokens were last used (KEP-2799): a label on their Secret with the date.

Upstream: ``pkg/serviceaccount/legacy.go``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.authentication.service_account.authenticator import LAST_USED
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

log = Logger()
_DAY_SECONDS = 86_400


def day_of(seconds: float) -> str:
    """The date of a time in unix seconds."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


class LegacyTokenUsage:
    """Called with the Secret of every legacy token in use; writes at most once a day for each."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.time) -> None:
        self._secrets = client.resource("", "secrets")
        self._clock = clock
        self._writing: set[str] = set()

    def __call__(self, secret: Object) -> None:
        metadata, now = secret["metadata"], self._clock()
        used = (metadata.get("labels") or {}).get(LAST_USED)
        uid = metadata["uid"]
        if used in (day_of(now), day_of(now + _DAY_SECONDS)) or uid in self._writing:
            return
        self._writing.add(uid)
        Deferred.fromCoroutine(self._label(metadata["namespace"], metadata["name"], uid, day_of(now))).addErrback(
            lambda failure: log.failure("labelling a legacy token", failure)
        )

    async def _label(self, namespace: str, name: str, uid: str, day: str) -> None:
        try:
            await self._secrets.patch(name, {"metadata": {"uid": uid, "labels": {LAST_USED: day}}}, namespace)
        except StatusError as error:
            log.error("Failed to label the legacy token {name}: {error}", name=name, error=error.message)
        finally:
            self._writing.discard(uid)
