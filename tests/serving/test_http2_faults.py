"""Clients of HTTP/2 that do not keep to it, or that want to wear the server out: a counted line, and no traceback."""

from __future__ import annotations

import random
import socket
import struct
from typing import Any

import h2.events
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from twisted.internet.threads import deferToThread
from twisted.logger import globalLogPublisher

from kapi.filters.chain import FilterChain
from kapi.request.response import Response
from kapi.wire.http2 import receiving
from tests.serving.sockets import Client2, SocketCase

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&timeoutSeconds=3000"


class FaultCase(SocketCase):
    def setUp(self) -> None:
        super().setUp()
        self.lines: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(self.lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.lines.append)

    async def client2(self) -> Client2:
        return Client2(await self.client("h2"))

    def counted(self) -> dict[str, float]:
        return {reason: count for (reason,), count in self.connections.errors.counter.rows.items()}

    async def quiet(self, reason: str, count: int) -> None:
        """All connections are over; ``count`` were counted, one line was logged of all and no traceback."""
        await self.until(lambda: not self.connections.open)
        self.assertEqual(self.counted(), {reason: count})
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.api.runner.watches, set())
        await self.pass_time(15)
        lines = [line for line in self.lines if line.get("reason") == reason]
        self.assertEqual([line["count"] for line in lines], [count])

    async def send(self, *frames: Frame | bytes, client: Client2 | None = None) -> Client2:
        client = client or await self.client2()
        data = b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in frames)
        try:
            client.flush()
            await deferToThread(client.sock.sendall, data)
        except OSError:
            pass  # the server has had enough
        return client

    def head(self, client: Client2, stream: int, path: str = MAPS, end: bool = True) -> HeadersFrame:
        fields = [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "x")]
        frame = HeadersFrame(stream, client.state.encoder.encode(fields))
        frame.flags.add("END_HEADERS")
        if end:
            frame.flags.add("END_STREAM")
        return frame


class Faults(FaultCase):
    async def test_frames_that_are_wrong(self) -> None:
        wrong = [
            DataFrame(1, b"of no stream"),
            ContinuationFrame(1, b"of nothing"),
            b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",  # WINDOW_UPDATE by nothing
            b"\x00\x00\x01\x06\x00\x00\x00\x00\x00x",  # PING of a byte
            b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",  # far too long
            HeadersFrame(1, b"\xff" * 30, flags=["END_HEADERS"]),
            HeadersFrame(2, b"\x82", flags=["END_HEADERS"]),
            WindowUpdateFrame(0, window_increment=(1 << 31) - 1),
        ]
        for frame in wrong:
            client = await self.send(frame)
            await client.until(h2.events.ConnectionTerminated)
            client.sock.close()
        await self.quiet("protocol", len(wrong))

    async def test_no_http2_at_all(self) -> None:
        for _ in range(3):
            sock = await self.client("h2")
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await deferToThread(sock.recv, 1 << 16)
            sock.close()
        await self.quiet("protocol", 3)

    async def test_headers_without_end(self) -> None:
        client = await self.client2()
        frames = [HeadersFrame(1, b"\x82")] + [ContinuationFrame(1, b"\x40\x01a\x01b")] * 2000
        await self.send(*frames, client=client)
        await client.until(h2.events.ConnectionTerminated)
        client.sock.close()
        await self.quiet("protocol", 1)

    async def _flooded(self, make: Any, batch: int) -> None:
        client = await self.client2()
        await self.send(client=client)
        stream = 1
        while self.connections.open and stream < 20_000:
            frames: list[Frame] = []
            for _ in range(batch):
                frames += make(client, stream)
                stream += 2
            await self.send(*frames, client=client)
            if self.counted():
                client.sock.close()
        await self.quiet("flood", 1)

    async def test_streams_that_are_reset_as_soon_as_they_begin(self) -> None:
        for batch in (1, 40):
            self.connections.errors.counter.rows.clear()
            self.lines.clear()
            await self._flooded(lambda client, stream: [self.head(client, stream), RstStreamFrame(stream)], batch)

    async def test_watches_that_are_reset_as_soon_as_they_begin(self) -> None:
        await self._flooded(lambda client, stream: [self.head(client, stream, WATCH), RstStreamFrame(stream)], 3)

    async def test_pings_and_settings_without_end(self) -> None:
        for frame in (PingFrame(0, b"12345678"), SettingsFrame(0, {4: 70_000})):
            self.connections.errors.counter.rows.clear()
            self.lines.clear()
            await self._flooded(lambda client, stream, frame=frame: [frame], 100)

    async def test_priorities_and_window_updates_without_end(self) -> None:
        for frame in (
            PriorityFrame(5, depends_on=3, stream_weight=7),
            WindowUpdateFrame(0, window_increment=1),
            WindowUpdateFrame(1, window_increment=1),  # of a stream that is over
        ):
            self.connections.errors.counter.rows.clear()
            self.lines.clear()
            client = await self.client2()
            stream = client.begin("GET", MAPS)
            self.clock.advance(0)
            await client.until(h2.events.StreamEnded, stream)
            for _ in range(30):
                await self.send(*[frame] * 500, client=client)
            await self.until(self.counted)
            client.sock.close()
            await self.quiet("flood", 1)

    async def test_frames_of_a_refused_stream_without_end(self) -> None:
        for frame in (HeadersFrame(1, b"", flags=["END_HEADERS", "END_STREAM"]), DataFrame(1, b"x")):
            self.connections.errors.counter.rows.clear()
            self.lines.clear()
            client = await self.client2()
            refused = self.head(client, 1, end=False), WindowUpdateFrame(1, window_increment=(1 << 31) - 1)
            await self.send(*refused, client=client)
            for _ in range(30):
                await self.send(*[frame] * 500, client=client)
            await self.until(self.counted)
            client.sock.close()
            await self.quiet("flood", 1)

    async def test_window_updates_for_what_was_sent_are_no_flood(self) -> None:
        """Some clients open both windows after each small piece: one in 64 bytes is not counted."""
        self.patch(receiving, "_MAX_IDLE_FRAMES", 4)  # forty of those that are not answered
        client = await self.client2()
        sent = 0
        for _ in range(20):
            stream = client.begin("GET", MAPS)
            self.clock.advance(0)
            sent += len((await client.until(h2.events.DataReceived, stream)).data)
            await client.until(h2.events.StreamEnded, stream)
        update = WindowUpdateFrame(0, window_increment=1)
        await self.send(*[update] * (sent // 64 + 15), client=client)
        await self.pass_time(0)
        self.assertEqual(self.counted(), {})
        await self.send(*[update] * 60, client=client)
        await self.until(self.counted)
        client.sock.close()
        await self.quiet("flood", 1)

    async def test_answers_to_pings_that_are_not_taken(self) -> None:
        client = Client2(await self.client("h2", receive_buffer=4096))
        client.begin("GET", WATCH)  # no idle connection
        await self.until(lambda: self.api.runner.watches)
        transport = next(iter(self.connections.open)).transport
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        while not self.counted():
            self.assertTrue(self.connections.open)
            await self.pass_time(1)
            await self.send(*[PingFrame(0, b"12345678")] * 30, client=client)  # as many as are allowed
        await self.pass_time(20)
        await self.quiet("flood", 1)

    async def test_resets_and_window_updates_of_streams_that_are_over(self) -> None:
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        self.clock.advance(0)
        await client.until(h2.events.ResponseReceived, stream)
        await self.until(lambda: self.clock.advance(0.1) or not self.channels()[0].streams)
        priority = PriorityFrame(5, depends_on=3, stream_weight=7)
        later: list[Frame] = [PriorityFrame(n, depends_on=0, stream_weight=7) for n in range(101, 5001, 2)]
        watch = self.head(client, 3, WATCH)
        await self.send(
            RstStreamFrame(1), WindowUpdateFrame(1, window_increment=9), priority, *later, watch, client=client
        )
        await self.until(lambda: self.api.runner.watches)
        other = self.head(client, 5)
        await self.send(WindowUpdateFrame(0, window_increment=9), RstStreamFrame(3), other, client=client)
        await self.until(lambda: not self.api.runner.watches)
        await self.until(lambda: self.clock.advance(0.1) or not self.channels()[0].streams)
        self.assertEqual((self.counted(), self.flushLoggedErrors()), ({}, []))

    async def test_targets(self) -> None:
        client = await self.client2()
        client.state.config.validate_outbound_headers = False
        seen: list[bytes] = []
        self.api.runner.chain = FilterChain([lambda ctx: seen.append(ctx.http.uri)], lambda ctx: Response(200, b"{}"))
        for target, code in {"/api\x01": 400, "/a b": 400, "api": 400, "https://y/a?b": 200, "/\xe9": 200}.items():
            answer: Any = await client.until(h2.events.ResponseReceived, client.begin("GET", target))
            self.assertEqual(dict(answer.headers)[b":status"], b"%d" % code, target)
        self.assertEqual(seen, [b"/a?b", b"/%C3%A9"])
        self.assertEqual((self.counted(), self.flushLoggedErrors()), ({}, []))

    async def test_whatever_comes(self) -> None:
        """Bytes of a good connection, some of them changed."""
        random.seed(7)
        for _ in range(60):
            client = await self.client2()
            frames = [
                self.head(client, 1, WATCH), self.head(client, 3, end=False), DataFrame(3, b"{}", flags=["END_STREAM"]),
                WindowUpdateFrame(0, window_increment=9), RstStreamFrame(1), PingFrame(0, b"12345678"),
                PriorityFrame(7, depends_on=3), self.head(client, 5), SettingsFrame(0, {3: 5}),
            ]  # fmt: skip
            data = bytearray(b"".join(frame.serialize() for frame in frames))
            for _ in range(random.randint(1, 4)):
                data[random.randrange(len(data))] = random.randrange(256)
            await self.send(bytes(data), client=client)
            self.clock.advance(0.1)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", random.randint(0, 1), 0))
            client.sock.close()
        await self.until(lambda: not self.connections.open)
        self.clock.advance(4000)
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.api.runner.watches, set())


class Handshakes(FaultCase):
    async def test_what_is_no_handshake(self) -> None:
        for _ in range(20):
            sock = self.plain()
            sock.sendall(b"\x16\x03\x01\x00\xee" + b"\x01" * 40)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        await self.until(lambda: self.connections.handshake_errors.rows[()] == 20)
        await self.quiet("handshake", 20)

    async def test_who_only_looks_for_a_port_is_not_worth_a_line(self) -> None:
        for _ in range(5):
            self.plain().close()
        await self.until(lambda: self.connections.handshake_errors.rows[()] == 5)
        self.assertEqual((self.counted(), self.flushLoggedErrors()), ({}, []))
