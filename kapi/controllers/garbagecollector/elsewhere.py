"""Objects of aggregated servers, which are listed and watched, since no cache of this server has them.

Upstream: the monitors of ``graph_builder.go``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.controllers.garbagecollector.metadata import UNREADABLE, Metadata, read
from kapi.machinery import status
from kapi.machinery.each import costly
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.tree import Object
from kapi.runtime.sliced import begin

BACK_OFF = (1.0, 60.0)  # seconds before a server is asked again, at first and at most


class Remote(Protocol):
    """One resource of another server.  Raises StatusError for refusals and errors of the connection."""

    resource: GroupResource
    namespaced: bool

    async def get(self, name: str, namespace: str = "") -> Object: ...
    def pages(self) -> AsyncIterator[Object]: ...
    async def patch(self, name: str, patch: Object, namespace: str = "") -> None: ...
    async def delete(self, name: str, namespace: str, options: Object) -> None: ...
    async def watch(self, revision: str, on_event: Callable[[str, Object], None]) -> None: ...


class Remotes(Protocol):
    """All resources of other servers in the current discovery."""

    listeners: list[Callable[[], None]]

    def all(self) -> Sequence[Remote]: ...
    def find(self, group_version: GroupVersion, kind: str) -> Remote | None: ...
    def of(self, resource: GroupResource) -> Remote | None: ...


class RemotePlace:
    """A Place whose objects are requested from another server."""

    def __init__(self, remote: Remote) -> None:
        self.resource = remote.resource
        self.namespaced = remote.namespaced
        self._remote = remote

    def surely_has(self, namespace: str, name: str, uid: str) -> bool:
        return False

    async def metadata(self, namespace: str, name: str) -> Metadata | None:
        tree = await self.tree(namespace, name)
        return None if tree is None else metadata_of(tree)

    async def tree(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._remote.get(name, namespace)
        except status.NotFound:
            return None

    async def somewhere(self, name: str, uid: str) -> bool:
        """Not answered: listing all objects, to see whether a reference is wrong or its owner deleted, would cost too much."""
        return False

    async def patch(self, namespace: str, name: str, patch: Object) -> None:
        await self._remote.patch(name, patch, namespace)

    async def delete(self, namespace: str, name: str, options: Object) -> None:
        await self._remote.delete(name, namespace, options)


def metadata_of(tree: Object) -> Metadata:
    """The metadata of an answer.  Raises StatusError for an answer that is not an object."""
    try:
        return read(orjson.dumps(tree))
    except (TypeError, *UNREADABLE) as error:
        raise status.generic(str(error)) from None


class Monitors:
    """A watch for each resource of other servers; ``observe`` and ``forget`` are called with objects."""

    log = Logger()

    def __init__(
        self,
        remotes: Remotes,
        reactor: IReactorTime,
        observe: Callable[[GroupResource, str, str, Metadata], None],
        forget: Callable[[str], None],
    ) -> None:
        self._remotes = remotes
        self._reactor = reactor
        self._observe = observe
        self._forget = forget
        self._running: dict[GroupResource, Deferred[None]] = {}

    def start(self) -> None:
        self._remotes.listeners.append(self.refresh)
        self.refresh()

    def stop(self) -> None:
        if self.refresh in self._remotes.listeners:
            self._remotes.listeners.remove(self.refresh)
        for resource in list(self._running):
            self._end(resource)

    def refresh(self) -> None:
        """Called when discovery has changed."""
        found = {remote.resource: remote for remote in self._remotes.all()}
        for resource in self._running.keys() - found.keys():
            self._end(resource)
        for resource, remote in found.items():
            if resource not in self._running:
                task = self._running[resource] = begin(self._reactor, self._follow(remote))
                task.addErrback(self._ended, resource)

    def _end(self, resource: GroupResource) -> None:
        self._running.pop(resource).cancel()

    def _ended(self, failure: Failure, resource: GroupResource) -> None:
        if not failure.check(CancelledError):
            self.log.failure("{resource} is not followed any more", failure, resource=str(resource))

    async def _follow(self, remote: Remote) -> None:
        known: set[str] = set()
        delay = BACK_OFF[0]
        while True:
            begun = self._reactor.seconds()
            try:
                revision = await self._list(remote, known)
                await remote.watch(revision, lambda kind, obj: self._event(remote.resource, known, kind, obj))
            except CancelledError:
                raise
            except Exception as error:  # any error of the network or the other server
                self.log.info("{resource}: {error}", resource=str(remote.resource), error=str(error))
            if self._reactor.seconds() - begun > BACK_OFF[1]:
                delay = BACK_OFF[0]
            await deferLater(self._reactor, delay)
            delay = min(2 * delay, BACK_OFF[1])

    async def _list(self, remote: Remote, known: set[str]) -> str:
        """Lists, and returns the list's revision.  Known objects that are not in the list are deleted."""
        seen: set[str] = set()
        revision = ""
        async for page in remote.pages():
            revision = revision or str(page["metadata"].get("resourceVersion", ""))
            seen.update(self._one(remote.resource, item) for item in costly(page.get("items") or []))
        for uid in known - seen:
            self._forget(uid)
        known.clear()
        known |= seen
        return revision

    def _one(self, resource: GroupResource, tree: Object) -> str:
        seen = metadata_of(tree)
        metadata = tree["metadata"]
        self._observe(resource, metadata.get("namespace") or "", metadata.get("name") or "", seen)
        return seen.uid

    def _event(self, resource: GroupResource, known: set[str], kind: str, tree: Object) -> None:
        if kind in ("ADDED", "MODIFIED"):
            known.add(self._one(resource, tree))
        elif kind == "DELETED":
            uid = metadata_of(tree).uid
            known.discard(uid)
            self._forget(uid)
