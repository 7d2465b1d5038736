"""The controllers of the extensions server, on one watch of CustomResourceDefinitions.

An event of a definition changes at once what is served; events of large definitions are handled one after the other in slices.
Writes go through work queues with several workers, since admission may be slow, and a removal lasts as long as there are
instances.  Names are accepted for one definition of a group at a time.  Schemas stay undecoded here; the code that serves custom
resources is imported with the first definition.
Upstream: apiextensions ``controller/status``, ``establish``, ``finalizer``, ``nonstructuralschema``, ``apiapproval``,
``customresource_handler.go``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import maybeDeferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.codecs import json_pieces
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status, tree
from kapi.machinery.each import elements
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupResource
from kapi.machinery.importing import import_in_thread
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.registry.client import CacheReflector
from kapi.registry.registry import Registry
from kapi.registry.resource_store import ResourceStore
from kapi.resources.apiextensions.customresourcedefinitions import FINALIZER
from kapi.resources.apiextensions.internal import is_true
from kapi.resources.definition import Resource
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin, call_of
from kapi.runtime.workqueue import WorkQueue
from kapi.schema import mergepatch
from kapi.servers.apiextensions import names
from kapi.servers.apiextensions.conversion import Post
from kapi.servers.apiextensions.outline import outline
from kapi.watchcache.cache import Batch
from kapi.watchcache.entry import Entry
from kapi.watchcache.unreadable import Unreadable

if TYPE_CHECKING:
    from kapi.servers.apiextensions.rows import Rows

log = Logger()
GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
WORKERS = 5  # definitions whose conditions are written at once
FINALIZER_WORKERS = 5  # definitions removed at once
_LARGE_BYTES = 64 * 1024  # bytes of a definition whose event may take long, since it may have many names or versions
#: before instances are listed: creations under way end, other servers begin to refuse, and a client that polls ten times a second
#: can see the condition and act on it (upstream's finalizer waits for two consistent lists)
_NOTICE_SECONDS = 0.25
_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 5.0


class CustomResources:
    """Serves the resources of all definitions."""

    def __init__(
        self,
        registry: Registry,
        table: ResourceTable,
        client: Client,
        reactor: Reactor,
        built_in: Collection[Resource],
        post: Post | None = None,
    ) -> None:
        """``post`` calls conversion webhooks.  ``built_in`` are the other resources, whose group versions have no custom ones."""
        self.registry = registry
        self.table = table
        self.crds = client.resource(GROUP, PLURAL)
        self._cache = registry.caches.cache(GroupResource(GROUP, PLURAL))
        self.client = client
        self.reactor = reactor
        self._built_in = frozenset(row.group_resource for row in built_in)
        self._built_in_versions = frozenset(row.group_version for row in built_in)
        self._post = post
        self.served: dict[str, Rows] = {}
        self._groups: dict[str, names.GroupNames] = {}
        self._queue: WorkQueue[str] = WorkQueue(reactor, "definitions", self._reconcile, WORKERS)
        self._finalizing: WorkQueue[str] = WorkQueue(reactor, "definitions' removal", self._finalize, FINALIZER_WORKERS)
        self._seen: dict[str, int] = {}  # name -> revision of its last event
        #: events of large definitions, and later events of the same; the first one is being handled
        self._large_events: deque[tuple[str, Entry]] = deque()
        self._large_names: Counter[str] = Counter()
        self._reflector: CacheReflector | None = None
        self._delays: dict[str, float] = {}

    async def start(self) -> None:
        for entry in self._cache.list()[0]:  # served from the first request on
            self._changed("ADDED", entry)
        self._reflector = CacheReflector(self._cache, self._on_batch)

    def stop(self) -> None:
        if self._reflector is not None:
            self._reflector.stop()
            self._reflector = None
        self._large_events.clear()
        self._queue.stop()
        self._finalizing.stop()

    # serving: no I/O

    def _on_batch(self, batch: Batch) -> None:
        for event in batch.events:
            entry = event.entry
            if entry is None:
                continue
            if len(entry.data) < _LARGE_BYTES and entry.name not in self._large_names:
                self._changed(event.type, entry)
                continue
            self._large_events.append((event.type, entry))
            self._large_names[entry.name] += 1
            if len(self._large_events) == 1:
                self._next()

    def _next(self) -> None:
        """Handles the first of the large events in slices."""
        if not self._large_events:
            return  # it has been stopped
        call = call_of(self.reactor)
        if call is None:
            work = maybeDeferred(self._changed, *self._large_events[0])
        else:
            work = call(self._changed, *self._large_events[0])
        work.addErrback(self._failed, self._large_events[0][1].name).addCallback(self._handled)

    def _failed(self, failure: Failure, name: str) -> None:
        """Logs an error, which concerns only this definition."""
        log.failure("An event of the definition {name} was not handled", failure, name=name)

    def _handled(self, _: None) -> None:
        if not self._large_events:
            return  # it has been stopped
        name = self._large_events.popleft()[1].name
        self._large_names[name] -= 1
        if not self._large_names[name]:
            del self._large_names[name]
        if self._large_events:
            self.reactor.callLater(0, self._next)

    def _changed(self, kind: str, entry: Entry) -> None:
        """Handles an event.  Only logs an error, which concerns this definition alone."""
        try:
            self._handle(kind, entry)
        except Exception:
            try:
                entry.check()  # an outline with another shape is not read again
            except Unreadable:
                return
            log.failure("an event of the definition {name} was not handled", name=entry.name)

    def _handle(self, kind: str, entry: Entry) -> None:
        name = entry.name
        if self._seen.get(name) == entry.revision:
            return
        self._seen[name] = entry.revision
        crd = outline(entry.data)
        if kind == "DELETED":
            del self._seen[name]
            self._unserve(name)
            self._group_names(crd).remove(name)
            self._enqueue_waiting(crd)  # a name may be free now
            return
        self._group_names(crd).update(crd)
        if is_true(crd, "Established"):
            import_in_thread("kapi.servers.apiextensions.rows")
            from kapi.servers.apiextensions.rows import serving_state

            known = self.served.get(name)
            if known is None or known.state != serving_state(crd):
                self._serve(name, crd)
        if name in self.served:
            self.served[name].refuse_new(is_true(crd, "Terminating"))
        self._queue.add(name)

    def _serve(self, name: str, crd: Object) -> None:
        from kapi.servers.apiextensions.rows import Rows

        try:
            rows = Rows(crd, self._post, partial(begin, self.reactor), taken=self._built_in_versions)
        except Exception:
            log.failure("The definition {name} cannot be served", name=name)
            return
        resource = GroupResource(rows.group, rows.plural)
        if resource in self._built_in:
            return
        old = self.served.get(name)
        store = self._store(resource, rows)
        self.served[name] = rows
        for row in elements(rows.served):
            self.table.add(row, store)
        if old is not None:
            kept = {row.version for row in elements(rows.served)}
            for row in elements(old.served):
                if row.version not in kept:
                    self.table.remove(row.group, row.version, row.plural)
            if old.shown != rows.shown:
                store.cache.end_watches(None)  # their earlier events may be invalid now; clients list and watch again
            old.release()

    def _store(self, resource: GroupResource, rows: Rows) -> ResourceStore:
        registry, row = self.registry, rows.stored
        cache = registry.caches.cache(resource, _fields(rows), rows.namespaced)
        store = ResourceStore(row, cache, registry.store, registry.admission, registry.environment)
        registry.put(resource, store)
        return store

    def _unserve(self, name: str) -> None:
        rows = self.served.pop(name, None)
        if rows is None:
            return
        for row in elements(rows.served):
            self.table.remove(row.group, row.version, row.plural)
        self.registry.remove(GroupResource(rows.group, rows.plural))
        rows.release()

    # status

    async def _reconcile(self, name: str) -> None:
        entry = self._cache.get("", name)
        if entry is None:
            return
        now = self.registry.environment.now()
        crd = outline(entry.data)
        if crd["metadata"].get("deletionTimestamp"):
            self._finalizing.add(name)
            return
        before = _changeable(crd)
        crd.setdefault("status", {})
        group_names = self._group_names(crd)
        if await self._accept_names(crd, group_names, now):
            try:
                self._update_conditions(crd, entry, now)
                await self._write(crd, before)
            except BaseException:
                self._restore_names(name, crd)
                raise
            self._enqueue_waiting(crd)
        elif self._update_conditions(crd, entry, now):
            await self._write(crd, before)
        before = _changeable(crd)
        if names.establish(crd, now):
            await self._write(crd, before)

    async def _accept_names(self, crd: Object, group_names: names.GroupNames, now: str) -> bool:
        """As ``names.accept_names``, and records them at once, so that the next definition does not get them too."""
        await group_names.naming.acquire()
        try:
            changed = names.accept_names(crd, group_names, now)
            if changed:
                group_names.update(crd)
            return changed
        finally:
            group_names.naming.release()

    def _restore_names(self, name: str, crd: Object) -> None:
        """Call it when accepted names could not be written: records the stored ones again."""
        entry, group_names = self._cache.get("", name), self._group_names(crd)
        if entry is None:
            group_names.remove(name)
        else:
            group_names.update(outline(entry.data))
        self._enqueue_waiting(crd)

    def _update_conditions(self, crd: Object, entry: Entry, now: str) -> bool:
        """Updates the other conditions, in place; False when nothing changed."""
        structural = False
        if names.may_not_be_structural(crd):
            full: Object = json_pieces.loads(entry.data)
            structural = names.structural_condition({**full, "status": crd["status"]}, now)
            free_in_steps(full, len(entry.data))
        return structural | names.approval_condition(crd, now)

    async def _write(self, crd: Object, before: Object) -> None:
        """Stores changes of status and finalizers since ``before``; ``crd`` then has what is stored.

        Raises StatusError: Conflict if another writer was first.
        """
        change = mergepatch.difference(before, _changeable(crd))
        metadata = crd["metadata"]
        change.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        stored = await self.crds.patch(metadata["name"], change, subresource="status")
        metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        crd["status"] = tree.copy(stored["status"])

    def _group_names(self, crd: Object) -> names.GroupNames:
        """The names in use in the group of a definition."""
        return self._groups.setdefault(crd["spec"].get("group", ""), names.GroupNames())

    def _enqueue_waiting(self, crd: Object) -> None:
        for name in sorted(self._group_names(crd).waiting - {crd["metadata"]["name"]}):
            self._queue.add(name)

    # deletion

    async def _finalize(self, name: str) -> float | None:
        """Removes the instances and the finalizer; returns the seconds until the next check while instances are left."""
        entry = self._cache.get("", name)
        if entry is None:
            return None
        now = self.registry.environment.now()
        crd = outline(entry.data)
        finalizers = crd["metadata"].get("finalizers") or ()
        if FINALIZER not in finalizers:
            return None
        before = _changeable(crd)
        rows = self.served.get(name)
        if rows is None:
            _terminating(crd, "False", "NeverEstablished", "resource was never established", now)
        else:
            _terminating(crd, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)
            if before != _changeable(crd):
                await self._write(crd, before)
                before = _changeable(crd)
                await deferLater(self.reactor, _NOTICE_SECONDS)
            if not await self._delete_instances(rows):
                delay = self._delays.get(name, _POLL_SECONDS)
                self._delays[name] = min(delay * 2, _MAX_POLL_SECONDS)
                return delay
            _terminating(crd, "False", "InstanceDeletionCompleted", "removed all instances", now)
        self._delays.pop(name, None)
        crd["metadata"]["finalizers"] = [item for item in elements(finalizers) if item != FINALIZER]
        if not crd["metadata"]["finalizers"]:
            del crd["metadata"]["finalizers"]
        await self._write(crd, before)
        return None

    async def _delete_instances(self, rows: Rows) -> bool:
        """Deletes all instances; True when none is left."""
        resource = self.client.resource(rows.group, rows.plural)
        if not resource.lister.list():
            return True
        for obj in list(resource.lister.list()):
            metadata = obj["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            try:
                await resource.delete(metadata["name"], metadata.get("namespace", ""))
            except status.NotFound:
                continue
        return not resource.lister.list()


def _changeable(crd: Object) -> Object:
    """The parts of a definition that the controllers here write."""
    finalizers = crd["metadata"].get("finalizers")
    metadata = {"finalizers": list(finalizers)} if finalizers else {}
    return {"metadata": metadata, "status": tree.copy(crd.get("status") or {})}


def _terminating(crd: Object, value: str, reason: str, message: str, now: str) -> None:
    crd.setdefault("status", {})
    names.set_condition(crd, {"type": "Terminating", "status": value, "reason": reason, "message": message}, now)


def _fields(rows: Rows) -> Object:
    fields: Object = {}
    for row in rows.all.values():
        fields.update(row.selectable_fields)
    return fields
