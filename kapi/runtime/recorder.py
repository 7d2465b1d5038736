"""Events about objects, for people to read (upstream: client-go ``tools/record``).

Recording never waits and never fails: events are sent one by one in the background.  Events that do not fit into the queue are
dropped and counted.  A repeated event increments the count of the first one; the rate of events for an object is limited.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from kapi.client.dynamic import DynamicClient, ResourceInterface
from kapi.client.limiter import TokenBucket
from kapi.machinery.memo import RecentlyUsed
from kapi.machinery.status import NotFound
from kapi.machinery.time import stamp
from kapi.machinery.tree import Object
from kapi.process.driver import trap_cancelled

MAX_QUEUED = 1000  # events
MAX_KNOWN = 4096  # events, and objects, whose counts and rates are cached
BURST, RATE = (
    25,
    1 / 300.0,
)  # for one object: events at once, events per second (upstream: defaultSpamBurst, defaultSpamQPS)
MAX_MESSAGE = 1024  # characters


class EventRecorder:
    """``component`` is the reporter's name.  ``dropped`` counts the events that were not recorded."""

    log = Logger()

    def __init__(
        self, client: DynamicClient, component: str, *, host: str = "", now: Callable[[], float] = time.time
    ) -> None:
        self._client, self._component, self._host, self._now = client, component, host, now
        self._queue: deque[Object] = deque()
        self._known: RecentlyUsed[tuple[str, ...], Object] = RecentlyUsed(MAX_KNOWN)
        self._buckets: RecentlyUsed[str, TokenBucket] = RecentlyUsed(MAX_KNOWN)
        self._events: ResourceInterface | None = None
        self._running: Deferred[None] | None = None
        self._sending = False
        self._sequence = 0
        self.dropped = 0

    def event(self, obj: Object, kind: str, reason: str, message: str) -> None:
        """Records an event about an object.  ``kind`` is Normal or Warning, ``reason`` one word in CamelCase."""
        metadata = obj["metadata"]
        reference = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace"),
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
        now = stamp(self._now())
        self._sequence += 1
        namespace = metadata.get("namespace") or "default"
        name = f"{metadata['name']}.{int(self._now() * 1e6):x}{self._sequence:04x}"
        made = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in reference.items() if value},
            "type": kind,
            "reason": reason,
            "message": message[:MAX_MESSAGE],
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": self._component,
        }
        if len(self._queue) >= MAX_QUEUED or not self._may(str(metadata.get("uid") or metadata["name"])):
            self.dropped += 1
            return
        self._queue.append(made)
        if not self._sending:
            self._sending = True
            self._running = Deferred.fromCoroutine(self._send_all())
            self._running.addErrback(trap_cancelled)

    def _may(self, uid: str) -> bool:
        bucket = self._buckets.get(uid) or TokenBucket(self._client.session.reactor, RATE, BURST)
        self._buckets.keep(uid, bucket)
        if bucket.reserve() > 0:
            bucket.give_back()
            return False
        return True

    def stop(self) -> None:
        """Drops the events that were not sent yet."""
        self.dropped += len(self._queue)
        self._queue.clear()
        if self._running is not None:
            self._running.cancel()

    async def _send_all(self) -> None:
        try:
            while self._queue:
                event = self._queue.popleft()
                try:
                    await self._send(event)
                except CancelledError:
                    raise
                except Exception as problem:  # also ConfigError: the next events are still sent
                    self.dropped += 1
                    self.log.info("an event was not recorded: {why}", why=str(problem))
        finally:
            self._sending = False

    async def _send(self, event: Object) -> None:
        if self._events is None:
            self._events = await self._client.resource("events.v1.")
        events = self._events.namespace(event["metadata"]["namespace"])
        involved = event["involvedObject"]
        key = tuple(str(involved.get(part)) for part in ("kind", "namespace", "name", "uid")) + (
            event["type"], event["reason"], event["message"],
        )  # fmt: skip
        known = self._known.get(key)
        if known is not None:
            count = known["count"] + 1
            try:
                change = {"count": count, "lastTimestamp": event["lastTimestamp"]}
                self._known[key] = await events.patch(known["metadata"]["name"], change, "strategic")
                return
            except NotFound:
                pass  # it has expired
        self._known.keep(key, await events.create(event))
