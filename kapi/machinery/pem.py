"""Finds the blocks of a PEM text (RFC 7468) in linear time, also in a text with many beginnings and no ends."""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import AnyStr

from cryptography import x509

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


def authority_pool(bundle: bytes) -> list[bytes]:
    """The certificates of a CA bundle in DER, as Go's pool takes them: those that cannot be read are left out.

    Raises ValueError with client-go's text when none is left (``transport.go``, createErrorParsingCAData).
    """
    found: list[bytes] = []
    problem = ""
    for kind, inner in blocks(bundle):
        try:
            data = base64.b64decode(b"".join(inner.split()), validate=True)
        except binascii.Error:
            problem = problem or "unable to parse bytes as PEM block"  # a block, or headers, that Go does not find
            continue
        if kind != b"CERTIFICATE":
            problem = problem or "no valid certificate authority data seen"
            continue
        try:
            x509.load_der_x509_certificate(data)
        except ValueError:
            problem = problem or "failed to parse certificate: x509: malformed certificate"
            continue
        found.append(data)
    if not found:
        raise ValueError(problem or "unable to parse bytes as PEM block")
    return found
