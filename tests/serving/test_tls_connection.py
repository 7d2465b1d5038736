"""The transport of a TLS connection, step by step: what it reads, when it waits, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet import main, tcp
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.python.failure import Failure

from kapi.process.shares import Flow, Level
from kapi.serving.tls_connection import TLSConnection
from kapi.wire.tls.writing import MAX_READS, RECORD_BYTES
from tests.wire.scripted_tls import FULL, OpenSSL, Reactor

PLAIN_HTTP = SSL.Error([("SSL routines", "", "http request")])


class Unwritten(OpenSSL):
    def send(self, data: bytes) -> int:
        raise AssertionError("nothing is written here")


class Socket:
    """What is left to read, what is sent, and how it is closed."""

    def __init__(self) -> None:
        self.left: list[Any] = []
        self.sent: list[bytes] = []
        self.shut: list[int] = []
        self.closed = False
        self.problem: OSError | None = None

    def recv(self, size: int) -> bytes:
        found = self.left.pop(0) if self.left else BlockingIOError()
        if isinstance(found, Exception):
            raise found
        return bytes(found)

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def shutdown(self, how: int) -> None:
        self.shut.append(how)
        if self.problem is not None:
            raise self.problem

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *arguments: Any) -> None: ...

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.closed = True


class Turn:
    """Whether others come first; ``alone`` is the flow that need not ask."""

    def __init__(self) -> None:
        self.alone: Flow | None = None
        self.used_up = self.is_busy = False
        self.waiting: list[tuple[Callable[[], None], Flow]] = []
        self.flows: list[Any] = []
        self.first = Flow(Level("first"))

    def busy(self) -> bool:
        return self.is_busy

    def over(self) -> bool:
        return self.used_up

    def begin(self, flow: Flow) -> str:
        self.flows.append(flow)
        return "before"

    def end(self, before: str) -> None:
        assert before == "before"
        self.flows.append(None)

    def wait(self, work: Callable[[], None], flow: Flow) -> None:
        self.waiting.append((work, flow))

    def new_connection_flow(self, host: str) -> Flow:
        raise AssertionError

    def first_read_flow(self, host: str) -> Flow:
        assert host == "192.0.2.1"
        return self.first


class Protocol:
    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.lost: list[Failure] = []
        self.half = 0
        self.react: Callable[[], None] = lambda: None

    def dataReceived(self, data: bytes) -> None:
        self.data.append(data)
        self.react()

    def writeConnectionLost(self) -> None:
        self.half += 1

    def connectionLost(self, reason: Failure) -> None:
        self.lost.append(reason)


class Transport(TLSConnection):
    """Over fakes; established, and readable."""

    def __init__(self, *records: Any, h2: bool = False, established: bool = True) -> None:
        tcp.Connection.__init__(self, Socket(), None, Reactor())  # type: ignore[arg-type]
        self._tlsConnection: Any = Unwritten()
        self._tlsConnection.records += records
        self.turn: Any = Turn()
        self.protocol: Any = Protocol()
        self.client = ("192.0.2.1", 1)
        self.flow = self._unknown = Flow(Level("new"))
        self.connected, self._established, self._multiplexed = 1, established, h2
        self.startReading()

    @property
    def polled(self) -> tuple[bool, bool]:
        return self in self.reactor.readers, self in self.reactor.writers

    @property
    def sizes(self) -> list[int]:
        return [len(each) for each in self.protocol.data]


@pytest.mark.parametrize("h2", [False, True])
def test_full_records_are_read_up_to_a_limit(h2: bool) -> None:
    transport = Transport(*[FULL] * (MAX_READS + 2), h2=h2)
    assert transport.doRead() is None and transport.sizes == [RECORD_BYTES] * MAX_READS
    transport = Transport(*[FULL] * 3, b"x", FULL)
    assert transport.doRead() is None and transport.sizes == [RECORD_BYTES] * 3 + [1]


@pytest.mark.parametrize(("h2", "reads"), [(False, 1), (True, 2 * MAX_READS)])
def test_short_records_are_read_together_with_http2(h2: bool, reads: int) -> None:
    transport = Transport(*[b"x"] * (2 * MAX_READS + 1), h2=h2)
    assert transport.doRead() is None and transport.sizes == [1] * reads
    mixed = Transport(*[b"x"] * MAX_READS, FULL, b"x", h2=h2)
    assert mixed.doRead() is None and mixed.sizes == ([1] * MAX_READS + [RECORD_BYTES] if h2 else [1])


def test_nothing_more_is_read_when_the_turn_is_used_up_unless_it_is_alone() -> None:
    transport = Transport(b"a", b"b", h2=True)
    transport.turn.used_up = True
    assert transport.doRead() is None and transport.sizes == [1]
    transport.turn.alone = transport.flow
    transport.flow = Flow(Level("other"))
    assert transport.doRead() is None and transport.sizes == [1, 1]
    alone = Transport(b"a", b"b", h2=True)
    alone.turn.used_up, alone.turn.alone = True, alone.flow
    assert alone.doRead() is None and alone.sizes == [1, 1]


def test_nothing_more_is_read_once_the_protocol_has_stopped_reading() -> None:
    transport = Transport(FULL, b"b", h2=True)
    transport.protocol.react = transport.stopReading
    assert transport.doRead() is None and transport.sizes == [RECORD_BYTES]
    assert transport.polled == (False, False)


def test_after_a_look_that_found_nothing_some_reads_do_without() -> None:
    transport = Transport(h2=True)
    looks = 0
    for number in range(40):
        transport._tlsConnection.records[:] = [b"a"] if number else [b"a", b"b", b"c"]
        script = transport._tlsConnection.records
        ask = transport._tlsConnection.recv
        calls: list[int] = []
        transport._tlsConnection.recv = lambda size, ask=ask, calls=calls: (calls.append(1), ask(size))[1]
        assert transport.doRead() is None and script == []
        transport._tlsConnection.recv = ask
        if number == 0:
            assert len(calls) == 4, "more than one was found, so the next read looks again"
        if number == 1:
            assert len(calls) == 2
        looks += len(calls) - 1
    assert 4 <= looks <= 8


@pytest.mark.parametrize(
    ("problem", "result", "writes"),
    [
        (SSL.WantReadError(), None, False),
        (SSL.WantWriteError(), None, True),
        (SSL.ZeroReturnError(), main.CONNECTION_DONE, False),
        (SSL.Error([("", "", "bad record")]), main.CONNECTION_LOST, False),
        (PLAIN_HTTP, main.CONNECTION_LOST, False),
        (SSL.SysCallError(104, "ECONNRESET"), main.CONNECTION_LOST, False),
    ],
)
def test_how_reading_ends(problem: Exception, result: Any, writes: bool) -> None:
    transport = Transport(problem)
    assert transport.doRead() is result
    assert (transport.polled, transport._read_wants_write) == ((True, writes), writes)
    assert transport.problem is None and transport.socket.sent == []
    if writes:
        transport._tlsConnection.records.append(b"abc")
        assert transport.doWrite() is None and transport.sizes == [3]
        assert transport.polled == (True, False)


@pytest.mark.parametrize(
    ("problem", "told", "answer"),
    [
        (PLAIN_HTTP, True, [b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"]),
        (SSL.Error([("SSL routines", "", "unknown protocol")]), True, []),
        (SSL.Error(), True, []),
        (SSL.SysCallError(104, "ECONNRESET"), True, []),
        (SSL.SysCallError(-1, "Unexpected EOF"), False, []),
    ],
)
def test_how_a_handshake_fails(problem: SSL.Error, told: bool, answer: list[bytes]) -> None:
    transport = Transport(established=False)
    transport.socket.left.append(b"GET / HTTP/1.1\r\n\r\n")
    transport._tlsConnection.handshakes.append(problem)
    assert transport.doRead() is main.CONNECTION_LOST
    assert (transport.problem, transport.socket.sent) == (problem if told else None, answer)
    assert bool(transport.socket.left) is not bool(answer), "what is left unread would reset the connection"


def test_a_client_without_tls_that_is_gone_gets_no_answer() -> None:
    transport = Transport(established=False)
    transport._tlsConnection.handshakes.append(PLAIN_HTTP)
    assert transport.doRead() is main.CONNECTION_LOST and transport.socket.sent == []


@pytest.mark.parametrize(("alpn", "h2"), [(b"h2", True), (b"http/1.1", False), (b"", False)])
def test_the_first_reads_after_a_handshake_have_a_flow_of_their_own(alpn: bytes, h2: bool) -> None:
    transport = Transport(established=False)
    connection, turn = transport._tlsConnection, transport.turn
    connection.alpn = alpn
    connection.handshakes += [SSL.WantReadError(), SSL.WantWriteError(), None]
    assert transport.doRead() is None and not transport.established
    assert transport.doRead() is None and transport._read_wants_write and transport.polled == (True, True)
    transport._read_wants_write = False
    assert transport.doRead() is None and transport.established
    assert transport._multiplexed is h2 and transport.negotiatedProtocol == (alpn or None)
    assert turn.flows == [transport.flow, None] * 3
    for _ in range(6):
        transport.doRead()
    assert turn.flows[6::2] == [turn.first] * 4 + [transport.flow] * 2
    transport._first_reads = 4
    transport.flow = Flow(Level("alice"))
    transport.doRead()
    assert turn.flows[-2] is transport.flow, "after its first request it has the flow of that"


def test_a_read_that_has_to_wait_waits_once_and_meanwhile_nothing_is_polled() -> None:
    transport = Transport(b"a", b"b")
    turn = transport.turn
    turn.is_busy = True
    for _ in range(2):
        assert transport.doRead() is None and transport.polled[0] is False
    ((late, flow),) = turn.waiting
    assert flow is transport.flow and transport.sizes == []
    late()
    assert (transport.sizes, transport.polled[0]) == ([1], True)
    assert transport.doRead() is None and len(turn.waiting) == 2


@pytest.mark.parametrize("what", ["stopped", "lost"])
def test_a_read_that_had_to_wait_is_not_done_when_nobody_wants_it_any_more(what: str) -> None:
    transport = Transport(b"a")
    transport.turn.is_busy = True
    transport.doRead()
    protocol = transport.protocol
    if what == "stopped":
        transport.stopReading()
    else:
        transport.connectionLost(Failure(ConnectionDone()))
        assert len(protocol.lost) == 1
        transport._reading = True
    transport.turn.waiting[0][0]()
    assert protocol.data == [] and transport.polled == (False, False)


@pytest.mark.parametrize("what", ["stops", "ends", "fails", "closes"])
def test_how_a_late_read_ends(what: str) -> None:
    transport = Transport(SSL.ZeroReturnError() if what == "closes" else b"a")
    protocol = transport.protocol
    transport.turn.is_busy = True
    transport.doRead()

    def fail() -> None:
        raise ValueError("a fault")

    reactions: dict[str, Callable[[], None]] = {
        "stops": transport.stopReading, "ends": lambda: transport.connectionLost(Failure(ConnectionDone())), "fails": fail,
    }  # fmt: skip
    protocol.react = reactions.get(what, lambda: None)
    transport.turn.waiting[0][0]()
    assert transport.polled == (False, False)
    expected = {"stops": [], "ends": [ConnectionDone], "fails": [ValueError], "closes": [ConnectionDone]}
    assert [reason.type for reason in protocol.lost] == expected[what]


def test_a_write_that_has_to_wait_waits_once_and_is_then_done() -> None:
    transport = Transport()
    turn = transport.turn
    transport.startWriting()
    turn.is_busy = True
    for _ in range(2):
        assert transport.doWrite() is None and transport.polled == (True, False)
    ((late, flow),) = turn.waiting
    assert flow is transport.flow
    transport._read_wants_write = True
    transport._tlsConnection.records.append(b"a")
    late()
    assert (transport.sizes, transport.polled) == ([1], (True, False))
    transport.startWriting()
    assert transport.doWrite() is None and len(turn.waiting) == 2
    transport.connectionLost(Failure(ConnectionDone()))
    turn.waiting[1][0]()
    assert transport.polled == (False, False)


@pytest.mark.parametrize("alone", [False, True])
def test_writes_count_for_their_flow_unless_it_is_alone(alone: bool) -> None:
    transport = Transport(b"a")
    transport.turn.alone = transport.flow if alone else None
    transport.turn.is_busy = alone
    transport._read_wants_write = True
    assert transport.doWrite() is None and transport.sizes == [1]
    assert transport.turn.flows == ([] if alone else [transport.flow, None])


@pytest.mark.parametrize("problem", [None, SSL.Error()])
def test_the_end_waits_for_the_clients_but_not_for_long(problem: Exception | None) -> None:
    transport = Transport()
    protocol, connection, sock = transport.protocol, transport._tlsConnection, transport.socket
    connection.problem = problem
    transport.stopReading()
    transport.loseConnection()
    assert transport.doWrite() is None
    assert (connection.ended, sock.shut, protocol.half, transport.polled) == (1, [1], 1, (True, False))
    transport.loseConnection()
    assert transport.polled == (True, False) and not transport.reactor.writers, "it is told only once"
    sock.left += [b"late", BlockingIOError()]
    for _ in range(2):
        assert transport.doRead() is None and protocol.data == []
    transport.reactor.advance(4.9)
    assert not sock.closed
    transport.reactor.advance(0.2)
    assert sock.closed and [reason.type for reason in protocol.lost] == [ConnectionDone]
    assert connection.ended == 1
    transport.connectionLost(Failure(ConnectionDone()))
    assert len(protocol.lost) == 1


@pytest.mark.parametrize(
    ("left", "result"), [(b"", main.CONNECTION_DONE), (ConnectionResetError(), main.CONNECTION_LOST)]
)
def test_the_end_of_the_client_after_that_of_the_server(left: Any, result: Any) -> None:
    transport = Transport()
    transport.loseConnection()
    transport.doWrite()
    transport.socket.left.append(left)
    assert transport.doRead() is result
    transport.connectionLost(Failure(result))
    assert transport.reactor.getDelayedCalls() == []


def test_a_socket_that_cannot_be_shut_is_lost() -> None:
    transport = Transport()
    transport.socket.problem = OSError("gone")
    transport.loseConnection()
    assert transport.doWrite() is main.CONNECTION_LOST
    assert (transport.reactor.getDelayedCalls(), transport.protocol.half) == ([], 0)


@pytest.mark.parametrize(("established", "ended"), [(True, 1), (False, 0)])
def test_a_lost_connection_is_ended_in_order_where_it_can_be(established: bool, ended: int) -> None:
    transport = Transport(established=established)
    connection, protocol = transport._tlsConnection, transport.protocol
    transport.connectionLost(Failure(ConnectionDone()))
    assert (connection.ended, len(protocol.lost), hasattr(transport, "_tlsConnection")) == (ended, 1, False)


def test_a_connection_without_a_handshake_is_aborted() -> None:
    transport = Transport(established=False)
    connection, protocol = transport._tlsConnection, transport.protocol
    transport.loseConnection()
    transport.reactor.advance(0)
    assert [reason.type for reason in protocol.lost] == [ConnectionAborted] and connection.ended == 0
    aborted = Transport()
    connection = aborted._tlsConnection
    aborted.abortConnection()
    aborted.reactor.advance(0)
    assert connection.ended == 0
