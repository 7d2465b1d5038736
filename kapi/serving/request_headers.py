"""The header fields of a request: the part of twisted.web's ``Headers`` that is used here, in a third of the time.

Names are stored as Go writes them (``net/textproto``, CanonicalMIMEHeaderKey); values have no line breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
_MAX_CACHED_NAME_BYTES = 64  # the canonical form of a longer name is not cached


@lru_cache(1000)
def canonical(name: bytes | str) -> bytes:
    """A name as Go writes it, cached: only for short names."""
    return _written(name.encode("latin-1") if isinstance(name, str) else name)


def _written(name: bytes) -> bytes:
    return b"-".join([word.capitalize() for word in name.split(b"-")])


class RequestHeaders:
    """``fields``: values by canonical name."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[bytes, list[bytes]] = {}

    def add(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """Adds all fields of a request."""
        found = self.fields
        for name, value in fields:
            key = canonical(name) if len(name) <= _MAX_CACHED_NAME_BYTES else _written(name)
            if key in found:
                found[key].append(value)
            else:
                found[key] = [value]

    def addRawHeader(self, name: bytes, value: bytes) -> None:
        self.add(((name, value),))

    def setRawHeaders(self, name: bytes, values: Sequence[bytes]) -> None:
        self.fields[canonical(name)] = list(values)

    def removeHeader(self, name: bytes) -> None:
        self.fields.pop(canonical(name) if len(name) <= _MAX_CACHED_NAME_BYTES else _written(name), None)

    def hasHeader(self, name: bytes) -> bool:
        return canonical(name) in self.fields

    def getRawHeaders(self, name: bytes, default: T | None = None) -> list[bytes] | T | None:
        return self.fields.get(canonical(name)) or default

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, list[bytes]]]:
        return iter(self.fields.items())
