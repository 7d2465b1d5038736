"""Connections through a konnectivity server: a gRPC call each, over a unix socket (KEP-1281).

Upstream: ``sigs.k8s.io/apiserver-network-proxy``, ``konnectivity-client``.  The call ``ProxyService.Proxy`` is the only stream of
an HTTP/2 connection of its own; both sides send packets in it: to dial, with data, to close.  Headers of answers are not looked
at: a call that fails ends its stream.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from typing import cast

from twisted.internet.address import UNIXAddress
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IDelayedCall,
    IOpenSSLClientConnectionCreator,
    IProducer,
    IProtocol,
    IProtocolFactory,
    IPushProducer,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.process.reactor import Reactor
from kapi.wire.http2 import frames
from kapi.wire.http2.client import ClientConnection
from kapi.wire.http2.fields import Field, encoded_field
from kapi.wire.http2.frames import Code, ConnectionFault
from kapi.wire.http2.receiving import WINDOW
from kapi.wire.plugin_messages import WireError, decode, encode, last_bytes, last_number, last_text
from kapi.wire.tunnel import Tunnel, tunnelled

_MAX_MESSAGE = 4 * 1024 * 1024  # bytes of a packet; Go's limit
_MAX_WAITING = 128 * 1024  # bytes that wait for the server before who writes them is made to wait
_MAX_DATA = 32 * 1024  # bytes of data in a packet to the server
_CLOSE_SECONDS = 10.0  # for the server's answer to a close, as upstream
_CALL = 1  # the number of the stream
_HEADERS = (
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/ProxyService/Proxy"), (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"), (b"te", b"trailers"),
)  # fmt: skip


class _Kind(IntEnum):
    """The types of packets."""

    DIAL = 0
    DIALED = 1
    CLOSE = 2
    CLOSED = 3
    DATA = 4
    DIAL_CLOSED = 5


#: the field of a packet that has its content
_CONTENT: dict[int, int] = {
    _Kind.DIAL: 2,
    _Kind.DIALED: 3,
    _Kind.DATA: 4,
    _Kind.CLOSE: 5,
    _Kind.CLOSED: 6,
    _Kind.DIAL_CLOSED: 7,
}


async def by_call(
    reactor: Reactor,
    proxy: IStreamClientEndpoint,
    target: str,
    factory: IProtocolFactory,
    options: IOpenSSLClientConnectionCreator | None,
) -> IProtocol:
    """A protocol of ``factory``, connected to ``target`` (HOST:PORT), by TLS when there are ``options`` for it.

    Raises ProxyError and errors of the connection.
    """
    return await tunnelled(proxy, lambda inner: _Call(reactor, target, inner), factory, options)


class _Stream:
    """What the server sends in the call."""

    complete = False
    held = False  # the inner protocol does not read
    receive_window = WINDOW
    missing: int | None = None
    free = 0


class _Call(ClientConnection[_Stream], Tunnel):
    """The call, from its first byte on."""

    kind = "konnectivity server"

    def __init__(self, reactor: Reactor, target: str, inner: IProtocolFactory) -> None:
        ClientConnection.__init__(self)
        Tunnel.__init__(self, inner)
        self.reactor = reactor
        self._target = target
        self._dial = random.getrandbits(63)
        self._connection = 0  # the server's number of it
        self._message = bytearray()  # the beginning of a message of gRPC
        # received
        self._stream = self.streams[_CALL] = _Stream()
        self.highest = _CALL
        self._untaken: deque[bytes] = deque()  # for the inner protocol, while it does not read
        self._is_draining = False  # the inner protocol is being called
        self._over: Failure | None = None
        # to send
        self._waiting = bytearray()
        self._call_window = self.initial_window
        self.channel = _Channel(self)

    def connectionMade(self) -> None:
        super().connectionMade()
        block = b"".join(encoded_field(name, value) for name, value in _HEADERS)
        self.transport.write(frames.header_block(_CALL, block, 0, frames.DEFAULT_FRAME))
        self._send(_Kind.DIAL, (1, b"tcp"), (2, self._target.encode(errors="replace")), (3, self._dial))

    # -- packets

    def _send(self, kind: _Kind, *fields: tuple[int, bytes | int]) -> None:
        message = encode([(1, kind), (_CONTENT[kind], encode(fields))])
        self._waiting += b"\0" + len(message).to_bytes(4) + message
        self.send_bodies()

    def send_data(self, data: bytes) -> None:
        for at in range(0, len(data), _MAX_DATA):
            self._send(_Kind.DATA, (1, self._connection), (3, data[at : at + _MAX_DATA]))

    def close(self) -> None:
        """After all data; the inner protocol gets no more."""
        self._drop()
        self._send(_Kind.CLOSE, (1, self._connection))

    def abort(self) -> None:
        self._drop()
        self.transport.abortConnection()

    def _drop(self) -> None:
        self._untaken.clear()
        self.read(True)

    def _packet(self, message: bytes) -> None:
        packet = decode(message)
        number = last_number(packet, 1)
        field = _CONTENT.get(number)
        content = decode(last_bytes(packet, field)) if field is not None else {}
        if number == _Kind.DIALED and not self._made.called and last_number(content, 3) == self._dial:
            error = last_text(content, 1)
            if error:
                self.fail(error)
                return
            self._connection = last_number(content, 2)
            self.give(self.channel)
        elif number == _Kind.DIAL_CLOSED and not self.is_through:
            self.fail("dial closed")
        elif number == _Kind.DATA and self.is_through and last_number(content, 1) == self._connection:
            if not self.channel.disconnecting:
                self._untaken.append(last_bytes(content, 3))
                self._drain()
        elif number == _Kind.CLOSED and last_number(content, 2) == self._connection:
            self._end()

    def _end(self, why: str = "") -> None:
        """The connection is over; nothing of the tunnel is left."""
        self.fail(why or "tunnel closed")
        self._over = self._over or Failure(ConnectionLost(why) if why else ConnectionDone())
        self._drain()
        self.transport.abortConnection()

    # -- the inner protocol

    def read(self, on: bool) -> None:
        """Whether the inner protocol takes data."""
        self._stream.held = not on
        self._drain()
        if not self._stream.held and self._stream.receive_window <= WINDOW // 2 and self._over is None:
            self.transport.write(frames.window_update(_CALL, WINDOW - self._stream.receive_window))
            self._stream.receive_window = WINDOW

    def _drain(self) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._untaken and not self._stream.held and self._inner is not None:
                self._inner.dataReceived(self._untaken.popleft())
        finally:
            self._is_draining = False
        inner = self._inner
        if self._over is not None and inner is not None and not self._untaken:
            self._inner = None
            self.channel.ended()
            inner.connectionLost(self._over)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.fail("tunnel closed")
        if self._over is None:
            self._over = reason if self.channel.disconnecting else Failure(ConnectionLost("tunnel closed"))
        self._drain()

    # -- HTTP/2

    def dataReceived(self, data: bytes) -> None:
        if self._over is None:
            try:
                self.receive(data)
            except (ConnectionFault, WireError) as fault:
                self._end(f"{self.kind}: {fault}")

    def seconds(self) -> float:
        return self.reactor.seconds()

    def fields(self, number: int, flags: int, decoded: list[Field]) -> None:
        if number != _CALL:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "HEADERS of no stream")
        if flags & frames.END_STREAM:
            self._end("tunnel closed")

    def body(self, stream: _Stream, data: bytes) -> None:
        self._message += data
        while len(self._message) >= 5 and self._over is None:
            if self._message[0]:
                raise WireError("a compressed message")
            end = 5 + int.from_bytes(self._message[1:5])
            if end > _MAX_MESSAGE:
                raise WireError("a message is too long")
            if len(self._message) < end:
                break
            message = bytes(self._message[5:end])
            del self._message[:end]
            self._packet(message)

    def complete(self, stream: _Stream, code: int = 0) -> None:
        self._end("tunnel closed")

    reset_by_peer = complete

    def refuse(self, number: int, code: Code, why: str) -> None:
        raise ConnectionFault(code, why)

    def peer_leaves(self, last: int, code: int) -> None:
        if last < _CALL:
            self._end("tunnel closed")

    def open_window(self, stream: _Stream | None, increment: int) -> None:
        if stream is None:
            self.window += increment
        else:
            self._call_window += increment
        self._opened()
        self.count_update(increment if stream is None else 0, self.window)

    def settings(self, values: dict[int, int]) -> None:
        first = values.get(frames.INITIAL_WINDOW_SIZE, self.initial_window)
        more, self.initial_window = first - self.initial_window, first
        self._call_window += more
        self._opened()

    def _opened(self) -> None:
        if max(self._call_window, self.window) > frames.MAX_WINDOW_BYTES:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window is too large")
        self.send_bodies()

    def send_bodies(self) -> None:
        while (
            self._waiting
            and not self.is_blocked
            and (room := min(self._call_window, self.window, frames.DEFAULT_FRAME, len(self._waiting))) > 0
        ):
            part = bytes(self._waiting[:room])
            del self._waiting[:room]
            self._call_window -= room
            self.window -= room
            self._idle_frames += 2  # Go's gRPC servers send a PING and a WINDOW_UPDATE for it, to measure round trips
            self.transport.write(frames.head(room, frames.DATA, 0, _CALL) + part)
        self.channel.sent(len(self._waiting))


@implementer(ITransport, IConsumer, IPushProducer)
class _Channel:
    """The transport of the inner protocol."""

    def __init__(self, call: _Call) -> None:
        self._call = call
        self._producer: IPushProducer | None = None
        self._is_paused = False  # the producer
        self._closing: IDelayedCall | None = None
        self._is_closed = False  # nothing more is sent
        self.disconnecting = False

    def getPeer(self) -> IAddress:
        return UNIXAddress(None)

    getHost = getPeer

    def write(self, data: bytes) -> None:
        if not self._is_closed:
            self._call.send_data(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def doWrite(self) -> None:
        """What the windows allow is sent already."""

    def loseConnection(self) -> None:
        if not self.disconnecting:
            self.disconnecting = True
            self._close()

    def abortConnection(self) -> None:
        self.disconnecting = self._is_closed = True
        self._call.abort()

    def _close(self) -> None:
        """Unless there is a producer, whose data comes first."""
        if self.disconnecting and self._producer is None and not self._is_closed:
            self._is_closed = True
            self._closing = self._call.reactor.callLater(_CLOSE_SECONDS, self._call.abort)
            self._call.close()

    def ended(self) -> None:
        self.disconnecting = self._is_closed = True
        if self._closing is not None and self._closing.active():
            self._closing.cancel()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()

    # -- a producer of what is sent

    def registerProducer(self, producer: IProducer, streaming: bool) -> None:
        assert streaming, "all producers here push"
        if self.disconnecting:
            producer.stopProducing()
        else:
            self._producer, self._is_paused = cast(IPushProducer, producer), False

    def unregisterProducer(self) -> None:
        self._producer = None
        self._close()

    def sent(self, waiting: int) -> None:
        """So many bytes wait for the server."""
        producer = self._producer
        if producer is None:
            return
        if waiting > _MAX_WAITING and not self._is_paused:
            self._is_paused = True
            producer.pauseProducing()
        elif not waiting and self._is_paused:
            self._is_paused = False
            producer.resumeProducing()

    # -- received data

    def pauseProducing(self) -> None:
        self._call.read(False)

    def resumeProducing(self) -> None:
        self._call.read(True)

    def stopProducing(self) -> None:
        self.loseConnection()
