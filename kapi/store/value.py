"""One object of a store in memory, shared by all stores that were made from the same snapshot."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, eq=False, gc=False):
    """Its bytes with the revision spliced in, and how many of them come before the revision; never changes.

    Read as a ``StoredObject``.  It leads to no store and no cache, and the garbage collector passes it by.
    """

    key: str
    revision: int
    head: int
    data: bytes
    loaded: object = None  # what followers made of it, the same for all of them

    @classmethod
    def of(cls, key: str, head: bytes, revision: int, tail: bytes) -> Value:
        return cls(key, revision, len(head), b"%s%d%s" % (head, revision, tail))
