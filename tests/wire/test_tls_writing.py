"""What a socket does not take at once is sent later: in order, whole, and short pieces in one record."""

from __future__ import annotations

from typing import Any

import pytest
from OpenSSL import SSL

from kapi.request.pending import Pending
from kapi.wire.tls.writing import RECORD_BYTES, TLSWriting


class Connection:
    """OpenSSL's: takes a piece whole, or not at all while the socket is full."""

    def __init__(self) -> None:
        self.full = True
        self.sent: list[bytes] = []

    def send(self, data: memoryview) -> int:
        if self.full:
            raise SSL.WantWriteError
        self.sent.append(bytes(data))
        return len(data)


class Transport(TLSWriting):
    def __init__(self) -> None:
        self._tlsConnection: Any = Connection()
        self._established, self.connected, self._writeDisconnected, self.producer = True, 1, False, None
        self.pending = Pending(lambda: 0.0)

    def startWriting(self) -> None:
        pass


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
    assert (transport.unsent_bytes, transport.pending and transport.pending.size) == (0, 0)


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
