"""Finds the blocks of a PEM text (RFC 7468) in linear time, also in a text with many beginnings and no ends."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import AnyStr

_BEGIN = re.compile(rb"-----BEGIN ([^\n-]*+)-----\s*?\n")
_END = re.compile(rb"-----END (?=([^\n-]*+)-----)")


def blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(label, inner text) of each block whose last line has the label of its first one, in order."""
    ends: dict[bytes, list[int]] = {}
    for match in _END.finditer(data):
        ends.setdefault(match[1], []).append(match.start())
    begin = _BEGIN.search(data)
    while begin is not None:
        kind, after = begin[1], begin.end()
        known = ends.get(kind, ())
        place = bisect_left(known, after)
        if place < len(known):
            yield kind, data[after : known[place]]
            after = known[place]
        begin = _BEGIN.search(data, after)


def certificates(text: AnyStr) -> list[AnyStr]:
    """The text of each certificate, with its BEGIN and END lines."""
    first: AnyStr
    last: AnyStr
    if isinstance(text, bytes):
        first, last = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    else:
        first, last = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    found: list[AnyStr] = []
    start = text.find(first)
    while start >= 0:
        end = text.find(last, start + len(first))
        if end < 0:
            break
        end += len(last)
        found.append(text[start:end])
        start = text.find(first, end)
    return found
