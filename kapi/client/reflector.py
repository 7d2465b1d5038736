"""Follows a resource: all that is there, then every change, for ever (upstream: client-go ``tools/cache/reflector.go``).

What is there comes as the initial events of a watch (KEP-3157), or as a list where the server knows no such watch.  A watch
that ends is opened again where it ended; one whose revision has expired begins anew; what fails is tried again, later each
time, and at most every half minute.
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
from kapi.client.indexer import key_of
from kapi.client.watching import Watch
from kapi.machinery.status import BadRequest, Expired, Invalid, StatusError
from kapi.machinery.tree import Object

FIRST_WAIT, MAX_WAIT_SECONDS = 0.8, 30.0  # seconds; each is lengthened by up to itself
HEALTHY = 120.0  # seconds without a failure, after which the next is the first again
MIN_WATCH = 300  # seconds that a watch lasts at least, and at most twice that
SHORT_WATCH = 1.0  # seconds; one that ends before, and without an event, counts as a failure
_END = "k8s.io/initial-events-end"


class Sink(Protocol):
    """Where the objects go."""

    def change(self, kind: str, obj: Object) -> None:
        """``kind`` is ADDED, MODIFIED or DELETED.  What there is at a begin is ADDED, whether it was there before or not."""
        ...

    def complete(self, keys: set[str]) -> None:
        """At the end of a begin: there is nothing but these."""
        ...


class Reflector:
    """``start()`` once, ``stop()`` once.  ``revision`` is how far it has come."""

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
        self._initial_events = True  # until the server says that it does not know them
        self._running: Deferred[None] | None = None
        self._wait, self._failed_at = 0.0, 0.0
        self.revision = ""

    def start(self) -> None:
        if self._running is None:
            self._running = Deferred.fromCoroutine(self._run())
            self._running.addErrback(self._ended)

    def _ended(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self.log.failure("following {resource} has ended", failure, resource=self._resource.resource.name)

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
                self.revision = ""  # the next round lists; soon, the server is there
                await self._pause("the revision has expired", quietly=True)
            except (StatusError, ClientError) as problem:
                await self._pause(getattr(problem, "message", "") or str(problem))
            except Exception:
                self.log.failure("following {resource}", resource=self._resource.resource.name)
                await self._pause("")

    async def _pause(self, why: str, quietly: bool = False) -> None:
        now = self._reactor.seconds()
        self._wait = (
            FIRST_WAIT if now - self._failed_at > HEALTHY else min(MAX_WAIT_SECONDS, max(FIRST_WAIT, self._wait * 2))
        )
        self._failed_at = now
        if why and not quietly:
            self.log.info("following {resource}: {why}", resource=self._resource.resource.name, why=why)
        await deferLater(self._reactor, self._wait * (1 + self._jitter()))

    def _timeout(self) -> int:
        return int(MIN_WATCH * (1 + self._jitter()))

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
        """``initial`` collects the keys of what there is, until the bookmark that ends it.

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
            raise UnexpectedAnswer("the watch ended before all that was there had come")
        if not has_event and self._reactor.seconds() - opened < SHORT_WATCH:
            raise UnexpectedAnswer("the watch ended at once, without an event")


def typed_items(page: Object) -> list[Object]:
    """The items, with what the list says of them."""
    kind, version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion", "")
    return [
        item if "kind" in item else {"apiVersion": version, "kind": kind, **item} for item in page.get("items") or ()
    ]
