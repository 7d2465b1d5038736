"""The watch cache of one stored resource (upstream: apiserver ``storage/cacher``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate

Object = dict[str, Any]


class Entry:
    """``key`` is ``namespace/name``, or the name alone for cluster-scoped objects; lists are sorted by it."""

    key: str
    namespace: str
    name: str
    revision: int
    data: bytes  # the stored JSON, resourceVersion included
    object: Object  # decoded on demand; shared, never change it
    labels: Mapping[str, str]
    fields: Mapping[str, str]


class WatchEvent:
    """What a watcher is told.  One object for all watchers that are told the same."""

    type: str  # ADDED MODIFIED DELETED BOOKMARK
    revision: int
    entry: Entry | None  # None for a BOOKMARK
    previous: Entry | None
    initial_end: bool  # a BOOKMARK that ends the initial events: annotation k8s.io/initial-events-end

    def encoded(self, form: Any, encode: Callable[[WatchEvent], bytes]) -> bytes:
        """The bytes of this event in a form (any hashable: media type, version ...), made once for all watchers."""
        raise NotImplementedError

    @property
    def json(self) -> bytes:
        """``{"type":...,"object":...}\\n`` of the stored bytes (not for bookmarks)."""
        raise NotImplementedError


class Batch:
    """Events of one reactor turn; shared by all watchers with the same selection."""

    events: list[WatchEvent]

    def encoded(self, form: Any, encode: Callable[[WatchEvent], bytes]) -> bytes:
        """All events in a form, joined; made once for all watchers."""
        raise NotImplementedError


class Watch:
    """A running watch.  ``on_batch`` is never called before ``Cache.watch`` has returned, nor while paused."""

    def pause(self) -> None:
        """The client is slow (pauseProducing): events queue up, to a bound."""

    def resume(self) -> None: ...

    def stop(self) -> None:
        """The client has gone.  ``on_end`` is not called."""


class Cache:
    """One resource.  Handed out by ``Caches.cache``."""

    resource: GroupResource

    @property
    def revision(self) -> int:
        """The newest revision this process has seen in the store, whatever resource it was of."""
        raise NotImplementedError

    def wait_for(self, revision: int) -> Deferred[None] | None:
        """None when already there.  Errs with the API's Timeout (too large resource version) after 3 s."""
        raise NotImplementedError

    def wait_fresh(self) -> Deferred[None] | None:
        """The linearizable read point: whatever was acknowledged before the call is in the cache afterwards."""
        raise NotImplementedError

    def get(self, namespace: str, name: str) -> Entry | None:
        raise NotImplementedError

    def list(self, namespace: str = "", predicate: Predicate | None = None) -> tuple[list[Entry], int]:
        """Sorted by key, consistent at the returned revision.  The list is shared: never change it."""
        raise NotImplementedError

    def list_at(self, revision: int, namespace: str = "", predicate: Predicate | None = None) -> list[Entry]:
        """The list as it was at ``revision`` (await ``wait_for`` first).  Raises Compacted."""
        raise NotImplementedError

    def watch(
        self,
        since: int | None,
        on_batch: Callable[[Batch], None],
        on_end: Callable[[Exception | None], None],
        *,
        namespace: str = "",
        name: str = "",
        predicate: Predicate | None = None,
        initial_events: bool = False,
        initial_end: bool = False,
        bookmarks: bool = False,
    ) -> Watch:
        """Starts a watch.

        ``since`` None starts now, else after that revision.  ``initial_events`` begins with an ADDED for each object
        there is (``since`` is then ignored: await ``wait_for`` or ``wait_fresh`` first); ``initial_end`` follows them with the annotated
        bookmark.  ``bookmarks`` sends one about every minute.  Raises Compacted.

        ``on_end(error)`` is called once when the cache ends the watch: None when the watcher was too slow or the server stops,
        Compacted when the store lost its history (answer 410).
        """
        raise NotImplementedError
