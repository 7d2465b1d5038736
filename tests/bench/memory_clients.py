"""Clients of bursts for ``--only memory``: they ask over a few connections, or ask and do not read."""

from __future__ import annotations

import json
import socket
import ssl
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.bench.http2 import Http2, Request
from tests.bench.load import Answer, Connection, Polled, Target, arrived

MAPS = "/api/v1/namespaces/default/configmaps"
_CONNECTIONS = 16
_STREAMS = 50  # requests in flight on a connection over HTTP/2


def body(**parts: Any) -> bytes:
    return json.dumps(parts).encode()


def seven_megabytes(target: Target) -> None:
    """Makes a list of that size, and reads it."""
    texts = ({"metadata": {"name": f"c{number}"}, "data": {"text": "x" * 8000}} for number in range(880))
    ask(target, (target.request("POST", MAPS, body(**one)) for one in texts))
    ask(target, [target.request("GET", MAPS)] * 3, 1)


def ask(target: Target, requests: Iterable[bytes], connections: int = _CONNECTIONS) -> Counter[int]:
    """Sends all of them over a few connections, one after the other on each, and counts the codes of the answers."""
    codes: Counter[int] = Counter()
    waiting = iter(requests)
    context = target.context()
    opened = [Connection(target, context) for _ in range(connections)]
    polled = Polled(opened)
    running = 0
    for connection in opened:
        request = next(waiting, None)
        if request is not None:
            _send(connection, request)
            running += 1
    while running:
        for connection in polled.ready(60):
            for data in arrived(connection):
                if not data:
                    raise ConnectionError("the server closed the connection")
                if not connection.answer.feed(data):
                    continue
                codes[connection.answer.status] += 1
                connection.answer = Answer()
                request = next(waiting, None)
                if request is None:
                    running -= 1
                else:
                    _send(connection, request)
                break
    for connection in opened:
        connection.close()
    return codes


def _send(connection: Connection, request: bytes) -> None:
    connection.socket.settimeout(60)
    connection.socket.sendall(request)
    connection.socket.setblocking(False)


def ask_http2(target: Target, blocks: Iterable[bytes]) -> int:
    """Sends requests without a body over one connection; answers how many were refused."""
    connection = Http2(target, target.context())
    connection.socket.settimeout(60)
    waiting = iter(blocks)
    more = True
    while True:
        while more and len(connection.begun) < _STREAMS:
            found = next(waiting, None)
            if found is None:
                more = False
            else:
                connection.begin(Request(found))
        if not connection.begun:
            break
        data = connection.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        connection.received(data)
    connection.close()
    return connection.failures


def unread(target: Target, request: bytes, count: int) -> list[ssl.SSLSocket]:
    """Connections on which something is asked for and the answer not read."""
    context = target.context()
    opened = []
    for _ in range(count):
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(60)
        plain.connect((target.host, target.port))
        wrapped = context.wrap_socket(plain, server_hostname=target.host)
        wrapped.sendall(request)
        opened.append(wrapped)
    return opened
