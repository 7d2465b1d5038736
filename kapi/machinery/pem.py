"""Where the blocks of a PEM text are (RFC 7468), found in one walk: a text may begin as many as it likes and end none."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import AnyStr

_BEGIN = re.compile(rb"-----BEGIN ([^\n-]*+)-----\s*?\n")
_END = re.compile(rb"-----END (?=([^\n-]*+)-----)")


def blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kind and the inner text of each block that ends with the kind it began with, in order."""
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
    """Each certificate with its first and last line."""
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
