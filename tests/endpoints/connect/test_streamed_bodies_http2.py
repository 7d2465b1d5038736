"""Large bodies on their way to a pod, over HTTP/2."""

from __future__ import annotations

import ssl

import h2.events
import h2.exceptions
from twisted.internet.threads import deferToThread

from tests.endpoints.connect.local_pod import PODS
from tests.endpoints.connect.streamed_case import LARGE, MEGA, PIECE, StreamedCase
from tests.serving.sockets import Client2
from tests.waiting import MAX_WAIT


class StreamedBodiesOverHTTP2(StreamedCase):
    async def test_a_body_over_http2(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        await self.send2(client, stream, LARGE)
        event = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(event.headers)[b":status"], b"200")
        await client.until(h2.events.StreamEnded, stream)
        self.assert_whole(LARGE)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_a_pod_that_does_not_read_over_http2(self) -> None:
        """The stream's window closes; other streams of the connection go on."""
        self.pod.reads = False
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        sent = [0]

        def send() -> None:
            client.sock.settimeout(1.0)
            try:
                while sent[0] < LARGE:
                    window = client.state.local_flow_control_window(stream)
                    if not window:
                        client.events += client.state.receive_data(client.sock.recv(1 << 16))
                        continue
                    size = min(window, 16384)
                    client.state.send_data(stream, PIECE[:size])
                    client.flush()
                    sent[0] += size
            except (TimeoutError, ssl.SSLWantReadError):
                client.sock.settimeout(MAX_WAIT)

        await deferToThread(send)
        self.assertLess(sent[0], 40 * MEGA)
        self.assertLess(self.api.runner.pending.size, MEGA)
        other = client.begin("GET", PODS)
        event = await client.until(h2.events.ResponseReceived, other)
        self.assertEqual(dict(event.headers)[b":status"], b"200")
        client.state.reset_stream(stream)
        client.flush()
        self.connection.transport.resumeProducing()  # type: ignore[union-attr]
        await self.until(lambda: self.connection.lost)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_an_answer_before_the_end_over_http2(self) -> None:
        self.pod.early = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        client.state.send_data(stream, PIECE[:16384])
        client.flush()
        event = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(event.headers)[b":status"], b"401")
        await client.until(h2.events.StreamEnded, stream)
        await self.until(lambda: self.connection.lost)
        other = client.begin("GET", PODS)
        event = await client.until(h2.events.ResponseReceived, other)
        self.assertEqual(dict(event.headers)[b":status"], b"200")

    async def test_a_stream_that_is_reset(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        client.state.send_data(stream, PIECE[:16384])
        client.flush()
        await self.until(lambda: self.pod.connections and self.connection.size == 16384)
        client.state.reset_stream(stream)
        client.flush()
        await self.until(lambda: self.connection.lost)
        self.assertFalse(self.connection.answered)

    async def test_a_small_body_takes_the_usual_way(self) -> None:
        client = Client2(await self.client("h2"))
        stream = client.begin("POST", self.path, end=False)
        client.state.send_data(stream, b"abc", end_stream=True)
        client.flush()
        event = await client.until(h2.events.ResponseReceived, stream)
        self.assertEqual(dict(event.headers)[b":status"], b"200")
        self.assertIn(b"Content-Length: 3\r\n", self.connection.head)
