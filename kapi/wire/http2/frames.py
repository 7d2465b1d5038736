"""The frames of HTTP/2: types, flags and error codes, and the encoding of frames (RFC 9113, sections 4, 6 and 7)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 2, 3, 4
MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 5, 6

DEFAULT_WINDOW = 65_535  # bytes
DEFAULT_FRAME = 16_384
MAX_FRAME_BYTES = (1 << 24) - 1
MAX_WINDOW_BYTES = (1 << 31) - 1

#: length (two bytes and one), type, flags, stream
_HEAD = Struct(">HBBBL")
HEAD_SIZE = _HEAD.size
unpack_head = _HEAD.unpack_from
pack_head = _HEAD.pack
SETTING = Struct(">HL")
_NUMBER = Struct(">L")


class Code(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):
    """A connection error (section 5.4.1)."""

    def __init__(self, code: Code, text: str, reason: str = "protocol") -> None:
        super().__init__(text)
        self.code = code
        self.reason = reason  # for the metric


class StreamFault(Exception):
    """A stream error (section 5.4.2)."""

    def __init__(self, stream: int, code: Code, text: str) -> None:
        super().__init__(text)
        self.stream = stream
        self.code = code


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """The first nine bytes of a frame."""
    return pack_head(size >> 8, size & 0xFF, kind, flags, stream)


def settings(values: dict[int, int]) -> bytes:
    payload = b"".join([SETTING.pack(name, value) for name, value in values.items()])
    return head(len(payload), SETTINGS, 0, 0) + payload


SETTINGS_TAKEN = head(0, SETTINGS, ACK, 0)


def pong(data: bytes) -> bytes:
    return head(8, PING, ACK, 0) + data


def reset(stream: int, code: Code) -> bytes:
    return head(4, RST_STREAM, 0, stream) + _NUMBER.pack(code)


def window_update(stream: int, increment: int) -> bytes:
    return head(4, WINDOW_UPDATE, 0, stream) + _NUMBER.pack(increment)


def goaway(last_stream: int, code: Code, text: str = "") -> bytes:
    """A GOAWAY frame; ``text`` is for debugging."""
    payload = _NUMBER.pack(last_stream) + _NUMBER.pack(code) + text.encode("ascii", "replace")
    return head(len(payload), GOAWAY, 0, 0) + payload


def header_block(stream: int, block: bytes, flags: int, largest: int) -> bytes:
    """A HEADERS frame, and CONTINUATION frames when the block is longer than ``largest`` bytes."""
    size = len(block)
    if size <= largest:
        return head(size, HEADERS, flags | END_HEADERS, stream) + block
    parts = [head(largest, HEADERS, flags, stream), block[:largest]]
    for at in range(largest, size, largest):
        part = block[at : at + largest]
        parts += (head(len(part), CONTINUATION, END_HEADERS if at + largest >= size else 0, stream), part)
    return b"".join(parts)


def unpadded(payload: bytes) -> tuple[int, int]:
    """(begin, end) of the payload of a padded frame.  Raises ConnectionFault."""
    if not payload:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a padded frame without a length of it")
    if payload[0] >= len(payload):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "more padding than there is")
    return 1, len(payload) - payload[0]
