"""The store: bytes under keys, one revision counter, one ordered history.

Upstream: apiserver ``storage/interfaces.go``.

Stored bytes are ``head + str(revision) + tail``: the store alone knows the revision, so it splices it in.  Every write
takes exactly one revision and makes exactly one change; revisions have no gaps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kapi.store.errors import StoreError
from kapi.store.value import Value

CREATED = "c"
UPDATED = "u"
DELETED = "d"


class StoredObject(NamedTuple):
    """An object as it is stored, the revision spliced in.  At revision 0: something that no kapi wrote."""

    key: str
    revision: int
    data: bytes


class Change(NamedTuple):
    """One write.  ``data`` of a deletion is the last state with the deletion's revision spliced in."""

    revision: int
    kind: str  # CREATED, UPDATED or DELETED
    key: str
    data: bytes


class Charge(NamedTuple):
    """What a write has been charged to: an object that keeps an account, and the revision that the charge gave it."""

    key: str
    revision: int


class Deletion(NamedTuple):
    """Of an object at a revision; ``head`` and ``tail`` are what is stored, for the event."""

    key: str
    expected: int
    head: bytes
    tail: bytes


#: deletions that go to the store by one command, and hold it meanwhile
MAX_DELETIONS = 64


class Follower(Protocol):
    """Receives everything that is stored, and every change: the watch cache.  All calls come on the reactor's thread."""

    def reset(self, objects: Iterable[StoredObject | Value], history: Sequence[Change], revision: int) -> None:
        """Everything there is at ``revision``, and the changes up to it that are still known, oldest first.

        Called once at the beginning, and again when changes were missed (the connection was away for
        longer than the history lasts, or the server lost its data).  It may meet checkpoints before it changes
        anything that others see.
        """

    def changed(self, changes: Sequence[Change]) -> None:
        """Further changes, in order and without gaps; at most once a reactor turn when many writes run."""


class SkippedEntries(Protocol):
    """What is in the store and no kapi wrote."""

    @property
    def counts(self) -> Mapping[str, int]:
        """By where it is."""

    @property
    def total(self) -> int: ...

    def add(self, where: str, name: bytes, why: object) -> None:
        """Once more: it is counted, and named in the log if it is new."""


class Store(Protocol):
    """Create, compare-and-swap, delete, get; and a feed of everything."""

    #: True when no other process writes: then a change reaches the follower before its write is acknowledged.
    exclusive: bool

    @property
    def skipped(self) -> SkippedEntries: ...

    #: bytes of one object, without its revision; 0 is no limit (see ``kapi.store.size``)
    max_object_bytes: int

    @property
    def run(self) -> bytes:
        """What the store calls itself, once it is started: random; empty for what is in this process alone."""

    #: how often the store was found to have lost what it had fed us
    resets: int

    def create(
        self, key: str, head: bytes, tail: bytes, *, expires: float | None = None, charges: Sequence[Charge] = ()
    ) -> Awaitable[int]:
        """The new revision.  ``expires`` is unix seconds.  Raises KeyExists, ObjectTooLarge, Outdated,
        StoreUnavailable.

        ``charges`` must still count: it is Outdated when an account was counted anew after the charge.
        """

    def update(
        self,
        key: str,
        expected: int,
        head: bytes,
        tail: bytes,
        *,
        expires: float | None = None,
        charges: Sequence[Charge] = (),
        counted: int | None = None,
        replaced: int = 0,
        going: bool = False,
    ) -> Awaitable[int]:
        """The new revision; ``expires`` None keeps the one there is.

        ``replaced`` is how many bytes the object has until now, ``going`` that its deletion was asked for: what that means
        for how large it may be is in ``kapi.store.size``.

        ``counted`` says that the object is an account, counted anew from what was stored at that revision: it is Outdated
        when something that was charged to it has been stored since.  Raises RevisionConflict, KeyMissing,
        ObjectTooLarge, Outdated, StoreUnavailable.
        """

    def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> Awaitable[int]:
        """The deletion's revision; ``head`` and ``tail`` are the last state, for the event, however large.

        Raises RevisionConflict, KeyMissing, StoreUnavailable.
        """

    def delete_all(self, deletions: Sequence[Deletion]) -> Awaitable[Sequence[int | StoreError]]:
        """For each its revision, or why it was not done: RevisionConflict, KeyMissing.

        Each is a write of its own; that they come together makes them cheap.  Their keys differ, and there are no more than
        MAX_DELETIONS.  Raises StoreUnavailable or OutcomeUnknown of all of them.
        """

    def get(self, key: str) -> Awaitable[StoredObject | None]:
        """What is stored now.  Raises StoreUnavailable."""

    def revision(self) -> Awaitable[int]:
        """The newest revision given out.  Raises StoreUnavailable, also when the store has lost what it fed us."""

    def is_current(self, revision: int) -> bool:
        """Whether nobody can know of anything newer; False when only ``revision()`` can tell."""

    def stale(self, key: str) -> bool:
        """Whether writing the same once more would change how it is stored: with another key of encryption."""

    def scan(self, prefix: str) -> Awaitable[Sequence[StoredObject]]:
        """The objects whose keys have this prefix, each as it was at some moment during the scan.  Raises StoreUnavailable."""

    def compact(self, revision: int) -> Awaitable[None]:
        """Forgets changes up to and including ``revision``; the newest change always stays."""

    def start(self, follower: Follower | None = None) -> Awaitable[None]:
        """Connects, checks the server, and feeds the follower; done when ``reset`` has been called.

        Raises UnsuitableStore, StoreUnavailable.
        """

    def stop(self) -> Awaitable[None]:
        """Ends the feed and the connections."""

    @property
    def available(self) -> bool:
        """Whether the store answers at the moment: a health check."""

    @property
    def silence(self) -> float:
        """For how many seconds the store has owed an answer; 0 while it owes none."""

    def checks(self) -> dict[str, Callable[[], str]]:
        """Further health checks by name; each answers what is wrong, or nothing."""
