"""Outgoing HTTP/2 against servers that lie, byte for byte."""

from __future__ import annotations

from typing import Any

import treq
from twisted.internet.defer import CancelledError

from kapi.wire.agent import Body, prepared_url
from kapi.wire.answer import MAX_HEAD, BadAnswer
from kapi.wire.collected import Collected
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code
from kapi.wire.http2.receiving import WINDOW
from tests.waiting import eventually
from tests.wire.http2_case import LIMIT, Http2Case
from tests.wire.http2_peer import block, data, headers
from tests.wire.http2_server import frames_in, liar


class LyingServers(Http2Case):
    async def failure(self, *frames: bytes, greeting: bytes | None = None) -> tuple[str, Any]:
        """The error of a request, and the server's connection."""
        server = liar(*frames, greeting=greeting)
        agent = self.serve(server, b"h2")
        try:
            found = await self.ask(agent)
        except BadAnswer as problem:
            return str(problem), server.connections[0]
        finally:
            await self.stop()
        raise AssertionError(f"the answer was taken: {found.body!r}")

    async def test_a_malformed_answer_ends_its_stream_only(self) -> None:
        for frames, text in (
            ((wire.reset(1, Code.INTERNAL_ERROR),), "stream error: stream ID 1; INTERNAL_ERROR; received from peer"),
            ((headers(), wire.reset(1, Code.REFUSED_STREAM)), "stream error: stream ID 1; REFUSED_STREAM; received"),
            ((wire.reset(1, 99),), "stream error: stream ID 1; unknown error code 0x63; received from peer"),  # type: ignore[arg-type]
            ((data(b"x"),), "DATA before HEADERS"),
            ((data(b"", ends=True),), "an end before HEADERS"),
            ((headers(status="20"),), "missing status pseudo header"),
            ((headers(status="2x0"),), "missing status pseudo header"),
            ((headers(("X-Large", "a")),), "malformed header field"),
            ((headers(("x y", "a")),), "malformed header field"),
            ((headers(("x", "a\nb")),), "malformed header field"),
            ((headers((":path", "/")),), "malformed header field"),
            ((headers(("connection", "close")),), "malformed header field"),
            ((headers(("content-length", "-1")),), "bad Content-Length"),
            ((headers(("content-length", "1"), ("content-length", "2")),), "bad Content-Length"),
            ((headers(("content-length", "1"), ends=True),), "unexpected EOF"),
            ((headers(("content-length", "1")), data(b"ab")), "the body has another length"),
            ((headers(("content-length", "3")), data(b"ab", ends=True)), "the body has another length"),
            ((headers(), headers(("x", "y"))), "trailers before the end"),
            ((headers(status="101"),), "too many interim answers"),
            ((headers(status="100", ends=True),), "too many interim answers"),
            ((headers(("link", "x" * 1000), status="103") * (MAX_HEAD // 1000),), "too many interim answers"),
            ((headers(*[(f"x{n}", "y" * 1000) for n in range(MAX_HEAD // 1000)]),), "server response headers exceeded"),
            ((wire.window_update(1, wire.MAX_WINDOW_BYTES),), "the stream's window is too large"),
            ((headers(), wire.window_update(1, 0)), "WINDOW_UPDATE by nothing"),
        ):
            found, connection = await self.failure(*frames)
            self.assertIn(text, found, frames)
            self.assertFalse(connection.lost.called, text)

    async def test_windows_may_be_as_large_as_a_number(self) -> None:
        most = wire.MAX_WINDOW_BYTES - wire.DEFAULT_WINDOW
        server = liar(wire.window_update(0, most), wire.window_update(1, most), headers(ends=True))
        answer = await self.ask(self.serve(server, b"h2"))
        self.assertEqual(answer.code, 200)

    async def test_a_violation_of_the_protocol_ends_the_connection(self) -> None:
        opened = wire.head(4 + len(block()), wire.PUSH_PROMISE, wire.END_HEADERS, 1) + bytes((0, 0, 0, 2)) + block()
        for frames, text in (
            ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "FRAME_SIZE_ERROR"),
            ((headers(stream=3),), "HEADERS of no stream"),
            ((headers(stream=2),), "HEADERS of a stream that is none of the client's"),
            ((data(b"x", stream=3),), "DATA of no stream"),
            ((opened,), "PUSH_PROMISE"),
            ((wire.settings({wire.ENABLE_PUSH: 1}),), "a server has enabled push"),
            ((wire.settings({wire.INITIAL_WINDOW_SIZE: 2**31}),), "FLOW_CONTROL_ERROR"),
            (
                (
                    wire.window_update(1, wire.MAX_WINDOW_BYTES - wire.DEFAULT_WINDOW),
                    wire.settings({wire.INITIAL_WINDOW_SIZE: wire.DEFAULT_WINDOW + 99}),
                ),
                "a stream's window is too large",
            ),
            ((wire.settings({wire.MAX_FRAME_SIZE: 1}),), "SETTINGS_MAX_FRAME_SIZE"),
            ((wire.window_update(0, wire.MAX_WINDOW_BYTES),), "the connection's window is too large"),
            (
                (wire.head(wire.DEFAULT_FRAME + 1, wire.DATA, 0, 1) + bytes(wire.DEFAULT_FRAME + 1),),
                "a frame is too long",
            ),
            ((wire.header_block(1, b"\xff\xff\xff\xff\xff\xff", 0, wire.DEFAULT_FRAME),), "COMPRESSION_ERROR"),
            ((wire.head(1, wire.HEADERS, 0, 1) + b"\x88", wire.head(8, wire.PING, 0, 0) + bytes(8)), "interrupted"),
            ((wire.head(1, wire.HEADERS, 0, 1) + b"\x88", wire.head(0, wire.CONTINUATION, 0, 1) * 100), "too long"),
            (
                (
                    wire.head(1, wire.HEADERS, 0, 1) + b"\x88",
                    (wire.head(wire.DEFAULT_FRAME, wire.CONTINUATION, 0, 1) + b"\x82" * wire.DEFAULT_FRAME) * 40,
                ),
                "a header block is too long",
            ),
            (((wire.head(8, wire.PING, 0, 0) + bytes(8)) * 2000,), "too many frames like PING"),
            ((wire.settings({}) * 2000,), "too many frames like SETTINGS"),
            ((headers(), data(b"") * 2000), "too many frames like DATA of nothing"),
            ((wire.window_update(1, 1) * 20_000,), "too many frames like WINDOW_UPDATE"),
        ):
            found, connection = await self.failure(*frames)
            self.assertIn(text, found, text)
            self.assertIn("connection error: ", found)
            await connection.lost
            self.assertIn(wire.GOAWAY, [kind for kind, _, _, _ in frames_in(connection.received)], text)

    async def test_the_first_frame_must_be_settings(self) -> None:
        found, _ = await self.failure(headers(ends=True), greeting=b"")
        self.assertIn("the first frame is not SETTINGS", found)

    async def test_data_beyond_the_window_ends_the_stream(self) -> None:
        server = liar(headers(), data(bytes(wire.DEFAULT_FRAME)) * (WINDOW // wire.DEFAULT_FRAME + 1))
        agent = self.serve(server, b"h2")
        answer: Any = await agent.request(b"POST", f"https://127.0.0.1:{self.number}/".encode(), None, Body(b"x"))
        await eventually(
            lambda: any(kind == wire.RST_STREAM for kind, _, _, _ in frames_in(server.connections[0].received))
        )
        with self.assertRaises(BadAnswer) as caught:
            collected = Collected(LIMIT)
            answer.deliverBody(collected)
            await collected.done
        self.assertEqual(str(caught.exception), "more than the stream's window")

    async def test_a_body_that_cannot_be_decoded_ends_its_stream_only(self) -> None:
        server = liar(headers(("content-encoding", "gzip")))
        agent = self.serve(server, b"h2")
        answer = await agent.ask("GET", prepared_url(f"https://127.0.0.1:{self.number}/"))
        reading = treq.content(answer)
        server.connections[0].transport.write(data(b"hello"))
        with self.assertRaisesRegex(BadAnswer, "malformed content encoding: .*incorrect header"):
            await reading
        await eventually(
            lambda: wire.RST_STREAM in [kind for kind, _, _, _ in frames_in(server.connections[0].received)]
        )
        self.assertFalse(server.connections[0].lost.called)

    async def test_what_follows_a_reset_of_this_end_is_ignored(self) -> None:
        server = liar()
        agent = self.serve(server, b"h2")
        sent = self.ask(agent)
        await eventually(lambda: server.connections and server.connections[0].has_request())
        sent.cancel()
        with self.assertRaises(CancelledError):
            await sent
        server.connections[0].transport.write(headers() + data(b"late", ends=True))
        second = self.ask(agent)
        server.connections[0].transport.write(headers(stream=3) + data(b"mine", ends=True, stream=3))
        await eventually(
            lambda: len([1 for kind, _, _, _ in frames_in(server.connections[0].received) if kind == wire.HEADERS]) == 2
        )
        self.assertEqual((await second).body, b"mine")

    async def test_answers_that_cross_many_resets_are_no_flood(self) -> None:
        """The servers of a hundred requests that are given up may have sent a whole window each."""
        server = liar()
        agent = self.serve(server, b"h2")
        sent = [self.ask(agent) for _ in range(100)]
        await eventually(lambda: server.connections and server.connections[0].requests() == 100)
        for given_up in sent[:-1]:
            given_up.cancel()
            with self.assertRaises(CancelledError):
                await given_up
        for stream in range(1, 199, 2):
            server.connections[0].transport.write(headers(stream=stream) + data(b"late", stream=stream) * 16)
        server.connections[0].transport.write(headers(stream=199) + data(b"mine", ends=True, stream=199))
        self.assertEqual((await sent[-1]).body, b"mine")

    async def test_a_server_that_allows_no_stream_does_not_collect_connections(self) -> None:
        server = liar(greeting=wire.settings({wire.MAX_CONCURRENT_STREAMS: 0}))
        agent = self.serve(server, b"h2")
        sent = self.ask(agent)
        await eventually(lambda: server.connections and server.connections[0].has_request())
        sent.cancel()
        with self.assertRaises(CancelledError):
            await sent
        await server.connections[0].lost
