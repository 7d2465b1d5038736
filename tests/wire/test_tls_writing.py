"""What a socket does not take at once is sent later: in order, whole, and short pieces in one record."""

from __future__ import annotations

from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet import main, tcp

from kapi.request.pending import Pending
from kapi.wire.tls.writing import _HELD_BYTES, _PIECE_BYTES, RECORD_BYTES, TLSWriting


class Connection:
    """OpenSSL's: takes a piece whole, or not at all while the socket is full."""

    def __init__(self) -> None:
        self.full = True
        self.problem: Exception = SSL.WantWriteError()
        self.sent: list[bytes] = []

    def send(self, data: memoryview) -> int:
        if self.full:
            raise self.problem
        self.sent.append(bytes(data))
        return len(data)


class Base(tcp.Connection):
    """The reactor's side of a transport: whether it waits until the socket can be written, and what it was told last."""

    connected, writing, aborted = 1, False, False

    def __init__(self) -> None:
        self.protocol: Any = None

    def startWriting(self) -> None:
        self.writing = True

    def stopWriting(self) -> None:
        self.writing = False

    def doWrite(self) -> Any:
        return "nothing is left"

    def abortConnection(self) -> None:
        self.aborted = True


class Transport(TLSWriting, Base):
    def __init__(self, *, full: bool = True, pending: bool = True) -> None:
        Base.__init__(self)
        self._tlsConnection: Any = Connection()
        self._tlsConnection.full = full
        self._established, self.producer = True, None
        self.reads = 0
        if pending:
            self.pending = Pending(lambda: 0.0)

    def _read(self) -> Any:
        self.reads += 1
        return "read"

    @property
    def counted(self) -> int:
        assert self.pending is not None
        return self.pending.size


def pieces(*sizes: int) -> list[bytes]:
    return [bytes([65 + number]) * size for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "records"),
    [
        ((5,), [5]),
        ((5, 6), [11]),
        ((5, 6, 7, 8), [26]),
        ((RECORD_BYTES, 5), [RECORD_BYTES, 5]),
        ((5, RECORD_BYTES, 6, 7), [5, RECORD_BYTES, 13]),
        ((RECORD_BYTES - 1, 1, 1), [RECORD_BYTES, 1]),
        ((RECORD_BYTES - 1, 2, 1), [RECORD_BYTES + 1, 1]),
    ],
)
def test_what_waits_is_sent_in_order_and_joined_up_to_a_record(sizes: tuple[int, ...], records: list[int]) -> None:
    transport, data = Transport(), pieces(*sizes)
    for piece in data:
        transport.write(piece)
    assert transport.unsent_bytes == sum(sizes)
    transport._tlsConnection.full = False
    assert transport._send() is None
    assert b"".join(transport._tlsConnection.sent) == b"".join(data)
    assert [len(record) for record in transport._tlsConnection.sent] == records
    assert (transport.unsent_bytes, transport.counted) == (0, 0)


def test_a_long_piece_is_sent_in_parts_and_goes_on_where_it_stopped() -> None:
    transport, size = Transport(), 40 * RECORD_BYTES + 3
    connection = transport._tlsConnection
    take = connection.send

    def once(data: memoryview) -> int:
        connection.full = bool(connection.sent)
        return int(take(data))

    connection.send = once
    data = bytes(range(256)) * (size // 256) + b"end"
    transport.write(data)
    assert 0 < transport.unsent_bytes < len(data)
    transport.write(b"next")
    connection.send, connection.full = take, False
    assert transport._send() is None
    assert b"".join(connection.sent) == data + b"next"
    assert transport.unsent_bytes == 0


@pytest.mark.parametrize("size", [1, RECORD_BYTES, RECORD_BYTES + 1, 3 * _PIECE_BYTES])
@pytest.mark.parametrize("pending", [True, False])
def test_what_the_socket_takes_at_once_does_not_wait(size: int, pending: bool) -> None:
    transport = Transport(full=False, pending=pending)
    transport.writeSequence([b"x" * (size - 1), b"y"])
    sent = transport._tlsConnection.sent
    assert b"".join(sent) == b"x" * (size - 1) + b"y"
    assert [len(each) for each in sent] == ([_PIECE_BYTES] * 3 if size > _PIECE_BYTES else [size])
    assert (transport.unsent_bytes, transport.writing) == (0, False)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"", {}), (b"x", {"connected": 0}), (b"x", {"_writeDisconnected": True}),
        (b"x", {"_established": False, "_keeps_early": False}),
    ],
)  # fmt: skip
def test_what_nobody_can_get_is_dropped(data: bytes, state: dict[str, Any]) -> None:
    for full in (True, False):
        transport = Transport(full=full)
        vars(transport).update(state)
        transport.write(data)
        assert (transport.unsent_bytes, transport.writing, transport._tlsConnection.sent) == (0, False, [])
        assert transport.counted == 0


@pytest.mark.parametrize("state", [{"_established": False}, {"_read_wants_write": True}])
def test_what_is_written_in_a_handshake_waits_for_its_end(state: dict[str, Any]) -> None:
    transport = Transport(full=False)
    vars(transport).update(state)
    transport.write(b"abc")
    assert (transport.unsent_bytes, transport.writing, transport._tlsConnection.sent) == (3, True, [])
    vars(transport).update({"_established": True, "_read_wants_write": False})
    transport.write(b"de")
    assert (transport.unsent_bytes, transport._tlsConnection.sent) == (5, []), "the order is kept"
    assert transport._send() is None and transport._tlsConnection.sent == [b"abcde"]


@pytest.mark.parametrize("problem", [SSL.WantWriteError(), SSL.WantReadError(), SSL.Error(), SSL.SysCallError(32, "")])
@pytest.mark.parametrize("size", [3, 2 * _PIECE_BYTES])
def test_a_lost_connection_is_noticed_by_the_next_attempt(problem: Exception, size: int) -> None:
    transport = Transport()
    transport._tlsConnection.problem = problem
    transport.write(b"x" * size)
    assert (transport.unsent_bytes, transport.writing) == (size, True)
    waits = isinstance(problem, SSL.WantWriteError | SSL.WantReadError)
    assert transport.writeSomeData(b"x" * size) == (0 if waits else main.CONNECTION_LOST)
    assert transport._send() is (None if waits else main.CONNECTION_LOST)
    assert transport.doWrite() is (None if waits else main.CONNECTION_LOST)
    assert transport.writeSomeData(b"") == 0


@pytest.mark.parametrize(
    ("streaming", "limit", "paused"), [(True, 9, 1), (True, 10, 0), (True, 11, 0), (False, 9, 0), (None, 9, 0)]
)
def test_a_producer_is_paused_beyond_the_size_of_the_buffer(streaming: bool | None, limit: int, paused: int) -> None:
    class Producer:
        pauses = 0

        def pauseProducing(self) -> None:
            self.pauses += 1

    transport, producer = Transport(), Producer()
    transport.bufferSize, transport.streamingProducer = limit, bool(streaming)
    transport.producer = None if streaming is None else producer  # type: ignore[assignment]
    transport.write(b"12345")
    assert producer.pauses == 0
    transport.write(b"67890")
    assert (producer.pauses, bool(transport.producerPaused)) == (paused, bool(paused))


def test_waiting_bytes_are_counted_once_with_the_memory_of_their_connection() -> None:
    transport, other, large = Transport(), Transport(), b"x" * 5000
    other.pending = transport.pending
    for each in (transport, other):
        each.write(large)
        each.write(b"abc")
    assert transport.counted == 2 * _HELD_BYTES + 5000 + 2 * 3
    transport._tlsConnection.full = False
    assert transport._send() is None
    assert transport.counted == _HELD_BYTES + 5000 + 3
    for _ in range(2):
        other.forget_unsent()
    assert (transport.counted, other.unsent_bytes) == (0, 0)
    other.write(b"abcd")
    assert (transport.counted, other.unsent_bytes) == (_HELD_BYTES + 4, 4)


def test_a_client_that_takes_some_bytes_makes_progress() -> None:
    now = [0.0]
    transport, connection = Transport(), Connection()
    transport.pending = Pending(lambda: now[0])
    transport._tlsConnection = connection
    transport.write(b"a" * RECORD_BYTES)
    transport.write(b"b" * RECORD_BYTES)

    def since() -> float:
        assert transport.pending is not None
        return transport.pending._holders[transport]

    now[0] = 1.0
    assert transport.doWrite() is None
    assert since() == 0.0, "it has taken nothing"
    connection.full = False
    take = connection.send

    def once(data: memoryview) -> int:
        taken = take(data)
        connection.full = True
        return int(taken)

    connection.send = once  # type: ignore[method-assign]
    now[0] = 2.0
    assert transport.doWrite() is None
    assert (since(), transport.unsent_bytes, transport.counted) == (2.0, RECORD_BYTES, _HELD_BYTES + RECORD_BYTES)
    connection.full = False
    now[0] = 3.0
    assert transport.doWrite() == "nothing is left"
    assert transport.counted == 0 and transport.pending._holders == {}


@pytest.mark.parametrize(
    ("unsent", "disconnecting", "writes"), [(0, 0, False), (1, 0, True), (0, 1, True), (1, 1, True)]
)
def test_a_read_that_had_to_wait_for_the_socket_goes_on_when_it_can_be_written(
    unsent: int, disconnecting: int, writes: bool
) -> None:
    transport = Transport()
    transport._read_wants_write = True
    transport.write(b"x" * unsent)
    transport.disconnecting, transport.writing = disconnecting, True
    assert transport.doWrite() == "read" and transport.reads == 1
    assert (transport.writing, transport._read_wants_write) == (writes, False)
    transport._tlsConnection.full = False
    assert transport.doWrite() == "nothing is left"


@pytest.mark.parametrize("end", ["abortConnection", "cut_off"])
def test_what_is_written_after_the_end_reaches_nobody(end: str) -> None:
    transport = Transport()
    transport.write(b"abc")
    getattr(transport, end)()
    transport._tlsConnection.full = False
    transport.write(b"def")
    assert transport.aborted and transport.doWrite() == "nothing is left"
    assert (transport._tlsConnection.sent, transport.unsent_bytes, transport.counted) == ([], 0, 0)
