"""Large texts that are made in pieces and kept compressed: neither the text nor its tree is ever complete in memory.

A text is cut into slices of 64 kB, each of which is compressed separately.  Clients that accept gzip get the compressed text,
other clients get one slice after the other.  Texts can be joined without decompression.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import accumulate, count
from struct import pack

from kapi.machinery.checkpoint import checkpoint
from kapi.request.response import SLICE, Parts

_LEVEL = 1  # upstream's level of compression
_RAW = -zlib.MAX_WBITS  # deflate without a header
_HEAD = b"\x1f\x8b\x08" + bytes(5) + b"\x04\xff"  # head of a gzip file: no time, fastest compression, unknown system
_END = b"\x03\x00"  # the last block, which is empty
_MAX_SLICES = 64  # cached slices, 4 MB, so that a text is not decompressed for each of many clients


def _inflate(segment: bytes) -> bytes:
    return zlib.decompressobj(_RAW).decompress(segment)


_serials = count()
#: by the serial number of a text and the position: the slices that were decompressed last
_slices: dict[tuple[int, int], bytes] = {}


class Packed(Parts):
    """A text in the form of a gzip file; its parts are the slices of the text."""

    __slots__ = ("gzip", "_starts", "_serial", "size")

    def __init__(self, segments: list[bytes], size: int, checksum: int) -> None:
        self.gzip = b"".join([_HEAD, *segments, _END, pack("<II", checksum, size & 0xFFFFFFFF)])
        self._starts = tuple(accumulate(map(len, segments), initial=len(_HEAD)))
        self._serial = next(_serials)
        self.size = size

    def __len__(self) -> int:
        return len(self._starts) - 1

    def part(self, position: int) -> bytes:
        key = self._serial, position
        found = _slices.get(key)
        if found is None:
            found = _inflate(self.gzip[self._starts[position] : self._starts[position + 1]])
            if len(_slices) >= _MAX_SLICES:
                del _slices[next(iter(_slices))]
            _slices[key] = found
        return found

    def held(self) -> Iterable[bytes]:
        return (self.gzip,)

    def text(self) -> bytes:
        return b"".join(self)


class Packer:
    """Takes a text in pieces."""

    def __init__(self) -> None:
        self.size = 0  # bytes of the text so far
        self._segments: list[bytes] = []
        self._rest = bytearray()  # less than a slice

    def add(self, text: bytes | bytearray) -> None:
        self.size += len(text)
        rest = self._rest
        rest += text
        while len(rest) >= SLICE:
            self._compress(rest[:SLICE])
            del rest[:SLICE]

    def join(self, other: Packer) -> None:
        """Adds another text."""
        if other._segments and self._rest:
            self._compress(self._rest)
            self._rest = bytearray()
        self._segments += other._segments
        self.size += other.size - len(other._rest)
        self.add(other._rest)

    def _compress(self, text: bytearray) -> None:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
        self._segments.append(packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH))
        checkpoint()

    def slices(self) -> Iterator[bytes]:
        """The slices of the text so far, which is dropped."""
        for segment in self._segments:
            yield _inflate(segment)
            checkpoint()
        yield bytes(self._rest)

    def packed(self) -> Packed:
        """The complete text, after which nothing can be added."""
        checksum = 0
        for part in self.slices():
            checksum = zlib.crc32(part, checksum)
        if self._rest:
            self._compress(self._rest)
        return Packed(self._segments, self.size, checksum)


def packed(text: bytes) -> Packed:
    """Packs an existing text."""
    packer = Packer()
    packer.add(text)
    return packer.packed()
