"""A connection that speaks HTTP/1.1, and the parsing of its heads and bodies (upstream: Go's ``net/http``, ``request.go``,
``transfer.go``).

llhttp parses header fields and trailers.  It is stricter than Go: it refuses lines without CR, and a Content-Length beside a
Transfer-Encoding.  The request line is parsed here, since Go takes any token as a method and llhttp only those that it knows.
Bodies are framed here too: httptools does not tell where a message ends, and behind its end are other requests, or the first
bytes of an upgraded connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from twisted.internet import protocol
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IAddress, IPullProducer, IPushProducer, ISSLTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.process.shares import Flow
from kapi.process.turn import Turn
from kapi.request.departure import has_left
from kapi.request.headers import MAX_HEADERS
from kapi.request.pending import MIN_COUNTED_BYTES, REFUSAL, PendingBytes
from kapi.request.target import is_host, origin_form
from kapi.request.transport import StreamTransport, close_when_sent
from kapi.serving.connections import (
    BODY_TIMEOUT,
    CLOSE_TIMEOUT,
    HEAD_TIMEOUT,
    IDLE_TIMEOUT,
    MAX_EARLY_BYTES,
    MAX_HEADER_BYTES,
)
from kapi.serving.request import APIRequest, RequestHeaders

if TYPE_CHECKING:
    from kapi.serving.connections import ConnectionOwner

log = Logger()


class PulledTransport(Protocol):
    """The transport (TLSConnection); ``flow`` is that of its last request."""

    flow: Flow

    def abortConnection(self) -> None: ...


@implementer(IPushProducer)
class Pull:
    """Asks ``producer`` for the next part of a long answer when the client has read the parts before it.

    Twisted's channel would use a cooperator: a delayed call for every answer, and thirty function calls for every part.  Here an
    answer sends parts until its turn is over, which is enough for most pages of a list; the other parts wait for the next turn
    of its flow.  To the channel this is a push producer.
    """

    __slots__ = ("_paused", "_producer", "_transport", "_turn", "_waits")

    def __init__(self, producer: IPullProducer, transport: PulledTransport, turn: Turn) -> None:
        self._producer: IPullProducer | None = producer
        self._transport = transport
        self._turn = turn
        self._paused = False
        self._waits = False  # it waits for its turn

    @property
    def _wants(self) -> bool:
        """Whether the client can receive more."""
        return self._producer is not None and not self._paused

    def _send(self) -> None:
        """Sends parts until the client can receive no more, or the turn is over."""
        self._waits = False
        while self._wants:
            self._ask()
            if self._turn.over():
                break
        if self._wants:
            self._waits = True
            self._turn.wait(self._send, self._transport.flow)

    def _ask(self) -> None:
        """Has the producer write a part."""
        try:
            assert self._producer is not None
            self._producer.resumeProducing()
        except Exception:
            log.failure("an answer was broken off by a fault of the server's")
            self.forget()
            self._transport.abortConnection()

    def forget(self) -> None:
        """Called when there are no more parts, or when they are not needed."""
        self._producer = None

    # -- for the channel

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        if not self._waits and self._producer is not None:
            self._waits = True
            self._turn.run(self._send, self._transport.flow)

    def stopProducing(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()


_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"PATCH", b"DELETE"})
_IS_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z").match
_PLAIN_TARGET = re.compile(rb"/[!-~]*\Z").match
_VERSION = re.compile(rb"HTTP/([0-9])\.([0-9])\Z").match
#: the size of a chunk, without more digits than Go takes, and its extension
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*|;[\t -~\x80-\xff]*)\Z").match
_MAX_LENGTH = (1 << 63) - 1  # of a body or a chunk, in bytes
_MAX_CHUNK_LINE_BYTES = 4096
_MAX_CACHED_SECTION_BYTES = 1024  # the meaning of a longer header section is not cached
_MAX_TRAILER_BYTES = 4096
_MAX_EXCESS_BYTES = 16 * 1024  # bytes of a chunked body that are not data, beyond those that short chunks need
#: method, target in origin form, version
Line = tuple[bytes, bytes, bytes]
#: what llhttp reads before the fields that it is given
_ANY_LINE = b"POST / HTTP/1.1\r\n"


class Refused(Exception):
    """A request that ends its connection; ``status`` and ``text`` are Go's."""

    def __init__(self, status: bytes, text: bytes = b"") -> None:
        super().__init__(status.decode())
        self.status = status
        self.text = text or status


def bad_request(why: bytes = b"") -> Refused:
    """400; as in Go's server, ``why`` is a part of the status line as well."""
    return Refused(b"400 Bad Request: " + why if why else b"400 Bad Request")


TOO_LARGE = b"431 Request Header Fields Too Large"


class Section:
    """What the fields of a head mean.  It is shared by requests with the same bytes: never change it.

    ``fields`` are the values by canonical name; ``length`` is that of the body in bytes, None for a chunked one.
    """

    __slots__ = ("fields", "length", "closes", "keeps_alive", "continues", "expects_more")

    def __init__(self, fields: dict[bytes, list[bytes]]) -> None:
        self.fields = fields
        self.length = _length(fields)
        self.closes = self.keeps_alive = self.continues = self.expects_more = False
        if b"Connection" in fields:
            self.closes = _has(fields[b"Connection"], b"close")
            self.keeps_alive = _has(fields[b"Connection"], b"keep-alive") and not self.closes  # counts for HTTP/1.0
        if b"Expect" in fields:
            expected = fields[b"Expect"][:1]
            self.continues = _has(expected, b"100-continue")  # the client waits for a 100 before it sends the body
            self.expects_more = any(expected) and not self.continues


def request_line(text: bytes) -> tuple[Line, bytes]:
    """(the line, the host in its target or b"").  Raises Refused."""
    parts = text.split(b" ")
    if len(parts) != 3:
        raise bad_request()
    method, target, version = parts
    if method not in _METHODS and not _IS_TOKEN(method):
        raise bad_request()
    if version != b"HTTP/1.1":
        version = _version(version)
    host = b""
    if not _PLAIN_TARGET(target):
        form = origin_form(method, target)
        if form is None:
            raise bad_request()
        target, host = form
    return (method, target, version), host


def _version(text: bytes) -> bytes:
    found = _VERSION(text)
    if found is None:
        raise bad_request()
    if found[1] != b"1":
        raise Refused(b"505 HTTP Version Not Supported: unsupported protocol version")
    return b"HTTP/1.0" if found[2] == b"0" else b"HTTP/1.1"


class _Fields(RequestHeaders):
    """Collects the fields that llhttp finds."""

    __slots__ = ()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.add(((name, value.rstrip(b" \t")),))


def parse_fields(section: bytes) -> dict[bytes, list[bytes]]:
    """The fields of a section that ends with an empty line.  Raises Refused."""
    if section.count(b"\n") > MAX_HEADERS:
        raise Refused(TOO_LARGE)
    found = _Fields()
    try:
        HttpRequestParser(found).feed_data(_ANY_LINE + section)
    except HttpParserUpgrade:
        pass  # the request line decides about upgrades
    except HttpParserError as error:
        raise _refusal(str(error)) from None
    return found.fields


def _refusal(text: str) -> Refused:
    """The refusal for an error of llhttp, which is known by its text only."""
    if "Transfer-Encoding" in text and "Content-Length" not in text:
        return _unsupported_coding()
    return bad_request(b"invalid header value" if "header value char" in text else b"")


def _unsupported_coding() -> Refused:
    return Refused(b"501 Not Implemented", b"Unsupported transfer encoding")


def _section(text: bytes) -> Section:
    section = Section(parse_fields(text) if text != b"\r\n" else {})
    hosts = section.fields.get(b"Host", ())
    if len(hosts) > 1:
        raise bad_request()  # a proxy and the server may each use a different one
    if hosts and not is_host(hosts[0]):
        raise bad_request(b"malformed Host header")
    return section


#: clients repeat their header sections
_known_section = lru_cache(512)(_section)


def read_head(head: bytes) -> tuple[Line, dict[bytes, list[bytes]], Section]:
    """The request line, the fields, and what they mean, of a head that ends with an empty line.  Raises Refused."""
    begin, _, text = head.partition(b"\r\n")
    line, host = request_line(begin)
    section = _known_section(text) if len(text) <= _MAX_CACHED_SECTION_BYTES else _section(text)
    fields = section.fields.copy()
    if line[2] == b"HTTP/1.0":
        if section.length is None:
            raise bad_request()
    elif b"Host" not in fields:
        raise bad_request(b"missing required Host header")
    if section.expects_more:
        raise Refused(b"417 Expectation Failed")
    if host:
        fields[b"Host"] = [host]
    return line, fields, section


def _has(values: Sequence[bytes], token: bytes) -> bool:
    """Whether one of comma-separated values is this word, in any case."""
    return any(token == part.strip(b" \t") for value in values for part in value.lower().split(b","))


def _length(fields: dict[bytes, list[bytes]]) -> int | None:
    """The length of the body; llhttp has checked that no field contradicts another one.  Raises Refused."""
    coding = fields.get(b"Transfer-Encoding")
    if coding is not None:
        if coding[0].lower() != b"chunked":
            raise _unsupported_coding()
        return None
    given = fields.get(b"Content-Length")
    if given is None:
        return 0
    length = int(given[0].lstrip(b"0") or b"0")  # llhttp takes no more than 2**64, but any number of zeros
    if length > _MAX_LENGTH:
        raise bad_request()
    return length


class SizedBody:
    """A body of ``size`` bytes, which go to ``take``."""

    __slots__ = ("_left", "_take")

    def __init__(self, size: int, take: Callable[[bytes], None]) -> None:
        self._left = size
        self._take = take

    def receive(self, data: bytes) -> bytes | None:
        """Returns the bytes after the body; None while it is not complete."""
        left = self._left
        if len(data) < left:
            self._left -= len(data)
            self._take(data)
            return None
        self._left = 0
        self._take(data[:left])
        return data[left:]


class ChunkedBody:
    """A chunked body (RFC 9112, section 7.1), whose data go to ``take``.  Trailers are checked and dropped."""

    __slots__ = ("_take", "_rest", "_left", "_ends", "_excess", "_trailers")

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._rest = b""  # the beginning of a line that is not complete
        self._left = 0  # bytes of the current chunk
        self._ends = False  # CRLF follows: the end of a chunk
        self._excess = 0  # see _MAX_EXCESS_BYTES
        self._trailers: bytes | None = None  # None before the last chunk

    def receive(self, data: bytes) -> bytes | None:
        """Returns the bytes after the body; None while it is not complete.  Raises Refused."""
        data, self._rest = self._rest + data, b""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                self._ends = not self._left
                self._take(part)
                continue
            stop = data.find(b"\r\n", at)
            if stop != at and self._ends and data[at:] != b"\r":
                raise bad_request()
            if stop < 0:
                self._rest = data[at:]
                if end - at > _MAX_CHUNK_LINE_BYTES:
                    raise bad_request()
                break
            line, at = data[at:stop], stop + 2
            if self._ends:
                self._ends = False
            elif self._trailers is None:
                self._begin_chunk(line)
            elif line:
                self._trailers += line + b"\r\n"
                if len(self._trailers) > _MAX_TRAILER_BYTES:
                    raise bad_request()
            else:
                if self._trailers:
                    parse_fields(self._trailers + b"\r\n")
                return data[at:]
        return None

    def _begin_chunk(self, line: bytes) -> None:
        found = _CHUNK(line)
        size = int(found[1], 16) if found is not None and len(line) <= _MAX_CHUNK_LINE_BYTES else _MAX_LENGTH + 1
        self._excess = max(0, self._excess + len(line) + 2 - 16 - 2 * size)
        if size > _MAX_LENGTH or self._excess > _MAX_EXCESS_BYTES:
            raise bad_request()
        self._left = size
        if not size:
            self._trailers = b""


#: in the words of Go's server
_REFUSAL_FORMAT = (
    b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_MUCH_PENDING = b"429 Too Many Requests"
_TIMEOUT = b"408 Request Timeout"


@implementer(IPushProducer)
class Channel(protocol.Protocol):
    """One request at a time, with a deadline for each part of it and none for its answer.

    A connection only records when it began to wait; one periodic sweep checks all connections.
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
    _persists: bool  # ``persistent`` as it was before the current request began without its whole body
    _early: bytes | bytearray = b""  # the beginning of a head, or the bytes after the current request
    _early_bytes: PendingBytes | None = None  # counts a large head that is not complete
    _line_checked = False  # the request line of an incomplete head is valid
    _deaf = False  # all further bytes are dropped
    _since = 0.0  # reactor seconds; 0 while a request is being answered
    _max_wait = IDLE_TIMEOUT
    _abort_at = 0.0  # reactor seconds; 0 while the server has not ended the connection
    _unwatched = False  # not swept until the current request is answered
    _peer: IAddress | None = None
    _producer: IPushProducer | None = None  # of the current answer
    _blocked = False  # the transport's buffer is full
    _body_held = False  # nothing is read until the waiting bytes of the body are consumed
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
        """Parses requests until one waits for its answer, or for more bytes."""
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

    def _keep(self, data: bytes) -> None:
        """Keeps the bytes after a request until it is answered."""
        self._early = self._early + data if self._early else data
        self._pause_or_resume()

    def _receive_early(self) -> None:
        early, self._early = bytes(self._early), b""
        if early:
            self._receive(early)
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Stops or resumes reading.  A few bytes are read while a request is answered, to notice that the client disconnects."""
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
        """Has the connection swept again: while it is not read, only the sweep notices that its client has disconnected."""
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
                data = data.lstrip(b"\r\n")  # some clients send an empty line after a body
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._wait_for_head(bytearray(data), 0)
                return b""
        end += 4
        if end > MAX_HEADER_BYTES:
            raise Refused(TOO_LARGE)
        return self._begin(data[:end], data[end:])

    def _wait_for_head(self, early: bytearray, known: int) -> None:
        """Keeps the beginning of a head; its first ``known`` bytes were received before.  Raises Refused."""
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
        """Drops a head that made no progress for long, and closes the connection."""
        self._forget_early()
        self.transport.abortConnection()

    def _begin(self, head: bytes, rest: bytes) -> bytes:
        """Begins the request with this head; ``rest`` came with it.  Returns the bytes after the request.  Raises Refused."""
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
        # most bodies come with their heads
        if length == 0 or (length is not None and length <= len(rest) and not section.continues):
            if length:
                request.handleContentChunk(rest[:length])
            self._complete()
            return rest[length:]
        take = request.handleContentChunk
        self._body = ChunkedBody(take) if length is None else SizedBody(length, take)
        self._since, self._max_wait = self.owner.now, BODY_TIMEOUT
        if section.continues and self._line[2] == b"HTTP/1.1":
            self.transport.write(_CONTINUE)
        if request.runner.streams_body(self._line[1]) and b"Upgrade" not in fields:
            request.stream_soon(*self._line, length)
        return rest

    def _complete(self) -> None:
        """The whole request has come."""
        request = self.request
        assert request is not None
        self._body, self._since = None, 0.0
        if request.streamed is not None and not request.startedWriting:
            self.persistent = self._persists
            if self.persistent:
                request.responseHeaders.removeHeader(b"connection")
        if self.owner.closing:
            self._close_after(request)
        request.requestReceived(*self._line)

    def _close_after(self, request: APIRequest) -> None:
        self.persistent = False
        request.responseHeaders.setRawHeaders(b"connection", [b"close"])

    # -- a body that is forwarded while it is received

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
        pull = Pull(cast(IPullProducer, producer), transport, self.owner.runner.turn)
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
                self._body = None  # the connection ends, since ``stream_body`` has said so
                self._abort_at = self.owner.now + CLOSE_TIMEOUT
            request.end_streaming()
        if self._unwatched:
            self._watch()
        if not self.persistent:
            self.loseConnection()
        elif self._early or self._paused:
            self._receive_early()

    def unread(self) -> bytes:
        """Returns the bytes after the current request, once, for a handler that takes over the connection."""
        early, self._early = bytes(self._early), b""
        return early

    # -- flow control of answers, for the transport

    def pauseProducing(self) -> None:
        """The transport calls this after every write while its buffer is full."""
        self._blocked = True
        if self._producer is not None:
            self._producer.pauseProducing()

    def resumeProducing(self) -> None:
        """The client can receive more of an answer."""
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

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self._deaf, self._body = True, None
        self._forget_early()
        request, self.request = self.request, None
        if request is not None:
            request.connectionLost(reason)

    def sweep(self, now: float) -> None:
        """Ends the connection when its client is too slow."""
        if self._abort_at:
            if now >= self._abort_at:
                self.owner.watched.discard(self)
                self.transport.abortConnection()
            return
        if not self._since:
            if self._early or self._body_held:  # then it may be paused
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
        """The begin of idleness in reactor seconds; minus infinity during a request, whose answer can announce the end."""
        return float("-inf") if self.request is not None or self._early else self._since

    def close_when_idle(self) -> None:
        """Ends the connection after the current answer, which announces it unless it has begun."""
        if self.request is None and not self._early:
            self.loseConnection()
        elif self.request is not None and self._body is None:
            self._close_after(self.request)
