"""RFC 9113 and RFC 7541, section by section: what a client may not send, and what it is told then.

The cases are those of h2spec, which passes itself, too (147 of 147 with its strict ones).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import hpack
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from kapi.filters.chain import FilterChain
from kapi.request.response import Response
from tests.serving.sockets import SocketCase

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
ENDS, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
NO, PROTOCOL, INTERNAL, FLOW, _, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION, _, CALM = range(12)
OK = -1  # no error: the connection goes on
REQUEST = ((":method", "GET"), (":scheme", "https"), (":path", "/x"), (":authority", "x"))
POST = ((":method", "POST"), *REQUEST[1:])


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def block(fields: tuple[tuple[str, str], ...] = REQUEST, *more: tuple[str, str]) -> bytes:
    """Without the table, so that blocks may come in any order."""
    every = [hpack.NeverIndexedHeaderTuple(*field) for field in (*fields, *more)]
    return bytes(hpack.Encoder().encode(every))


def head(stream: int, fields: tuple[tuple[str, str], ...] = REQUEST, *more: tuple[str, str], flags: int = 5) -> bytes:
    return frame(HEADERS, flags, stream, block(fields, *more))


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def setting(name: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, name.to_bytes(2, "big") + number(value))


def with_text(text: bytes) -> bytes:
    """A request whose block ends with these bytes."""
    return frame(HEADERS, 5, 1, block() + text)


@dataclass
class Case:
    """``stream``: 0 for an error of the connection."""

    section: str
    data: bytes
    code: int
    stream: int = 0


OPEN = head(1, POST, flags=END_HEADERS)
OF_THREE = head(1, POST, ("content-length", "3"), flags=END_HEADERS)
PING_OUT = frame(PING, 0, 0, b"abcdefgh")
HUGE = b"x" * 16_385

CONNECTION = [
    Case("4.1 an unknown type is ignored", frame(99, 0, 0, b"x"), OK),
    Case("4.1 unknown flags are ignored", frame(PING, 0xFE, 0, b"abcdefgh"), OK),
    Case("4.1 the reserved bit is ignored", frame(PING, 0, 1 << 31, b"abcdefgh"), OK),
    Case("4.2 the largest frame", OPEN + frame(DATA, 0, 1, HUGE[:-1]), OK),
    Case("4.2 DATA that is too long", OPEN + frame(DATA, 0, 1, HUGE), SIZE),
    Case("4.2 HEADERS that are too long", frame(HEADERS, 5, 1, block(REQUEST, ("a", "x" * 20_000))), SIZE),
    Case("4.3 a block that cannot be decoded", frame(HEADERS, 5, 1, b"\x00\x85\xf2\xb2J\x84\xff\x84Ip"), COMPRESSION),
    Case("4.3 PRIORITY within a block", frame(HEADERS, 0, 1, block()) + frame(PRIORITY, 0, 3, b"\0" * 5), PROTOCOL),
    Case("4.3 HEADERS within a block", frame(HEADERS, 0, 1, block()) + head(3), PROTOCOL),
    Case("4.3 a frame of an unknown type within a block", frame(HEADERS, 0, 1, block()) + frame(99, 0, 1), PROTOCOL),
    Case("5.1 DATA of an idle stream", frame(DATA, ENDS, 1, b"x"), PROTOCOL),
    Case("5.1 RST_STREAM of an idle stream", frame(RST, 0, 1, number(CANCEL)), PROTOCOL),
    Case("5.1 WINDOW_UPDATE of an idle stream", frame(WINDOW, 0, 1, number(9)), PROTOCOL),
    Case("5.1 CONTINUATION of an idle stream", frame(CONTINUATION, END_HEADERS, 1, block()), PROTOCOL),
    Case("5.1.1 an even number", head(2), PROTOCOL),
    Case("5.1.1 a number that is lower than one before", head(5) + head(3), PROTOCOL),
    Case("6.1 DATA of the connection", frame(DATA, ENDS, 0, b"x"), PROTOCOL),
    Case("6.1 more padding than there is", OPEN + frame(DATA, ENDS | PADDED, 1, b"\x05x"), PROTOCOL),
    Case("6.1 padding without its length", OPEN + frame(DATA, ENDS | PADDED, 1), SIZE),
    Case("6.1 padding alone", OPEN + frame(DATA, ENDS | PADDED, 1, b"\x01\0"), OK),
    Case("6.2 HEADERS of the connection", head(0), PROTOCOL),
    Case("6.2 more padding than there is", frame(HEADERS, 5 | PADDED, 1, b"\xff" + block()), PROTOCOL),
    Case("6.2 padding and a priority", frame(HEADERS, 45, 1, b"\x02" + b"\0" * 5 + block() + b"\0\0"), OK),
    Case("6.2 no room for the priority", frame(HEADERS, 37, 1, b"\0\0"), SIZE),
    Case("6.3 PRIORITY of the connection", frame(PRIORITY, 0, 0, b"\0\0\0\1\x09"), PROTOCOL),
    Case("6.3 PRIORITY of a stream that is over", head(1) + frame(PRIORITY, 0, 1, b"\0" * 5), OK),
    Case("6.3 PRIORITY of an idle stream", frame(PRIORITY, 0, 9, b"\0" * 5) + head(1), OK),
    Case("6.4 RST_STREAM of the connection", frame(RST, 0, 0, number(CANCEL)), PROTOCOL),
    Case("6.4 RST_STREAM of another length", OPEN + frame(RST, 0, 1, b"xxx"), SIZE),
    Case("6.5 an acknowledgement with a payload", frame(SETTINGS, ACK, 0, b"x" * 6), SIZE),
    Case("6.5 SETTINGS of a stream", frame(SETTINGS, 0, 1), PROTOCOL),
    Case("6.5 SETTINGS of another length", frame(SETTINGS, 0, 0, b"xxx"), SIZE),
    Case("6.5.2 ENABLE_PUSH", setting(2, 2), PROTOCOL),
    Case("6.5.2 INITIAL_WINDOW_SIZE", setting(4, 1 << 31), FLOW),
    Case("6.5.2 MAX_FRAME_SIZE that is too small", setting(5, 16_383), PROTOCOL),
    Case("6.5.2 MAX_FRAME_SIZE that is too large", setting(5, 1 << 24), PROTOCOL),
    Case("6.5.2 an unknown setting", setting(99, 1), OK),
    Case("6.6 PUSH_PROMISE", OPEN + frame(PUSH, END_HEADERS, 1, number(2) + block()), PROTOCOL),
    Case("6.7 PING of a stream", frame(PING, 0, 1, b"abcdefgh"), PROTOCOL),
    Case("6.7 PING of another length", frame(PING, 0, 0, b"abc"), SIZE),
    Case("6.7 an acknowledgement", frame(PING, ACK, 0, b"abcdefgh"), OK),
    Case("6.8 GOAWAY of a stream", frame(GOAWAY, 0, 1, number(0) * 2), PROTOCOL),
    Case("6.8 GOAWAY of another length", frame(GOAWAY, 0, 0, number(0)), SIZE),
    Case("6.9 WINDOW_UPDATE by nothing", frame(WINDOW, 0, 0, number(0)), PROTOCOL),
    Case("6.9 WINDOW_UPDATE of another length", frame(WINDOW, 0, 0, b"xxx"), SIZE),
    Case("6.9.1 the connection's window", frame(WINDOW, 0, 0, number((1 << 31) - 1)), FLOW),
    Case("6.9.1 the largest window of a connection", frame(WINDOW, 0, 0, number((1 << 31) - 1 - 65_535)), OK),
    Case("6.9.1 the largest window of a stream", frame(HEADERS, 5, 1, block(REQUEST, ("wait", "1")))
         + frame(WINDOW, 0, 1, number((1 << 31) - 1 - 65_535)), OK),
    Case("6.9.2 a window beyond the largest by SETTINGS", frame(HEADERS, 5, 1, block(REQUEST, ("wait", "1")))
         + frame(WINDOW, 0, 1, number(1 << 30)) + setting(4, (1 << 31) - 1), FLOW),
    Case("6.10 CONTINUATION of a request", frame(HEADERS, ENDS, 1, block()[:4]) + frame(CONTINUATION, 0, 1, block()[4:6])
         + frame(CONTINUATION, 4, 1, block()[6:]), OK),
    Case("6.10 CONTINUATION of the connection", frame(HEADERS, ENDS, 1, block()) + frame(CONTINUATION, 4, 0), PROTOCOL),
    Case("6.10 CONTINUATION of another stream", frame(HEADERS, ENDS, 1, block()) + frame(CONTINUATION, 4, 3), PROTOCOL),
    Case("6.10 CONTINUATION behind the end of a block", OPEN + frame(CONTINUATION, 4, 1), PROTOCOL),
    Case("10.5.1 a header list without end", frame(HEADERS, 0, 1, block()) + frame(CONTINUATION, 0, 1) * 70, CALM),
    Case("10.5.1 a large header list", frame(HEADERS, ENDS, 1, block(REQUEST, ("a", "0" * 15_000)))
         + frame(CONTINUATION, 0, 1, block((("a", "0" * 15_000),))) * 60 + frame(CONTINUATION, 4, 1), OK),
    Case("10.5.1 a header list that is too large", frame(HEADERS, ENDS, 1, block(REQUEST, ("a", "0" * 15_000)))
         + frame(CONTINUATION, 0, 1, block((("a", "0" * 15_000),))) * 80 + frame(CONTINUATION, 4, 1), OK),
    Case("10.5.1 a header list that grows when it is unpacked",
         frame(HEADERS, 5, 1, block() + b"\x40\1a\x7f\x81\x1e" + b"x" * 4000 + b"\xbe" * 10_000) + head(3), OK),
    Case("10.5.1 a header block that is twice as large", frame(HEADERS, 0, 1, block())
         + frame(CONTINUATION, 0, 1, b"\0\1a\x7f\x81\x7f" + b"x" * 16_256) * 140, CALM),
    Case("RFC 7541 2.3.3 an index beyond the table", frame(HEADERS, 5, 1, block() + b"\xff\x00"), COMPRESSION),
    Case("RFC 7541 4.2 a change of the table behind a field", frame(HEADERS, 5, 1, block() + b"\x20"), COMPRESSION),
    Case("RFC 7541 5.2 padding of more than seven bits", with_text(b"\x00\x81\x1f\x82\x1f\xff"), COMPRESSION),
    Case("RFC 7541 5.2 the end of a text within it", with_text(b"\x00\x01a\x84\xff\xff\xff\xff"), COMPRESSION),
    Case("RFC 7541 5.2 a text that does not end", frame(HEADERS, 5, 1, block() + b"\x00\x09a"), COMPRESSION),
    Case("RFC 7541 6.1 an index of 0", frame(HEADERS, 5, 1, block() + b"\x80"), COMPRESSION),
    Case("RFC 7541 6.1 an index of 0 in a second frame",
         frame(HEADERS, ENDS, 1, block()) + frame(CONTINUATION, 4, 1, b"\x80"), COMPRESSION),
    Case("RFC 7541 6.3 a larger table than was allowed", frame(HEADERS, 5, 1, b"\x3f\xe2\x1f" + block()), COMPRESSION),
    Case("RFC 7541 6.3 a smaller table", frame(HEADERS, 5, 1, b"\x20\x3f\xe1\x1f" + block()), OK),
]  # fmt: skip

STREAMS = [
    Case("5.1 DATA after the end", frame(HEADERS, 5, 1, block(REQUEST, ("wait", "1"))) + frame(DATA, 1, 1, b"x"), CLOSED, 1),
    Case("5.1 DATA after trailers", head(1, POST, ("wait", "1"), flags=4) + head(1, (("a", "b"),)) + frame(DATA, 1, 1, b"x"),
         CLOSED, 1),
    Case("5.1 HEADERS after trailers", head(1, POST, ("wait", "1"), flags=4) + head(1, (("a", "b"),)) * 2, CLOSED, 1),
    Case("5.1 HEADERS after the end", frame(HEADERS, 5, 1, block(REQUEST, ("wait", "1"))) + head(1), CLOSED, 1),
    Case("5.1 DATA after RST_STREAM", OPEN + frame(RST, 0, 1, number(CANCEL)) + frame(DATA, 1, 1, b"x"), CLOSED, 1),
    Case("5.1 HEADERS after RST_STREAM", OPEN + frame(RST, 0, 1, number(CANCEL)) + head(1), CLOSED, 1),
    Case("5.1.2 more streams than are allowed", b"".join(head(n, POST, flags=4) for n in range(1, 203, 2)), REFUSED, 201),
    Case("5.3.1 HEADERS that depend on themselves", frame(HEADERS, 37, 1, number(1) + b"\x09" + block()), PROTOCOL, 1),
    Case("5.3.1 PRIORITY that depends on itself", frame(PRIORITY, 0, 1, number(1) + b"\x09"), PROTOCOL, 1),
    Case("6.3 PRIORITY of another length", OPEN + frame(PRIORITY, 0, 1, b"\0" * 4), SIZE, 1),
    Case("6.9 WINDOW_UPDATE by nothing", OPEN + frame(WINDOW, 0, 1, number(0)), PROTOCOL, 1),
    Case("6.9.1 the stream's window", OPEN + frame(WINDOW, 0, 1, number((1 << 31) - 1)), FLOW, 1),
    Case("8.1 HEADERS without an end behind others", OPEN + head(1, (("a", "b"),), flags=4), PROTOCOL, 1),
    Case("8.1 pseudo fields in trailers", OPEN + head(1, ((":path", "/"),)), PROTOCOL, 1),
    Case("8.1.1 more of a body than was said", OF_THREE + frame(DATA, 1, 1, b"xxxx"), PROTOCOL, 1),
    Case("8.1.1 less of it", OF_THREE + frame(DATA, 1, 1, b"xx"), PROTOCOL, 1),
    Case("8.1.1 less of it, in two frames", OF_THREE + frame(DATA, 0, 1, b"x") + frame(DATA, 1, 1, b"x"), PROTOCOL, 1),
    Case("8.1.1 less of it, before trailers", OF_THREE + head(1, (("a", "b"),)), PROTOCOL, 1),
    Case("8.1.1 none of it", head(1, POST, ("content-length", "3")), PROTOCOL, 1),
    Case("8.1.1 two lengths", head(1, POST, ("content-length", "3"), ("content-length", "4"), flags=4), PROTOCOL, 1),
    Case("8.1.1 a length that is none", head(1, POST, ("content-length", "-3"), flags=4), PROTOCOL, 1),
    Case("8.2.1 a name with a capital", head(1, REQUEST, ("X-Y", "z")), PROTOCOL, 1),
    Case("8.2.1 a name with a space", head(1, REQUEST, ("x y", "z")), PROTOCOL, 1),
    Case("8.2.1 an empty name", head(1, REQUEST, ("", "z")), PROTOCOL, 1),
    Case("8.2.1 a line feed in a name", head(1, REQUEST, ("x\ny", "z")), PROTOCOL, 1),
    Case("8.2.1 a line feed in a value", head(1, REQUEST, ("x", "a\nb: c")), PROTOCOL, 1),
    Case("8.2.1 a line feed in the host", head(1, (*REQUEST[:3], (":authority", "x\ny"))), PROTOCOL, 1),
    Case("8.2.1 a zero byte in a value", head(1, REQUEST, ("x", "a\0")), PROTOCOL, 1),
    *(Case(f"8.2.2 {name}", head(1, REQUEST, (name, "x")), PROTOCOL, 1)
      for name in ("connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te")),
    Case("8.3 an unknown pseudo field", head(1, REQUEST, (":unknown", "x")), PROTOCOL, 1),
    Case("8.3 one of answers", head(1, (*REQUEST, (":status", "200"))), PROTOCOL, 1),
    Case("8.3 one behind another field", head(1, REQUEST[:3], ("x", "y"), (":authority", "x")), PROTOCOL, 1),
    Case("8.3.1 an empty path", head(1, (*REQUEST[:2], (":path", ""))), PROTOCOL, 1),
    *(Case(f"8.3.1 no {REQUEST[left][0]}", head(1, REQUEST[:left] + REQUEST[left + 1:]), PROTOCOL, 1) for left in range(3)),
    *(Case(f"8.3.1 two of {REQUEST[twice][0]}", head(1, (*REQUEST, REQUEST[twice])), PROTOCOL, 1) for twice in range(4)),
    Case("8.3.1 another host", head(1, REQUEST, ("host", "y")), PROTOCOL, 1),
    Case("8.3.1 two hosts", head(1, REQUEST[:3], ("host", "x"), ("host", "x")), PROTOCOL, 1),
    Case("8.3.1 a method that is none", head(1, ((":method", "A B"), *REQUEST[1:])), PROTOCOL, 1),
    Case("8.5 CONNECT with a path", head(1, ((":method", "CONNECT"), *REQUEST[1:])), PROTOCOL, 1),
    Case("RFC 8441 4 a protocol, which is not offered", head(1, (*REQUEST, (":protocol", "websocket"))), PROTOCOL, 1),
]  # fmt: skip


class Conformance(SocketCase):
    def setUp(self) -> None:
        super().setUp()

        def answer(ctx: object) -> object:
            if ctx.header("wait"):  # type: ignore[attr-defined]
                return self.never()
            return Response(200, b"{}")

        self.api.runner.chain = FilterChain([], answer)  # type: ignore[arg-type]

    async def never(self) -> None:
        await Deferred()

    async def judge(self, case: Case) -> tuple[int, int]:
        """The stream that was reset, or 0 for a GOAWAY, and the code; OK when a PING at the end is answered."""
        sock = await self.client("h2")
        data = PREFACE + frame(SETTINGS, 0, 0) + case.data
        found: tuple[int, int] = await deferToThread(self._send, sock, data)
        sock.close()
        return found

    @staticmethod
    def _send(sock: ssl.SSLSocket, data: bytes) -> tuple[int, int]:
        try:
            sock.sendall(data)
            sock.sendall(frame(PING, 0, 0, b"the last"))
        except OSError:
            pass
        buffer = b""
        while True:
            while len(buffer) >= 9 and len(buffer) >= 9 + int.from_bytes(buffer[:3], "big"):
                size = int.from_bytes(buffer[:3], "big")
                kind, stream = buffer[3], int.from_bytes(buffer[5:9], "big")
                payload, buffer = buffer[9 : 9 + size], buffer[9 + size :]
                if kind == GOAWAY:
                    while sock.recv(1 << 16):
                        pass  # the connection ends
                    return 0, int.from_bytes(payload[4:8], "big")
                if kind == RST:
                    return stream, int.from_bytes(payload, "big")
                if kind == PING and payload == b"the last":
                    return 0, OK
            more = sock.recv(1 << 16)
            assert more, "the connection ended without GOAWAY"
            buffer += more

    async def _judge_all(self, cases: list[Case]) -> None:
        wrong = []
        for case in cases:
            found = await self.judge(case)
            if found != (case.stream, case.code):
                wrong.append(f"{case.section}: {found} instead of {(case.stream, case.code)}")
        self.assertEqual(wrong, [])
        self.assertEqual(self.flushLoggedErrors(), [])

    async def test_errors_of_connections(self) -> None:
        await self._judge_all(CONNECTION)

    async def test_errors_of_streams(self) -> None:
        await self._judge_all(STREAMS)

    async def test_a_header_block_without_memory_for_it(self) -> None:
        growing = frame(HEADERS, ENDS, 1, block()) + frame(CONTINUATION, 0, 1, block((("a", "0" * 15_000),))) * 8
        whole = Case("10.5", growing + frame(CONTINUATION, END_HEADERS, 1), OK)
        self.assertEqual(await self.judge(whole), (0, OK))
        self.api.runner.pending.limit = -1
        self.assertEqual(await self.judge(whole), (0, CALM))

    async def test_a_preface_that_is_none(self) -> None:
        for begin in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", b"GET / HTTP/1.1\r\n\r\n", PREFACE + PING_OUT):
            sock = await self.client("h2")
            self.assertEqual(await deferToThread(self._send, sock, begin), (0, PROTOCOL), begin)

    async def test_frames_that_come_byte_by_byte(self) -> None:
        sock = await self.client("h2")
        data = PREFACE + frame(SETTINGS, 0, 0) + head(1) + PING_OUT
        for at in range(len(data)):
            sock.sendall(data[at : at + 1])
        self.assertEqual(await deferToThread(self._send, sock, b""), (0, OK))

    async def test_streams_that_ended_long_ago(self) -> None:
        """Section 5.1: as an error of the stream; how it ended is not known any more."""
        sock = await self.client("h2")
        sock.sendall(PREFACE + frame(SETTINGS, 0, 0))
        for first in range(1, 801, 100):
            sock.sendall(b"".join(head(n) for n in range(first, first + 100, 2)))
            last = first + 98
            await self.until(lambda last=last: self.channels() and self.channels()[0].highest == last)
            await self.until(lambda: not self.channels()[0].streams)
        late = frame(DATA, ENDS, 1, b"x")
        self.assertEqual(await deferToThread(self._send, sock, late), (1, CLOSED))

    async def test_a_stream_that_is_over(self) -> None:
        """Section 5.1: when both sides have ended it, more is an error of the connection."""
        for late in (frame(DATA, ENDS, 1, b"x"), head(1)):
            sock = await self.client("h2")
            self.assertEqual(await deferToThread(self._send, sock, PREFACE + frame(SETTINGS, 0, 0) + head(1)), (0, OK))
            await self.until(lambda: not any(channel.streams for channel in self.channels()))
            self.assertEqual(await deferToThread(self._send, sock, late), (0, CLOSED))
