"""PEM texts (RFC 7468): the blocks that Go's ``encoding/pem`` finds, in linear time.

Signers and other programs that read a user's PEM are written in Go, so a check must see the same blocks: no text before ``BEGIN``
on its line, the last ``BEGIN`` before an ``END``, strict base64.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import AnyStr, NamedTuple

from cryptography import x509

from kapi.machinery import der

NO_REQUEST = "PEM block type must be CERTIFICATE REQUEST"
_BEGIN, _END, _DASHES = b"-----BEGIN ", b"\n-----END ", b"-----"
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


class Block(NamedTuple):
    """A block of PEM; ``headers``: whether it has headers; ``end``: where the text after it begins."""

    kind: str
    der: bytes
    headers: bool
    end: int


def blocks(data: bytes) -> Iterator[Block]:
    """Every well-formed block, in order; other text is skipped (repeated calls of Go's ``pem.Decode``)."""
    found = _next(data, 0)
    while found is not None:
        yield found
        found = _next(data, found.end)


def _next(data: bytes, start: int) -> Block | None:
    while True:
        end = data.find(_END, start)
        if end < 0:
            return None
        trailer = end + len(_END)
        begin = data.rfind(_BEGIN, start, end)
        if begin < 0 or begin > start and data[begin - 1 : begin] != b"\n":
            start = trailer
            continue
        first = begin + len(_BEGIN)
        line, body = _line(data, first)
        if not line.endswith(_DASHES):
            start = trailer + body - first  # Go does not read the line again either
            continue
        content = body
        while content < len(data):
            header, following = _line(data, content)
            if b":" not in header:
                break
            content = following
        if content > trailer:
            return None
        start = trailer
        if content > body and content > end or not data.startswith(line, trailer):
            continue
        rest, after = _line(data, trailer + len(line))
        der = _decoded(data[content:end])
        if rest or der is None:
            continue
        return Block(line[: -len(_DASHES)].decode("utf-8", "replace"), der, content > body, after)


def _line(data: bytes, start: int) -> tuple[bytes, int]:
    """The line that begins there without white space at its end, and the beginning of the next one."""
    end = data.find(b"\n", start)
    if end < 0:
        return data[start:].rstrip(b" \t"), len(data)
    line = data[start:end]
    return (line[:-1] if line.endswith(b"\r") else line).rstrip(b" \t"), end + 1


def _decoded(text: bytes) -> bytes | None:
    """The bytes that Go decodes; None for an error."""
    text = text.translate(None, b" \t\r\n")
    return binascii.a2b_base64(text) if _BASE64.fullmatch(text) else None


def request_block(data: bytes) -> Block | None:
    """The first block, if it is a certificate signing request."""
    block = next(blocks(data), None)
    return block if block is not None and block.kind == "CERTIFICATE REQUEST" else None


def signing_request(data: bytes) -> x509.CertificateSigningRequest:
    """The certificate signing request of a text.  Raises ValueError (upstream: ``ParseCSR``)."""
    block = request_block(data)
    if block is None:
        raise ValueError(NO_REQUEST)
    return der.signing_request(block.der)


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


def certificate_pool(data: bytes) -> list[bytes]:
    """The certificates of a file in DER.  Raises ValueError with client-go's text (``ParseCertsPEM``)."""
    found = [block.der for block in blocks(data) if block.kind == "CERTIFICATE" and not block.headers]
    for content in found:
        der.certificates(content)
    if not found:
        raise ValueError("data does not contain any valid RSA or ECDSA certificates")
    return found


def authority_pool(bundle: bytes) -> list[bytes]:
    """The certificates of a CA bundle in DER, as in Go's pool: certificates that cannot be parsed are left out.

    Raises ValueError with client-go's text when none is left (``transport.go``, createErrorParsingCAData).
    """
    found: list[bytes] = []
    problem, end = "", 0
    for block in blocks(bundle):
        end = block.end
        if block.kind != "CERTIFICATE" or block.headers:
            continue
        try:
            der.certificate(block.der)
        except ValueError as error:
            problem = problem or f"failed to parse certificate: {error}"
            continue
        found.append(block.der)
    if not found:
        remaining = end < len(bundle) or not bundle
        raise ValueError(
            problem
            or ("unable to parse bytes as PEM block" if remaining else "no valid certificate authority data seen")
        )
    return found
