"""The objects of one resource in a store in memory, shared by all stores that have the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.store.value import Value


class Table(dict[str, Value]):
    """By key.  Only a store that has it alone changes it; a follower may keep in ``read`` what it made of all of them."""

    __slots__ = ("read",)

    def __init__(self, objects: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__(objects)
        self.read: object = None


def place_of(key: str) -> str:
    """Under which name the table of an object is: ``group/resource``."""
    end = key.find("/", key.find("/") + 1)
    return key if end < 0 else key[:end]
