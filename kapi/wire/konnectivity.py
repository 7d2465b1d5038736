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
from kapi.wire.http2.frames import Code, ConnectionFault
from kapi.wire.plugin_messages import WireError, decode, encode, last_bytes, last_number, last_text
from kapi.wire.tunnel import Tunnel, tunnelled

_WINDOW = 256 * 1024  # bytes that the server may send while they are not taken
_MAX_MESSAGE = 4 * 1024 * 1024  # bytes of a packet; Go's limit
_MAX_WAITING = 128 * 1024  # bytes that wait for the server before who writes them is made to wait
_MAX_DATA = 32 * 1024  # bytes of data in a packet to the server
_MAX_ANSWERS = 16 * 1024  # bytes of answers to PING and SETTINGS that wait for a server that does not read
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


@implementer(IPushProducer)
class _Call(Tunnel):
    """The call, from its first byte on, and the producer of what the server reads."""

    kind = "konnectivity server"

    def __init__(self, reactor: Reactor, target: str, inner: IProtocolFactory) -> None:
        super().__init__(inner)
        self.reactor = reactor
        self._target = target
        self._dial = random.getrandbits(63)
        self._connection = 0  # the server's number of it
        self._message = bytearray()  # the beginning of a message of gRPC
        # received
        self._window = _WINDOW
        self._taken = 0  # bytes for which there was no WINDOW_UPDATE yet
        self._data: deque[bytes] = deque()  # for the inner protocol, while it does not read
        self._is_reading = True
        self._over: Failure | None = None
        # to send
        self._waiting = bytearray()
        self._blocked = False  # the server does not read
        self._answers = 0  # bytes since then
        self._call_window = self._connection_window = frames.DEFAULT_WINDOW
        self._call_window_first = frames.DEFAULT_WINDOW
        self.channel = _Channel(self)

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)
        block = b"".join(b"\0%c%b%c%b" % (len(name), name, len(value), value) for name, value in _HEADERS)
        self.transport.write(
            frames.PREFACE
            + frames.settings({frames.ENABLE_PUSH: 0, frames.INITIAL_WINDOW_SIZE: _WINDOW})
            + frames.window_update(0, _WINDOW - frames.DEFAULT_WINDOW)
            + frames.header_block(_CALL, block, 0, frames.DEFAULT_FRAME)
        )
        self._send(_Kind.DIAL, (1, b"tcp"), (2, self._target.encode(errors="replace")), (3, self._dial))

    # -- packets

    def _send(self, kind: _Kind, *fields: tuple[int, bytes | int]) -> None:
        message = encode([(1, kind), (_CONTENT[kind], encode(fields))])
        self._waiting += b"\0" + len(message).to_bytes(4) + message
        self._flush()

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
        self._data.clear()
        self.read(True)

    def _packet(self, message: bytes) -> None:
        packet = decode(message)
        number = last_number(packet, 1)
        field = _CONTENT.get(number)
        content = decode(last_bytes(packet, field)) if field is not None else {}
        if number == _Kind.DIALED and not self._made.called and last_number(content, 3) == self._dial:
            error = last_text(content, 1)
            if error:
                self.refuse(error)
                return
            self._connection = last_number(content, 2)
            self.give(self.channel)
        elif number == _Kind.DIAL_CLOSED and not self.is_through:
            self.refuse("dial closed")
        elif number == _Kind.DATA and self.is_through and last_number(content, 1) == self._connection:
            if not self.channel.disconnecting:
                self._data.append(last_bytes(content, 3))
                self._drain()
        elif number == _Kind.CLOSED and last_number(content, 2) == self._connection:
            self._end()

    def _end(self, why: str = "") -> None:
        """The connection is over; nothing of the tunnel is left."""
        self.refuse(why or "tunnel closed")
        self._over = Failure(ConnectionLost(why) if why else ConnectionDone())
        self._drain()
        self.transport.abortConnection()

    # -- the inner protocol

    def read(self, on: bool) -> None:
        """Whether the inner protocol takes data."""
        self._is_reading = on
        if on:
            self._drain()
            self._credit()

    def _drain(self) -> None:
        while self._data and self._is_reading and self._inner is not None:
            self._inner.dataReceived(self._data.popleft())
        inner = self._inner
        if self._over is not None and inner is not None and not self._data:
            self._inner = None
            self.channel.ended()
            inner.connectionLost(self._over)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.refuse("tunnel closed")
        if self._over is None:
            self._over = reason if self.channel.disconnecting else Failure(ConnectionLost("tunnel closed"))
        self._drain()

    # -- HTTP/2

    def dataReceived(self, data: bytes) -> None:
        data, at = self.received + data, 0
        try:
            while len(data) - at >= frames.HEAD_SIZE and self._over is None:
                high, low, kind, flags, number = frames.unpack_head(data, at)
                begin = at + frames.HEAD_SIZE
                end = begin + (high << 8 | low)
                if end - begin > frames.DEFAULT_FRAME:
                    raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame is too long")
                if end > len(data):
                    break
                at = end
                self._frame(kind, flags, number & frames.MAX_WINDOW_BYTES, data[begin:end])
        except (ConnectionFault, WireError) as fault:
            self._end(f"{self.kind}: {fault}")
        self.received = data[at:]

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == frames.DATA and number == _CALL:
            self._received_data(flags, payload)
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self._settings(payload)
        elif kind == frames.PING and not flags & frames.ACK:
            if len(payload) != 8:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "PING of a wrong length")
            self._answer(frames.pong(payload))
        elif kind == frames.WINDOW_UPDATE:
            more = int.from_bytes(payload) & frames.MAX_WINDOW_BYTES
            if number == _CALL:
                self._call_window += more
            elif number == 0:
                self._connection_window += more
            self._flush()
        if number == _CALL and (kind == frames.RST_STREAM or kind in _WITH_END and flags & frames.END_STREAM):
            self._end("tunnel closed")
        elif kind == frames.GOAWAY and int.from_bytes(payload[:4]) & frames.MAX_WINDOW_BYTES < _CALL:
            self._end("tunnel closed")

    def _settings(self, payload: bytes) -> None:
        if len(payload) % frames.SETTING.size:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS of a wrong length")
        for name, value in frames.SETTING.iter_unpack(payload):
            if name == frames.INITIAL_WINDOW_SIZE:
                self._call_window += value - self._call_window_first
                self._call_window_first = value
        self._answer(frames.SETTINGS_TAKEN)
        self._flush()

    def _answer(self, answer: bytes) -> None:
        if self._blocked:
            self._answers += len(answer)
            if self._answers > _MAX_ANSWERS:
                raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "answers are not read")
        self.transport.write(answer)

    def pauseProducing(self) -> None:
        self._blocked, self._answers = True, 0

    def resumeProducing(self) -> None:
        self._blocked = False
        self._flush()

    def stopProducing(self) -> None:
        """The connection is lost; ``connectionLost`` follows."""

    def _received_data(self, flags: int, payload: bytes) -> None:
        self._window -= len(payload)
        self._taken += len(payload)
        if self._window < 0:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more data than the window allows")
        if flags & frames.PADDED:
            begin, end = frames.unpadded(payload)
            payload = payload[begin:end]
        self._message += payload
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
        self._credit()

    def _credit(self) -> None:
        """Lets the server send more, unless the inner protocol does not read."""
        if self._is_reading and self._taken >= _WINDOW // 2 and self._over is None:
            taken, self._taken = self._taken, 0
            self._window += taken
            self.transport.write(frames.window_update(0, taken) + frames.window_update(_CALL, taken))

    def _flush(self) -> None:
        while (
            self._waiting
            and not self._blocked
            and (room := min(self._call_window, self._connection_window, frames.DEFAULT_FRAME, len(self._waiting))) > 0
        ):
            part = bytes(self._waiting[:room])
            del self._waiting[:room]
            self._call_window -= room
            self._connection_window -= room
            self.transport.write(frames.head(room, frames.DATA, 0, _CALL) + part)
        self.channel.sent(len(self._waiting))


_WITH_END = (frames.DATA, frames.HEADERS)


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
