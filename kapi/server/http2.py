"""A connection that speaks HTTP/2 (upstream: ``golang.org/x/net/http2`` server).

What leans on private names of ``twisted.web._http2`` and of h2 stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperframe.frame import GoAwayFrame
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure
from twisted.web._http2 import H2Connection

from kapi.server.limits import BODY_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT

if TYPE_CHECKING:
    from kapi.server.http import Connections


class Http2(H2Connection):
    """HTTP/2, with the deadlines of HTTP/1.1: for a header block, for a body, and for a connection without streams.

    Frames that ask for nothing (PING, SETTINGS) keep no connection alive; a stream that waits for events does.
    """

    owner: Connections
    leave_soon = False  # after the next answer
    _leaving = False
    _idle_since = 0.0  # reactor seconds; 0 while there are streams
    _head_since = 0.0  # reactor seconds; 0 while no header block is half received

    def connectionMade(self) -> None:
        self.conn.local_settings.max_concurrent_streams = self.owner.max_streams
        self.timeOut = None
        self._idle_since = self.owner.now
        #: the streams whose bodies are not complete, with the reactor seconds of their beginning
        self._bodies: dict[int, float] = {}
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if not self.conn.incoming_buffer._headers_buffer:
            self._head_since = 0.0
        elif not self._head_since:
            self._head_since = self.owner.now

    def _requestReceived(self, event: Any) -> None:
        super()._requestReceived(event)
        self._idle_since = 0.0
        if event.stream_ended is None:
            self._bodies[event.stream_id] = self.owner.now

    def _requestEnded(self, event: Any) -> None:
        self._bodies.pop(event.stream_id, None)
        super()._requestEnded(event)

    def sweep(self, now: float) -> None:
        """Ends what its client has taken too long for."""
        if self.transport is None:
            return
        late = self._head_since and now - self._head_since >= HEAD_TIMEOUT
        if late or (self._idle_since and now - self._idle_since >= IDLE_TIMEOUT):
            self.owner.watched.discard(self)
            self.timeoutConnection()
            return
        for stream in [stream for stream, since in self._bodies.items() if now - since >= BODY_TIMEOUT]:
            self.streams[stream].connectionLost(Failure(ConnectionLost("the body did not come")))
            self.abortRequest(stream)

    @property
    def busy(self) -> bool:
        return bool(self.streams)

    def go_away(self) -> None:
        """Tells the client to open a new connection for what comes next; streams that run go on."""
        if self._leaving or self.transport is None:
            return
        self._leaving = True
        frame = GoAwayFrame(0)
        frame.last_stream_id = self.conn.highest_inbound_stream_id
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
        if self._leaving and not self.streams and self.transport is not None:
            self.transport.loseConnection()
