"""The bytes of HTTP/2's frames, and its numbers (RFC 9113)."""

from __future__ import annotations

import pytest

from kapi.wire.http2 import frames
from kapi.wire.http2.frames import Code, ConnectionFault


def made(text: str) -> bytes:
    """The frame with these numbers in hexadecimal: length, type, flags, stream, payload."""
    return bytes.fromhex(text.replace(" ", ""))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (frames.settings({}), "000000 04 00 00000000"),
        (frames.settings({frames.HEADER_TABLE_SIZE: 4096, frames.ENABLE_PUSH: 0, frames.MAX_CONCURRENT_STREAMS: 100}),
         "000012 04 00 00000000 0001 00001000 0002 00000000 0003 00000064"),
        (frames.settings({frames.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW_BYTES, frames.MAX_FRAME_SIZE: frames.MAX_FRAME_BYTES}),
         "00000c 04 00 00000000 0004 7fffffff 0005 00ffffff"),
        (frames.settings({frames.MAX_HEADER_LIST_SIZE: frames.DEFAULT_WINDOW, frames.MAX_FRAME_SIZE: frames.DEFAULT_FRAME}),
         "00000c 04 00 00000000 0006 0000ffff 0005 00004000"),
        (frames.SETTINGS_TAKEN, "000000 04 01 00000000"),
        (frames.pong(b"12345678"), "000008 06 01 00000000 3132333435363738"),
        (frames.window_update(0, 65_536), "000004 08 00 00000000 00010000"),
        (frames.goaway(7, Code.ENHANCE_YOUR_CALM, "aé"), "00000a 07 00 00000000 00000007 0000000b 613f"),
        (frames.goaway(0, Code.NO_ERROR), "000008 07 00 00000000 00000000 00000000"),
        (frames.header_block(3, b"abcd", frames.END_STREAM, 4), "000004 01 05 00000003 61626364"),
        (frames.header_block(3, b"abcd", 0, 3), "000003 01 00 00000003 616263 000001 09 04 00000003 64"),
        (frames.header_block(3, b"abcdef", frames.END_STREAM, 3), "000003 01 01 00000003 616263 000003 09 04 00000003 646566"),
        (frames.header_block(3, b"abcde", 0, 2),
         "000002 01 00 00000003 6162 000002 09 00 00000003 6364 000001 09 04 00000003 65"),
        (frames.head(0x012345, frames.DATA, frames.PADDED, 1), "012345 00 08 00000001"),
        (frames.head(5, frames.HEADERS, frames.WITH_PRIORITY, 1), "000005 01 20 00000001"),
        (frames.head(5, frames.PRIORITY, 0, 1), "000005 02 00 00000001"),
        (frames.head(4, frames.PUSH_PROMISE, 0, 1), "000004 05 00 00000001"),
    ],
)  # fmt: skip
def test_the_bytes_of_a_frame(frame: bytes, text: str) -> None:
    assert frame == made(text)
    size, rest, *_ = frames.unpack_head(frame)
    assert frames.HEAD_SIZE + (size << 8 | rest) <= len(frame) or len(frame) == 9


def test_the_numbers_of_errors() -> None:
    names = (
        "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR "
        "REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED"
    )
    for number, name in enumerate(names.split()):
        assert frames.reset(5, Code[name]) == made(f"000004 03 00 00000005 {number:08x}")


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (b"\0abc", (1, 4)), (b"\2abc", (1, 2)), (b"\3abc", (1, 1)), (b"\0", (1, 1)),
        (b"", (Code.FRAME_SIZE_ERROR, "a padded frame without a length of it")),
        (b"\4abc", (Code.PROTOCOL_ERROR, "more padding than there is")),
        (b"\1", (Code.PROTOCOL_ERROR, "more padding than there is")),
    ],
)  # fmt: skip
def test_what_padding_leaves(payload: bytes, found: tuple[object, object]) -> None:
    if isinstance(found[1], str):
        with pytest.raises(ConnectionFault) as caught:
            frames.unpadded(payload)
        assert (caught.value.code, str(caught.value), caught.value.reason) == (*found, "protocol")
    else:
        assert frames.unpadded(payload) == found
