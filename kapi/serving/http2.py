"""A connection that speaks HTTP/2 (upstream: ``golang.org/x/net/http2`` server).

``http2_receiving`` parses what the client sends, ``http2_sending`` sends; here are requests, deadlines, floods and ends.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, cast

from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.request.pending import MIN_COUNTED_BYTES, REFUSAL, PendingBytes
from kapi.request.transport import StreamTransport, close_when_sent
from kapi.serving.connections import (
    BODY_TIMEOUT,
    CLOSE_TIMEOUT,
    GOAWAY_TIMEOUT,
    HEAD_TIMEOUT,
    IDLE_TIMEOUT,
    PEER_TIMEOUT,
)
from kapi.serving.http2_heads import CONTINUE, Head, answer_block
from kapi.serving.http2_receiving import MAX_HEADER_LIST_BYTES, ReceivingRequests
from kapi.serving.http2_sending import Sending, SendingTransport
from kapi.serving.http2_stream import Stream
from kapi.serving.request import http_date
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault
from kapi.wire.http2.receiving import CONNECTION_WINDOW, ENDED, RESET_BY_PEER, RESET_HERE, WINDOW

if TYPE_CHECKING:
    from kapi.serving.connections import ConnectionOwner

log = Logger()


class Http2(ReceivingRequests):
    """HTTP/2, with the deadlines of HTTP/1.1: for a header block, for a body, and for a connection without streams.

    PING and SETTINGS do not keep a connection alive; a stream that waits for events does.
    """

    leave_soon = False  # after the next answer
    _last_stream: int | None = None  # as sent in GOAWAY: later streams are not served
    _client_left = False  # the client has sent GOAWAY
    _stopping = False  # the connection ends after the open streams
    _given_up = False  # everything received is dropped, and no stream is open
    _head_since = 0.0  # reactor seconds; 0 while no header block is incomplete
    _blocked_since = 0.0  # reactor seconds; 0 while the client reads what is sent
    _abort_at = 0.0  # reactor seconds; 0 while the server has not ended the connection

    def __init__(self, owner: ConnectionOwner, transport: StreamTransport) -> None:
        super().__init__(owner.max_streams)
        self.owner = owner
        self.transport = transport
        self.sending = Sending(owner.runner.turn, cast(SendingTransport, transport), self)
        self._idle_since = owner.now  # reactor seconds; 0 while there are streams
        #: the streams whose bodies are not complete, with the reactor seconds of their beginning
        self._bodies: dict[int, float] = {}
        self._whole: list[Stream] = []  # complete requests that are to be answered
        self._peer: IAddress | None = None
        self._block_bytes: PendingBytes | None = None  # counts a large header block that is not complete
        ours = {
            wire.MAX_CONCURRENT_STREAMS: self.max_streams,
            wire.INITIAL_WINDOW_SIZE: WINDOW,
            wire.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_BYTES,
        }
        more = CONNECTION_WINDOW - wire.DEFAULT_WINDOW
        transport.write(wire.settings(ours) + wire.window_update(0, more))

    def getPeer(self) -> IAddress:
        """The client's address, asked of the socket once."""
        if self._peer is None:
            self._peer = self.transport.getPeer()
        return self._peer

    # -- receiving

    def dataReceived(self, data: bytes) -> None:
        if self._given_up:
            return
        self.sending.hold()
        try:
            self.receive(data)
            if self._whole:
                self._answer()
        except ConnectionFault as fault:
            self._end(fault.code, fault.reason, fault)
        finally:
            self.sending.release()
        if not self.block_of:
            self._head_since = 0.0
        elif not self._head_since:
            self._head_since = self.owner.now

    def begin(self, number: int, head: Head, ends: bool) -> None:
        if head.path is None:
            text = b"" if head.method == b"HEAD" else b"400 Bad Request"
            self._refuse_request(number, ends, 400, b"text/plain; charset=utf-8", text)
            return
        pending = self.owner.runner.pending
        if head.size > MIN_COUNTED_BYTES and pending.full:
            pending.refused += 1
            self._refuse_request(number, ends, 429, b"text/plain; charset=utf-8", REFUSAL.encode())
            return
        stream = self._open(number)
        request = self.owner.stream_request_class(stream)
        stream.request = request
        request.requestHeaders.fields = head.headers.copy()  # type: ignore[attr-defined]
        request.gotLength(head.length)
        if head.size > MIN_COUNTED_BYTES:
            request.count_head(head.size, not ends)
        stream.head = head
        if ends:
            stream.complete = True
            self._whole.append(stream)
            return
        stream.missing = head.length
        self._bodies[number] = self.owner.now
        if head.continues:
            self.sending.interim(stream, CONTINUE)
        if self.owner.runner.streams_body(head.path):
            request.stream_soon(head.method, head.path, b"HTTP/2", head.length)

    def _open(self, number: int) -> Stream:
        if self._last_stream is not None and number > self._last_stream:
            # the client may retry it on another connection
            raise StreamFault(number, Code.REFUSED_STREAM, "the connection ends")
        self._idle_since = 0.0
        stream = self.streams[number] = Stream(self, number, self.sending.initial_window, WINDOW)
        return stream

    def _refuse_request(self, number: int, ends: bool, status: int, kind: bytes, text: bytes) -> None:
        stream = self._open(number)
        stream.complete = ends
        fields = ((b"content-type", kind), (b"content-length", b"%d" % len(text)), (b"date", http_date(int(time()))))
        self.sending.whole(stream, answer_block(status, fields)[0], text)

    def oversized(self, number: int, ends: bool) -> None:
        """Answers a header list that is too large, as Go's server does."""
        text = b"<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"
        self._refuse_request(number, ends, 431, b"text/html; charset=utf-8", text)

    def block_grows(self, size: int) -> None:
        """Counts a large header block that is not complete."""
        if size > MIN_COUNTED_BYTES:
            pending = self.owner.runner.pending
            if self._block_bytes is None:
                self._block_bytes = PendingBytes(pending)
                if pending.full:
                    pending.shrink()
                if pending.full:
                    raise ConnectionFault(Code.ENHANCE_YOUR_CALM, REFUSAL)
            self._block_bytes.set(size)
            pending.progress(self)
        elif self._block_bytes is not None:
            self._forget_block()

    def _forget_block(self) -> None:
        self._block_bytes = None
        self.owner.runner.pending.leave(self)

    def cut_off(self) -> None:
        """Closes the connection: its header block made no progress for long."""
        self._block_bytes = None
        self.transport.abortConnection()

    def hold_window(self, stream: Stream, size: int) -> None:
        """Called when a request begins before its whole body has come; ``size`` bytes wait.  Now ``taken`` opens its window."""
        self._bodies.pop(stream.number, None)
        stream.held = True
        stream.free = WINDOW - stream.receive_window - size

    def taken(self, stream: Stream, size: int) -> None:
        """Called when ``size`` bytes of such a body were consumed.  Opens the window once that is worth a frame."""
        stream.free += size
        if stream.free >= WINDOW // 4 and not stream.complete and self.streams.get(stream.number) is stream:
            free, stream.free = stream.free, 0
            stream.receive_window += free
            self._send_control(wire.window_update(stream.number, free))

    def body(self, stream: Stream, data: bytes) -> None:
        if stream.request is not None:
            stream.request.handleContentChunk(data)

    def complete(self, stream: Stream) -> None:
        self._bodies.pop(stream.number, None)
        if stream.head is not None:
            self._whole.append(stream)
        elif stream.request is not None:
            streamed = stream.request.streamed
            assert streamed is not None
            streamed.end()

    def _answer(self) -> None:
        """Begins the requests that came with the last bytes, except those that were reset again."""
        whole, self._whole = self._whole, []
        for stream in whole:
            head, stream.head = stream.head, None
            if self.streams.get(stream.number) is not stream:
                continue
            try:
                assert stream.request is not None and head is not None and head.path is not None
                stream.request.requestReceived(head.method, head.path, b"HTTP/2")
            except Exception:
                log.failure("a stream of HTTP/2 was reset for a fault of the server's")
                self.reset(stream.number)
            if self._given_up:
                return

    def reset_by_peer(self, stream: Stream, code: int) -> None:
        self._forget(stream, RESET_BY_PEER, f"the client reset the stream with code {code}")

    def refuse(self, number: int, code: Code, why: str) -> None:
        stream = self.streams.get(number)
        self.answer(wire.reset(number, code))
        if stream is not None:
            self._forget(stream, RESET_HERE, why)

    def open_window(self, stream: Stream | None, increment: int) -> None:
        sending = self.sending
        sending.open_window(stream, increment)
        self.count_update(0 if stream is not None else increment, sending.window)

    def settings(self, values: dict[int, int]) -> None:
        self.sending.settings(values)

    def peer_leaves(self, last: int, code: int) -> None:
        """The client has sent GOAWAY; open streams are still answered."""
        self._client_left = True
        self._close_when_done()

    def answer(self, frames: bytes) -> None:
        self.sending.control(frames)

    def seconds(self) -> float:
        return self.owner.runner.reactor.seconds()

    # -- streams that end

    def sent(self, stream: Stream) -> None:
        """The whole answer was sent."""
        self._remove(stream, ENDED if stream.complete else RESET_HERE)
        if not stream.complete:
            self._send_control(wire.reset(stream.number, Code.NO_ERROR))  # the rest of the request's body is not needed
        if self._last_stream is not None or self._client_left:
            self._close_when_done()

    def reset(self, number: int, code: Code = Code.INTERNAL_ERROR) -> None:
        """Ends a stream in the middle of its answer."""
        stream = self.streams.get(number)
        if stream is not None:
            self._send_control(wire.reset(number, code))
            self._forget(stream, RESET_HERE, "the stream was reset")

    def _send_control(self, frames: bytes) -> None:
        try:
            self.sending.control(frames)
        except ConnectionFault as fault:
            self._end(fault.code, fault.reason, fault)

    def _forget(self, stream: Stream, how: int, why: str) -> None:
        if self.streams.get(stream.number) is not stream:
            return
        self._remove(stream, how)
        self._lose(stream, Failure(ConnectionLost(why)))
        if self.leave_soon:
            self.go_away()
        self._close_when_done()

    def _remove(self, stream: Stream, how: int) -> None:
        if self.streams.pop(stream.number, None) is None:
            return
        self.note_ended(stream.number, how)
        self._bodies.pop(stream.number, None)
        if not self.streams:
            self._idle_since = self.owner.now

    def _lose(self, stream: Stream, reason: Failure) -> None:
        request, stream.request = stream.request, None
        if request is not None:
            request.connectionLost(reason)
        self.sending.forget(stream)

    # -- the transport

    def pauseProducing(self) -> None:
        """The transport calls this after every write while its buffer is full."""
        if not self._blocked_since:
            self._blocked_since = self.owner.now
            self.sending.pause()

    def resumeProducing(self) -> None:
        self._blocked_since = 0.0
        self.sending.resume()

    def stopProducing(self) -> None:
        """The transport is gone; ``connectionLost`` follows."""

    def connectionLost(self, reason: Failure) -> None:
        self._given_up = True
        streams, self.streams = self.streams, {}
        self._bodies.clear()
        self._whole.clear()
        if self._block_bytes is not None:
            self._forget_block()
        self.sending.forget_all()
        for stream in streams.values():
            self._lose(stream, reason)

    # -- ending

    def _end(self, code: Code, reason: str = "", error: object = "") -> None:
        """Ends the connection by its client's fault.  ``reason`` is for the metric, ``error`` for the log and for GOAWAY."""
        if self._given_up:
            return
        now = self.owner.now
        if reason:
            self.owner.errors.add(reason, self.getPeer(), error, now)
        self._abort_at = now + CLOSE_TIMEOUT
        self._given_up = True
        self.sending.flush()
        last = self.highest if self._last_stream is None else self._last_stream
        self.transport.write(wire.goaway(last, code, str(error)))
        close_when_sent(self.transport)
        self.connectionLost(Failure(ConnectionLost(str(error))))

    def sweep(self, now: float) -> None:
        """Ends the connection or single streams when the client is too slow."""
        if self._abort_at or (self._blocked_since and now - self._blocked_since >= PEER_TIMEOUT):
            if now >= self._abort_at:
                self.owner.watched.discard(self)
                self.transport.abortConnection()
            return
        if self._head_since and now - self._head_since >= HEAD_TIMEOUT:
            self._end(Code.PROTOCOL_ERROR, "timeout", "a header block did not end")
            return
        if self._idle_since and now - self._idle_since >= (
            IDLE_TIMEOUT if self._last_stream is None else GOAWAY_TIMEOUT
        ):
            self._end(Code.NO_ERROR)
            return
        for number in [number for number, since in self._bodies.items() if now - since >= BODY_TIMEOUT]:
            self.owner.errors.add("timeout", self.getPeer(), "a body did not come", now)
            self.reset(number, Code.CANCEL)

    @property
    def quiet_since(self) -> float:
        """The begin of idleness in reactor seconds; infinity with open streams, which some clients drop at GOAWAY."""
        return self._idle_since or float("inf")

    def go_away(self) -> None:
        """Sends GOAWAY: the client opens a new connection for its next requests; open streams continue.

        The client is expected to end this connection.  Requests that it sent before it saw GOAWAY are still answered or refused.
        """
        if self._last_stream is not None or self._given_up:
            return
        self._last_stream = self.highest
        self._send_control(wire.goaway(self.highest, Code.NO_ERROR))
        self._close_when_done()

    def close_when_idle(self) -> None:
        """Ends the connection when all open streams are answered: the server stops."""
        self._stopping = True
        self.go_away()
        self._close_when_done()

    def _close_when_done(self) -> None:
        at_once = self._client_left or self._stopping or (self._last_stream is not None and self.owner.closing)
        if at_once and not self.streams and not self._given_up:
            self.sending.flush()
            close_when_sent(self.transport)
