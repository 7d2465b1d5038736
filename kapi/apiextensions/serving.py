"""Custom resources come and go: the controllers of the extensions server in one informer (upstream: apiextensions
``controller/status``, ``establish``, ``finalizer``, ``nonstructuralschema``, ``apiapproval``; ``customresource_handler.go``).

A definition's event changes what is served at once, those of large ones one after the other in slices; what has to be
written goes through queues of names, several at once, since admission may be slow and a removal takes as long as there are
instances.  Names are given to one definition of a group after the other.  Nobody here decodes schemas; what serves by them is
loaded with the first definition.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.apiextensions import names
from kapi.apiextensions.conversion import Post
from kapi.apiextensions.outline import outline
from kapi.client.interface import Client
from kapi.client.sliced import begin
from kapi.client.work import call_of
from kapi.client.workqueue import WorkQueue
from kapi.codecs import json_pieces
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import steps
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.client import Subscription
from kapi.registry.registry import Registry
from kapi.registry.resource_store import ResourceStore
from kapi.request.reactor import Reactor
from kapi.resources.apiextensions.customresourcedefinitions import FINALIZER
from kapi.resources.apiextensions.internal import is_true
from kapi.schema import mergepatch
from kapi.watchcache.cache import Batch
from kapi.watchcache.entry import Entry

if TYPE_CHECKING:
    from kapi.apiextensions.rows import Rows

log = Logger()
GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
WORKERS = 5  # definitions whose conditions are written at once
FINALIZERS = 5  # removed at once
_LARGE_BYTES = 64 * 1024  # bytes of a definition that may have so many names or versions that its event takes long
_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 5.0


class CustomResources:
    """Serves what the definitions say."""

    def __init__(
        self,
        registry: Registry,
        table: ResourceTable,
        client: Client,
        reactor: Reactor,
        built_in: frozenset[GroupResource],
        post: Post | None = None,
    ) -> None:
        """``post`` asks conversion webhooks."""
        self.registry = registry
        self.table = table
        self.crds = client.resource(GROUP, PLURAL)
        self._cache = registry.caches.cache(GroupResource(GROUP, PLURAL))
        self.client = client
        self.reactor = reactor
        self.built_in = built_in
        self._post = post
        self.served: dict[str, Rows] = {}
        self._groups: dict[str, names.GroupNames] = {}
        self._queue: WorkQueue[str] = WorkQueue(reactor, "definitions", self._reconcile, WORKERS)
        self._finalizing: WorkQueue[str] = WorkQueue(reactor, "definitions' removal", self._finalize, FINALIZERS)
        self._seen: dict[str, int] = {}  # name -> revision of its last event
        #: events of large definitions, and what comes of the same; the first one is being handled
        self._late: deque[tuple[str, Entry]] = deque()
        self._late_names: Counter[str] = Counter()
        self._subscription: Subscription | None = None
        self._delays: dict[str, float] = {}

    async def start(self) -> None:
        for entry in self._cache.list()[0]:  # served before the first request
            self._changed("ADDED", entry)
        self._subscription = Subscription(self._cache, self._on_batch)

    def stop(self) -> None:
        if self._subscription is not None:
            self._subscription.stop()
            self._subscription = None
        self._late.clear()
        self._queue.stop()
        self._finalizing.stop()

    # serving: no I/O

    def _on_batch(self, batch: Batch) -> None:
        for event in batch.events:
            entry = event.entry
            if entry is None:
                continue
            if len(entry.data) < _LARGE_BYTES and entry.name not in self._late_names:
                self._changed(event.type, entry)
                continue
            self._late.append((event.type, entry))
            self._late_names[entry.name] += 1
            if len(self._late) == 1:
                self._next()

    def _next(self) -> None:
        """The first of the late events, in slices; what waits behind it when it is done."""
        if not self._late:
            return  # it has been stopped
        call = call_of(self.reactor)
        if call is None:
            work = maybeDeferred(self._changed, *self._late[0])
        else:
            work = call(self._changed, *self._late[0])
        work.addErrback(self._failed, self._late[0][1].name).addCallback(self._handled)

    def _failed(self, failure: Failure, name: str) -> None:
        """It is a fault of this definition alone."""
        log.failure("An event of the definition {name} was not handled", failure, name=name)

    def _handled(self, _: None) -> None:
        if not self._late:
            return  # it has been stopped
        name = self._late.popleft()[1].name
        self._late_names[name] -= 1
        if not self._late_names[name]:
            del self._late_names[name]
        if self._late:
            self.reactor.callLater(0, self._next)

    def _changed(self, kind: str, entry: Entry) -> None:
        name = entry.name
        if self._seen.get(name) == entry.revision:
            return
        self._seen[name] = entry.revision
        crd = outline(entry.data)
        if kind == "DELETED":
            del self._seen[name]
            self._unserve(name)
            self._names(crd).drop(name)
            self._enqueue_waiting(crd)  # a name may be free now
            return
        self._names(crd).hold(crd)
        if is_true(crd, "Terminating") and name in self.served:
            rows = self.served[name]
            for row in steps(rows.all.values()):
                row.strategy.refuses_new = GroupResource(rows.group, rows.plural)  # type: ignore[attr-defined]
        if is_true(crd, "Established"):
            from kapi.apiextensions.rows import state_of

            known = self.served.get(name)
            if known is None or known.state != state_of(crd):
                self._serve(name, crd)
        self._queue.add(name)

    def _serve(self, name: str, crd: Object) -> None:
        from kapi.apiextensions.rows import Rows

        try:
            rows = Rows(crd, self._post, partial(begin, self.reactor))
        except Exception:
            log.failure("The definition {name} cannot be served", name=name)
            return
        resource = GroupResource(rows.group, rows.plural)
        if resource in self.built_in:
            return
        old = self.served.get(name)
        store = self._store(resource, rows)
        self.served[name] = rows
        for row in steps(rows.served):
            self.table.add(row, store)
        if old is not None:
            kept = {row.version for row in steps(rows.served)} if old.plural == rows.plural else set()
            for row in steps(old.served):
                if row.version not in kept:
                    self.table.remove(row.group, row.version, row.plural)
            old.leave()

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
        for row in steps(rows.served):
            self.table.remove(row.group, row.version, row.plural)
        self.registry.remove(GroupResource(rows.group, rows.plural))
        rows.leave()

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
        held = self._names(crd)
        if await self._accept_names(crd, held, now):
            try:
                self._judge(crd, entry, now)
                await self._write(crd, before)
            except BaseException:
                self._hold_again(name, crd)
                raise
            self._enqueue_waiting(crd)
        elif self._judge(crd, entry, now):
            await self._write(crd, before)
        before = _changeable(crd)
        if names.establish(crd, now):
            await self._write(crd, before)

    async def _accept_names(self, crd: Object, held: names.GroupNames, now: str) -> bool:
        """As ``names.accept_names``.  They are its own from here on: who is given names next must know, written or not."""
        await held.naming.acquire()
        try:
            changed = names.accept_names(crd, held, now)
            if changed:
                held.hold(crd)
            return changed
        finally:
            held.naming.release()

    def _hold_again(self, name: str, crd: Object) -> None:
        """What it was given could not be written: it has what is stored."""
        entry, held = self._cache.get("", name), self._names(crd)
        if entry is None:
            held.drop(name)
        else:
            held.hold(outline(entry.data))
        self._enqueue_waiting(crd)

    def _judge(self, crd: Object, entry: Entry, now: str) -> bool:
        """Brings the other conditions up to date, in place; False when nothing changed."""
        structural = False
        if names.may_not_be_structural(crd):
            full: Object = json_pieces.loads(entry.data)
            structural = names.structural_condition({**full, "status": crd["status"]}, now)
            free_in_steps(full, len(entry.data))
        return structural | names.approval_condition(crd, now)

    async def _write(self, crd: Object, before: Object) -> None:
        """Stores what has changed since ``before`` of the status and the finalizers, if nobody else has written meanwhile.

        ``crd`` has what is stored afterwards.  Raises StatusError.
        """
        change = mergepatch.difference(before, _changeable(crd))
        metadata = crd["metadata"]
        change.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        stored = await self.crds.patch(metadata["name"], change, subresource="status")
        metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        crd["status"] = tree.copy(stored["status"])

    def _names(self, crd: Object) -> names.GroupNames:
        """What the definitions of its group hold."""
        return self._groups.setdefault(crd["spec"].get("group", ""), names.GroupNames())

    def _enqueue_waiting(self, crd: Object) -> None:
        for name in sorted(self._names(crd).waiting - {crd["metadata"]["name"]}):
            self._queue.add(name)

    # deletion

    async def _finalize(self, name: str) -> float | None:
        """The seconds after which to look again whether everything is gone."""
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
            if not is_true(crd, "Terminating"):
                text = "CustomResource deletion is in progress"
                _terminating(crd, "True", "InstanceDeletionInProgress", text, now)
                await self._write(crd, before)
                before = _changeable(crd)
            if not await self._delete_instances(rows):
                delay = self._delays.get(name, _POLL_SECONDS)
                self._delays[name] = min(delay * 2, _MAX_POLL_SECONDS)
                return delay
            _terminating(crd, "False", "InstanceDeletionCompleted", "removed all instances", now)
        self._delays.pop(name, None)
        crd["metadata"]["finalizers"] = [item for item in steps(finalizers) if item != FINALIZER]
        if not crd["metadata"]["finalizers"]:
            del crd["metadata"]["finalizers"]
        await self._write(crd, before)
        return None

    async def _delete_instances(self, rows: Rows) -> bool:
        """True when none is left."""
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
    """What the controllers here write of a definition."""
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
