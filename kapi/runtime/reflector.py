"""Lists and watches a resource until it is stopped (upstream: client-go ``tools/cache/reflector.go``).

The objects that exist come as the initial events of a watch (KEP-3157), or as a list when the server has no such watch.  A watch
that ends is opened again at its last revision; when that has expired, everything is listed again.  After failures the waits
between attempts grow up to half a minute, plus a random part.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.client.dynamic import ResourceInterface
from kapi.client.errors import ClientError, Gone, UnexpectedAnswer
from kapi.client.watching import Watch
from kapi.machinery.status import BadRequest, Expired, Invalid, StatusError
from kapi.machinery.tree import Object
from kapi.runtime.indexer import key_of

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.8, 30.0  # between attempts; a random part of up to 100 % is added
RESET_SECONDS = 120.0  # after this time without a failure the next one counts as the first again
MIN_WATCH_SECONDS = 300  # requested duration of a watch; a random part of up to 100 % is added
SHORT_WATCH_SECONDS = 1.0  # a shorter watch without an event counts as a failure
_END = "k8s.io/initial-events-end"


class Sink(Protocol):
    """Receives the objects (upstream: ReflectorStore)."""

    def change(self, kind: str, obj: Object) -> None:
        """``kind`` is ADDED, MODIFIED or DELETED.  All objects of a list are ADDED, even if they were known before."""

    def complete(self, keys: set[str]) -> None:
        """Called at the end of a list: only the objects with these keys exist."""


class Reflector:
    """``start()`` and ``stop()`` are called once each.  ``revision`` is the last resourceVersion that was seen."""

    log = Logger()

    def __init__(
        self,
        resource: ResourceInterface,
        sink: Sink,
        *,
        label_selector: str = "",
        field_selector: str = "",
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._resource, self._sink, self._jitter = resource, sink, jitter
        self._labels, self._fields = label_selector, field_selector
        self._reactor = resource.session.reactor
        self._initial_events = True  # whether to request initial events; False once the server has refused them
        self._running: Deferred[None] | None = None
        self._wait, self._failed_at = 0.0, 0.0
        self.revision = ""

    def start(self) -> None:
        if self._running is None:
            self._running = Deferred.fromCoroutine(self._run())
            self._running.addErrback(self._ended)

    def _ended(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self.log.failure("the reflector of {resource} has ended", failure, resource=self._resource.resource.name)

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        while True:
            try:
                if not self.revision:
                    await self._begin()
                else:
                    await self._follow(await self._open())
            except CancelledError:
                raise
            except (Expired, Gone):
                self.revision = ""  # so that the next round lists
                await self._pause("the revision has expired", quietly=True)
            except (StatusError, ClientError) as problem:
                await self._pause(getattr(problem, "message", "") or str(problem))
            except Exception:
                self.log.failure("the reflector of {resource}", resource=self._resource.resource.name)
                await self._pause("")

    async def _pause(self, why: str, quietly: bool = False) -> None:
        now = self._reactor.seconds()
        self._wait = (
            MIN_WAIT_SECONDS
            if now - self._failed_at > RESET_SECONDS
            else min(MAX_WAIT_SECONDS, max(MIN_WAIT_SECONDS, self._wait * 2))
        )
        self._failed_at = now
        if why and not quietly:
            self.log.info("the reflector of {resource}: {why}", resource=self._resource.resource.name, why=why)
        await deferLater(self._reactor, self._wait * (1 + self._jitter()))

    def _timeout(self) -> int:
        return int(MIN_WATCH_SECONDS * (1 + self._jitter()))

    async def _open(self) -> Watch:
        return await self._resource.watch(
            resource_version=self.revision,
            timeout=self._timeout(),
            label_selector=self._labels,
            field_selector=self._fields,
        )

    async def _begin(self) -> None:
        if self._initial_events:
            try:
                watch = await self._resource.watch(
                    initial_events=True,
                    timeout=self._timeout(),
                    label_selector=self._labels,
                    field_selector=self._fields,
                )
            except (BadRequest, Invalid):
                self._initial_events = False
            else:
                await self._follow(watch, set())
                return
        page = await self._resource.list(resource_version="0", label_selector=self._labels, field_selector=self._fields)
        keys = set()
        for obj in typed_items(page):
            keys.add(key_of(obj))
            self._sink.change("ADDED", obj)
        self._sink.complete(keys)
        self.revision = page["metadata"]["resourceVersion"]

    async def _follow(self, watch: Watch, initial: set[str] | None = None) -> None:
        """``initial`` collects the keys of the initial events, until the bookmark that ends them.

        Raises UnexpectedAnswer when the watch ends before that bookmark, or at once.
        """
        opened, has_event = self._reactor.seconds(), False
        try:
            async for kind, obj in watch:
                has_event = True
                metadata = obj["metadata"]
                if kind == "BOOKMARK":
                    if initial is not None and _END in (metadata.get("annotations") or ()):
                        self._sink.complete(initial)
                        initial = None
                else:
                    if initial is not None:
                        (initial.discard if kind == "DELETED" else initial.add)(key_of(obj))
                    self._sink.change(kind, obj)
                if initial is None:
                    self.revision = metadata["resourceVersion"]
        finally:
            watch.close()
        if initial is not None:
            raise UnexpectedAnswer("the watch ended before the end of the initial events")
        if not has_event and self._reactor.seconds() - opened < SHORT_WATCH_SECONDS:
            raise UnexpectedAnswer("the watch ended at once, without an event")


def typed_items(page: Object) -> list[Object]:
    """The items, with the kind and apiVersion that the list implies."""
    kind, version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion", "")
    return [
        item if "kind" in item else {"apiVersion": version, "kind": kind, **item} for item in page.get("items") or ()
    ]
