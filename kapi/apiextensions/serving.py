"""Custom resources come and go: the controllers of the extensions server in one informer (upstream: apiextensions
``controller/status``, ``establish``, ``finalizer``, ``nonstructuralschema``, ``apiapproval``; ``customresource_handler.go``).

A definition's event changes what is served at once, those of large ones one in a turn; what has to be written goes through
queues of names: conditions one definition after the other, removal several at once, since it takes as long as
there are instances.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson
from twisted.logger import Logger

from kapi.apiextensions import names
from kapi.apiextensions.conversion import Post
from kapi.apiextensions.rows import Rows, state_of
from kapi.client.interface import Client
from kapi.client.workqueue import WorkQueue
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status, tree
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.client import Subscription
from kapi.registry.registry import Registry
from kapi.registry.resource_store import ResourceStore
from kapi.resources.apiextensions.customresourcedefinitions import FINALIZER
from kapi.resources.apiextensions.internal import is_true
from kapi.watchcache.cache import Batch
from kapi.watchcache.entry import Entry

log = Logger()
GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
FINALIZERS = 5  # definitions removed at once
_LARGE = 1024 * 1024  # bytes of a definition whose event has a turn of the reactor of its own
_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 5.0


class CustomResources:
    """Serves what the definitions say."""

    def __init__(
        self,
        registry: Registry,
        table: ResourceTable,
        client: Client,
        reactor: Any,
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
        # names are given to one definition after the other; removing what one of them had may take long
        self._queue: WorkQueue[str] = WorkQueue(reactor, "definitions", self._reconcile, 1)
        self._finalizing: WorkQueue[str] = WorkQueue(reactor, "definitions' removal", self._finalize, FINALIZERS)
        self._seen: dict[str, int] = {}  # name -> revision of its last event
        self._late: deque[tuple[str, Entry]] = (
            deque()
        )  # events that wait for a turn, for a large definition was among them
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
            if not self._late and len(entry.data) < _LARGE:
                self._changed(event.type, entry)
                continue
            self._late.append((event.type, entry))
            if len(self._late) == 1:
                self.reactor.callLater(0, self._next)

    def _next(self) -> None:
        """One event in a turn: decoding a large definition takes long enough."""
        if not self._late:
            return  # it has been stopped
        try:
            self._changed(*self._late[0])
        except Exception:  # of this definition alone
            log.failure("An event of the definition {name} was not handled", name=self._late[0][1].name)
        self._late.popleft()
        if self._late:
            self.reactor.callLater(0, self._next)

    def _changed(self, kind: str, entry: Entry) -> None:
        """Definitions are large and looked at once: they are decoded here and let go."""
        name = entry.name
        if self._seen.get(name) == entry.revision:
            return
        self._seen[name] = entry.revision
        crd: Object = orjson.loads(entry.data)
        if kind == "DELETED":
            del self._seen[name]
            self._unserve(name)
            self._names(crd).drop(name)
            self._enqueue_waiting(crd)  # a name may be free now
            return
        self._names(crd).hold(crd)
        if is_true(crd, "Terminating") and name in self.served:
            rows = self.served[name]
            for row in rows.all.values():
                row.strategy.refuses_new = GroupResource(rows.group, rows.plural)  # type: ignore[attr-defined]
        if is_true(crd, "Established"):
            known = self.served.get(name)
            if known is None or known.state != state_of(crd):
                self._serve(name, entry.data)
        self._queue.add(name)

    def _serve(self, name: str, data: bytes) -> None:
        try:
            rows = Rows(data, self._post)
        except Exception:
            log.failure("The definition {name} cannot be served", name=name)
            return
        resource = GroupResource(rows.group, rows.plural)
        if resource in self.built_in:
            return
        old = self.served.get(name)
        if old is not None:
            for row in old.served:
                self.table.remove(row.group, row.version, row.plural)
        store = self._store(resource, rows)
        for row in rows.served:
            self.table.add(row, store)
        self.served[name] = rows

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
        for row in rows.served:
            self.table.remove(row.group, row.version, row.plural)
        self.registry.remove(GroupResource(rows.group, rows.plural))

    # status

    async def _reconcile(self, name: str) -> None:
        entry = self._cache.get("", name)
        if entry is None:
            return
        now = self.registry.environment.now()
        crd: Object = orjson.loads(entry.data)
        if crd["metadata"].get("deletionTimestamp"):
            self._finalizing.add(name)
            return
        crd.setdefault("status", {})
        held = self._names(crd)
        if names.accept_names(crd, held, now):
            names.structural_condition(crd, now)
            names.approval_condition(crd, now)
            crd = tree.copy(await self.crds.update(crd, subresource="status"))
            held.hold(crd)  # before its event says so: the next in the queue must know
            self._enqueue_waiting(crd)
        elif names.structural_condition(crd, now) | names.approval_condition(crd, now):
            crd = tree.copy(await self.crds.update(crd, subresource="status"))
        if names.establish(crd, now):
            await self.crds.update(crd, subresource="status")

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
        crd: Object = orjson.loads(entry.data)
        if FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return None
        rows = self.served.get(name)
        if rows is None:
            _terminating(crd, "False", "NeverEstablished", "resource was never established", now)
        else:
            if not is_true(crd, "Terminating"):
                text = "CustomResource deletion is in progress"
                _terminating(crd, "True", "InstanceDeletionInProgress", text, now)
                crd = tree.copy(await self.crds.update(crd, subresource="status"))
            if not await self._delete_instances(rows):
                delay = self._delays.get(name, _POLL_SECONDS)
                self._delays[name] = min(delay * 2, _MAX_POLL_SECONDS)
                return delay
            _terminating(crd, "False", "InstanceDeletionCompleted", "removed all instances", now)
        self._delays.pop(name, None)
        crd["metadata"]["finalizers"] = [item for item in crd["metadata"]["finalizers"] if item != FINALIZER]
        if not crd["metadata"]["finalizers"]:
            del crd["metadata"]["finalizers"]
        await self.crds.update(crd, subresource="status")
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


def _terminating(crd: Object, value: str, reason: str, message: str, now: str) -> None:
    crd.setdefault("status", {})
    names.set_condition(crd, {"type": "Terminating", "status": value, "reason": reason, "message": message}, now)


def _fields(rows: Rows) -> Object:
    fields: Object = {}
    for row in rows.all.values():
        fields.update(row.selectable_fields)
    return fields
