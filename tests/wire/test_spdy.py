"""Streams of SPDY of the client library: what is written, and what is read in any pieces."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from kapi.wire.answer import BadAnswer
from kapi.wire.spdy import SPDYStreams
from kapi.wire.upgrade import WebSocketClosed

STREAMS = {3: {"streamtype": "error"}, 0: {"streamtype": "stdin"}, 1: {"streamtype": "stdout", "port": "80"}}
IDS = {3: 1, 0: 3, 1: 5}
ANSWER = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v5\r\n\r\n"
GOAWAY = b"\x80\x03\x00\x07\x00\x00\x00\x08" + bytes(8)


def data(channel: int, content: bytes, *, last: bool = False) -> bytes:
    return struct.pack(">II", IDS[channel], last << 24 | len(content)) + content


class SPDYTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.transport = StringTransport()
        self.streams = SPDYStreams("/exec", [(b"Host", b"h")], ["v5", "v4"], STREAMS)
        self.streams.makeConnection(self.transport)

    def opened(self) -> None:
        self.transport.clear()
        self.streams.dataReceived(ANSWER)
        self.assertIs(self.successResultOf(self.streams.opened), self.streams)

    def read(self) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(self.streams.read()))

    def frames(self) -> list[tuple[int, int, bytes]]:
        raw, found = self.transport.value(), []
        self.transport.clear()
        while raw:
            first, second = struct.unpack_from(">II", raw)
            end = 8 + (second & 0xFFFFFF)
            found.append((first, second >> 24, raw[8:end]))
            raw = raw[end:]
        return found

    def test_all_streams_are_opened_with_their_headers(self) -> None:
        head = self.transport.value()
        self.assertTrue(head.startswith(b"POST /exec HTTP/1.1\r\nHost: h\r\n"))
        self.assertEqual(head.count(b"X-Stream-Protocol-Version: v"), 2)
        self.opened()
        self.assertEqual(self.streams.protocol, "v5")
        packed, found = zlib.decompressobj(), []
        for first, flags, body in self.frames():
            self.assertEqual((first, flags, body[4:10]), (0x80030001, 0, bytes(6)))  # no associated stream, no priority
            block = packed.decompress(body[10:])
            texts = []
            position = 4
            while position < len(block):
                length = int.from_bytes(block[position : position + 4], "big")
                texts.append(block[position + 4 : position + 4 + length].decode())
                position += 4 + length
            self.assertEqual(int.from_bytes(block[:4], "big") * 2, len(texts))
            found.append((int.from_bytes(body[:4], "big"), texts))
        self.assertEqual(
            found,
            [(1, ["streamtype", "error"]), (3, ["streamtype", "stdin"]), (5, ["streamtype", "stdout", "port", "80"])],
        )

    def test_the_text_of_errors_is_one_message_after_all_others(self) -> None:
        self.opened()
        raw = data(3, b"sta") + data(3, b"tus", last=True) + data(1, b"out") + data(1, b"put", last=True)
        for byte in raw:
            self.streams.dataReceived(bytes((byte,)))
        self.assertEqual([self.read() for _ in range(4)], [b"\1out", b"\1put", b"\3status", None])

    def test_the_other_end_may_leave_before_its_streams_end(self) -> None:
        self.opened()
        self.streams.dataReceived(data(1, b"out") + GOAWAY)
        self.assertEqual([self.read() for _ in range(3)], [b"\1out", b"\3", None])

    def test_a_lost_connection_is_an_error_unless_there_is_a_status(self) -> None:
        for status, ends in ((b"", False), (b"status", True)):
            self.setUp()
            self.opened()
            self.streams.dataReceived(data(3, status))
            self.streams.connectionLost(Failure(ConnectionLost()))
            if ends:
                self.assertEqual([self.read(), self.read()], [b"\3status", None])
            else:
                self.failureResultOf(Deferred.fromCoroutine(self.streams.read()), WebSocketClosed)

    def test_input_is_sent_and_ended(self) -> None:
        self.opened()
        self.transport.clear()
        for message in (b"\0some", b"\xff\0", b"\4no such stream"):
            self.successResultOf(Deferred.fromCoroutine(self.streams.send(message)))
        self.assertEqual(self.frames(), [(3, 0, b"some"), (3, 1, b"")])
        self.streams.close()
        cancelled = [(0x80030003, 0, bytes((0, 0, 0, number, 0, 0, 0, 5))) for number in (1, 3, 5)]
        self.assertEqual((self.frames(), self.transport.disconnecting), (cancelled, True))
        self.failureResultOf(Deferred.fromCoroutine(self.streams.send(b"\0x")), WebSocketClosed)

    def test_pings_are_answered_and_refused_streams_end(self) -> None:
        self.opened()
        self.transport.clear()
        ping, reset = b"\x80\x03\x00\x06\x00\x00\x00\x04\0\0\0\2", b"\x80\x03\x00\x03\x00\x00\x00\x08\0\0\0"
        self.streams.dataReceived(ping + reset + b"\1\0\0\0\1" + reset + b"\5\0\0\0\1")
        self.assertEqual(self.frames(), [(0x80030006, 0, b"\0\0\0\2")])
        self.assertEqual([self.read(), self.read()], [b"\3", None])

    def test_what_is_no_spdy_is_refused(self) -> None:
        self.opened()
        self.streams.dataReceived(b"\x80\x02\x00\x01\x00\x00\x00\x00")
        self.failureResultOf(Deferred.fromCoroutine(self.streams.read()), BadAnswer)
        self.assertTrue(self.transport.disconnecting or self.transport.disconnected)
        for answer in (ANSWER.replace(b"SPDY/3.1", b"websocket"), ANSWER.replace(b": v5", b": v1")):
            self.setUp()
            self.streams.dataReceived(answer)
            self.failureResultOf(self.streams.opened, BadAnswer)

    def test_a_refusal_is_a_response(self) -> None:
        self.streams.dataReceived(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        self.streams.connectionLost(Failure(ConnectionLost()))
        response = self.successResultOf(self.streams.opened)
        self.assertEqual((response.code, response.body), (403, b"no"))
