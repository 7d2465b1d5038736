"""A connection that speaks HTTP/1.1 (upstream: Go's ``net/http`` server)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IAddress, IPullProducer, IPushProducer, ISSLTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.request.departure import has_left
from kapi.request.pending import MIN_COUNTED_BYTES, REFUSAL, PendingBytes
from kapi.request.transport import StreamTransport, close_when_sent
from kapi.serving.http1_parsing import (
    TOO_LARGE,
    ChunkedBody,
    Line,
    Refused,
    SizedBody,
    bad_request,
    read_head,
    request_line,
)
from kapi.serving.limits import (
    BODY_TIMEOUT,
    CLOSE_TIMEOUT,
    HEAD_TIMEOUT,
    IDLE_TIMEOUT,
    MAX_EARLY_BYTES,
    MAX_HEADER_BYTES,
)
from kapi.serving.pulling import Pull, PulledTransport
from kapi.serving.request import APIRequest

if TYPE_CHECKING:
    from kapi.serving.connection_owner import ConnectionOwner

#: in the words of Go's server
_REFUSAL_FORMAT = (
    b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_MUCH_PENDING = b"429 Too Many Requests"
_TIMEOUT = b"408 Request Timeout"


@implementer(IPushProducer)
class Channel(Protocol):
    """One request at a time, with a deadline for each part of it and none for its answer.

    A connection only notes since when it waits, and one periodic sweep checks all connections.
    """

    transport: StreamTransport

    requestFactory: type[APIRequest]
    owner: ConnectionOwner
    leave_soon = False  # only used by HTTP/2
    single_write = True  # see APIRequest.write
    request: APIRequest | None = None  # the current one, from the end of its head to the end of its answer
    persistent: bool = True  # whether another request may follow the current one
    _line: Line  # of the current request
    _body: SizedBody | ChunkedBody | None = None  # of the current request, while it is not complete
    _persists = True  # ``persistent`` as it was before the current request began without its whole body
    _early: bytes | bytearray = b""  # a head that is not complete, or what came behind the current request
    _early_bytes: PendingBytes | None = None  # counts a large head that is not complete
    _line_checked = False  # of a head that is not complete
    _receiving = False  # in ``_receive``
    _deaf = False  # whatever else comes is dropped
    _since = 0.0  # reactor seconds; 0 while a request is being answered
    _max_wait = IDLE_TIMEOUT
    _abort_at = 0.0  # reactor seconds; 0 while the server has not ended the connection
    _unwatched = False  # not swept until the current request is answered
    _peer: IAddress | None = None
    _producer: IPushProducer | None = None  # of the current answer
    _blocked = False  # the transport's buffer is full
    _body_held = False  # nothing is read until the waiting bytes of the body are taken
    _paused = False  # nothing is read

    def connectionMade(self) -> None:
        self._since = self.owner.now
        self.transport.registerProducer(self, True)

    # -- receiving

    def dataReceived(self, data: bytes) -> None:
        if self._deaf:
            return
        if self.request is not None and self._body is None:
            self._keep(data)
        else:
            self._receive(data)
        if self._unwatched and self._early:
            self._watch()

    def _receive(self, data: bytes) -> None:
        """Reads requests until one waits for its answer, or for more bytes."""
        self._receiving = True
        try:
            while data and not self._deaf:
                if self._body is not None:
                    rest = self._body.receive(data)
                    if rest is None:
                        break
                    data = rest
                    self._complete()
                elif self.request is not None or self._blocked:
                    self._keep(data)
                    break
                else:
                    data = self._read_head(data)
        except Refused as refusal:
            self._refuse(refusal.status, refusal.text)
        finally:
            self._receiving = False

    def _keep(self, data: bytes) -> None:
        """Keeps what comes behind a request until the client has its answer."""
        self._early = self._early + data if self._early else data
        self._pause_or_resume()

    def _receive_early(self) -> None:
        early, self._early = bytes(self._early), b""
        if early:
            self._receive(early)
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Stops or resumes reading.  Of what comes behind a request a little is read, to notice that the client goes."""
        early = len(self._early)
        pause = (
            self._body_held or (early > 0 and self._blocked) or (early > MAX_EARLY_BYTES and self.request is not None)
        )
        if pause != self._paused:
            self._paused = pause
            if pause:
                self.transport.pauseProducing()
            else:
                self.transport.resumeProducing()

    def _watch(self) -> None:
        """Has the connection swept again: while it is not read, nothing else notices that its client goes."""
        self._unwatched = False
        self.owner.watched.add(self)

    # -- heads

    def _read_head(self, data: bytes) -> bytes:
        """Begins a request when its head is complete; returns what follows the head.  Raises Refused."""
        early = self._early
        if early:
            assert isinstance(early, bytearray)
            size = len(early)
            early += data
            end = early.find(b"\r\n\r\n", max(0, size - 3))
            if end < 0:
                self._wait_for_head(early, size)
                return b""
            data = bytes(early)
            self._forget_early()
        else:
            if data[0] in b"\r\n":
                data = data.lstrip(b"\r\n")  # some clients send an empty line behind a body
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._wait_for_head(bytearray(data), 0)
                return b""
        end += 4
        if end > MAX_HEADER_BYTES:
            raise Refused(TOO_LARGE)
        self._begin(data[:end])
        return data[end:]

    def _wait_for_head(self, early: bytearray, known: int) -> None:
        """Keeps the beginning of a head, of which ``known`` bytes had come before.  Raises Refused."""
        size = len(early)
        if not size:
            return
        self._early = early
        if self._max_wait == IDLE_TIMEOUT:
            self._since, self._max_wait = self.owner.now, HEAD_TIMEOUT
        if size > MAX_HEADER_BYTES:
            raise Refused(TOO_LARGE)
        if not self._line_checked and (end := early.find(b"\n", known)) >= 0:
            self._line_checked = True
            line = bytes(early[:end])
            if not line.endswith(b"\r"):
                raise bad_request()
            request_line(line[:-1])
        if size > MIN_COUNTED_BYTES:
            self._count_early(size)

    def _count_early(self, size: int) -> None:
        pending = self.owner.runner.pending
        if self._early_bytes is None:
            self._early_bytes = PendingBytes(pending)
            if pending.full:
                pending.shrink()
            if pending.full:
                pending.refused += 1
                raise Refused(_TOO_MUCH_PENDING, REFUSAL.encode())
        self._early_bytes.set(size)
        pending.progress(self)

    def _forget_early(self) -> None:
        self._early, self._line_checked = b"", False
        if self._early_bytes is not None:
            self._early_bytes = None
            self.owner.runner.pending.leave(self)

    def cut_off(self) -> None:
        """Frees a head that was without progress for long, and closes the connection."""
        self._forget_early()
        self.transport.abortConnection()

    def _begin(self, head: bytes) -> None:
        """Begins the request with this head.  Raises Refused."""
        self._line, fields, section = read_head(head)
        request = self.request = self.requestFactory(self, False)
        request.requestHeaders.fields = fields  # type: ignore[attr-defined]
        self.persistent = section.keeps_alive if self._line[2] == b"HTTP/1.0" else not section.closes
        if not self.persistent:
            self._close_after(request)
        length = section.length
        request.gotLength(length)
        if len(head) > MIN_COUNTED_BYTES:
            request.count_head(len(head), length != 0)
        if length == 0:
            self._complete()
            return
        take = request.handleContentChunk
        self._body = ChunkedBody(take) if length is None else SizedBody(length, take)
        self._since, self._max_wait = self.owner.now, BODY_TIMEOUT
        if section.continues and self._line[2] == b"HTTP/1.1":
            self.transport.write(_CONTINUE)
        if request.runner.streams_body(self._line[1]) and b"Upgrade" not in fields:
            request.stream_soon(*self._line, length)

    def _complete(self) -> None:
        """The whole request has come."""
        request = self.request
        assert request is not None
        self._body, self._since = None, 0.0
        if request.streamed is not None and not request.startedWriting:
            self.persistent = self._persists
            request.responseHeaders.removeHeader(b"connection")
        if self.owner.closing:
            self._close_after(request)
        request.requestReceived(*self._line)

    def _close_after(self, request: APIRequest) -> None:
        self.persistent = False
        request.responseHeaders.setRawHeaders(b"connection", [b"close"])

    # -- a body that is forwarded while it comes

    def stream_body(self, request: APIRequest, size: int) -> None:
        """A request begins before its whole body has come.  If it is answered before that, the connection ends."""
        self._since = 0.0
        self._persists = self.persistent
        self._close_after(request)

    def hold_body(self, held: bool) -> None:
        """Stops or resumes reading: nothing is read while bytes of the body wait."""
        self._body_held = held
        self._pause_or_resume()
        if held and self._unwatched:
            self._watch()

    def body_taken(self, size: int) -> None:
        """Nothing to do: ``hold_body`` stops reading while bytes wait."""

    # -- the answer

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def writeSequence(self, parts: list[bytes]) -> None:
        self.transport.write(b"".join(parts))

    def registerProducer(self, producer: IPushProducer | IPullProducer, streaming: bool) -> None:
        if streaming:
            self._producer = cast(IPushProducer, producer)
            return
        transport = cast(PulledTransport, self.transport)
        pull = Pull(cast(IPullProducer, producer), transport, self.owner.runner.pulls)
        self._producer = cast(IPushProducer, pull)
        pull.resumeProducing()

    def unregisterProducer(self) -> None:
        producer, self._producer = self._producer, None
        if isinstance(producer, Pull):
            producer.forget()

    def requestDone(self, request: APIRequest) -> None:
        self.request = None
        self._since, self._max_wait = self.owner.now, IDLE_TIMEOUT
        if request.streamed is not None:
            if not request.streamed.complete:
                self._body, self._deaf = None, True
                self._abort_at = self.owner.now + CLOSE_TIMEOUT
            request.end_streaming()
        if self._unwatched:
            self._watch()
        if not self.persistent:
            self.loseConnection()
        elif not self._receiving:
            self._receive_early()

    def unread(self) -> bytes:
        """The bytes after the current request, for a handler that takes over the connection; returned only once."""
        early, self._early = bytes(self._early), b""
        return early

    # -- the transport, which is fed with answers

    def pauseProducing(self) -> None:
        """The transport calls this after every write while its buffer is full."""
        self._blocked = True
        if self._producer is not None:
            self._producer.pauseProducing()

    def resumeProducing(self) -> None:
        """The client takes more of an answer."""
        self._blocked = False
        if self._producer is not None:
            self._producer.resumeProducing()
        if self.request is None and self._early:
            self._receive_early()

    def stopProducing(self) -> None:
        if self._producer is not None:
            self._producer.stopProducing()

    def getPeer(self) -> IAddress:
        """The client's address, read from the socket once."""
        if self._peer is None:
            self._peer = self.transport.getPeer()
        return self._peer

    def getHost(self) -> IAddress:
        host: IAddress = self.transport.getHost()
        return host

    def isSecure(self) -> bool:
        return ISSLTransport.providedBy(self.transport)

    # -- ending

    def _refuse(self, status: bytes, text: bytes, reason: str = "request") -> None:
        """Answers and ends the connection."""
        now = self.owner.now
        self._deaf, self._abort_at = True, now + CLOSE_TIMEOUT
        self._forget_early()
        request = self.request
        if request is not None:
            if request.streamed is not None:
                # its answer may have begun, so no other can be sent
                request.streamed.fail(Failure(ValueError("the body is malformed")))
                return
            self.request = self._body = None
            request.connectionLost(Failure(ConnectionAborted("the request was refused")))
        self.transport.write(_REFUSAL_FORMAT % (status, len(text), text))
        self.owner.errors.add(reason, self.getPeer(), status.decode(), now)
        self.loseConnection()

    def loseConnection(self) -> None:
        self._deaf = True
        close_when_sent(self.transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._deaf, self._body = True, None
        self._forget_early()
        request, self.request = self.request, None
        if request is not None:
            request.connectionLost(reason)

    def sweep(self, now: float) -> None:
        """Ends the connection when its client has taken too long."""
        if self._abort_at:
            if now >= self._abort_at:
                self.owner.watched.discard(self)
                self.transport.abortConnection()
            return
        if not self._since:
            if self._early or self._body_held:  # then it may not be read
                if has_left(self.transport):
                    self.transport.abortConnection()
                return
            self._unwatched = True
            self.owner.watched.discard(self)
            return
        if now - self._since < self._max_wait:
            return
        self._since = 0.0
        if self._max_wait != IDLE_TIMEOUT:
            self._refuse(_TIMEOUT, b"", "timeout")
            return
        self._abort_at = now + CLOSE_TIMEOUT
        self.loseConnection()

    @property
    def quiet_since(self) -> float:
        """Reactor seconds; minus infinity while a request is read or answered, whose answer can announce the end."""
        return float("-inf") if self.request is not None or self._early else self._since

    def close_when_idle(self) -> None:
        """Ends the connection after the current answer, which announces it unless it has begun."""
        if self.request is None and not self._early:
            self.loseConnection()
        elif self.request is not None and self._body is None:
            self._close_after(self.request)
