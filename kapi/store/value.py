"""One object of a store in memory, shared by all stores that were made from the same snapshot."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, eq=False, gc=False):
    """An object with its revision; never changes.  Has the attributes of a ``StoredObject``.

    It references no store and no cache, so the garbage collector need not track it.
    """

    key: str
    revision: int
    head: int  # how many bytes of ``data`` come before the revision
    data: bytes
    loaded: object = None  # what the followers made of it, shared by all of them

    @classmethod
    def of(cls, key: str, head: bytes, revision: int, tail: bytes) -> Value:
        return cls(key, revision, len(head), b"%s%d%s" % (head, revision, tail))
