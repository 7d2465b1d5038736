"""A connection that speaks HTTP/1.1 (upstream: Go's ``net/http`` server).

Only this module and ``request`` use private names of ``twisted.web.http``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from twisted.internet.interfaces import IAddress, IPullProducer, IPushProducer
from twisted.protocols import basic
from twisted.python.failure import Failure
from twisted.web import http

from kapi.request.departure import has_left
from kapi.request.target import origin_form
from kapi.request.transport import StreamTransport
from kapi.server.limits import (
    BODY_TIMEOUT,
    CLOSE_TIMEOUT,
    HEAD_TIMEOUT,
    IDLE_TIMEOUT,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_LINE_BYTES,
)
from kapi.server.pulling import Pull, PulledTransport
from kapi.server.request import APIRequest
from kapi.server.request_headers import RequestHeaders

if TYPE_CHECKING:
    from kapi.server.connection_owner import ConnectionOwner

_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"PATCH", b"DELETE"})
_LENGTH = frozenset({b"content-length", b"Content-Length", b"CONTENT-LENGTH"})
#: all except tab, CR and LF
_CONTROLS = bytes({*range(32), 127} - set(b"\t\r\n"))
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search
#: in the words of Go's server
_REFUSAL_FORMAT = (
    b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
)
_BAD = (b"400 Bad Request", b"400 Bad Request")
_NO_HOST = (b"400 Bad Request", b"400 Bad Request: missing required Host header")
_UNSUPPORTED_CODING = (b"501 Not Implemented", b"Unsupported transfer encoding")
_TOO_LARGE = (b"431 Request Header Fields Too Large", b"431 Request Header Fields Too Large")
_TIMEOUT = (b"408 Request Timeout", b"")
_MAX_PLAIN_DIGITS = 9  # of a length that the fast way takes
_MAX_CACHED_SECTIONS = 4  # header sections that a connection remembers
_MAX_CACHED_SECTION_BYTES = 1024  # a longer one is not remembered
#: headers that change how the request is read: such a request is read line by line
_SPECIAL = frozenset(
    variant
    for name in (b"transfer-encoding", b"connection", b"expect", b"upgrade")
    for variant in (name, name.title(), name.upper())
)
_NAME = re.compile(
    rb"(?!(?i:content-length|transfer-encoding|connection|expect|upgrade)\Z)[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
).match


def within_int64(digits: bytes) -> bool:
    """Whether a length fits into an int64."""
    return len(digits) < 19 or (len(digits) < 4000 and int(digits) < 1 << 63)


#: the header lines, the length of the body, and the values by canonical name (shared: never change them)
_Section = tuple[bytes, int, dict[bytes, list[bytes]]]
_NONE: dict[int, _Section | None] = {}  # never changed


def _read(text: bytes) -> _Section | None:
    """Parses header lines; None for anything unusual."""
    lines = text.split(b"\r\n") if text else []
    ends = len(lines) - 1 if lines else 0
    if (
        len(lines) >= MAX_HEADERS
        or text.translate(None, _CONTROLS) != text
        or text.count(b"\r") != ends
        or text.count(b"\n") != ends
    ):
        return None
    length: int | None = None
    headers = []
    for line in lines:
        name, mark, value = line.partition(b":")
        value = value.strip(b" \t")
        if name in _LENGTH:
            if length is not None or not value.isdigit() or len(value) > _MAX_PLAIN_DIGITS:
                return None
            length = int(value)
        elif not mark or name in _SPECIAL or not _NAME(name):
            return None
        headers.append((name, value))
    fields = RequestHeaders()
    fields.add(headers)
    if len(fields.fields.get(b"Host", ())) != 1:
        return None
    return text, length or 0, fields.fields


class Channel(http.HTTPChannel):
    """HTTP/1.1, with a deadline for each part of a request and none for its answer.

    Twisted's channel starts and cancels a timer several times in each request.  Here a connection only notes since when it waits,
    and one periodic sweep checks all connections.
    """

    transport: StreamTransport

    MAX_LENGTH = MAX_LINE_BYTES
    totalHeadersSize = MAX_HEADER_BYTES
    maxHeaders = MAX_HEADERS
    requestFactory: type[APIRequest]
    owner: ConnectionOwner
    leave_soon = False  # only used by HTTP/2
    single_write = True  # see APIRequest.write
    _since = 0.0  # reactor seconds; 0 while a request is being answered
    _abort_at = 0.0  # reactor seconds; 0 while the server has not ended the connection
    _max_wait = IDLE_TIMEOUT
    _peer: IAddress | None = None
    _host = b""  # the host in the request's target
    _has_host = False  # there was a Host header
    _unwatched = False  # not swept until the current request is answered
    _line: tuple[bytes, bytes, bytes] | None = None  # of the request whose header is being read
    _persists: bool | int = True  # ``persistent`` as it was before the current request began without its whole body
    _pull: Pull | None = None  # asks for the parts of the current answer
    _body_held = False  # nothing is read until the waiting bytes of the body are taken
    #: by their hashes, the header sections that have come before; parsed from the second time on
    _sections: dict[int, _Section | None] = _NONE

    def connectionMade(self) -> None:
        self.timeOut = None
        self._since = self.owner.now
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        if self._abort_at:
            return  # after a refusal everything is dropped
        if not self._handlingRequest:
            if self._max_wait == IDLE_TIMEOUT:
                self._since, self._max_wait = self.owner.now, HEAD_TIMEOUT
            if not self._buffer and self.line_mode and not self.requests and self._whole_request(data):
                return
        # HTTPChannel's own method would restart its timer first
        basic.LineReceiver.dataReceived(self, data)

    def _whole_request(self, data: bytes) -> bool:
        """Handles a request that came in one piece.  Returns False for all others, also bad ones: they are read line by line."""
        head, mark, body = data.partition(b"\r\n\r\n")
        line, _, section = head.partition(b"\r\n")
        parts = line.split(b" ")
        if (
            not mark
            or len(parts) != 3
            or parts[0] not in _METHODS
            or parts[2] != b"HTTP/1.1"
            or not self.persistent
            or len(data) > MAX_LINE_BYTES
            or not parts[1].startswith(b"/")
            or not parts[1].isascii()
            or _CONTROL(line)
        ):
            return False
        found = self._section(section)
        if found is None or len(data) != len(head) + 4 + found[1]:
            return False  # unusual headers; or more is to come, or another request follows
        request = self.requestFactory(self, False)
        request.requestHeaders.fields = found[2].copy()  # type: ignore[attr-defined]
        self.requests.append(request)
        request.gotLength(len(body))
        if body:
            request.handleContentChunk(body)
        self._since = 0.0
        self._begin(request)
        self._handlingRequest = True
        self.setRawMode()
        request.requestReceived(parts[0], parts[1], parts[2])
        return True

    def _section(self, text: bytes) -> _Section | None:
        """The parsed header section; None for one that must be read line by line.

        Clients repeat their headers, so a few short sections that have come twice are remembered.
        """
        key, known = hash(text), self._sections
        found = known.get(key)
        if found is not None and found[0] == text:
            return found
        found = _read(text)
        if found is not None and len(text) <= _MAX_CACHED_SECTION_BYTES:
            if key in known:
                known[key] = found
            elif len(known) < _MAX_CACHED_SECTIONS:
                self._sections = {**known, key: None}
            else:
                self._sections = {key: None}
        return found

    def _begin(self, request: APIRequest) -> None:
        if self.owner.closing:
            self.persistent = False
            request.responseHeaders.setRawHeaders(b"connection", [b"close"])

    # -- line by line

    def lineReceived(self, line: bytes) -> None:
        """Refuses what the base class would accept: control characters, folded lines, invalid targets."""
        if _CONTROL(line) or line.startswith((b" ", b"\t")):
            self._refuse(_BAD)
            return
        if line and not self.requests:
            method, _, rest = line.partition(b" ")
            target, mark, version = rest.rpartition(b" ")
            found = origin_form(method, target)
            if found is None or not mark:
                self._refuse(_BAD)
                return
            target, self._host = found
            self._line = method, target, version
            self._has_host = False
            line = b"%s %s %s" % (method, target, version)
        elif line[:5].lower() == b"host:":
            self._has_host = True
        elif not line and self.requests and not self._has_host and self._version == b"HTTP/1.1":
            self._refuse(_NO_HOST)
            return
        super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:
        super().rawDataReceived(data)
        if self._unwatched and self._dataBuffer:
            self._watch()

    def _watch(self) -> None:
        """Has the connection swept again: while it is not read nobody is told when its client goes."""
        self._unwatched = False
        self.owner.watched.add(self)

    def _maybeChooseTransferDecoder(self, header: bytes, data: bytes) -> bool:
        if header == b"Transfer-Encoding":
            if self._version != b"HTTP/1.1":
                return self._refuse(_BAD)
            if data.lower() != b"chunked" or self.requests[-1].requestHeaders.hasHeader(header):
                return self._refuse(_UNSUPPORTED_CODING)
        elif header == b"Host" and self.requests[-1].requestHeaders.hasHeader(header):
            return self._refuse(_BAD)  # proxies and servers may each believe another one
        elif header == b"Content-Length" and data.isdigit() and not within_int64(data):
            return self._refuse(_BAD)
        return bool(super()._maybeChooseTransferDecoder(header, data))

    def _respondToBadRequestAndDisconnect(self) -> None:
        self._refuse(_BAD)

    def _refuse(self, answer: tuple[bytes, bytes], reason: str = "request") -> bool:
        """Answers and ends the connection; returns False."""
        streamed = self.requests[-1].streamed if self.requests else None
        if streamed is not None and not self._abort_at:
            # its answer may have begun, so no other can be sent
            self._abort_at = self.owner.now + CLOSE_TIMEOUT
            streamed.fail(Failure(ValueError("the body is malformed")))
        if not self._abort_at:
            status, text = answer
            self.transport.write(_REFUSAL_FORMAT % (status, len(text), text))
            self._abort_at = self.owner.now + CLOSE_TIMEOUT
            self.owner.errors.add(reason, self.getPeer(), status.decode(), self.owner.now)
            self.loseConnection()
        return False

    def allHeadersReceived(self) -> None:
        if self._host:
            self.requests[-1].requestHeaders.setRawHeaders(b"host", [self._host])
        self._since, self._max_wait = self.owner.now, BODY_TIMEOUT
        super().allHeadersReceived()
        request, line, length = self.requests[-1], self._line, self.length
        if (
            line is not None
            and length != 0
            and request.runner.streams_body(line[1])
            and not request.getHeader("upgrade")
        ):
            request.stream_soon(*line, length)

    def allContentReceived(self) -> None:
        self._since = 0.0
        request = self.requests[-1]
        if request.streamed is not None and not request.startedWriting:
            self.persistent = self._persists
            request.responseHeaders.removeHeader(b"connection")
        self._begin(request)
        super().allContentReceived()

    def stream_body(self, request: APIRequest, size: int) -> None:
        """A request begins before its whole body has come.  If it is answered before that, the connection ends."""
        self._since = 0.0
        self._persists, self.persistent = self.persistent, False
        request.responseHeaders.setRawHeaders(b"connection", [b"close"])

    def hold_body(self, held: bool) -> None:
        """Stops or resumes reading: nothing is read while bytes of the body wait."""
        transport: StreamTransport | None = self.transport
        if held == self._body_held or transport is None:
            return
        self._body_held = held
        if held:
            transport.pauseProducing()
            self._watch()
        else:
            transport.resumeProducing()

    def body_taken(self, size: int) -> None:
        """Nothing to do: ``hold_body`` stops reading while bytes wait."""

    def registerProducer(self, producer: IPushProducer | IPullProducer, streaming: bool) -> None:
        if streaming:
            super().registerProducer(producer, True)
            return
        transport = cast(PulledTransport, self.transport)
        pull = self._pull = Pull(cast(IPullProducer, producer), transport, self.owner.runner.pulls)
        super().registerProducer(pull, True)
        pull.resumeProducing()

    def unregisterProducer(self) -> None:
        super().unregisterProducer()
        if self._pull is not None:
            self._pull.forget()
            self._pull = None

    def resumeProducing(self) -> None:
        """The client takes more of an answer."""
        super().resumeProducing()
        transport: StreamTransport | None = self.transport
        if self._body_held and transport is not None:
            transport.pauseProducing()

    def requestDone(self, request: APIRequest) -> None:
        self._since, self._max_wait = self.owner.now, IDLE_TIMEOUT
        if request.streamed is not None:
            if not request.streamed.complete:
                self._abort_at = self.owner.now + CLOSE_TIMEOUT
            request.end_streaming()
        if self._unwatched:
            self._watch()
        super().requestDone(request)

    def unread(self) -> bytes:
        """The bytes after the current request, for a handler that takes over the connection; returned only once."""
        data = b"".join(self._dataBuffer)
        self._dataBuffer.clear()
        return data

    def getPeer(self) -> IAddress:
        """The client's address, read from the socket once."""
        if self._peer is None:
            self._peer = super().getPeer()
        return self._peer

    def sweep(self, now: float) -> None:
        """Ends the connection when its client has taken too long."""
        if self._abort_at:
            if now >= self._abort_at and self.transport is not None:
                self.owner.watched.discard(self)
                self.transport.abortConnection()
            return
        if not self._since:
            if self._dataBuffer or self._body_held:  # then it may not be read
                if self.transport is not None and has_left(self.transport):
                    self.transport.abortConnection()
                return
            self._unwatched = True
            self.owner.watched.discard(self)
            return
        if now - self._since < self._max_wait or self.transport is None:
            return
        self._since = 0.0
        if self._max_wait != IDLE_TIMEOUT:
            self._refuse(_TIMEOUT, "timeout")
            return
        self._abort_at = now + CLOSE_TIMEOUT
        self.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        self._refuse(_TOO_LARGE)

    @property
    def quiet_since(self) -> float:
        """Reactor seconds; minus infinity while a request is answered, whose answer can announce the end."""
        return float("-inf") if self.requests else self._since

    def close_when_idle(self) -> None:
        """Ends the connection after the current answer, which announces it unless it has begun."""
        if not self.requests:
            self.loseConnection()
        elif self._handlingRequest:
            self.persistent = False
            for request in self.requests:
                request.responseHeaders.setRawHeaders(b"connection", [b"close"])
