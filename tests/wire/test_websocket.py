"""A WebSocket of the client library against servers that behave, and servers that do not."""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode
from wsproto.utilities import generate_accept_token

from kapi.wire import upgrade, websocket
from kapi.wire.answer import MAX_HEAD, BadAnswer
from kapi.wire.upgrade import WebSocketClosed
from kapi.wire.websocket import WebSocket


class WebSocketTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.transport = Clock(), StringTransport()
        self.socket = WebSocket(self.clock, "GET", "/exec", [(b"Host", b"h")], ["v5", "v4"])
        self.socket.makeConnection(self.transport)
        self.server = FrameProtocol(client=False, extensions=[])

    def answer(self, protocol: bytes = b"v5", accept: bytes = b"", rest: bytes = b"") -> None:
        key = re.search(rb"Sec-WebSocket-Key: (.*)\r\n", self.transport.value())
        assert key is not None
        self.transport.clear()
        self.socket.dataReceived(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            + (accept or generate_accept_token(key[1])) + b"\r\nSec-WebSocket-Protocol: " + protocol + b"\r\n\r\n" + rest
        )  # fmt: skip

    def read(self) -> Any:
        return Deferred.fromCoroutine(self.socket.read())

    def sent(self) -> list[tuple[Any, Any]]:
        self.server.receive_bytes(self.transport.value())
        self.transport.clear()
        return [(frame.opcode, frame.payload) for frame in self.server.received_frames()]

    def test_messages_come_whole_and_in_order(self) -> None:
        """also those that come with the answer, in parts, or byte by byte"""
        first = self.server.send_data(b"a", fin=False) + self.server.send_data(b"b", fin=True)
        self.answer(rest=first)
        self.assertIs(self.successResultOf(self.socket.opened), self.socket)
        self.assertEqual(self.socket.protocol, "v5")
        self.assertEqual(self.successResultOf(self.read()), b"ab")
        waiting = self.read()
        self.assertNoResult(waiting)
        for byte in self.server.send_data(b"cd", fin=True):
            self.socket.dataReceived(bytes((byte,)))
        self.assertEqual(self.successResultOf(waiting), b"cd")

    def test_pings_are_answered_and_a_close_too(self) -> None:
        self.answer()
        self.socket.dataReceived(bytes(self.server.ping(b"x")))
        self.assertEqual(self.sent(), [(Opcode.PONG, b"x")])
        self.socket.dataReceived(bytes(self.server.close(CloseReason.NORMAL_CLOSURE)))
        self.assertEqual(self.sent()[0][0], Opcode.CLOSE)
        self.assertTrue(self.transport.disconnecting)
        self.assertIsNone(self.successResultOf(self.read()))

    def test_a_lost_connection_and_a_bad_close_are_errors(self) -> None:
        for end in (b"", bytes(self.server.close(CloseReason.INTERNAL_ERROR, "broken"))):
            self.setUp()
            self.answer()
            waiting = self.read()
            if end:
                self.socket.dataReceived(end)
            self.socket.connectionLost(Failure(ConnectionLost()))
            self.assertIn("broken" if end else "lost", str(self.failureResultOf(waiting, WebSocketClosed).value))
            self.failureResultOf(Deferred.fromCoroutine(self.socket.send(b"late")), WebSocketClosed)

    def test_a_refusal_is_given_with_its_body(self) -> None:
        self.socket.dataReceived(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nne")
        self.assertNoResult(self.socket.opened)
        self.socket.dataReceived(b"ver")
        self.socket.connectionLost(Failure(ConnectionDone()))
        answer = self.successResultOf(self.socket.opened)
        self.assertEqual((answer.code, answer.body), (403, b"never"))

    def test_a_refusal_in_chunks_is_given_as_one_body(self) -> None:
        """Go's servers send what is longer than 2 KiB so, and then keep the connection."""
        self.socket.dataReceived(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nne\r\n3\r")
        self.assertNoResult(self.socket.opened)
        self.socket.dataReceived(b"\nver\r\n0\r\n\r\n")
        self.assertTrue(self.transport.disconnecting)
        self.socket.connectionLost(Failure(ConnectionDone()))
        answer = self.successResultOf(self.socket.opened)
        self.assertEqual((answer.code, answer.body), (403, b"never"))

    def test_a_refusal_in_broken_chunks_is_no_answer(self) -> None:
        self.socket.dataReceived(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")
        self.failureResultOf(self.socket.opened, BadAnswer)
        self.assertTrue(self.transport.disconnected)

    def test_an_endless_refusal_is_cut(self) -> None:
        self.socket.dataReceived(b"HTTP/1.1 500 No\r\n\r\n" + b"x" * (upgrade.MAX_REFUSAL + 1))
        self.assertTrue(self.transport.disconnecting)

    def test_an_endless_refusal_in_chunks_is_cut(self) -> None:
        chunk = b"%x\r\n%s\r\n" % (upgrade.MAX_REFUSAL + 1, b"x" * (upgrade.MAX_REFUSAL + 1))
        self.socket.dataReceived(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
        self.assertTrue(self.transport.disconnecting)
        self.socket.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(len(self.successResultOf(self.socket.opened).body), upgrade.MAX_REFUSAL)

    def test_a_handshake_that_is_none(self) -> None:
        for more in ({"accept": b"wrong"}, {"protocol": b"v3"}, {"protocol": b""}):
            self.setUp()
            self.answer(**more)
            self.failureResultOf(self.socket.opened, BadAnswer)
        self.setUp()
        self.socket.dataReceived(b"x" * (MAX_HEAD + 1))
        self.failureResultOf(self.socket.opened, BadAnswer)

    def test_nonsense_ends_the_connection(self) -> None:
        self.answer()
        waiting = self.read()
        self.socket.dataReceived(b"\xff\xff\xff\xff\xff")
        self.failureResultOf(waiting, BadAnswer)
        self.assertTrue(self.transport.disconnected)

    def test_a_message_has_a_bound(self) -> None:
        self.patch(websocket, "MAX_MESSAGE", 10)
        self.answer()
        waiting = self.read()
        for _ in range(2):
            self.socket.dataReceived(bytes(self.server.send_data(b"x" * 4, fin=False)))
            self.socket.dataReceived(bytes(self.server.send_data(b"x" * 6, fin=True)))
            self.assertEqual(self.successResultOf(waiting), b"x" * 10)
            waiting = self.read()
        self.socket.dataReceived(bytes(self.server.send_data(b"x" * 11, fin=False)))
        self.failureResultOf(waiting, BadAnswer)

    def test_a_reader_that_is_slow_makes_the_server_wait(self) -> None:
        self.patch(upgrade, "MAX_BUFFERED", 10)
        self.answer()
        for size, state in ((6, "producing"), (4, "producing"), (1, "paused"), (1, "paused")):
            self.socket.dataReceived(bytes(self.server.send_data(b"x" * size, fin=True)))
            self.assertEqual(self.transport.producerState, state)
        for state in ("paused", "producing", "producing", "producing"):  # 6, 2, 1 and no bytes are left
            self.successResultOf(self.read())
            self.assertEqual(self.transport.producerState, state)

    def test_a_server_that_is_slow_makes_the_writer_wait(self) -> None:
        self.answer()
        self.socket.pauseProducing()
        sending = Deferred.fromCoroutine(self.socket.send(b"data"))
        self.assertNoResult(sending)
        self.socket.resumeProducing()
        self.successResultOf(sending)
        self.assertEqual(self.sent(), [(Opcode.BINARY, b"data")])

    def test_who_does_not_answer_a_close_is_cut_off(self) -> None:
        self.answer()
        self.socket.close()
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(websocket.CLOSE_TIMEOUT_SECONDS)
        self.assertTrue(self.transport.disconnected)

    def test_cancelling_the_opening_ends_the_connection(self) -> None:
        self.socket.opened.cancel()
        self.assertTrue(self.transport.disconnected)
        self.failureResultOf(self.socket.opened)
