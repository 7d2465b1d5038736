"""Events of the older API, core/v1 with a source and a count, which some controllers record.

Upstream: client-go ``tools/record``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from twisted.logger import Logger

from kapi.machinery import status
from kapi.machinery.names import dns_subdomain
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.machinery.uid import new_uid
from kapi.runtime.interface import Client

CACHE_SIZE = 4096  # events whose repetitions are counted
_CLUSTER_SCOPED = "default"  # the namespace of events about objects that have none


class CoreEvent(NamedTuple):
    """What happened to an object, of which ``regarding`` is a reference."""

    regarding: Object
    type: str  # Normal or Warning
    reason: str
    message: str


class CoreEventRecorder:
    """An event that is recorded again is counted.  An event that cannot be recorded is logged only."""

    log = Logger()

    def __init__(self, client: Client, component: str, now: Callable[[], str]) -> None:
        self._events = client.resource("", "events")
        self._component = component
        self._now = now
        self._known: OrderedDict[tuple[object, ...], tuple[str, str, int]] = OrderedDict()  # namespace, name, count
        self._last_name = 0

    async def record(self, event: CoreEvent) -> None:
        key = (*event.regarding.values(), *event[1:])
        known = self._known.pop(key, None)
        try:
            if known is not None:
                namespace, name, count = known
                try:
                    await self._events.patch(name, {"count": count + 1, "lastTimestamp": self._now()}, namespace)
                    self._remember(key, namespace, name, count + 1)
                    return
                except status.NotFound:
                    pass  # it has expired
            made = self._event(event)
            namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
            await self._events.create(made, namespace)
            self._remember(key, namespace, name, 1)
        except status.StatusError as error:
            self.log.info("cannot record {reason}: {message}", reason=event.reason, message=error.message)

    def _remember(self, key: tuple[object, ...], namespace: str, name: str, count: int) -> None:
        self._known[key] = namespace, name, count
        if len(self._known) > CACHE_SIZE:
            self._known.popitem(last=False)

    def _event(self, event: CoreEvent) -> Object:
        now = self._now()
        self._last_name = max(self._last_name + 1, int(seconds_of(now) * 1e9))
        regarding = {field: value for field, value in event.regarding.items() if value}
        name = f"{regarding['name']}.{self._last_name:x}"
        return {
            "metadata": {
                "name": new_uid() if dns_subdomain(name) else name,
                "namespace": regarding.get("namespace") or _CLUSTER_SCOPED,
            },
            "involvedObject": regarding,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": event.type,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
