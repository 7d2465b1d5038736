"""Streams of SPDY/3.1, for servers that let a user create a stream with POST but not with the GET of a WebSocket.

Upstream: apimachinery ``util/httpstream/spdy``, ``moby/spdystream``.  It opens all its streams at once, and reads no header of
an answer: a refused stream is reset.  Neither end counts the window of a stream.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

from kapi.wire.answer import Answer, BadAnswer
from kapi.wire.transport import Header
from kapi.wire.upgrade import MAX_REFUSAL, Upgraded, WebSocketClosed, header

ERROR_STREAM = "error"
_VERSION = 0x8003  # of a control frame, with its first bit
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN = 1  # flag: the sender sends no more on this stream
_CANCEL = 5  # status of a reset
_HEAD = struct.Struct(">II")  # the head of a frame: type or stream, flags and length
_CLOSE = 255  # the channel whose messages close another one


class SPDYStreams(Upgraded):
    """Streams with the interface of a WebSocket whose messages begin with a channel, as of the protocol v5.channel.k8s.io.

    ``streams`` are their headers by channel, ``greetings`` are messages that a WebSocket would begin with.  The text of the
    stream of errors is one message, and comes when all other streams have ended.
    """

    def __init__(
        self,
        target: str,
        headers: Sequence[Header],
        protocols: Sequence[str],
        streams: Mapping[int, Mapping[str, str]],
        greetings: Sequence[bytes] = (),
    ) -> None:
        offers = [(b"X-Stream-Protocol-Version", protocol.encode("ascii")) for protocol in protocols]
        more: list[Header] = [
            (b"Connection", b"Upgrade"),
            (b"Upgrade", b"SPDY/3.1"),
            (b"Content-Length", b"0"),
            *offers,
        ]
        super().__init__("POST", target, [*headers, *more], protocols)
        self._streams, self._greetings = streams, greetings
        self._ids = {channel: 2 * number + 1 for number, channel in enumerate(streams)}
        self._channels = {number: channel for channel, number in self._ids.items()}
        self._errors = [channel for channel, one in streams.items() if one.get("streamtype") == ERROR_STREAM]
        self._running = {
            channel for channel, one in streams.items() if one.get("streamtype") not in ("stdin", "resize")
        }
        self._text = b""  # of the stream of errors
        self._received = b""

    def agree(self, answer: Answer) -> str:
        if not header(answer, b"upgrade").lower().startswith(b"spdy/3.1"):
            raise BadAnswer("unable to upgrade connection: the answer is none to a request for SPDY/3.1")
        packer = zlib.compressobj()  # one for all streams: a block is packed with those before it
        for channel, number in self._ids.items():
            # without SPDY's dictionary, which a reader does not insist on
            block = packer.compress(_block(self._streams[channel])) + packer.flush(zlib.Z_SYNC_FLUSH)
            self._control(_SYN_STREAM, struct.pack(">IIH", number, 0, 0) + block)
        for message in self._greetings:
            self._queue(message)
        return header(answer, b"x-stream-protocol-version").decode("ascii", "replace")

    def receive(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._received)
            end = _HEAD.size + (second & 0xFFFFFF)
            if len(self._received) < end:
                return
            body, self._received = self._received[_HEAD.size : end], self._received[end:]
            if first >> 31 == 0:
                self._add(self._channels.get(first), body, second >> 24 & _FIN)
            else:
                self._controlled(first, second >> 24, body)

    def _controlled(self, first: int, flags: int, body: bytes) -> None:
        if first >> 16 != _VERSION:
            raise BadAnswer(f"a frame of version {first >> 16 & 0x7FFF} of SPDY")
        type_ = first & 0xFFFF
        if type_ == _PING:
            self._control(_PING, body)
        elif type_ == _GOAWAY:
            self._end_all()
        elif type_ in (_SYN_REPLY, _RST_STREAM, _HEADERS):
            stream = self._channels.get(int.from_bytes(body[:4], "big"))
            self._add(stream, b"", type_ == _RST_STREAM or flags & _FIN)

    def _add(self, channel: int | None, data: bytes, ends: int) -> None:
        if channel is None:
            return
        if channel in self._errors:
            self._text = (self._text + data)[:MAX_REFUSAL]
        elif data:
            self._queue(bytes((channel,)) + data)
        if ends and channel in self._running:
            self._running.discard(channel)
            if not self._running:
                self._end_all()

    def _end_all(self) -> None:
        """All streams that send have ended: the text of errors comes last."""
        if self._errors and self._agreed:
            self._queue(bytes(self._errors) + self._text)
            self._errors = []
        self._running = set()
        self._finish(None)

    def lost(self) -> Exception | None:
        if self._text:
            self._end_all()
        return super().lost()

    def _control(self, type_: int, body: bytes) -> None:
        self._write(_HEAD.pack(_VERSION << 16 | type_, len(body)) + body)

    async def send(self, message: bytes) -> None:
        """Sends a message; waits while the connection takes no more data.  Raises WebSocketClosed."""
        if self._ended or not self._agreed:
            raise WebSocketClosed("the connection is closed")
        channel, data = message[0], message[1:]
        flags, channel = (_FIN, data[0]) if channel == _CLOSE else (0, channel)
        data = b"" if flags else data
        if channel in self._ids:
            await self._sent(_HEAD.pack(self._ids[channel], flags << 24 | len(data)) + data)

    def close(self) -> None:
        """Resets the streams and ends the connection."""
        if self._agreed and not self._ended:
            for number in self._ids.values():
                self._control(_RST_STREAM, struct.pack(">II", number, _CANCEL))
        self._finish(None)
        if self.transport is not None:
            self.transport.loseConnection()


def _block(headers: Mapping[str, str]) -> bytes:
    texts = (text.encode() for pair in headers.items() for text in pair)
    return struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
