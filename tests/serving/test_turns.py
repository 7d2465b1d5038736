"""Connections that are read and written in turns while several flows compete, and what each of them gets."""

from __future__ import annotations

import json
import socket
import time
from types import SimpleNamespace
from typing import Any

import h2.events
from twisted.internet import reactor
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase

from kapi.filters.chain import FilterChain
from kapi.filters.priority_and_fairness import priority_and_fairness
from kapi.filters.request_info import received_timestamp, request_info
from kapi.flowcontrol import controller as bootstrap
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.metrics import Meter
from kapi.process.shares import Flow, Level
from kapi.process.slices import Slices
from kapi.process.turn import Turn
from kapi.request.context import RequestContext
from kapi.request.pending import Pending
from kapi.request.user import ALL_AUTHENTICATED, UserInfo
from kapi.serving.http2_sending import Sending
from kapi.serving.http2_stream import Stream
from kapi.serving.run import RequestRunner
from tests.serving.sockets import Client2, SocketCase, answer, ask

MAPS = "/api/v1/namespaces/default/configmaps"


class Sockets(SocketCase):
    """Connections whose reading is put off, one in a turn."""

    def setUp(self) -> None:
        super().setUp()
        self.level = Level("workload-low", 100)
        self.turn = Turn(reactor, seconds=0.0)
        self.busy = True
        self.patch(self.turn, "busy", lambda: self.busy)
        self.listening._port.transport.turn = self.turn

    def transports(self) -> list[Any]:
        return [connection.transport for connection in self.connections.open]

    async def known(self, count: int) -> list[Any]:
        """Clients whose flows are known."""
        socks = [await self.client() for _ in range(count)]
        for sock in socks:
            self.assertEqual((await ask(sock, f"GET {MAPS}"))[0], 200)
        flows = Flow(self.level), Flow(self.level)
        for number, transport in enumerate(self.transports()):
            transport.flow = flows[number % 2]
        return socks

    async def test_all_are_answered(self) -> None:
        socks = await self.known(4)
        body = json.dumps({"metadata": {"generateName": "a"}, "data": {"k": "x" * 100_000}}).encode()
        for _ in range(3):
            asked = [ask(sock, f"POST {MAPS}", body) for sock in socks]
            self.assertEqual([(await answer)[0] for answer in asked], [201] * 4)
        self.busy = False
        self.assertEqual((await ask(socks[0], f"GET {MAPS}"))[0], 200)

    async def test_the_first_reads_after_a_handshake_have_a_flow_of_their_own(self) -> None:
        flows: list[Flow] = []
        wait = self.turn.wait
        self.patch(self.turn, "wait", lambda work, flow: (flows.append(flow), wait(work, flow)))
        sock = await self.client()
        new, first = self.turn.new_connection_flow("127.0.0.1"), self.turn.first_read_flow("127.0.0.1")
        await self.until(lambda: self.transports()[0].established)
        self.assertEqual(set(flows), {new})
        flows.clear()
        for number in range(1, 7):
            sock.sendall(b"GET /"[number - 1 : number] or b"a")
            await self.until(lambda: len(flows) == number)  # noqa: B023
        self.assertEqual(flows, [first] * 4 + [new] * 2, "as long as no request has come")
        sock.close()

    async def test_a_client_that_goes_is_noticed(self) -> None:
        for sock in await self.known(3):
            sock.close()
        await self.until(lambda: not self.connections.open)

    async def test_a_connection_that_ends_while_it_waits_is_not_read(self) -> None:
        (sock,) = await self.known(1)
        (transport,) = self.transports()
        transport.doRead()
        self.assertNotIn(transport, reactor.getReaders())  # type: ignore[attr-defined]
        transport.abortConnection()
        await self.until(lambda: not self.connections.open)
        transport._read_late()
        self.assertNotIn(transport, reactor.getReaders())  # type: ignore[attr-defined]
        sock.close()

    async def test_a_connection_that_may_not_be_read_stays_so(self) -> None:
        (sock,) = await self.known(1)
        (transport,) = self.transports()
        transport.doRead()
        transport.stopReading()
        transport._read_late()
        self.assertNotIn(transport, reactor.getReaders())  # type: ignore[attr-defined]
        transport.startReading()
        self.assertEqual((await ask(sock, f"GET {MAPS}"))[0], 200)

    async def test_a_fault_ends_that_connection_alone(self) -> None:
        first, second = await self.known(2)
        broken = self.transports()[0]

        def fail(data: bytes) -> None:
            raise ZeroDivisionError

        broken.protocol.dataReceived = fail
        for sock in (first, second):
            sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await self.until(lambda: len(self.connections.open) == 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    async def test_a_large_answer_is_written_in_turns(self) -> None:
        sock = await self.client(receive_buffer=4096)
        body = json.dumps({"metadata": {"name": "large"}, "data": {"k": "x" * 900_000}}).encode()
        self.assertEqual((await ask(sock, f"POST {MAPS}", body))[0], 201)
        (transport,) = self.transports()
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        turns: list[Any] = []
        wait = self.turn.wait
        self.patch(self.turn, "wait", lambda work, flow: (turns.append(work), wait(work, flow)))
        code, answer = await ask(sock, f"GET {MAPS}/large")
        self.assertEqual((code, len(json.loads(answer)["data"]["k"])), (200, 900_000))
        self.assertGreater(turns.count(transport._write_late), 1)

    async def test_a_connection_that_ends_while_it_waits_is_not_written(self) -> None:
        (sock,) = await self.known(1)
        (transport,) = self.transports()
        transport.doWrite()
        transport.abortConnection()
        await self.until(lambda: not self.connections.open)
        transport._write_late()
        self.assertNotIn(transport, reactor.getWriters())  # type: ignore[attr-defined]
        sock.close()


class Competition(SocketCase):
    """Twenty connections that each send fifty reads, and one that sends twenty writes: whose answers come first."""

    def setUp(self) -> None:
        super().setUp()
        # by the processor's time: how long others hold up a piece of work is no cost of it
        self.turn = Turn(reactor, timer=time.thread_time)
        controller = FlowController(reactor, 6000, Meter(), self.turn)
        for obj in bootstrap.levels(mandatory=False):
            controller.level_changed("ADDED", obj)
        for obj in bootstrap.schemas(mandatory=False):
            controller.schema_changed("ADDED", obj)
        controller.configure()
        for call in reactor.getDelayedCalls():  # type: ignore[attr-defined]
            if call.func == controller.configure:
                call.cancel()
        self.served: list[str] = []
        fair = priority_and_fairness(controller, lambda resource: None, reactor)
        chain = FilterChain(
            [received_timestamp(self.clock.seconds), request_info, self.identify, fair], self.api.site.answer
        )
        runner = RequestRunner(chain, reactor, gather=True, slices=Slices(reactor, self.turn))
        self.connections.run_by(runner)
        self.listening._port.transport.turn = self.turn

    async def _stop(self) -> None:
        await super()._stop()
        # what waits for connections that are gone has its turn, too
        await self.until(lambda: not self.turn._scheduled)

    def identify(self, ctx: RequestContext) -> None:
        name = ctx.header("x-user") or ""
        ctx.user = UserInfo(name, groups=(ALL_AUTHENTICATED, *(["system:masters"] if name == "root" else [])))
        ctx.finishers.append(lambda ctx, code: self.served.append(f"{ctx.method} {code}"))

    async def reads_before_the_last_write(self, reader: str, writer: str) -> int:
        """Of a thousand."""
        get = f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nX-User: {reader}\r\n\r\n".encode()
        crowd = [await self.client() for _ in range(20)]
        for sock in crowd:  # the server knows who it is
            sock.sendall(get)
            await deferToThread(answer, sock)
        client = Client2(await self.client("h2"))
        self.post(client, writer, "first")
        await client.until(h2.events.StreamEnded)
        self.served.clear()
        for sock in crowd:
            sock.sendall(get * 50)
        for number in range(20):
            self.post(client, writer, f"n{number}")
        for _ in range(20):
            await client.until(h2.events.StreamEnded)
        await self.until(lambda: len(self.served) == 1020)
        self.assertEqual(sorted(set(self.served)), ["GET 200", "POST 201"])
        last = len(self.served) - self.served[::-1].index("POST 201")
        for sock in crowd:
            sock.close()
        return self.served[:last].count("GET 200")

    def post(self, client: Client2, user: str, name: str) -> None:
        body = json.dumps({"metadata": {"name": name}}).encode()
        stream = client.state.get_next_available_stream_id()
        headers = [(":method", "POST"), (":path", MAPS), (":scheme", "https"), (":authority", "x"), ("x-user", user)]
        client.state.send_headers(stream, headers)
        client.state.send_data(stream, body, end_stream=True)
        client.flush()

    async def test_another_users_writes_have_half_of_the_time(self) -> None:
        self.assertLess(await self.reads_before_the_last_write("alice", "bob"), 700)

    async def test_so_have_the_writes_of_the_same_user(self) -> None:
        self.assertLess(await self.reads_before_the_last_write("alice", "alice"), 700)

    async def test_the_writes_of_an_exempt_user_come_first(self) -> None:
        self.assertLess(await self.reads_before_the_last_write("alice", "root"), 500)


class Windows(SocketCase):
    """Clients of HTTP/2 that do not open their windows."""

    async def test_an_answer_that_is_not_taken_costs_nothing_until_it_is(self) -> None:
        self.connections.runner.reactor = reactor
        body = json.dumps({"metadata": {"name": "large"}, "data": {"k": "x" * 300_000}}).encode()
        self.assertEqual((await ask(await self.client(), f"POST {MAPS}", body))[0], 201)
        client = Client2(await self.client("h2"))
        stream = client.begin("GET", f"{MAPS}/large")
        received = 0
        while received < 65_535:
            received += len((await client.until(h2.events.DataReceived)).data)
        steps: list[None] = []
        send = Sending._send_frames
        self.patch(Sending, "_send_frames", lambda sending: (steps.append(None), send(sending)))
        for _ in range(20):
            await deferLater(reactor, 0)  # type: ignore[arg-type]
        self.assertLessEqual(len(steps), 2, "nothing can be sent")
        client.state.increment_flow_control_window(1 << 20)
        client.flush()
        other = client.begin("GET", f"{MAPS}/missing")
        await client.until(h2.events.StreamEnded, other)
        client.state.increment_flow_control_window(1 << 20, stream)
        client.flush()
        while received < 300_000:
            received += len((await client.until(h2.events.DataReceived, stream)).data)
        await client.until(h2.events.StreamEnded, stream)


class Sendings(SynchronousTestCase):
    """What waits on a stream of an HTTP/2 connection; a frame takes half a millisecond."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.worked = 0.0
        self.sent = 0
        self.aborted = False
        self.turn = Turn(self.clock)

    def write(self, data: bytes) -> None:
        frames = len(data) // 16_384
        self.sent += frames
        self.worked += 0.0005 * frames

    def abortConnection(self) -> None:
        self.aborted = True

    def send(self, frames: int) -> None:
        flow = Flow(Level("workload-low"))
        transport = SimpleNamespace(flow=flow, write=self.write, abortConnection=self.abortConnection)
        owner = SimpleNamespace(runner=SimpleNamespace(departing=None, pending=Pending(self.clock.seconds)))
        connection: Any = SimpleNamespace(streams={}, owner=owner, transport=transport)
        connection.sending = sending = Sending(self.turn, transport, connection)
        sending.window = 1 << 24
        stream = connection.streams[1] = Stream(connection, 1, 1 << 24, 0)
        sending.data(stream, b"x" * 16_384 * frames)

    def passes(self) -> int:
        """How many were sent in one turn of the reactor."""
        before = self.sent
        due, self.clock.calls = self.clock.calls, []
        for call in due:
            call.func()
        return self.sent - before

    def test_an_answer_leaves_in_one_turn(self) -> None:
        self.send(20)
        self.assertEqual(self.sent, 0)
        self.assertEqual((self.passes(), self.clock.calls), (20, []))

    def test_what_is_long_takes_several(self) -> None:
        self.turn = Turn(self.clock, seconds=0.01, timer=lambda: self.worked)
        self.send(50)
        sent = [self.passes() for _ in range(3)]
        self.assertEqual(sum(sent), 50)
        self.assertTrue(all(20 <= frames <= 24 for frames in sent[:2]), sent)
        self.assertEqual(self.clock.calls, [])

    def test_a_loop_that_fails_ends_its_connection(self) -> None:
        def fail(data: bytes) -> None:
            raise RuntimeError("broken")

        self.write = fail  # type: ignore[method-assign]
        self.send(20)
        self.passes()
        self.assertTrue(self.aborted)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_it_sends_an_answer_or_a_few_at_a_time_when_turns_are_short(self) -> None:
        self.turn = Turn(self.clock, timer=lambda: self.worked, seconds=0.001)
        self.send(20)
        self.assertEqual([self.passes() for _ in range(3)], [8, 8, 4])
