"""Events that controllers record about objects (upstream: client-go ``tools/events``).

Some controllers record events of the older API, core/v1 with a source and a count.

Upstream: client-go ``tools/record``.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from typing import NamedTuple

from twisted.logger import Logger

from kapi.machinery import status
from kapi.machinery.memo import RecentlyUsed
from kapi.machinery.names import dns_subdomain
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.machinery.uid import new_uid
from kapi.runtime.interface import Client

_SERIES_SECONDS = 6 * 60.0  # time without another event after which a series has ended
_CLUSTER_SCOPED = "default"  # the namespace of events about cluster-scoped objects
CACHE_SIZE = 4096  # events whose repetitions are counted


class Occurrence(NamedTuple):
    """An event of an object, and the action taken."""

    regarding: Object
    reason: str
    action: str
    note: str


class _Series(NamedTuple):
    namespace: str
    name: str
    times: int
    last: float


class EventRecorder:
    """Records events.  A repeated event gets a series.  An event that cannot be recorded is only logged."""

    log = Logger()

    def __init__(self, client: Client, now: Callable[[], str]) -> None:
        self._events = client.resource("", "events")
        self._host = socket.gethostname()
        self._now = now
        self._recorded: dict[tuple[str, ...], _Series] = {}
        self._last_name = 0

    async def warn(self, controller: str, occurrence: Occurrence) -> None:
        """``controller`` is the reporting component."""
        now = seconds_of(self._now())
        self._recorded = {key: series for key, series in self._recorded.items() if now - series.last <= _SERIES_SECONDS}
        reference = reference_to(occurrence.regarding)
        key = (*reference.values(), controller, occurrence.reason, occurrence.action)
        known = self._recorded.get(key)
        try:
            if known is not None:
                series = {"count": known.times + 1, "lastObservedTime": self._micros()}
                await self._events.patch(known.name, {"series": series}, known.namespace)
                self._recorded[key] = known._replace(times=known.times + 1, last=now)
                return
            event = self._event(controller, reference, occurrence, now)
            namespace, name = event["metadata"]["namespace"], event["metadata"]["name"]
            await self._events.create(event, namespace)
            self._recorded[key] = _Series(namespace, name, 1, now)
        except status.StatusError as error:
            self._recorded.pop(key, None)
            self.log.info("cannot record {reason}: {message}", reason=occurrence.reason, message=error.message)

    def _event(self, controller: str, reference: Object, occurrence: Occurrence, now: float) -> Object:
        self._last_name = max(self._last_name + 1, int(now * 1e9))
        name = f"{reference['name']}.{self._last_name:x}"
        if dns_subdomain(name):
            name = str(uuid.uuid4())
        return {
            "metadata": {"name": name, "namespace": reference.get("namespace") or _CLUSTER_SCOPED},
            "involvedObject": reference,
            "eventTime": self._micros(),
            "reportingComponent": controller,
            "reportingInstance": f"{controller}-{self._host}",
            "action": occurrence.action,
            "reason": occurrence.reason,
            "message": occurrence.note,
            "type": "Warning",
        }

    def _micros(self) -> str:
        return self._now().replace("Z", ".000000Z")


def reference_to(obj: Object) -> Object:
    """The reference to an object, as from upstream's ``tools/reference``."""
    metadata = obj["metadata"]
    named = ("namespace", "name", "uid", "resourceVersion")
    reference = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **{name: metadata.get(name) for name in named}}
    return {name: value for name, value in reference.items() if value}


class CoreEvent(NamedTuple):
    """An event of the object to which ``regarding`` refers."""

    regarding: Object
    type: str  # Normal or Warning
    reason: str
    message: str


class CoreEventRecorder:
    """Records events of the older API, with a count of repetitions.  An event that cannot be recorded is only logged."""

    log = Logger()

    def __init__(self, client: Client, component: str, now: Callable[[], str]) -> None:
        self._events = client.resource("", "events")
        self._component = component
        self._now = now
        self._known: RecentlyUsed[tuple[object, ...], tuple[str, str, int]] = RecentlyUsed(
            CACHE_SIZE
        )  # namespace, name, count
        self._last_name = 0

    async def record(self, event: CoreEvent) -> None:
        key = (*event.regarding.values(), *event[1:])
        known = self._known.pop(key, None)
        try:
            if known is not None:
                namespace, name, count = known
                try:
                    await self._events.patch(name, {"count": count + 1, "lastTimestamp": self._now()}, namespace)
                    self._known.keep(key, (namespace, name, count + 1))
                    return
                except status.NotFound:
                    pass  # it has expired
            made = self._event(event)
            namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
            await self._events.create(made, namespace)
            self._known.keep(key, (namespace, name, 1))
        except status.StatusError as error:
            self.log.info("cannot record {reason}: {message}", reason=event.reason, message=error.message)

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
