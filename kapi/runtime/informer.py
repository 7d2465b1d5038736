"""A copy of a resource in memory, and handlers for its changes (upstream: client-go ``tools/cache/shared_informer.go``).

::

    informer = SharedInformer(pods)
    informer.add_handler(on_add=queue_key, on_update=lambda old, new: queue_key(new), on_delete=queue_key)
    informer.start()
    await informer.synced()
    informer.store.get("default/web")

Handlers are called in the order of the changes, once for each.  After a gap in the watch, several changes of an object in the gap
are reported as one, and an unchanged object is not reported.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from kapi.client.dynamic import ResourceInterface
from kapi.machinery.tree import Object
from kapi.runtime.indexer import Indexer, IndexFunction, key_of
from kapi.runtime.reflector import Reflector

OnObject = Callable[[Object], object]
OnUpdate = Callable[[Object, Object], object]


class Handler:
    """The functions that one user of an informer has registered; ``remove()`` removes them."""

    def __init__(
        self, informer: SharedInformer, on_add: OnObject | None, on_update: OnUpdate | None, on_delete: OnObject | None
    ) -> None:
        self._informer = informer
        self.on_add, self.on_update, self.on_delete = on_add, on_update, on_delete

    def remove(self) -> None:
        self._informer.handlers.pop(self, None)


class SharedInformer:
    """``transform`` returns the object to store, for instance without fields that are not needed.

    ``resync``: seconds after which every object is given to ``on_update`` again, 0 for never.  ``packed``: objects are stored as
    JSON and decoded for each reader, which takes a fifth of the memory and gives each reader its own copy.
    """

    log = Logger()

    def __init__(
        self,
        resource: ResourceInterface,
        *,
        label_selector: str = "",
        field_selector: str = "",
        transform: Callable[[Object], Object] | None = None,
        indices: Mapping[str, IndexFunction] | None = None,
        resync: float = 0.0,
        packed: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.store = Indexer(indices, packed=packed)
        self.has_synced = False
        self.handlers: dict[Handler, None] = {}
        self._reflector = Reflector(
            resource, self, label_selector=label_selector, field_selector=field_selector, jitter=jitter
        )
        self._transform, self._resync = transform, resync
        self._waiting: list[Deferred[None]] = []
        self._timer: IDelayedCall | None = None

    @property
    def revision(self) -> str:
        """The last resourceVersion that was seen, "" before the first."""
        return self._reflector.revision

    def add_handler(
        self, on_add: OnObject | None = None, on_update: OnUpdate | None = None, on_delete: OnObject | None = None
    ) -> Handler:
        """Registers functions for changes.  ``on_add`` is called at once for each object that is in the store already."""
        handler = Handler(self, on_add, on_update, on_delete)
        self.handlers[handler] = None
        for obj in self.store.list():
            self._call(on_add, obj)
        return handler

    def start(self) -> None:
        self._reflector.start()
        if self._resync:
            self._timer = self.resource.session.reactor.callLater(self._resync, self._again)

    def stop(self) -> None:
        self._reflector.stop()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        for waiting in list(self._waiting):
            waiting.cancel()

    async def synced(self) -> None:
        """Waits until all existing objects are in the store.  Raises CancelledError when the informer is stopped before."""
        if not self.has_synced:
            waiting: Deferred[None] = Deferred(self._waiting.remove)
            self._waiting.append(waiting)
            await waiting

    def _again(self) -> None:
        self._timer = self.resource.session.reactor.callLater(self._resync, self._again)
        for obj in self.store.list():
            self._updated(obj, obj)

    def complete(self, keys: set[str]) -> None:
        """See ``kapi.runtime.reflector.Sink``."""
        for key in self.store.keys():
            if key not in keys:
                self._removed(key)
        self.has_synced = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(None)

    def change(self, kind: str, obj: Object) -> None:
        """See ``kapi.runtime.reflector.Sink``."""
        if kind == "DELETED":
            self._removed(key_of(obj), obj)
        else:
            self._put(obj)

    def _put(self, obj: Object) -> None:
        known = self.store.get(key_of(obj))
        if known is not None and known["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
            return
        if known is not None and known["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._removed(key_of(obj))  # deleted and created again in a gap of the watch
            known = None
        if self._transform is not None:
            obj = self._transform(obj)
        self.store.put(obj)
        if known is None:
            for handler in list(self.handlers):
                self._call(handler.on_add, obj)
        else:
            self._updated(known, obj)

    def _updated(self, known: Object, obj: Object) -> None:
        for handler in list(self.handlers):
            self._call(handler.on_update, known, obj)

    def _removed(self, key: str, last: Object | None = None) -> None:
        known = self.store.remove(key)
        if known is None:
            return
        if last is not None and self._transform is not None:
            last = self._transform(last)
        for handler in list(self.handlers):
            self._call(handler.on_delete, last or known)

    def _call(self, function: Callable[..., object] | None, *objects: Object) -> None:
        """Calls a handler; its error is logged and does not reach other handlers."""
        if function is None:
            return
        try:
            function(*objects)
        except Exception:
            self.log.failure("a handler of {resource} failed", resource=self.resource.resource.name)
