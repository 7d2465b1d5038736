"""The errors of a store; ``kapi.registry.errors`` translates them to API errors.

::

    StoreError
     ├─ KeyExists           create of a key that exists
     ├─ KeyMissing          update or delete of a key that does not exist
     ├─ RevisionConflict    a compare-and-swap failed: the object was written in between
     ├─ ObjectTooLarge      the object has too many bytes
     ├─ Outdated            an account (quota) was recounted after the charge, or charged after the count
     ├─ Compacted           the requested history is gone
     ├─ NotEncryptable      there is no encryption key at present: nothing was written
     ├─ StoreUnavailable    not reachable at present: nothing was written
     │   ├─ OutcomeUnknown  a write was sent, and it is unknown whether it was done
     │   ├─ StoreFull       the server's maxmemory is reached
     │   └─ StoreLoading    the server is loading its data, and will be ready soon
     └─ UnsuitableStore     a server that must not be used; reported once, at start
"""

from __future__ import annotations


class StoreError(Exception):
    """The base class."""


class NotEncryptable(StoreError):
    """A write that must be encrypted, but cannot be now; nothing was written."""


class KeyExists(StoreError):
    def __init__(self, key: str, revision: int = 0) -> None:
        super().__init__(f"{key} exists")
        self.key = key
        self.revision = revision


class KeyMissing(StoreError):
    def __init__(self, key: str) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


class RevisionConflict(StoreError):
    """``revision`` is the stored one."""

    def __init__(self, key: str, expected: int, revision: int) -> None:
        super().__init__(f"{key} is at revision {revision}, not {expected}")
        self.key = key
        self.expected = expected
        self.revision = revision


class ObjectTooLarge(StoreError):
    """Nothing was written.  ``size`` and ``limit`` are bytes."""

    def __init__(self, key: str, size: int, limit: int) -> None:
        super().__init__(f"{key} would be stored with {size} bytes: limit is {limit}")
        self.key = key
        self.size = size
        self.limit = limit


class Outdated(StoreError):
    """A charge to an account, or a count of one, is not valid any more (see ``Store.create``); nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key}: its accounts have changed meanwhile")
        self.key = key


class Compacted(StoreError):
    """The changes after ``requested`` are not all known; those after the revision ``floor`` are, so watches can start there."""

    def __init__(self, requested: int, floor: int) -> None:
        super().__init__(f"too old resource version: {requested} ({floor})")


class StoreUnavailable(StoreError):
    """``str(error)`` tells operators why."""


class OutcomeUnknown(StoreUnavailable):
    """The write may have been done, or may still be done."""


class StoreFull(StoreUnavailable):
    """The server has reached its ``maxmemory``; what makes nothing larger can still be written."""


class StoreLoading(StoreUnavailable):
    """The server is loading its data; also a starting kapi waits for it."""


class UnsuitableStore(StoreError):
    """The server cannot or must not be used; ``str(error)`` is one line for operators."""
