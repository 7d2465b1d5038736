"""The header fields of a request: what kapi and ``twisted.web``'s channel ask of its ``Headers``, at a third of the price.

Names are kept as Go writes them (``net/textproto``, CanonicalMIMEHeaderKey); what came in has no line breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
_MAX_NAMES = 1000
_MAX_NAME = 64  # bytes of a name that is remembered
_names: dict[bytes | str, bytes] = {}


def canonical(name: bytes | str) -> bytes:
    """As Go writes it."""
    found = _names.get(name)
    if found is None:
        raw = name.encode("latin-1") if isinstance(name, str) else name
        found = b"-".join([word.capitalize() for word in raw.split(b"-")])
        if len(raw) <= _MAX_NAME:
            if len(_names) >= _MAX_NAMES:
                _names.clear()
            _names[name] = found
    return found


class RequestHeaders:
    """``fields``: values by canonical name."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[bytes, list[bytes]] = {}

    def add(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """All of a request."""
        found = self.fields
        for name, value in fields:
            key = _names.get(name) or canonical(name)
            if key in found:
                found[key].append(value)
            else:
                found[key] = [value]

    def addRawHeader(self, name: bytes, value: bytes) -> None:
        self.fields.setdefault(canonical(name), []).append(value)

    def setRawHeaders(self, name: bytes, values: Sequence[bytes]) -> None:
        self.fields[canonical(name)] = list(values)

    def removeHeader(self, name: bytes) -> None:
        self.fields.pop(_names.get(name) or canonical(name), None)

    def hasHeader(self, name: bytes) -> bool:
        return canonical(name) in self.fields

    def getRawHeaders(self, name: bytes, default: T | None = None) -> list[bytes] | T | None:
        return self.fields.get(_names.get(name) or canonical(name)) or default

    def getAllRawHeaders(self) -> Iterator[tuple[bytes, list[bytes]]]:
        return iter(self.fields.items())

    def last(self, name: bytes | str) -> bytes | None:
        """The last value."""
        values = self.fields.get(_names.get(name) or canonical(name))
        return values[-1] if values else None
