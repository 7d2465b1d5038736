"""The sending side of an HTTP/2 connection: collects frames, respects windows, and sends long answers in turns.

Data that fits into the client's windows and the socket is sent at once, in one write with everything else of the same turn.  The
rest waits in its stream.  It is sent in the turns of the connection's flow, several frames at a time, one stream after the other.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol, cast

from twisted.logger import Logger

from kapi.process.shares import Flow
from kapi.process.turn import Turn
from kapi.serving.connections import ConnectionOwner
from kapi.serving.http2_stream import NOTHING, Stream
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import NO_TABLE
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault
from kapi.wire.http2.receiving import count_unread

log = Logger()
pack = wire.pack_head
_MIN_FRAMES = 8  # frames sent before the clock is read
_FLUSH_BYTES = 64 * 1024  # collected bytes after which they are written
_MAX_PIECE_BYTES = 128 * 1024  # longer data is sent in turns


class SendingConnection(Protocol):
    """The connection (Http2), as its sending side sees it."""

    owner: ConnectionOwner
    streams: dict[int, Stream]

    def sent(self, stream: Stream) -> None: ...

    def reset(self, number: int) -> None: ...


class SendingTransport(Protocol):
    """The transport (TLSConnection); ``flow`` is that of its last request."""

    flow: Flow

    def write(self, data: bytes, /) -> None: ...

    def abortConnection(self) -> None: ...


class Sending:
    """The sending side of one connection; the work counts for the flow of ``transport``."""

    def __init__(self, turn: Turn, transport: SendingTransport, connection: SendingConnection) -> None:
        self._turn = turn
        self._transport = transport
        self._connection = connection
        self._pending = connection.owner.runner.pending
        self.window = wire.DEFAULT_WINDOW  # bytes, of all streams together
        self.initial_window = wire.DEFAULT_WINDOW  # bytes, of a stream
        self._frame = wire.DEFAULT_FRAME  # bytes; larger ones gain nothing
        self._begun = False  # a header block was sent
        self.blocked = False  # the transport's buffer is full
        self._unread = 0  # bytes of control frames since the buffer is full
        self._frames: list[bytes] = []  # collected in this turn
        self._size = 0  # bytes of them
        self._held = 0  # frames are collected until this is 0
        self._flush_requested = False  # the RequestRunner will flush
        self._ready: deque[Stream] = deque()  # streams with data to send, or with a producer to resume
        self._starved: list[Stream] = []  # streams that wait for the connection's window
        self._scheduled = False

    # -- collecting frames

    def hold(self) -> None:
        """Collects frames until ``release``."""
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if not self._held:
            self.flush()

    def flush(self) -> None:
        """Writes the collected frames."""
        self._flush_requested = False
        if self._frames:
            frames, self._frames, self._size = self._frames, [], 0
            self._transport.write(b"".join(frames))

    def flush_safely(self) -> None:
        """Writes the collected frames.  Raises nothing."""
        try:
            self.flush()
        except Exception:
            log.failure("a connection was lost by a fault of the server's")
            self._transport.abortConnection()

    def _request_flush(self) -> None:
        """Makes sure that the collected frames are written, with others of the same turn."""
        if self._held:
            if self._size > _FLUSH_BYTES:
                self.flush()
        elif not self._flush_requested:
            unflushed = self._connection.owner.runner.unflushed
            if unflushed is None:
                self.flush()
            else:
                self._flush_requested = True
                unflushed.append(self)

    def control(self, frames: bytes) -> None:
        """Sends frames without flow control.  Raises ConnectionFault when the client does not read such answers."""
        if self.blocked:
            self._unread = count_unread(self._unread, frames)
        self._frames.append(frames)
        self._size += len(frames)
        self._request_flush()

    # -- answers

    def head(self, stream: Stream, block: bytes) -> None:
        """A header block; more follows."""
        if self.blocked:
            stream.block = block
            self._make_ready(stream)
            return
        self.interim(stream, block)

    def interim(self, stream: Stream, block: bytes) -> None:
        """A header block that is sent even while the transport is blocked."""
        self._add_head(stream, block, 0)
        self._request_flush()

    def data(self, stream: Stream, data: bytes) -> None:
        if (
            self.blocked
            or stream.waiting
            or stream.block
            or len(data) > self.window
            or len(data) > stream.window
            or len(data) > _MAX_PIECE_BYTES
        ):
            self._wait(stream, data)
            return
        self._add_data(stream, data, False)
        self._request_flush()

    def end(self, stream: Stream) -> None:
        """The answer is complete."""
        if self.blocked or stream.waiting or stream.block:
            stream.ends = True
            self._make_ready(stream)
            return
        self._add_data(stream, b"", True)
        self._request_flush()
        self._connection.sent(stream)

    def whole(self, stream: Stream, block: bytes, body: bytes) -> None:
        """A complete answer."""
        size = len(body)
        if self.blocked or size > self.window or size > stream.window or size > _MAX_PIECE_BYTES:
            self.head(stream, block)
            if body:
                self.data(stream, body)
            return
        number, block_size, largest = stream.number, len(block), self._frame
        if body and self._begun and block_size <= largest and size <= largest:  # a short way for most answers
            self.window -= size
            self._size += block_size + size
            self._frames += (
                pack(block_size >> 8, block_size & 0xFF, wire.HEADERS, wire.END_HEADERS, number),
                block,
                pack(size >> 8, size & 0xFF, wire.DATA, wire.END_STREAM, number),
                body,
            )
        elif body:
            self._add_head(stream, block, 0)
            self._add_data(stream, body, True)
        else:
            self._add_head(stream, block, wire.END_STREAM)
        stream.ended = True
        self._request_flush()
        self._connection.sent(stream)

    def _add_head(self, stream: Stream, block: bytes, flags: int) -> None:
        if not self._begun:
            self._begun = True
            block = NO_TABLE + block
        self._frames.append(wire.header_block(stream.number, block, flags, self._frame))
        self._size += len(block)

    def _add_data(self, stream: Stream, data: bytes | memoryview, ends: bool) -> None:
        """Adds DATA frames for data that fits into the windows."""
        size, largest, number = len(data), self._frame, stream.number
        stream.window -= size
        self.window -= size
        self._size += size
        add = self._frames.append
        if size <= largest:
            add(wire.head(size, wire.DATA, wire.END_STREAM if ends else 0, number))
            add(data)  # type: ignore[arg-type]
        else:
            view = memoryview(data)
            for at in range(0, size, largest):
                part = view[at : at + largest]
                last = ends and at + largest >= size
                add(wire.head(len(part), wire.DATA, wire.END_STREAM if last else 0, number))
                add(part)  # type: ignore[arg-type]
        if ends:
            stream.ended = True

    # -- waiting data

    def registered(self, stream: Stream) -> None:
        """A producer was registered."""
        if stream.streaming:
            if stream.waiting or stream.block:
                self._pause(stream)
        elif self.blocked:
            self._make_ready(stream)
        else:
            self.hold()
            self._resume_producer(stream)
            self.release()

    def _wait(self, stream: Stream, data: bytes) -> None:
        if stream.waiting is NOTHING:
            stream.waiting = deque()
        stream.waiting.append(memoryview(data))
        self._pause(stream)
        self._make_ready(stream)
        self._pending.hold(data)
        self._pending.wait(stream)

    @staticmethod
    def _pause(stream: Stream) -> None:
        if stream.streaming and not stream.paused and stream.producer is not None:
            stream.paused = True
            stream.producer.pauseProducing()

    def _make_ready(self, stream: Stream) -> None:
        if stream.ready or (stream.waiting and not stream.block and stream.window <= 0):
            return
        stream.ready = True
        self._ready.append(stream)
        self._schedule()

    def _schedule(self) -> None:
        if self._scheduled or self.blocked or not self._ready:
            return
        self._scheduled = True
        self._turn.wait(self._send_frames, self._transport.flow)

    def _send_frames(self) -> None:
        """Sends waiting data until the turn is over."""
        frames = 0
        self.hold()
        try:
            while self._ready and not self.blocked:
                stream = self._ready.popleft()
                stream.ready = False
                before = self.window
                self._send_some(stream)
                frames += max(1, (before - self.window) // self._frame)
                if self._size >= _FLUSH_BYTES:
                    self.flush()
                if frames >= _MIN_FRAMES and self._turn.over():
                    break
        except Exception:
            log.failure("a connection was lost by a fault of the server's")
            self._transport.abortConnection()
            return
        finally:
            self._scheduled = False
            self.release()
        self._schedule()

    def _send_some(self, stream: Stream) -> None:
        if stream.number not in self._connection.streams:
            return
        if stream.block:
            block, stream.block = stream.block, b""
            self._add_head(stream, block, 0)
        waiting, pending = stream.waiting, self._pending
        budget = min(stream.window, _FLUSH_BYTES)
        while waiting and budget > 0:
            if self.window <= 0:
                stream.ready = True
                self._starved.append(stream)
                return
            piece = waiting[0]
            size = min(len(piece), budget, self.window)
            budget -= size
            if size < len(piece):
                waiting[0] = piece[size:]
                self._add_data(stream, piece[:size], False)
            else:
                waiting.popleft()
                self._release(piece)
                self._add_data(stream, piece, stream.ends and not waiting)
            if waiting:
                pending.progress(stream)
            else:
                pending.leave(stream)
        if waiting:
            self._make_ready(stream)
        elif stream.ended or stream.ends:
            if not stream.ended:
                self._add_data(stream, b"", True)
            self._connection.sent(stream)
        elif stream.producer is not None:
            self._resume_producer(stream)

    def _resume_producer(self, stream: Stream) -> None:
        """Resumes the stream's producer, since all its data is sent."""
        if stream.streaming:
            if not stream.paused:
                return
            stream.paused = False
        elif stream.window <= 0:
            return  # a WINDOW_UPDATE will ask again
        try:
            assert stream.producer is not None
            stream.producer.resumeProducing()
        except Exception:
            log.failure("a stream of HTTP/2 was reset for a fault of the server's")
            self._connection.reset(stream.number)
            return
        if stream.producer is not None and not stream.streaming:
            self._make_ready(stream)

    def forget(self, stream: Stream) -> None:
        """Nothing more is sent on a stream."""
        stream.producer = None
        waiting, stream.waiting = stream.waiting, NOTHING
        for piece in waiting:
            self._release(piece)
        self._pending.leave(stream)
        if stream.ready and stream in self._starved:
            self._starved.remove(stream)

    def _release(self, piece: memoryview) -> None:
        """Called when the last piece of some data is sent or dropped."""
        self._pending.release(cast(bytes, piece.obj))

    def forget_all(self) -> None:
        """The connection has ended."""
        self._frames.clear()
        self._ready.clear()
        self._starved.clear()

    # -- windows

    def open_window(self, stream: Stream | None, increment: int) -> None:
        if stream is None:
            self.window += increment
            if self.window > wire.MAX_WINDOW_BYTES:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "the connection's window is too large")
            self._retry_starved()
            return
        stream.window += increment
        if stream.window > wire.MAX_WINDOW_BYTES:
            raise StreamFault(stream.number, Code.FLOW_CONTROL_ERROR, "the stream's window is too large")
        self._resume_stream(stream)

    def _retry_starved(self) -> None:
        starved, self._starved = self._starved, []
        for stream in starved:
            stream.ready = False
            self._resume_stream(stream)

    def _resume_stream(self, stream: Stream) -> None:
        if stream.waiting or stream.block or (stream.producer is not None and not stream.streaming):
            self._make_ready(stream)

    def settings(self, values: dict[int, int]) -> None:
        window = values.get(wire.INITIAL_WINDOW_SIZE)
        if window is None or window == self.initial_window:
            return
        more = window - self.initial_window
        self.initial_window = window
        for stream in list(self._connection.streams.values()):
            stream.window += more
            if stream.window > wire.MAX_WINDOW_BYTES:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a stream's window is too large")
            self._resume_stream(stream)

    def pause(self) -> None:
        """The transport's buffer is full."""
        self.blocked = True
        self._unread = 0

    def resume(self) -> None:
        """The transport's buffer has space again."""
        self.blocked = False
        self._schedule()
