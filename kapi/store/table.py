"""The objects of one resource in a store in memory, shared by all stores with the same objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.store.value import Value


class Table(dict[str, Value]):
    """The objects by key.  Only a store that does not share it may change it.  ``read`` is for the followers' use."""

    __slots__ = ("read",)

    def __init__(self, objects: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__(objects)
        self.read: object = None


def place_of(key: str) -> str:
    """The name of the table that has an object: ``group/resource``."""
    end = key.find("/", key.find("/") + 1)
    return key if end < 0 else key[:end]
