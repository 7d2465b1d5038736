"""Parses what one end of an HTTP/2 connection is sent: frames, header blocks, windows, states of streams (RFC 9113).

There is no input or output here: ``receive`` takes bytes, and calls the methods at the end of the class.  Priorities are checked
but not used, as RFC 9113 has deprecated them.  Streams are begun by the client on both ends: no end here pushes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import Decoder, Field, Meaning, Undecodable
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault

WINDOW = 256 * 1024  # bytes of a stream's receive window; upstream's server has as many
CONNECTION_WINDOW = 4 * WINDOW  # for all streams together
_WINDOW_UPDATE_BYTES = CONNECTION_WINDOW // 2  # returned so early that no frame is larger than the rest
_MAX_SHORT_CONTINUATIONS = 64  # CONTINUATION frames of one header block, besides one for each KiB
UNANSWERED_WEIGHT = 0.1  # the weight of an idle frame (see ``idle``) that needs no answer
_MAX_ENDED_STREAMS = 256  # ended streams for which the way of their end is remembered
_MAX_UNREAD_BYTES = 17 * 1024  # bytes of answers to control frames that the peer does not read
_MAX_IDLE_FRAMES = 1000  # frames that carry nothing for a request (resets, PING, SETTINGS) in a burst
_IDLE_FRAMES_PER_SECOND = 33
#: one WINDOW_UPDATE is normal for so many sent bytes: some peers send two for each event
_UPDATE_BYTES = 64

_PLAIN = wire.END_HEADERS | wire.PADDED | wire.WITH_PRIORITY  # most header blocks have only the first of these flags

# how a stream has ended
ENDED, RESET_BY_PEER, RESET_HERE = range(3)


def count_unread(unread: int, frames: bytes) -> int:
    """The bytes of answers to control frames, with ``frames``, that a peer does not read.  Raises ConnectionFault: too many."""
    unread += len(frames)
    if unread > _MAX_UNREAD_BYTES:
        raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "answers to control frames are not taken", "flood")
    return unread


class ReceivingStream(Protocol):
    """What is known of the body that a stream receives."""

    complete: bool
    receive_window: int  # bytes
    missing: int | None  # bytes of the body, if the peer has said how many there are
    held: bool  # the window is opened only for bytes of the body that were taken
    free: int  # bytes that were taken, before a WINDOW_UPDATE for them


Stream = TypeVar("Stream", bound=ReceivingStream)


class Receiving(Generic[Stream, Meaning]):
    """The receiving side of one connection.

    ``max_fields_bytes`` is its SETTINGS_MAX_HEADER_LIST_SIZE; ``preface``: the peer is a client, which begins with one.
    """

    _idle_frames = float(_MAX_IDLE_FRAMES)  # idle frames that are still allowed
    _idle_frame_at = 0.0  # when the last one came, in reactor seconds
    _granted = wire.DEFAULT_WINDOW  # all bytes by which the peer has opened the connection's window
    _updated = 0  # sent bytes that account for the WINDOW_UPDATEs so far

    def __init__(self, max_fields_bytes: int, *, preface: bool) -> None:
        self.streams: dict[int, Stream] = {}
        self.highest = 0  # number of the client's streams
        self._ended: dict[int, int] = {}
        self._rest = b""
        self._begun = not preface
        self._settled = False  # the first SETTINGS frame was read
        self._taken = 0  # bytes that no WINDOW_UPDATE has returned to the peer yet
        self._decoder: Decoder[Meaning] = Decoder(max_fields_bytes)
        self._max_block_bytes = 2 * max_fields_bytes  # of one header block; a larger one ends the connection
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
            self.note_ended(fault.stream, RESET_HERE)
        self.refuse(fault.stream, fault.code, str(fault))

    # -- ended streams

    def note_ended(self, number: int, how: int) -> None:
        """Remembers how a stream has ended: ENDED, RESET_BY_PEER or RESET_HERE."""
        ended = self._ended
        ended[number] = how
        if len(ended) > _MAX_ENDED_STREAMS:
            del ended[next(iter(ended))]

    def _is_idle(self, number: int) -> bool:
        return number > self.highest or not number & 1

    def _late(self, number: int, what: str) -> None:
        """Handles a frame of an ended stream.  A frame that the peer sent before it saw a reset from here is ignored.

        Raises ConnectionFault or StreamFault for other frames.
        """
        how = self._ended.get(number)
        if how == RESET_HERE:
            self.idle(what, UNANSWERED_WEIGHT)
            return
        if how == ENDED:
            raise ConnectionFault(Code.STREAM_CLOSED, f"{what} of a stream that is over")
        raise StreamFault(number, Code.STREAM_CLOSED, f"{what} of a stream that is over")

    # -- header blocks

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "HEADERS of a stream that is none of the client's")
        if flags & _PLAIN == wire.END_HEADERS:
            self.block(number, flags, payload)
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
            self.block(number, flags, payload)
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
        if size > self._max_block_bytes or self._continuations > _MAX_SHORT_CONTINUATIONS + (size >> 10):
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
        self.fields(number, self._block_flags, decoded)

    # -- bodies

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        stream = self.streams.get(number)
        if stream is None and self._is_idle(number):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "DATA of no stream")
        self._taken += size
        if self._taken >= _WINDOW_UPDATE_BYTES:
            self.answer(wire.window_update(0, self._taken))
            self._taken = 0
        if stream is None:
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
            self.reset_by_peer(stream, int.from_bytes(payload))
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
        raise ConnectionFault(Code.PROTOCOL_ERROR, "PUSH_PROMISE, which nothing here allows")

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
        self.peer_leaves(int.from_bytes(payload[:4]) & wire.MAX_WINDOW_BYTES, int.from_bytes(payload[4:8]))

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
            self.idle("WINDOW_UPDATE", UNANSWERED_WEIGHT)  # it was sent before the peer knew of the stream's end
            return
        if not increment:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        self.open_window(stream, increment)

    def count_update(self, increment: int, window: int) -> None:
        """Counts a WINDOW_UPDATE as an idle frame when there are more than what was sent accounts for.

        ``increment`` has opened the connection's window, 0 when it is a stream's; ``window`` is the connection's now.
        """
        self._granted += increment
        if self._updated + _UPDATE_BYTES <= self._granted - window:
            self._updated += _UPDATE_BYTES
        else:
            self.idle("WINDOW_UPDATE", UNANSWERED_WEIGHT)

    def idle(self, what: str, weight: float = 1.0) -> None:
        """Counts a frame that carries nothing for a request: many in a short time are an attack.

        See CVE-2023-44487, CVE-2019-9512, CVE-2019-9515.  Raises ConnectionFault.
        """
        now = self.seconds()
        allowed = self._idle_frames + max(0.0, now - self._idle_frame_at) * _IDLE_FRAMES_PER_SECOND
        self._idle_frames = min(_MAX_IDLE_FRAMES, allowed) - weight
        self._idle_frame_at = now
        if self._idle_frames < 0:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, f"too many frames like {what}", "flood")

    # -- for subclasses

    def seconds(self) -> float:
        """The reactor's time."""
        raise NotImplementedError

    def block(self, number: int, flags: int, block: bytes) -> None:
        """A header block that came in one frame."""
        try:
            decoded = self._decoder.decode(block)
        except Undecodable as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from None
        self.fields(number, flags, decoded)

    def fields(self, number: int, flags: int, decoded: list[Field]) -> None:
        """The fields of a header block, which may be fewer than there were when ``oversized``."""
        raise NotImplementedError

    def block_grows(self, size: int) -> None:
        """Called when ``size`` bytes of an incomplete header block have come; 0 when it is complete."""

    def body(self, stream: Stream, data: bytes) -> None:
        raise NotImplementedError

    def complete(self, stream: Stream) -> None:
        """The whole body has come."""
        raise NotImplementedError

    def reset_by_peer(self, stream: Stream, code: int) -> None:
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

    def peer_leaves(self, last: int, code: int) -> None:
        """GOAWAY: streams after the one with the number ``last`` are not processed."""
        raise NotImplementedError

    def answer(self, frames: bytes) -> None:
        """Sends frames in return."""
        raise NotImplementedError


#: by the type of the frame
_HANDLERS: tuple[Callable[..., None], ...] = (
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
