"""A connection that speaks HTTP/2 (upstream: ``golang.org/x/net/http2`` server).

What leans on private names of ``twisted.web._http2`` and of h2 stands here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from h2 import events as h2_events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame
from twisted.internet.error import ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web._http2 import H2Connection

from kapi.request.target import origin_form
from kapi.server.limits import BODY_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT, LEAVE_TIMEOUT, PEER_TIMEOUT

if TYPE_CHECKING:
    from kapi.server.connection_owner import ConnectionOwner

log = Logger()
_PLAIN_PATH = re.compile(rb"/[!-~]*\Z").match
_IDLE_FRAMES = 1000  # frames at once that ask for nothing: resets, PING, SETTINGS
_IDLE_FRAMES_PER_SECOND = 33
_CONTROL_BYTES = 17 * 1024  # of answers to such frames that wait for the client to take them


class Http2(H2Connection):
    """HTTP/2, with the deadlines of HTTP/1.1: for a header block, for a body, and for a connection without streams.

    Frames that ask for nothing (PING, SETTINGS) keep no connection alive; a stream that waits for events does.  The base
    class frames and queues what is sent; what is received is handled here, as the base class raises for frames of streams
    that are over, and goes on after it has given up the connection.
    """

    owner: ConnectionOwner
    leave_soon = False  # after the next answer
    _last_stream: int | None = None  # what GOAWAY said: later streams are not served
    _idle_since = 0.0  # reactor seconds; 0 while there are streams
    _head_since = 0.0  # reactor seconds; 0 while no header block is half received
    _blocked_since = 0.0  # reactor seconds; 0 while the client takes what is sent
    _abort_at = 0.0  # reactor seconds; 0 while the server has not ended the connection
    _idle_frames = float(_IDLE_FRAMES)  # that are still allowed
    _idle_frame_at = 0.0  # reactor seconds of the last one

    def connectionMade(self) -> None:
        self.conn.local_settings.max_concurrent_streams = self.owner.max_streams
        self.timeOut = None
        self._idle_since = self.owner.now
        #: the streams whose bodies are not complete, with the reactor seconds of their beginning
        self._bodies: dict[int, float] = {}
        super().connectionMade()

    # -- sending

    def remainingOutboundWindow(self, streamID: int) -> int:
        """The base class asks after each frame.  A stream that needs its window opened is passed over until it is, or the loop
        that sends would come back to it in each turn of the reactor."""
        queue = self._outboundStreamQueues.get(streamID)
        if queue and isinstance(queue[0], bytes) and self.conn.local_flow_control_window(streamID) <= 0:
            self.priority.block(streamID)
        remaining: int = super().remainingOutboundWindow(streamID)
        return remaining

    def _open_window(self, event: Any) -> None:
        self._handleWindowUpdate(event)
        self._send_on()

    def _change_settings(self, event: Any) -> None:
        """Which may have changed all windows."""
        self._count_idle(event)
        for stream, queue in self._outboundStreamQueues.items():
            if queue:
                self.priority.unblock(stream)
        self._send_on()

    def _send_on(self) -> None:
        waiting, self._sendingDeferred = self._sendingDeferred, None
        if waiting is not None:
            waiting.callback(None)

    # -- receiving

    def dataReceived(self, data: bytes) -> None:
        if not self._stillProducing:
            return  # given up
        try:
            events = self.conn.receive_data(data)
        except Exception as error:  # ProtocolError, or what h2 has not foreseen: either is the client's doing
            self._end(None, "protocol", error)
            return
        if len(events) > 1:
            events = self._reset_first(events)
        for event in events:
            handle = _HANDLERS.get(type(event))
            if handle is None:
                continue
            try:
                handle(self, event)
            except Exception:
                log.failure("a stream of HTTP/2 was reset for a fault of the server's")
                self.reset(event.stream_id)  # type: ignore[attr-defined]
            if not self._stillProducing:
                return
        self._tryToWriteControlData()
        buffer = self.conn.incoming_buffer
        pending = buffer._data
        if len(pending) > 2 and int.from_bytes(pending[:3]) > self.conn.max_inbound_frame_size:
            # h2 would wait for all of it before it says so
            self._end(ErrorCodes.FRAME_SIZE_ERROR, "protocol", "a frame is too long")
            return
        if not buffer._headers_buffer:
            self._head_since = 0.0
        elif not self._head_since:
            self._head_since = self.owner.now

    @staticmethod
    def _reset_first(events: list[Any]) -> list[Any]:
        """Without what came for streams that the same data resets: h2 knows them no more, and nobody waits for answers."""
        resets = [event for event in events if type(event) is h2_events.StreamReset]
        if not resets:
            return events
        streams = {event.stream_id for event in resets}
        return resets + [event for event in events if getattr(event, "stream_id", None) not in streams]

    def _begin_stream(self, event: Any) -> None:
        stream = event.stream_id
        if self._last_stream is not None and stream > self._last_stream:
            self.conn.reset_stream(stream, ErrorCodes.REFUSED_STREAM)  # the client may send it elsewhere
            return
        self._requestReceived(event)
        self._idle_since = 0.0
        begun = self.streams[stream]
        path = begun.path
        if path is None or not _PLAIN_PATH(path):
            found = None if path is None else origin_form(begun.command, path)
            if found is None:
                begun._respondToBadRequestAndDisconnect()
                return
            begun.path = found[0]
        if event.stream_ended is None:
            self._bodies[stream] = self.owner.now

    def _receive_body(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.receiveDataChunk(event.data, event.flow_controlled_length)
        else:  # answered already: the window of the connection must not shrink
            self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def _end_body(self, event: Any) -> None:
        self._bodies.pop(event.stream_id, None)
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.requestComplete()

    def _reset_by_client(self, event: Any) -> None:
        self._forget(event.stream_id, f"the client reset the stream with code {event.error_code}")
        self._count_idle(event)

    def _count_idle(self, event: Any) -> None:
        """Many frames in a short time that ask for nothing are an attack (CVE-2023-44487, CVE-2019-9512, CVE-2019-9515)."""
        now = self.owner.runner.reactor.seconds()
        allowed = self._idle_frames + max(0.0, now - self._idle_frame_at) * _IDLE_FRAMES_PER_SECOND
        self._idle_frames = min(_IDLE_FRAMES, allowed) - 1
        self._idle_frame_at = now
        if self._idle_frames < 0:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM, "flood", f"too many frames like {type(event).__name__}")

    def _client_leaves(self, event: Any) -> None:
        """After a GOAWAY h2 sends no more answers."""
        assert self.transport is not None
        self.transport.loseConnection()
        self.connectionLost(Failure(ConnectionLost("the client sent GOAWAY")))

    def _end(self, code: ErrorCodes | None, reason: str = "", error: object = "") -> None:
        """Ends the connection, for what its client has done or not done; without a code h2 has said why already."""
        now = self.owner.now
        if reason:
            self.owner.errors.add(reason, self.getPeer(), error, now)
        if code is not None:
            self.conn.close_connection(code)
        self._abort_at = now + LEAVE_TIMEOUT
        if self._tryToWriteControlData():
            assert self.transport is not None
            self.transport.loseConnection()
            self.connectionLost(Failure(ConnectionLost(str(error))))

    def _forget(self, stream_id: int, why: str) -> None:
        stream = self.streams.get(stream_id)
        if stream is not None:
            stream.connectionLost(Failure(ConnectionLost(why)))
            self._requestDone(stream_id)

    def reset(self, stream_id: int, code: int = ErrorCodes.INTERNAL_ERROR) -> None:
        """Ends a stream in the middle of its answer."""
        if stream_id not in self.streams:
            return
        try:
            self.conn.reset_stream(stream_id, code)
        except ProtocolError:
            pass  # the client was faster
        if self._tryToWriteControlData():
            self._forget(stream_id, "the stream was reset")

    # -- sending

    def pauseProducing(self) -> None:
        self._blocked_since = self.owner.now
        super().pauseProducing()

    def resumeProducing(self) -> None:
        self._blocked_since = 0.0
        super().resumeProducing()

    def _tryToWriteControlData(self) -> bool:
        """As the base class does it, but one that takes no answers is counted and not logged."""
        data = self.conn.data_to_send()
        if not data:
            return True
        assert self.transport is not None
        if self._consumerBlocked is None and not self._bufferedControlFrames:
            self.transport.write(data)
            return True
        self._bufferedControlFrames.append(data)
        self._bufferedControlFrameBytes += len(data)
        if self._bufferedControlFrameBytes < _CONTROL_BYTES:
            return True
        self.owner.errors.add("flood", self.getPeer(), "answers to control frames are not taken", self.owner.now)
        self.transport.abortConnection()  # type: ignore[attr-defined]
        self.connectionLost(Failure(ConnectionLost("answers to control frames were not taken")))
        return False

    # -- ending

    def sweep(self, now: float) -> None:
        """Ends what its client has taken too long for."""
        if self.transport is None:
            return
        if self._abort_at or (self._blocked_since and now - self._blocked_since >= PEER_TIMEOUT):
            if now >= self._abort_at:
                self.owner.watched.discard(self)
                self.transport.abortConnection()  # type: ignore[attr-defined]
            return
        if self._head_since and now - self._head_since >= HEAD_TIMEOUT:
            self._end(ErrorCodes.PROTOCOL_ERROR, "timeout", "a header block did not end")
            return
        if self._idle_since and now - self._idle_since >= IDLE_TIMEOUT:
            self._end(ErrorCodes.NO_ERROR)
            return
        for stream in [stream for stream, since in self._bodies.items() if now - since >= BODY_TIMEOUT]:
            self.owner.errors.add("timeout", self.getPeer(), "a body did not come", now)
            self.reset(stream, ErrorCodes.CANCEL)

    @property
    def quiet_since(self) -> float:
        """Reactor seconds; streams that run may get their answers before GOAWAY, as some clients give them up at that."""
        return self._idle_since or float("inf")

    def go_away(self) -> None:
        """Tells the client to open a new connection for what comes next; streams that run go on."""
        if self._last_stream is not None or self.transport is None:
            return
        self._last_stream = self.conn.highest_inbound_stream_id
        frame = GoAwayFrame(0)
        frame.last_stream_id = self._last_stream
        self.transport.write(frame.serialize())
        if not self.streams:
            self.transport.loseConnection()

    close_when_idle = go_away

    def _requestDone(self, streamID: int) -> None:
        super()._requestDone(streamID)
        self._bodies.pop(streamID, None)
        if not self.streams:
            self._idle_since = self.owner.now
        if self.leave_soon:
            self.go_away()
        if self._last_stream is not None and not self.streams and self.transport is not None:
            self.transport.loseConnection()


#: by the type of the event; priorities are not listened to, as RFC 9113 has given them up
_HANDLERS: dict[type, Any] = {
    h2_events.RequestReceived: Http2._begin_stream,
    h2_events.DataReceived: Http2._receive_body,
    h2_events.StreamEnded: Http2._end_body,
    h2_events.StreamReset: Http2._reset_by_client,
    h2_events.WindowUpdated: Http2._open_window,
    h2_events.ConnectionTerminated: Http2._client_leaves,
    h2_events.PingReceived: Http2._count_idle,
    h2_events.PingAckReceived: Http2._count_idle,
    h2_events.RemoteSettingsChanged: Http2._change_settings,
    h2_events.SettingsAcknowledged: Http2._count_idle,
    h2_events.UnknownFrameReceived: Http2._count_idle,
}
