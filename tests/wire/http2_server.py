"""Servers of HTTP/2 for tests: one that the library h2 implements, and one that sends the frames a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
from OpenSSL import SSL
from twisted.internet import ssl
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol

from kapi.wire.http2 import frames as wire
from tests.admission.certificates import make_certificate

CERTIFICATE, KEY = make_certificate("127.0.0.1", "hook.default.svc")


class Request:
    """A request as the server has received it.  ``headers``: names and values as bytes."""

    def __init__(self, connection: Honest, number: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.connection, self.number, self.headers = connection, number, headers
        self.fields = dict(headers)
        self.body = b""
        self.reset: int | None = None  # the code with which the client has reset the stream

    def answer(self, body: bytes = b"ok", status: int = 200, *more: tuple[bytes, bytes]) -> None:
        """Answers; a body that does not fit into the windows is sent as they open."""
        self.head(status, (b"content-length", b"%d" % len(body)), *more)
        self.connection.send(self.number, body)

    def head(self, status: int, *more: tuple[bytes, bytes]) -> None:
        self.connection.h2.send_headers(self.number, [(b":status", b"%d" % status), *more])
        self.connection.flush()


class Honest(Protocol):
    """A connection that the library h2 implements; ``factory.handle`` is called with each whole request."""

    factory: Any
    transport: Any

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self.requests: dict[int, Request] = {}
        self.unsent: dict[int, bytes] = {}
        self.pings = 0
        self.lost: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        self.factory.connections.append(self)
        if self.factory.max_streams is not None:
            code = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values={code: self.factory.max_streams})
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())

    def dataReceived(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            self.event(event)
        for number in list(self.unsent):
            self.send(number, self.unsent.pop(number))
        self.flush()

    def event(self, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = Request(self, event.stream_id, event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self.requests[event.stream_id].body += event.data
            if self.factory.opens_windows:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.requests[event.stream_id].reset = event.error_code
            self.unsent.pop(event.stream_id, None)
        elif isinstance(event, h2.events.PingAckReceived):
            self.pings += 1
        elif isinstance(event, h2.events.StreamEnded):
            request = self.requests[event.stream_id]
            self.factory.requests.append(request)
            self.factory.handle(request)

    def send(self, number: int, body: bytes) -> None:
        window = self.h2.local_flow_control_window(number)
        while body and window > 0:
            part = body[: min(window, self.h2.max_outbound_frame_size)]
            body = body[len(part) :]
            window -= len(part)
            self.h2.send_data(number, part)
        if body:
            self.unsent[number] = body
        else:
            self.h2.end_stream(number)
        self.flush()

    def connectionLost(self, reason: Any = None) -> None:
        self.lost.callback(None)


def honest(handle: Callable[[Request], object] = Request.answer) -> Any:
    """A factory with ``connections`` and whole ``requests`` so far, and ``handle``, which is called with each request."""
    factory: Any = Factory.forProtocol(Honest)
    factory.connections, factory.requests, factory.handle = [], [], handle
    factory.max_streams, factory.opens_windows = None, True
    return factory


class Liar(Protocol):
    """Sends ``factory.frames`` when the first request has come; ``received`` is what the client sends."""

    factory: Any
    transport: Any

    def connectionMade(self) -> None:
        self.received = b""
        self.lost: Deferred[None] = Deferred()
        self.factory.connections.append(self)
        self.transport.write(self.factory.greeting)

    def dataReceived(self, data: bytes) -> None:
        begun = self.has_request()
        self.received += data
        if not begun and self.has_request():
            for piece in self.factory.frames:
                self.transport.write(piece)

    def requests(self) -> int:
        return sum(kind == wire.HEADERS for kind, _, _, _ in frames_in(self.received))

    def has_request(self) -> bool:
        return self.requests() > 0

    def connectionLost(self, reason: Any = None) -> None:
        self.lost.callback(None)


def liar(*frames: bytes, greeting: bytes | None = None) -> Any:
    factory: Any = Factory.forProtocol(Liar)
    factory.connections, factory.frames = [], frames
    factory.greeting = wire.settings({}) if greeting is None else greeting
    return factory


def frames_in(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """The complete frames behind a client's preface, as (type, flags, stream, payload)."""
    data, found = data[len(wire.PREFACE) :], []
    while len(data) >= wire.HEAD_SIZE:
        high, low, kind, flags, stream = wire.unpack_head(data)
        end = wire.HEAD_SIZE + (high << 8 | low)
        if len(data) < end:
            break
        found.append((kind, flags, stream, data[wire.HEAD_SIZE : end]))
        data = data[end:]
    return found


def options(*protocols: bytes, pem: bytes = KEY + CERTIFICATE) -> Any:
    """The TLS options of a server that chooses one of these protocols; without them it knows nothing of such a choice."""
    pair = ssl.PrivateCertificate.loadPEM(pem)
    made = ssl.CertificateOptions(
        privateKey=pair.privateKey.original, certificate=pair.original, acceptableProtocols=list(protocols) or None
    )
    if not protocols:
        # Twisted's own answer to a choice that has nothing for it ends the handshake
        made.getContext().set_alpn_select_callback(lambda connection, offered: SSL.NO_OVERLAPPING_PROTOCOLS)
    return made
