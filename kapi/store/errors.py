"""What can go wrong in a store; translated to API errors in one place, ``kapi.registry.errors``.

::

    StoreError
     ├─ KeyExists           create of a key that is there
     ├─ KeyMissing          update or delete of a key that is not there
     ├─ RevisionConflict    compare-and-swap lost: somebody wrote in between
     ├─ ObjectTooLarge      more bytes than one object may have
     ├─ Outdated            a charge that was counted away meanwhile, or a count that misses a charge
     ├─ Compacted           the history asked for is gone
     ├─ NotEncryptable      there is no key to encrypt with now: nothing was written
     ├─ StoreUnavailable    not reachable now: nothing was written
     │   ├─ OutcomeUnknown  a write was sent, and whether it was done is not known
     │   └─ StoreLoading    the server reads its own data: it will be there in a moment
     └─ UnsuitableStore     a server that must not be used; reported once, at start
"""

from __future__ import annotations


class StoreError(Exception):
    """The root."""


class NotEncryptable(StoreError):
    """A write that encryption at rest forbids to be stored as it is."""


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
    """``revision`` is the one that is stored now."""

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
    """A charge or a count of an account is not true any more; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key}: its accounts have changed meanwhile")
        self.key = key


class Compacted(StoreError):
    """``oldest`` is the first change that is still known; messages name the revision before it, after which watches may begin."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {requested} ({oldest - 1})")
        self.requested = requested
        self.oldest = oldest


class StoreUnavailable(StoreError):
    """``str(error)`` says why, in words for an operator."""


class OutcomeUnknown(StoreUnavailable):
    """The write may have been done, or may still be."""


class StoreLoading(StoreUnavailable):
    """Worth waiting for, even at start."""


class UnsuitableStore(StoreError):
    """The server cannot or must not be used; ``str(error)`` is the one line for an operator."""
