"""The store: bytes under keys, one revision counter, one ordered history.

Upstream: apiserver ``storage/interfaces.go``.

Stored bytes are ``head + str(revision) + tail``: only the store knows the revision, so it inserts it.  Every write takes
exactly one revision and makes exactly one change; revisions have no gaps.

etcd refuses requests over 1.5 MiB.  Here the limit of an object is that of a request's body.  A larger object (defaults and
managed fields add to its size) could not be sent back in an update, and would be expensive for every client that watches it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kapi.store.errors import ObjectTooLarge, StoreError
from kapi.store.table import Value

CREATED = "c"
UPDATED = "u"
DELETED = "d"
#: deletions in one command; the server executes nothing else meanwhile
MAX_DELETIONS = 64
MAX_OBJECT_BYTES = 3 * 1024 * 1024
_PENDING_BYTES = 64 * 1024  # what an object may grow while its deletion is pending


class StoredObject(NamedTuple):
    """A stored object; ``data`` contains the revision.  Revision 0: a value that kapi did not write."""

    key: str
    revision: int
    data: bytes


class Change(NamedTuple):
    """One write.  ``data`` of a deletion is the last state with the deletion's revision."""

    revision: int
    kind: str  # CREATED, UPDATED or DELETED
    key: str
    data: bytes


class Charge(NamedTuple):
    """An object that counts others (an account, such as a ResourceQuota), and its revision after a write was charged to it."""

    key: str
    revision: int


class Deletion(NamedTuple):
    """The deletion of an object at revision ``expected``; ``head`` and ``tail`` are the stored ones, for the event."""

    key: str
    expected: int
    head: bytes
    tail: bytes


class Follower(Protocol):
    """Receives all objects and every change: the watch cache.  All calls come on the reactor's thread."""

    def reset(self, objects: Iterable[StoredObject | Value], history: Sequence[Change], revision: int) -> None:
        """Gets all objects at ``revision``, and the changes up to it that are still known, oldest first.

        Called once at the beginning, and again when changes were missed: the connection was lost for longer than the history
        reaches back, or the server lost its data.  Others may run at checkpoints before it replaces its state.
        """

    def changed(self, changes: Sequence[Change]) -> None:
        """Gets further changes, in order and without gaps; at most once a turn of the reactor when there are many writes."""


class SkippedEntries(Protocol):
    """The entries of the store that kapi did not write."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Their numbers by place (``OBJECTS`` or ``CHANGES``)."""

    @property
    def total(self) -> int: ...

    def add(self, where: str, name: bytes, why: object) -> None:
        """Counts and logs an entry, unless it was added before."""


class Store(Protocol):
    """Create, compare-and-swap, delete, get; and a feed of all changes."""

    #: whether no other process writes; a change then reaches the follower before its write is acknowledged
    exclusive: bool

    @property
    def skipped(self) -> SkippedEntries: ...

    #: maximum bytes of one object, without its revision; 0: no limit (see ``check_size``)
    max_object_bytes: int

    @property
    def run(self) -> bytes:
        """The random identifier of the store's contents, once it is started; empty for a store in memory."""

    #: how often the store was found to have lost data that the follower had received
    resets: int

    def create(
        self, key: str, head: bytes, tail: bytes, *, expires: float | None = None, charges: Sequence[Charge] = ()
    ) -> Awaitable[int]:
        """Returns the new revision.  ``expires`` is unix seconds.

        ``charges`` must be valid: Outdated is raised when an account was recounted after the charge.  Raises KeyExists,
        ObjectTooLarge, Outdated, NotEncryptable, StoreUnavailable.
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
        """Returns the new revision; ``expires`` None keeps the present expiry.

        ``replaced`` is the present size of the object in bytes.  ``going``: its deletion has been requested, so it is
        terminating.  Both affect the allowed size (``check_size``).

        ``counted`` is for an account that was recounted from the objects at that revision.  Outdated is raised when an object
        that was charged to it has been stored since.  Raises RevisionConflict, KeyMissing, ObjectTooLarge, Outdated,
        NotEncryptable, StoreUnavailable.
        """

    def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> Awaitable[int]:
        """Returns the deletion's revision; ``head`` and ``tail`` are the last state, for the event, of any size.

        Raises RevisionConflict, KeyMissing, NotEncryptable, StoreUnavailable.
        """

    def delete_all(self, deletions: Sequence[Deletion]) -> Awaitable[Sequence[int | StoreError]]:
        """Returns for each deletion its revision, or the error: RevisionConflict, KeyMissing.

        Each is a write of its own; one command for all is cheaper.  The keys must differ, and there may be at most MAX_DELETIONS.
        Raises StoreUnavailable or OutcomeUnknown when all fail.
        """

    def get(self, key: str) -> Awaitable[StoredObject | None]:
        """The object as stored now; None when there is none.  Raises StoreUnavailable."""

    def revision(self) -> Awaitable[int]:
        """The newest revision.  Raises StoreUnavailable, also when the store has lost data that the follower had received."""

    def is_current(self, revision: int) -> bool:
        """Whether no client has seen a newer revision; False when that can only be found out by ``revision()``."""

    def stale(self, key: str) -> bool:
        """Whether the object is stored with an outdated encryption key, so that writing it unchanged is useful."""

    def scan(self, prefix: str) -> Awaitable[Sequence[StoredObject]]:
        """The objects whose keys have this prefix, each at some revision during the scan.  Raises StoreUnavailable."""

    def compact(self, revision: int) -> Awaitable[None]:
        """Drops the changes up to and including ``revision``, except the newest change."""

    def start(self, follower: Follower | None = None) -> Awaitable[None]:
        """Connects, checks the server, and calls the follower's ``reset``; changes follow from then on.

        Raises UnsuitableStore, StoreUnavailable.
        """

    def stop(self) -> Awaitable[None]:
        """Ends the feed and the connections."""

    @property
    def available(self) -> bool:
        """Whether the store can be used at the moment; for a health check."""

    @property
    def silence(self) -> float:
        """How many seconds the store has not answered a command; 0 when it has answered all."""

    def checks(self) -> dict[str, Callable[[], str]]:
        """Further health checks by name; each returns what is wrong, "" for nothing."""


def check_size(key: str, size: int, limit: int, replaced: int = 0, going: bool = False) -> None:
    """Raises ObjectTooLarge for a ``size`` over the limit, unless the object is no larger than the one that it ``replaced``.

    So an object that was stored before there was a limit can still be changed.  An object that is ``going`` (its deletion was
    requested) may grow a little, because deletion writes into it: the time, finalizers, conditions, and the managed fields of the
    controllers that remove their finalizers.
    """
    space = max(limit, replaced)
    if going:
        space = limit + _PENDING_BYTES if replaced <= limit + _PENDING_BYTES else replaced + _PENDING_BYTES
    if size > space:
        raise ObjectTooLarge(key, size, limit)
