"""The load generator over HTTP/2: streams on few or many connections, framed by hand as a library would be the bottleneck.

Headers are sent without the dynamic table, so that one block serves every request of a kind, and the server is asked to do
without it too: of an answer only the frames and the status are looked at, which costs as little as over HTTP/1.1.
"""

from __future__ import annotations

import functools
import select
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import hpack
from hpack.huffman_table import decode_huffman

from tests.bench.load import Connection, Outcome, Polled, Target, arrived

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_MOST_WINDOW = (1 << 31) - 1
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW_SIZE = 1, 2, 4
#: by index in HPACK's static table
_STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


@dataclass(slots=True)
class Request:
    """A header block and the body that goes with it."""

    block: bytes
    body: bytes = b""

    def on(self, stream: int) -> bytes:
        if not self.body:
            return frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, self.block)
        return frame(_HEADERS, _END_HEADERS, stream, self.block) + frame(_DATA, _END_STREAM, stream, self.body)


def block(target: Target, method: str, path: str, **headers: str) -> bytes:
    """The header block of a request; ``headers`` with an underscore for each hyphen."""
    fields = [
        (":method", method), (":scheme", "https"), (":authority", target.host), (":path", path),
        ("authorization", f"Bearer {target.token}"), ("accept", "application/json"),
        *((name.replace("_", "-").lower(), value) for name, value in headers.items()),
    ]  # fmt: skip
    if method in ("POST", "PUT"):
        fields.append(("content-type", "application/json"))
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*field) for field in fields], huffman=False)


@functools.lru_cache(maxsize=64)
def status_of(begin: bytes) -> int:
    """The status of an answer, by the first bytes of its header block: it is the first field of all."""
    at = 0
    while begin[at] & 0xE0 == 0x20:  # the table gets another size
        more = begin[at] == 0x3F
        at += 1
        while more:
            more = begin[at] >= 0x80
            at += 1
    first = begin[at]
    if first & 0x80:
        return _STATUSES[first & 0x7F]
    assert first & (0x3F if first & 0x40 else 0x0F) in _STATUSES, begin  # a literal with the name :status
    size = begin[at + 1] & 0x7F
    text = begin[at + 2 : at + 2 + size]
    return int(decode_huffman(text) if begin[at + 1] & 0x80 else text)


class Http2(Connection):
    """One connection with any number of streams."""

    def __init__(self, target: Target, context: ssl.SSLContext) -> None:
        context.set_alpn_protocols(["h2"])
        super().__init__(target, context)
        assert self.socket.selected_alpn_protocol() == "h2", "the server does not speak HTTP/2"
        self.buffer = b""
        self.begun: dict[int, float] = {}  # streams without an answer
        self.answered = 0  # header blocks that have come
        self.failures = 0
        self._stream = -1
        self._window = 65535  # bytes of bodies that the server takes before it says more
        values = {_HEADER_TABLE_SIZE: 0, _ENABLE_PUSH: 0, _INITIAL_WINDOW_SIZE: _MOST_WINDOW}
        settings = b"".join(struct.pack(">HL", *setting) for setting in values.items())
        more = frame(_WINDOW, 0, 0, (_MOST_WINDOW - 65535).to_bytes(4, "big"))
        self.socket.sendall(_PREFACE + frame(_SETTINGS, 0, 0, settings) + more)

    def begin(self, request: Request) -> None:
        self._stream += 2
        self._window -= len(request.body)
        assert self._window >= 0, "the server has not opened its window again"
        self.begun[self._stream] = time.perf_counter()
        self._send(request.on(self._stream))

    def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[self.socket.send(data) :]
            except (ssl.SSLWantWriteError, BlockingIOError):
                select.select([], [self.socket], [], 10)

    def received(self, data: bytes) -> list[float]:
        """Takes bytes; gives when the streams began that have ended with them."""
        buffer = self.buffer + data
        ended: list[float] = []
        at = 0
        while len(buffer) - at >= 9:
            size = int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) - at < 9 + size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            payload = buffer[at + 9 : at + 9 + size]
            at += 9 + size
            self._frame(kind, flags, payload)
            if (kind in (_DATA, _HEADERS) and flags & _END_STREAM) or kind == _RESET:
                self.failures += kind == _RESET
                since = self.begun.pop(stream, None)
                if since is not None:
                    ended.append(since)
        self.buffer = buffer[at:]
        return ended

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._send(frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._send(frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW:
            self._window += int.from_bytes(payload, "big")  # those of streams do no harm: bodies are small
        elif kind == _GOAWAY:
            raise ConnectionError("the server said GOAWAY")
        elif kind == _HEADERS:
            self._answer(payload)

    def _answer(self, payload: bytes) -> None:
        self.answered += 1
        self.failures += not 200 <= status_of(payload[:9]) < 300


def watch_http2(target: Target, context: ssl.SSLContext, path: str) -> Http2:
    """A connection on which a watch has begun."""
    connection = Http2(target, context)
    connection.begin(Request(block(target, "GET", path)))
    while not connection.answered:
        data = connection.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        connection.received(data)
    assert not connection.failures, "the watch was refused"
    return connection


def drive_http2(
    target: Target,
    make: Callable[[int], Request],
    connections: int,
    streams: int,
    seconds: float,
    *,
    pause: float = 0.0,
) -> Outcome:
    """Keeps ``streams`` requests in flight on each of so many connections; ``pause`` seconds between a pair of requests."""
    open_ones = [Http2(target, target.context()) for _ in range(connections)]
    polled = Polled(open_ones)
    latencies: list[float] = []
    issued = 0
    before, begin = target.cpu(), time.perf_counter()
    end = begin + seconds
    for connection in open_ones:
        for _ in range(streams):
            connection.begin(make(issued))
            issued += 1
    running = issued
    now = begin
    while running:
        if now > end + 60:
            raise TimeoutError(f"{running} requests are not answered")
        for connection in polled.ready(1):
            ended: list[float] = []
            for data in arrived(connection):
                if not data:
                    raise ConnectionError("the server closed the connection")
                ended += connection.received(data)
            now = time.perf_counter()
            latencies += [now - since for since in ended]
            for _ in ended:
                if now < end:
                    if pause:
                        time.sleep(pause)
                    connection.begin(make(issued))
                    issued += 1
                else:
                    running -= 1
        now = time.perf_counter()
    took, used = now - begin, target.cpu() - before
    for connection in open_ones:
        connection.close()
    failures = sum(connection.failures for connection in open_ones)
    return Outcome(len(latencies) / took, used * 1e6 / max(1, len(latencies)), latencies, failures)
