"""A server of HTTP/2 without a network: its frames, byte for byte, and what a client sees as its transport and its body."""

from __future__ import annotations

import hpack
from twisted.internet.testing import StringTransport

from kapi.wire.http2 import frames as wire


def block(*fields: tuple[str, str], status: str = "200") -> bytes:
    """Without Huffman's code, which takes seconds for a field of a megabyte."""
    return hpack.Encoder().encode([(":status", status), *fields], huffman=False)


def headers(*fields: tuple[str, str], status: str = "200", ends: bool = False, stream: int = 1) -> bytes:
    flags = wire.END_STREAM if ends else 0
    return wire.header_block(stream, block(*fields, status=status), flags, wire.DEFAULT_FRAME)


def data(payload: bytes, ends: bool = False, stream: int = 1) -> bytes:
    return wire.head(len(payload), wire.DATA, wire.END_STREAM if ends else 0, stream) + payload


class Arriving:
    """The source of a body that still arrives; ``waiting`` bytes were not taken."""

    waiting = 0

    def body_waits(self, size: int) -> None:
        self.waiting = size

    def body_taken(self, size: int) -> None: ...


class Transport(StringTransport):
    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class Negotiated(Transport):
    negotiatedProtocol = b"h2"
