"""A peer that has gone is noticed although what it has sent before is unread."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace

import pytest

from kapi.request.departure import has_left, keep_alive, socket_of
from tests.waiting import until


@pytest.fixture
def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        return listener.accept()[0], there


@pytest.mark.parametrize("how", ["close", "shutdown", "reset"])
def test_behind_unread_bytes(pair: tuple[socket.socket, socket.socket], how: str) -> None:
    here, there = pair
    with here, there:
        there.sendall(b"unread")
        wrapped = SimpleNamespace(transport=SimpleNamespace(socket=here))  # as TLS over TCP
        assert not has_left(wrapped)
        if how == "shutdown":
            there.shutdown(socket.SHUT_WR)
        else:
            if how == "reset":
                there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
        until(lambda: has_left(wrapped))  # a busy machine delivers it later


def test_unix_sockets_need_no_probes() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        keep_alive(here, 1, 1, 1)
        assert not here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_what_has_no_socket_has_not_left(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    here.close()
    there.close()
    assert not has_left(SimpleNamespace(socket=here))
    assert socket_of(SimpleNamespace()) is None
