"""The objects of a store in memory, in tables by resource; stores that were made from the same snapshot share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class Value(msgspec.Struct, eq=False, gc=False):
    """An object with its revision; never changes.  Has the attributes of a ``StoredObject``.

    It references no store and no cache, so the garbage collector need not track it.
    """

    key: str
    revision: int
    head: int  # how many bytes of ``data`` come before the revision
    data: bytes
    loaded: object = None  # the followers' entry for it, shared by all followers

    @classmethod
    def of(cls, key: str, head: bytes, revision: int, tail: bytes) -> Value:
        return cls(key, revision, len(head), b"%s%d%s" % (head, revision, tail))


class Table(dict[str, Value]):
    """The objects by key.  Only a store that does not share it may change it.  ``read`` is for the followers' use."""

    __slots__ = ("read",)

    def __init__(self, objects: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__(objects)
        self.read: object = None


def place_of(key: str) -> str:
    """The name of the table that has an object: ``group/resource``."""
    return key[: key.find("/", key.find("/") + 1)]
