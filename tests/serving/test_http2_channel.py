"""Requests and answers on the streams of an HTTP/2 connection."""

from __future__ import annotations

import json
import socket
import time
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import h2.events
import h2.settings
from hyperframe.frame import ContinuationFrame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, WindowUpdateFrame
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from kapi.filters.chain import FilterChain
from kapi.process.slices import Slices
from kapi.process.turn import Turn
from kapi.request.response import Response
from kapi.serving import tls_connection
from kapi.serving.http2 import Http2
from kapi.serving.run import RequestRunner
from tests.serving.sockets import Client2, SocketCase, ask, rest

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&timeoutSeconds=3000"
LARGE = [b"x" * 65_536] * 200


class ChannelCase(SocketCase):
    def setUp(self) -> None:
        super().setUp()
        self.connections.runner.reactor = reactor  # what waits is sent in its turns

    async def client2(self, **how: Any) -> Client2:
        return Client2(await self.client("h2", **how))

    def serve(self, answer: Any) -> None:
        self.api.runner.chain = FilterChain([], answer)

    async def status(self, client: Client2, stream: int) -> str:
        event: Any = await client.until(h2.events.ResponseReceived, stream)
        return dict(event.headers)[b":status"].decode()

    async def transport(self) -> Any:
        await self.until(lambda: self.connections.open)
        return next(iter(self.connections.open)).transport


class Heads(ChannelCase):
    async def client2(self, **how: Any) -> Client2:
        """hpack takes minutes for the Huffman code of a long text."""
        client = await super().client2(**how)
        client.state.encoder.encode = partial(client.state.encoder.encode, huffman=False)
        return client

    async def begin(
        self, client: Client2, path: str = "/x", *more: tuple[str, str], authority: str = "x", end: bool = True
    ) -> int:
        stream: int = client.state.get_next_available_stream_id()
        fields = [(":method", "POST"), (":path", path), (":scheme", "https"), (":authority", authority), *more]
        client.state.send_headers(stream, fields, end_stream=end)
        await deferToThread(client.flush)  # the server reads meanwhile
        return stream

    async def test_heads_are_as_long_as_gos_server_takes_them(self) -> None:
        seen: list[int] = []

        def answer(ctx: Any) -> Response:
            seen.append(len(ctx.http.uri))
            return Response(200, b"{}")

        self.serve(answer)
        client = await self.client2()
        for size in (60_000, 1 << 20):
            self.assertEqual(await self.status(client, await self.begin(client, "/" + "a" * (size - 1))), "200")
        half = ("x", "y" * (1 << 19))
        self.assertEqual(await self.status(client, await self.begin(client, "/", half, ("z", "y" * 500_000))), "200")
        self.assertEqual(seen, [60_000, 1 << 20, 1])

    async def test_beyond_that_the_stream_is_refused_and_the_connection_goes_on(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        for more in (
            [("x", "y" * ((1 << 20) + 320))],
            [("x", "y" * 600_000)] * 2,
            [(f"x-{number}", "y") for number in range(10_001)],
        ):
            event: Any = await client.until(h2.events.ResponseReceived, await self.begin(client, "/x", *more))
            self.assertEqual(dict(event.headers)[b":status"], b"431")
            self.assertEqual(await self.status(client, await self.begin(client)), "200")

    async def test_a_host_that_is_none_is_refused(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        for host in ("a b", "a/b", "user@a", "a\\b"):
            self.assertEqual(await self.status(client, await self.begin(client, authority=host)), "400")
        self.assertEqual(await self.status(client, await self.begin(client, authority="[::1]:6443")), "200")

    async def test_every_answer_has_a_date(self) -> None:
        client = await self.client2()
        for stream in (
            client.begin("GET", MAPS),
            client.begin("GET", WATCH),
            await self.begin(client, authority="a b"),
        ):
            event: Any = await client.until(h2.events.ResponseReceived, stream)
            date = parsedate_to_datetime(dict(event.headers)[b"date"].decode())
            self.assertLess(abs(date.timestamp() - time.time()), 10)

    async def test_large_heads_count_for_what_waits_for_clients(self) -> None:
        """While they come, and while their bodies are waited for; the one without progress for longest gives way."""
        self.connections.now = reactor.seconds()  # type: ignore[attr-defined]
        pending = self.api.runner.pending
        pending.limit = 420_000
        client = await self.client2()
        frame = HeadersFrame(1, b"\0\1a\x7f\x81\x7c" + b"x" * 16_000)
        client.flush()
        data = frame.serialize() + ContinuationFrame(1, frame.data).serialize() * 9
        await deferToThread(client.sock.sendall, data)
        await self.until(lambda: pending.size > 150_000)
        second = await self.client2()
        waiting = await self.begin(second, "/x", ("x", "y" * 200_000), end=False)
        await self.until(lambda: self.channels()[-1].streams or self.channels()[0].streams)
        third = await self.client2()
        self.assertEqual(await self.status(third, await self.begin(third, "/x", ("x", "y" * 10_000))), "404")
        self.assertGreater(pending.size, 350_000)
        await self.pass_time(3)
        await self.begin(third, "/x", ("x", "y" * 200_000))
        await self.until(lambda: len(self.connections.open) == 2)
        second.state.end_stream(waiting)
        second.flush()
        self.assertEqual(await self.status(second, waiting), "404")


class Answers(ChannelCase):
    turn_seconds = 60.0  # on a busy machine, too, what comes together is answered in one turn

    def count_writes(self, transport: Any) -> list[bytes]:
        written: list[bytes] = []
        write = transport.write
        self.patch(transport, "write", lambda data: (written.append(data), write(data)))
        return written

    async def test_answers_to_what_comes_together_leave_in_one_write(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        await self.status(client, client.begin("GET", MAPS))
        written = self.count_writes(await self.transport())
        streams = []
        for _ in range(16):
            streams.append(client.state.get_next_available_stream_id())
            fields = [(":method", "GET"), (":path", MAPS), (":scheme", "https"), (":authority", "x")]
            client.state.send_headers(streams[-1], fields, end_stream=True)
        client.flush()
        for stream in streams:
            await client.until(h2.events.StreamEnded, stream)
        self.assertEqual(len(written), 1)

    async def test_so_do_answers_that_are_gathered(self) -> None:
        waiting: list[Deferred[None]] = []

        async def answer(ctx: Any) -> Response:
            waiting.append(Deferred())
            await waiting[-1]
            return Response(200, b"{}")

        runner = RequestRunner(
            FilterChain([], answer), reactor, gather=True, slices=Slices(reactor, Turn(reactor, seconds=60.0))
        )
        self.connections.run_by(runner)
        client = await self.client2()
        streams = [client.begin("GET", MAPS) for _ in range(5)]
        await self.until(lambda: len(waiting) == 5)
        written = self.count_writes(await self.transport())
        for one in waiting:
            one.callback(None)
        for stream in streams:
            await client.until(h2.events.StreamEnded, stream)
        self.assertEqual(len(written), 1)

    async def test_the_head_of_an_answer_alone(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        for _ in range(2):
            event: Any = await client.until(h2.events.ResponseReceived, client.begin("HEAD", MAPS))
            self.assertEqual(dict(event.headers)[b"content-length"], b"2")
            self.assertIsNotNone(event.stream_ended)

    async def test_who_asks_is_known(self) -> None:
        self.serve(lambda ctx: Response(200, ctx.http.getClientAddress().host.encode()))
        client = await self.client2()
        for _ in range(2):
            event: Any = await client.until(h2.events.DataReceived, client.begin("GET", MAPS))
            self.assertEqual(event.data, b"127.0.0.1")

    async def test_the_head_of_an_answer_in_parts(self) -> None:
        self.serve(lambda ctx: Response(200, [b"a" * 10, b"b" * 10]))
        client = await self.client2()
        for method, size in (("GET", 20), ("HEAD", 0)):
            stream = client.begin(method, MAPS)
            self.assertEqual(await self.status(client, stream), "200")
            await client.until(h2.events.StreamEnded, stream)
            found = [event for event in client.events if isinstance(event, h2.events.DataReceived)]
            self.assertEqual(sum(len(event.data) for event in found), size)
            client.events.clear()

    async def test_the_table_of_a_client_may_be_empty(self) -> None:
        """RFC 7541, 4.2: the first header block says that none is used, whatever answer it is of."""
        for path in (MAPS, WATCH):
            client = await self.client2()
            client.state.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: 0})
            client.flush()
            await client.until(h2.events.SettingsAcknowledged)
            await client.until(h2.events.SettingsAcknowledged)
            for _ in range(2):
                self.assertEqual(await self.status(client, client.begin("GET", path)), "200")

    async def test_answers_that_begin_while_the_client_does_not_read_come_later(self) -> None:
        answered: list[bytes] = []

        def answer(ctx: Any) -> Response:
            answered.append(ctx.http.uri)
            return Response(200, {b"/large": b"x" * 600_000, b"/parts": [b"a", b"b"]}.get(ctx.http.uri, b"{}"))

        self.serve(answer)
        client = await self.client2(receive_buffer=4096)
        client.state.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        client.state.increment_flow_control_window(1 << 20)
        client.flush()
        await self.until(self.channels)
        transport = await self.transport()
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        streams = [client.begin("GET", "/large")]
        await self.until(lambda: transport.producerPaused)
        for method, path in (("GET", "/small"), ("GET", "/parts"), ("HEAD", "/head")):
            streams.append(client.begin(method, path))
        await self.until(lambda: len(answered) == 4)
        for stream in streams:
            self.assertEqual(await self.status(client, stream), "200")
            await client.until(h2.events.StreamEnded, stream)

    async def test_many_headers(self) -> None:
        """A header block that no frame can hold."""
        self.serve(lambda ctx: Response(200, b"{}", headers=[(b"x-%d" % n, b"y" * 1000) for n in range(50)]))
        client = await self.client2()
        event: Any = await client.until(h2.events.ResponseReceived, client.begin("GET", MAPS))
        self.assertEqual(len([name for name, _ in event.headers if name.startswith(b"x-")]), 50)

    async def test_a_fault_of_the_server_resets_the_stream_alone(self) -> None:
        client = await self.client2()
        serve = self.api.runner.serve
        failing = [True]

        def fail(http: Any) -> None:
            if failing.pop() if failing else False:
                raise ZeroDivisionError
            serve(http)

        self.patch(self.api.runner, "serve", fail)
        event: Any = await client.until(h2.events.StreamReset, client.begin("GET", MAPS))
        self.assertEqual(event.error_code, 2)
        self.assertEqual(await self.status(client, client.begin("GET", MAPS)), "200")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    async def test_an_application_is_told_that_its_request_came_encrypted(self) -> None:
        client, serve, seen = await self.client2(), self.api.runner.serve, []

        def look(http: Any) -> None:
            seen.append(http.isSecure())
            serve(http)

        self.patch(self.api.runner, "serve", look)
        self.assertEqual(await self.status(client, client.begin("GET", MAPS)), "200")
        self.assertEqual(seen, [True])

    async def test_so_does_one_in_the_middle_of_an_answer(self) -> None:
        class Slices(list[bytes]):
            def __getitem__(self, index: Any) -> Any:
                if index == 3:
                    raise ZeroDivisionError
                return super().__getitem__(index)

        self.serve(lambda ctx: Response(200, Slices(LARGE) if ctx.method == "GET" else b"{}"))
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        client.state.increment_flow_control_window(1 << 24)
        client.state.increment_flow_control_window(1 << 24, stream)
        client.flush()
        await client.until(h2.events.StreamReset, stream)
        self.assertEqual(await self.status(client, client.begin("OPTIONS", MAPS)), "200")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class Reading(ChannelCase):
    async def test_requests_that_were_written_one_by_one_are_read_together(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        await self.status(client, client.begin("GET", MAPS))
        transport = await self.transport()
        self.patch(transport.turn, "over", lambda: False)  # however slow the machine is
        reads: list[None] = []
        read = transport.doRead
        self.patch(transport, "doRead", lambda: (reads.append(None), read())[1])
        for _ in range(3):
            streams = [client.begin("GET", MAPS) for _ in range(12)]  # the server's turn comes when all are sent
            for stream in streams:
                await client.until(h2.events.StreamEnded, stream)
        self.assertLess(len(reads), 20, "of 36")

    async def test_more_is_looked_for_while_there_is_time_or_no_other_client(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        await self.status(client, client.begin("GET", MAPS))
        transport = await self.transport()
        for alone, over, wanted in ((False, True, False), (False, False, True), (True, True, True)):
            self.patch(transport.turn, "over", lambda over=over: over)
            transport.turn.alone, transport._skipped_looks = transport.flow if alone else None, 0
            self.assertEqual(transport._may_go_on(), wanted)

    async def test_where_one_comes_at_a_time_it_is_seldom_looked_for_more(self) -> None:
        self.serve(lambda ctx: Response(200, b"{}"))
        client = await self.client2()
        transport = await self.transport()
        looks: list[int] = []
        may_go_on = transport._may_go_on
        self.patch(transport, "_may_go_on", lambda: (looks.append(may_go_on()), looks[-1])[1])
        for _ in range(40):
            await client.until(h2.events.StreamEnded, client.begin("GET", MAPS))
        self.assertGreaterEqual(len(looks), 40)
        self.assertLess(sum(looks), 12)


class Bodies(ChannelCase):
    async def test_a_large_body_finds_the_windows_open(self) -> None:
        """Three times as large as the windows."""
        self.serve(lambda ctx: Response(200, b"%d" % len(ctx.http.content.getvalue())))
        client = await self.client2()
        stream = client.begin("POST", MAPS, end=False)
        body = b"x" * 2_900_000

        def send() -> None:
            left = body
            while left:
                room = min(client.state.local_flow_control_window(stream), 16_384)
                if not room:
                    client.events += client.state.receive_data(client.sock.recv(1 << 16))
                    continue
                client.state.send_data(stream, left[:room], end_stream=len(left) <= room)
                left = left[room:]
                client.flush()

        await deferToThread(send)
        event: Any = await client.until(h2.events.DataReceived, stream)
        self.assertEqual(event.data, b"2900000")

    async def test_trailers_end_a_body(self) -> None:
        client = await self.client2()
        stream = client.begin("POST", MAPS, end=False)
        client.state.send_data(stream, json.dumps({"metadata": {"name": "a"}}).encode())
        client.state.send_headers(stream, [("x-checksum", "1")], end_stream=True)
        client.flush()
        self.assertEqual(await self.status(client, stream), "201")

    async def test_a_client_that_asks_whether_it_may_go_on(self) -> None:
        client = await self.client2()
        stream = client.state.get_next_available_stream_id()
        fields = [(":method", "POST"), (":path", MAPS), (":scheme", "https"), (":authority", "x")]
        client.state.send_headers(stream, [*fields, ("expect", "100-continue")])
        client.flush()
        await client.until(h2.events.InformationalResponseReceived, stream)
        client.state.send_data(stream, json.dumps({"metadata": {"name": "a"}}).encode(), end_stream=True)
        client.flush()
        self.assertEqual(await self.status(client, stream), "201")

    async def test_a_refusal_before_the_body_has_come(self) -> None:
        """RFC 9113 8.1: the rest is asked not to be sent, and does no harm when it comes."""
        client = await self.client2()
        client.state.config.validate_outbound_headers = False
        stream = client.begin("POST", "no/path", end=False)
        client.state.send_data(stream, b"x" * 5000)
        client.flush()
        self.assertEqual(await self.status(client, stream), "400")
        event: Any = await client.until(h2.events.StreamReset, stream)
        self.assertEqual(event.error_code, 0)
        self.assertEqual(await self.status(client, client.begin("GET", MAPS)), "200")

    async def test_there_is_no_tunnel(self) -> None:
        client = await self.client2()
        client.state.config.validate_outbound_headers = False
        stream = client.state.get_next_available_stream_id()
        client.state.send_headers(stream, [(":method", "CONNECT"), (":authority", "x:1")], end_stream=True)
        client.flush()
        self.assertEqual(await self.status(client, stream), "400")


class Readers(ChannelCase):
    """Clients that do not take what they have asked for."""

    def held(self) -> int:
        """Bytes of answers that wait in the server."""
        (channel,) = [channel for channel in self.channels() if isinstance(channel, Http2)]
        transport = channel.transport
        waiting = sum(len(piece) for stream in channel.streams.values() for piece in stream.waiting)
        return waiting + int(transport.unsent_bytes)

    async def test_windows_that_stay_closed(self) -> None:
        self.serve(lambda ctx: Response(200, list(LARGE)))
        client = await self.client2()
        streams = [client.begin("GET", MAPS) for _ in range(20)]
        for stream in streams:
            await client.until(h2.events.ResponseReceived, stream)
        received = 0
        while received < 65_535:
            received += len((await client.until(h2.events.DataReceived)).data)
        self.assertLess(self.held(), 20 * 140_000, "a slice of each, of 13 MB")
        for stream in streams[1:]:
            client.state.reset_stream(stream)
        client.state.increment_flow_control_window(1 << 30)
        client.state.increment_flow_control_window(1 << 30, streams[0])
        client.flush()
        await client.until(h2.events.StreamEnded, streams[0])
        self.assertEqual(self.held(), 0)

    async def test_a_connection_whose_window_opens_late(self) -> None:
        self.serve(lambda ctx: Response(200, b"x" * 30_000))
        client = await self.client2()
        streams = [client.begin("GET", MAPS) for _ in range(4)]
        for ended, stream in enumerate(streams):
            if ended > 1:  # 65,535 bytes are enough for two
                self.assertGreater(self.held(), 0)
                client.state.increment_flow_control_window(30_000)
                client.flush()
            await client.until(h2.events.StreamEnded, stream)
        self.assertEqual(self.held(), 0)

    async def test_one_that_reads_nothing(self) -> None:
        self.serve(lambda ctx: Response(200, list(LARGE)))
        client = await self.client2(receive_buffer=4096)
        client.state.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
        client.state.increment_flow_control_window(1 << 24)
        client.begin("GET", MAPS)
        await self.until(lambda: self.channels() and self.channels()[0].sending.blocked)
        self.assertLess(self.held(), 300_000)

    async def test_a_watch_waits_for_its_client(self) -> None:
        """What does not fit into the window is kept by the watch, which has a bound."""
        client = await self.client2()
        stream = client.begin("GET", WATCH)
        await client.until(h2.events.ResponseReceived, stream)
        sock = await self.client()
        for number in range(10):
            body = {"metadata": {"name": f"n{number}"}, "data": {"k": "x" * 30_000}}
            await ask(sock, f"POST {MAPS}", json.dumps(body).encode())
            self.clock.advance(0.001)
        self.assertTrue(20_000 < self.held() < 70_000, self.held())
        client.state.increment_flow_control_window(1 << 24)
        client.state.increment_flow_control_window(1 << 24, stream)
        client.flush()
        data = b""
        while b'"name":"n9"' not in data:
            more = client.until(h2.events.DataReceived, stream)
            await self.until(lambda more=more: self.clock.advance(0.001) or more.called)
            data += (await more).data
        self.assertEqual(data.count(b'{"type":"ADDED"'), 10)

    async def test_windows_of_a_few_bytes(self) -> None:
        self.serve(lambda ctx: Response(200, b"0123456789"))
        client = await self.client2()
        client.state.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 3})
        client.flush()
        await client.until(h2.events.SettingsAcknowledged)
        stream = client.begin("GET", MAPS)
        data = b""
        while len(data) < 10:
            event: Any = await client.until(h2.events.DataReceived, stream)
            data += event.data
            self.assertLessEqual(len(event.data), 3)
            if event.stream_ended is None:
                client.state.increment_flow_control_window(len(event.data), stream)
                client.flush()
        self.assertEqual(data, b"0123456789")


class Ends(ChannelCase):
    async def test_a_client_that_goes_away_gets_the_answers_it_waits_for(self) -> None:
        waiting: list[Deferred[None]] = []

        async def answer(ctx: Any) -> Response:
            waiting.append(Deferred())
            await waiting[-1]
            return Response(200, b"{}")

        self.serve(answer)
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        await self.until(lambda: waiting)
        client.sock.sendall(b"\0\0\x08\x07\0" + bytes(12))  # GOAWAY
        await self.until(lambda: self.channels()[0]._client_left)
        self.patch(tls_connection, "_LINGER_SECONDS", 0.1)
        waiting[0].callback(None)
        self.assertEqual(await self.status(client, stream), "200")
        await client.until(h2.events.StreamEnded, stream)
        await self.until(lambda: not self.connections.open)

    async def test_a_connection_that_was_told_to_end_is_listened_to_for_a_moment(self) -> None:
        """As upstream's is; anonymous clients are told so with each answer."""
        self.serve(lambda ctx: Response(200, b"{}", headers=[(b"Connection", b"close")]))
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        event: Any = await client.until(h2.events.ConnectionTerminated)
        self.assertEqual((event.error_code, event.last_stream_id), (0, stream))
        await self.pass_time(1)
        late = HeadersFrame(stream + 2, b"\x82\x84\x87", flags=["END_HEADERS", "END_STREAM"])
        client.sock.sendall(PingFrame(0, b"12345678").serialize() + late.serialize())  # h2 would say no more
        refused = RstStreamFrame(stream + 2, error_code=7).serialize()
        pong = PingFrame(0, b"12345678", flags=["ACK"]).serialize()
        more = deferToThread(lambda: client.sock.recv(100))
        self.assertEqual(await more, pong + refused)
        self.patch(tls_connection, "_LINGER_SECONDS", 0.1)
        await self.pass_time(2)
        self.assertEqual(await rest(client.sock), GoAwayFrame(0, last_stream_id=stream).serialize())
        await self.until(lambda: not self.connections.open)

    async def test_the_connection_ends_when_the_last_bytes_are_read_at_last(self) -> None:
        self.serve(lambda ctx: Response(200, b"x" * 65_536))
        client = await self.client2(receive_buffer=4096)
        client.state.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        client.state.increment_flow_control_window(1 << 20)
        client.flush()
        await self.until(self.channels)
        transport = await self.transport()
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.begin("GET", MAPS)
        await self.until(lambda: transport.producerPaused and not self.channels()[0].streams)
        self.channels()[0].close_when_idle()
        self.assertGreater(len(await rest(client.sock)), 65_536)
        await self.until(lambda: not self.connections.open)

    async def test_the_last_answer_comes_whole_when_the_server_stops(self) -> None:
        self.serve(lambda ctx: Response(200, list(LARGE)))
        client = await self.client2()
        stream = client.begin("GET", MAPS)
        await client.until(h2.events.ResponseReceived, stream)
        self.channels()[0].close_when_idle()
        await client.until(h2.events.ConnectionTerminated)
        more = WindowUpdateFrame(0, window_increment=1 << 24), WindowUpdateFrame(stream, window_increment=1 << 24)
        client.sock.sendall(b"".join(frame.serialize() for frame in more))  # h2 would say no more
        self.assertGreater(len(await rest(client.sock)), 13_000_000)
