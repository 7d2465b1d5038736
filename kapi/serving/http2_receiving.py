"""Parses what the client of an HTTP/2 connection sends: frames, header blocks, windows, states of streams (RFC 9113).

There is no input or output here: ``receive`` takes bytes, and calls the methods at the end of the class.  Priorities are checked
but not used, as RFC 9113 has deprecated them.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.serving.http2_heads import Head, Malformed, remember, request_head, trailers
from kapi.serving.http2_stream import Stream
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import Decoder, Field, Undecodable
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault

WINDOW = 256 * 1024  # bytes of a stream's receive window; upstream's
CONNECTION_WINDOW = 4 * WINDOW  # for all streams together
_WINDOW_UPDATE_BYTES = CONNECTION_WINDOW // 2
MAX_HEADER_LIST_BYTES = (1 << 20) + 320  # SETTINGS_MAX_HEADER_LIST_SIZE: upstream's default
_MAX_BLOCK_BYTES = 2 * MAX_HEADER_LIST_BYTES  # of one header block; a larger one ends the connection
_MAX_SHORT_CONTINUATIONS = 64  # CONTINUATION frames of one header block, besides one for each KiB
UNANSWERED_WEIGHT = 0.1  # the weight of an idle frame (see ``idle``) that needs no answer
_MAX_ENDED_STREAMS = 256  # ended streams for which the way of their end is remembered

_PLAIN = wire.END_HEADERS | wire.PADDED | wire.WITH_PRIORITY  # most header blocks have only the first of these flags

# how a stream has ended
ENDED, RESET_BY_CLIENT, RESET_BY_SERVER = range(3)


class Receiving:
    """The receiving side of one connection."""

    def __init__(self, max_streams: int) -> None:
        self.streams: dict[int, Stream] = {}
        self.max_streams = max_streams
        self.highest = 0  # number of the client's streams
        self._ended: dict[int, int] = {}
        self._rest = b""
        self._begun = False  # the preface was read
        self._settled = False  # the first SETTINGS frame was read
        self._window = CONNECTION_WINDOW
        self._taken = 0  # bytes that no WINDOW_UPDATE has returned to the client yet
        self._decoder: Decoder[Head | None] = Decoder(MAX_HEADER_LIST_BYTES)
        # a header block that is not complete yet
        self.block_of = 0
        self._block_flags = 0
        self._block_size = 0  # bytes
        self._continuations = 0
        self._depends_on_itself = False

    # -- bytes

    def receive(self, data: bytes) -> None:
        """Handles received bytes.  Raises ConnectionFault."""
        if self._rest:
            data = self._rest + data
        at = 0
        if not self._begun:
            begin = data[: len(wire.PREFACE)]
            if begin != wire.PREFACE[: len(begin)]:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "this is no HTTP/2")
            if len(begin) < len(wire.PREFACE):
                self._rest = data
                return
            self._begun = True
            at = len(begin)
        size = len(data)
        while size - at >= wire.HEAD_SIZE:
            high, low, kind, flags, number = wire.unpack_head(data, at)
            length = high << 8 | low
            if length > wire.DEFAULT_FRAME:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame is too long")
            begins = at + wire.HEAD_SIZE
            at_next = begins + length
            if at_next > size:
                break
            at = at_next
            if self.block_of:
                if kind != wire.CONTINUATION:
                    raise ConnectionFault(Code.PROTOCOL_ERROR, "a header block is interrupted")
            elif not self._settled and kind != wire.SETTINGS:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            try:
                if kind < len(_HANDLERS):
                    _HANDLERS[kind](self, flags, number & wire.MAX_WINDOW_BYTES, data[begins:at])
                else:
                    self.idle("a frame of an unknown type")
            except StreamFault as fault:
                self._refuse(fault)
        self._rest = data[at:]

    def _refuse(self, fault: StreamFault) -> None:
        self.idle(str(fault))
        if fault.stream not in self.streams:
            self.note_ended(fault.stream, RESET_BY_SERVER)
        self.refuse(fault.stream, fault.code, str(fault))

    # -- ended streams

    def note_ended(self, number: int, how: int) -> None:
        """Remembers how a stream has ended: ENDED, RESET_BY_CLIENT or RESET_BY_SERVER."""
        ended = self._ended
        ended[number] = how
        if len(ended) > _MAX_ENDED_STREAMS:
            del ended[next(iter(ended))]

    def _is_idle(self, number: int) -> bool:
        return number > self.highest or not number & 1

    def _late(self, number: int, what: str) -> None:
        """Handles a frame of an ended stream.  A frame that the client sent before it saw the server's reset is ignored.

        Raises ConnectionFault or StreamFault for other frames.
        """
        how = self._ended.get(number)
        if how == RESET_BY_SERVER:
            return
        if how == ENDED:
            raise ConnectionFault(Code.STREAM_CLOSED, f"{what} of a stream that is over")
        raise StreamFault(number, Code.STREAM_CLOSED, f"{what} of a stream that is over")

    # -- header blocks

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "HEADERS of a stream that is none of the client's")
        if flags & _PLAIN == wire.END_HEADERS:
            self._fields(number, flags, payload)
            return
        begin, end = wire.unpadded(payload) if flags & wire.PADDED else (0, len(payload))
        depends = 0
        if flags & wire.WITH_PRIORITY:
            if end - begin < 5:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "HEADERS without space for a priority")
            depends = int.from_bytes(payload[begin : begin + 4]) & wire.MAX_WINDOW_BYTES
            begin += 5
        if flags & (wire.PADDED | wire.WITH_PRIORITY):
            payload = payload[begin:end]
        # a stream that depends on itself is refused after its block was decoded, since the block may change the table
        if flags & wire.END_HEADERS and depends != number:
            self._fields(number, flags, payload)
            return
        self.block_of, self._block_flags, self._depends_on_itself = number, flags, depends == number
        self._block_size = self._continuations = 0
        self._decoder.begin()
        self._more_of_block(flags, payload)

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        if not self.block_of or number != self.block_of:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "CONTINUATION of nothing")
        self._continuations += 1
        self._more_of_block(flags, payload)

    def _more_of_block(self, flags: int, payload: bytes) -> None:
        """Decodes a part of a header block that comes in several frames."""
        size = self._block_size = self._block_size + len(payload)
        if size > _MAX_BLOCK_BYTES or self._continuations > _MAX_SHORT_CONTINUATIONS + (size >> 10):
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "a header block is too long")
        try:
            self._decoder.feed(payload)
            if not flags & wire.END_HEADERS:
                self.block_grows(size)
                return
            decoded = self._decoder.end()
        except Undecodable as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from None
        number, self.block_of = self.block_of, 0
        self.block_grows(0)
        if self._depends_on_itself:
            self.highest = max(self.highest, number)
            raise StreamFault(number, Code.PROTOCOL_ERROR, "a stream depends on itself")
        self._request(number, self._block_flags, decoded, None)

    def _fields(self, number: int, flags: int, block: bytes) -> None:
        """A whole header block."""
        head: Head | None = self._decoder.known.get(block) if number > self.highest else None
        decoded: list[Field] = []
        if head is None:
            try:
                decoded = self._decoder.decode(block)
            except Undecodable as error:
                raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from None
        self._request(number, flags, decoded, head, block)

    def _request(self, number: int, flags: int, decoded: list[Field], head: Head | None, block: bytes = b"") -> None:
        """The fields of a request, or trailers.  ``head`` is known for a ``block`` that came before."""
        ends = bool(flags & wire.END_STREAM)
        if number <= self.highest:
            self._more_fields(number, decoded, ends)
            return
        self.highest = number
        if len(self.streams) >= self.max_streams:
            raise StreamFault(number, Code.REFUSED_STREAM, "too many streams")
        if head is None:
            if self._decoder.oversized:
                self.oversized(number, ends)
                return
            try:
                head = request_head(decoded)
            except Malformed as error:
                raise StreamFault(number, Code.PROTOCOL_ERROR, str(error)) from None
            if block:
                remember(self._decoder, block, head)
            else:
                head.size = self._decoder.total
        if ends and head.length:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "the body that was announced is missing")
        self.begin(number, head, ends)

    def _more_fields(self, number: int, decoded: list[Field], ends: bool) -> None:
        stream = self.streams.get(number)
        if stream is None:
            if number not in self._ended:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a stream's number is lower than the one before")
            self._late(number, "HEADERS")
            return
        if stream.complete:
            raise StreamFault(number, Code.STREAM_CLOSED, "HEADERS after the end")
        if not ends:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "trailers without an end")
        try:
            trailers(decoded)
        except Malformed as error:
            raise StreamFault(number, Code.PROTOCOL_ERROR, str(error)) from None
        if stream.missing:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "the body has another length")
        stream.complete = True
        self.complete(stream)

    # -- bodies

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        stream = self.streams.get(number)
        if stream is None and self._is_idle(number):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "DATA of no stream")
        if size > self._window:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more than the connection's window")
        self._window -= size
        self._taken += size
        if self._taken >= _WINDOW_UPDATE_BYTES:
            self.answer(wire.window_update(0, self._taken))
            self._window += self._taken
            self._taken = 0
        if stream is None:
            self.idle("DATA")
            self._late(number, "DATA")
            return
        if stream.complete:
            raise StreamFault(number, Code.STREAM_CLOSED, "DATA after the end")
        if size > stream.receive_window:
            raise StreamFault(number, Code.FLOW_CONTROL_ERROR, "more than the stream's window")
        stream.receive_window -= size
        ends = flags & wire.END_STREAM
        if flags & wire.PADDED:
            begin, end = wire.unpadded(payload)
            payload = payload[begin:end]
        if stream.missing is not None:
            stream.missing -= len(payload)
            if stream.missing < 0 or (ends and stream.missing):
                raise StreamFault(number, Code.PROTOCOL_ERROR, "the body has another length")
        if payload:
            self.body(stream, payload)
        elif not ends:
            self.idle("DATA of nothing")
        if stream.held:
            stream.free += size - len(payload)  # the padding
        if ends:
            stream.complete = True
            self.complete(stream)
        elif stream.receive_window <= WINDOW // 2 and not stream.held and number in self.streams:
            self.answer(wire.window_update(number, WINDOW - stream.receive_window))
            stream.receive_window = WINDOW

    # -- the other frames

    def _priority(self, flags: int, number: int, payload: bytes) -> None:
        if not number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PRIORITY of no stream")
        if len(payload) != 5:
            raise StreamFault(number, Code.FRAME_SIZE_ERROR, "PRIORITY of another length")
        if int.from_bytes(payload[:4]) & wire.MAX_WINDOW_BYTES == number:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "a stream depends on itself")
        self.idle("PRIORITY", UNANSWERED_WEIGHT)

    def _reset(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "RST_STREAM of another length")
        if self._is_idle(number):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "RST_STREAM of no stream")
        stream = self.streams.get(number)
        if stream is not None:
            self.reset_by_client(stream, int.from_bytes(payload))
        self.idle("RST_STREAM")

    def _settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % wire.SETTING.size or (flags & wire.ACK and payload):
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS of another length")
        if flags & wire.ACK:
            self.idle("SETTINGS")
            return
        if self._settled:
            self.idle("SETTINGS")
        self._settled = True
        values: dict[int, int] = {}
        for name, value in wire.SETTING.iter_unpack(payload):
            if name == wire.ENABLE_PUSH and value > 1:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH is neither 0 nor 1")
            if name == wire.INITIAL_WINDOW_SIZE and value > wire.MAX_WINDOW_BYTES:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE is too large")
            if name == wire.MAX_FRAME_SIZE and not wire.DEFAULT_FRAME <= value <= wire.MAX_FRAME_BYTES:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE is out of its range")
            values[name] = value
        self.settings(values)
        self.answer(wire.SETTINGS_TAKEN)

    def _push(self, flags: int, number: int, payload: bytes) -> None:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "a client does not push")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "PING of another length")
        if not flags & wire.ACK:
            self.answer(wire.pong(payload))
        self.idle("PING")

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(payload) < 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "GOAWAY of another length")
        self.client_leaves()

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "WINDOW_UPDATE of another length")
        increment = int.from_bytes(payload) & wire.MAX_WINDOW_BYTES
        if not number:
            if not increment:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            self.open_window(None, increment)
            return
        if self._is_idle(number):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "WINDOW_UPDATE of no stream")
        stream = self.streams.get(number)
        if stream is None:
            self.idle("WINDOW_UPDATE", UNANSWERED_WEIGHT)  # it was sent before the client knew of the stream's end
            return
        if not increment:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        self.open_window(stream, increment)

    # -- for subclasses

    def begin(self, number: int, head: Head, ends: bool) -> None:
        """A request has begun; ``ends`` when it has no body."""
        raise NotImplementedError

    def oversized(self, number: int, ends: bool) -> None:
        """Called when the header list of a request is too large; it was dropped."""
        raise NotImplementedError

    def block_grows(self, size: int) -> None:
        """Called when ``size`` bytes of an incomplete header block have come; 0 when it is complete."""

    def body(self, stream: Stream, data: bytes) -> None:
        raise NotImplementedError

    def complete(self, stream: Stream) -> None:
        """The whole body has come."""
        raise NotImplementedError

    def reset_by_client(self, stream: Stream, code: int) -> None:
        raise NotImplementedError

    def refuse(self, number: int, code: Code, why: str) -> None:
        """Called for a stream error: sends RST_STREAM.  The stream may have ended, or never begun."""
        raise NotImplementedError

    def open_window(self, stream: Stream | None, increment: int) -> None:
        """WINDOW_UPDATE of a stream, or of the connection (None).  Raises ConnectionFault and StreamFault."""
        raise NotImplementedError

    def settings(self, values: dict[int, int]) -> None:
        """SETTINGS with valid values.  Raises ConnectionFault."""
        raise NotImplementedError

    def client_leaves(self) -> None:
        """GOAWAY of the client."""
        raise NotImplementedError

    def answer(self, frames: bytes) -> None:
        """Sends frames in return."""
        raise NotImplementedError

    def idle(self, what: str, weight: float = 1.0) -> None:
        """Counts an idle frame: one without use for a request.  Raises ConnectionFault when there are too many."""
        raise NotImplementedError


#: by the type of the frame
_HANDLERS: tuple[Callable[[Receiving, int, int, bytes], None], ...] = (
    Receiving._data,
    Receiving._headers,
    Receiving._priority,
    Receiving._reset,
    Receiving._settings,
    Receiving._push,
    Receiving._ping,
    Receiving._goaway,
    Receiving._window_update,
    Receiving._continuation,
)
