"""The client's side of an HTTP/2 connection: requests at once, each on a stream of its own (RFC 9113, section 8).

Upstream: ``golang.org/x/net/http2`` (Transport), with the health check that apimachinery ``util/net/http.go`` adds.
"""

from __future__ import annotations

import math
import os
from functools import cache, lru_cache, partial
from typing import Protocol

from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from zope.interface import implementer

from kapi.machinery.golang import NumberError, parse_int, quote
from kapi.request.streamed_body import StreamedBody
from kapi.request.transport import StreamTransport, close_when_sent
from kapi.wire.answer import MAX_HEAD, Answer, BadAnswer, content_length
from kapi.wire.connection import Upload
from kapi.wire.head import BadHead, header_line
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import CONNECTION_FIELDS, NO_TABLE, Field, encoded_field
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault
from kapi.wire.http2.receiving import (
    CONNECTION_WINDOW,
    ENDED,
    RESET_BY_PEER,
    RESET_HERE,
    WINDOW,
    Receiving,
    Stream,
    count_unread,
)

log = Logger()
MAX_IDLE_SECONDS = 90.0  # without a request
QUIET_SECONDS = 30  # without a frame, until the server is sent a PING
PING_SECONDS = 15  # until the connection ends without an answer to it
FIRST_STREAMS = 100  # requests at once before the server has said how many it takes
_MOST_STREAMS = 1000  # when it does not say
_LAST_STREAM = wire.MAX_WINDOW_BYTES - 2  # the number of the last stream
_KEPT_LINES, _MAX_KEPT_LINE_BYTES = 500, 500  # encoded headers
#: by which pseudo-headers are longer than the first line and Host, each with 28 bytes; of a Content-Length without its digits
_PSEUDO_BYTES, _LENGTH_BYTES = 86, 46


@cache
def health_seconds() -> tuple[int, int]:
    """QUIET_SECONDS, 0 for no PING, and PING_SECONDS, unless the environment has other numbers."""
    quiet = _from_environment("HTTP2_READ_IDLE_TIMEOUT_SECONDS", QUIET_SECONDS)
    ping = _from_environment("HTTP2_PING_TIMEOUT_SECONDS", PING_SECONDS)
    return max(0, quiet), ping if ping > 0 else PING_SECONDS


def _from_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return parse_int(text) if text else default
    except NumberError as problem:
        why = f"strconv.Atoi: parsing {quote(text)}: {problem}"
        log.warn("Illegal {name}({text}): {why}. Default value {default} is used", name=name, text=quote(text), why=why,
                 default=default)  # fmt: skip
        return default


class Unprocessed(Exception):
    """The server has not begun to process a request, which may be sent again."""


class Owner(Protocol):
    """Makes connections, and chooses one for each request."""

    def allows(self, streams: int) -> None:
        """Called with the number of requests at once that the server takes on a connection."""

    def rests(self, connection: Http2Client) -> None:
        """Called when a connection has no request under way any more."""

    def leaving(self, connection: Http2Client) -> None:
        """Called when a connection takes no more requests."""

    def ended(self, connection: Http2Client) -> None:
        """Called when a connection has ended."""


@implementer(IPushProducer)
class Exchange:
    """A request and its answer: what an Answer, and the Upload of a body that still arrives, see as their transport."""

    complete = False
    upload: Upload | None = None
    is_whole = True  # ``unsent`` is all that is left of the body
    held = False  # the reader has enough
    free = 0

    def __init__(
        self, connection: Http2Client, number: int, body: bytes, answered: Deferred[Answer], bodiless: bool
    ) -> None:
        self._connection, self.number = connection, number
        self.unsent = memoryview(body)
        self.window = connection.initial_window  # bytes that the server takes
        self.receive_window = WINDOW
        self.missing: int | None = None
        self.answered: Deferred[Answer] | None = answered
        self.answer: Answer | None = None
        self.bodiless = bodiless
        self.skipped = 0  # bytes of interim answers

    def fail(self, why: Failure) -> None:
        answered, self.answered = self.answered, None
        if answered is not None:
            answered.errback(why)
        elif self.answer is not None:
            self.answer.finish(why if why.check(BadAnswer) else Failure(BadAnswer("unexpected EOF")))

    def abort(self) -> None:
        """Ends the request; it gets no answer."""
        self.answered = None
        self._connection.cancel(self)

    def registerProducer(self, producer: object, streaming: bool) -> None:
        self.is_whole = False

    def write(self, data: bytes) -> None:
        self.unsent = memoryview(bytes(self.unsent) + data) if self.unsent else memoryview(data)
        self._connection.send_body(self)
        if self.unsent and self.upload is not None:
            self.upload.pauseProducing()

    def unregisterProducer(self) -> None:
        self.is_whole = True
        self._connection.end_body(self)

    def pauseProducing(self) -> None:
        self.held = True

    def resumeProducing(self) -> None:
        self.held = False
        self._connection.grant(self)

    def stopProducing(self) -> None:
        """Not called by an Answer."""


@implementer(IPushProducer)
class ClientConnection(Receiving[Stream, None], protocol.Protocol):
    """The client's end of a connection: how it begins, and what it holds back while the server does not read."""

    transport: StreamTransport

    def __init__(self) -> None:
        super().__init__(MAX_HEAD, preface=False)
        self.initial_window = self.window = wire.DEFAULT_WINDOW  # bytes that the server takes
        self.is_blocked = False  # the transport's buffer is full
        self._unread = 0  # bytes of control frames since then

    def connectionMade(self) -> None:
        ours = {wire.ENABLE_PUSH: 0, wire.INITIAL_WINDOW_SIZE: WINDOW, wire.MAX_HEADER_LIST_SIZE: MAX_HEAD}
        more = CONNECTION_WINDOW - wire.DEFAULT_WINDOW
        self.transport.registerProducer(self, True)
        self.transport.write(wire.PREFACE + wire.settings(ours) + wire.window_update(0, more))

    def answer(self, frames: bytes) -> None:
        if self.is_blocked:
            self._unread = count_unread(self._unread, frames)
        self.transport.write(frames)

    def pauseProducing(self) -> None:
        if not self.is_blocked:
            self.is_blocked, self._unread = True, 0

    def resumeProducing(self) -> None:
        self.is_blocked = False
        self.send_bodies()

    def stopProducing(self) -> None:
        """The transport is gone; ``connectionLost`` follows."""

    def send_bodies(self) -> None:
        """Sends what waited for a window, or for the server to read."""
        raise NotImplementedError


class Http2Client(ClientConnection[Exchange]):
    """A connection after its handshake.  ``is_leaving``: it takes no more requests, and ends after those under way.

    ``max_streams``: the requests at once that the server is expected to take, until it says so itself.
    """

    def __init__(self, owner: Owner, reactor: IReactorTime, max_streams: int = FIRST_STREAMS) -> None:
        super().__init__()
        self._owner, self._reactor = owner, reactor
        self.is_leaving = False
        self.idle_since = self._heard_at = reactor.seconds()  # when it became idle; when the last bytes came
        self.max_streams = max_streams  # requests at once
        self._max_fields_bytes: float = math.inf  # of a request's head, as HTTP/2 counts them
        self._begun_requests = self._knows_streams = False
        self._over = False
        self._pinged = False  # since the last bytes
        self._health: IDelayedCall | None = None
        self._goaway_text = ""

    def connectionMade(self) -> None:
        super().connectionMade()
        first = min(health_seconds()[0] or MAX_IDLE_SECONDS, MAX_IDLE_SECONDS)
        self._health = self._reactor.callLater(first, self._check_health)

    # -- requests

    def takes(self) -> bool:
        """Whether it takes another request now."""
        return not self.is_leaving and len(self.streams) < self.max_streams and self.highest < _LAST_STREAM

    def ask(
        self, head: bytes, body: bytes | StreamedBody | None, answered: Deferred[Answer], bodiless: bool
    ) -> Exchange:
        """Sends a request; ``head`` is written as for HTTP/1.1.  ``answered`` fires when the head of the answer has come.

        ``bodiless``: the answer has no body (HEAD).  Fails with Unprocessed, BadAnswer, BadHead (too large for the server) and
        what ended the connection; with a StreamedBody, which is sent while it arrives, also with Abandoned and Stalled.
        """
        number = self.highest + 2 if self.highest else 1
        streamed = body if isinstance(body, StreamedBody) else None
        whole = body if isinstance(body, bytes) else b""
        stream = Exchange(self, number, whole, answered, bodiless)
        length = streamed.length if streamed is not None else None if body is None else len(whole)
        if _fields_bytes(head, length) > self._max_fields_bytes:  # for which a server may end the connection of all
            stream.fail(Failure(BadHead("http2: request header list larger than peer's advertised limit")))
            return stream
        self.highest, self.streams[number] = number, stream
        self._idle_frames += 1  # a server may reset a stream without having read the body
        block = _block(head)
        if length is not None:
            block += encoded_field.__wrapped__(b"content-length", b"%d" % length)
        if not self._begun_requests:
            self._begun_requests = True
            block = NO_TABLE + block
        ends = wire.END_STREAM if not body else 0
        self.transport.write(
            wire.header_block(number, block, ends, wire.DEFAULT_FRAME) + b"".join(self._frames_of(stream))
        )
        if streamed is not None:
            fail = partial(self._give_up, stream)
            stream.upload = Upload(stream, streamed, fail, self._reactor, chunked=False)
            stream.upload.begin()
        return stream

    def send_body(self, stream: Exchange) -> None:
        """Sends as much of the body as the windows allow."""
        frames = self._frames_of(stream)
        if frames:
            self.transport.write(b"".join(frames))

    def end_body(self, stream: Exchange) -> None:
        """The last bytes of a body are sent, or wait to be."""
        if self.streams.get(stream.number) is stream and not stream.unsent:
            self.transport.write(wire.head(0, wire.DATA, wire.END_STREAM, stream.number))

    def _continue(self, stream: Exchange) -> None:
        """A window has opened: sends more of the body, and lets more arrive."""
        self.send_body(stream)
        if not stream.unsent and stream.upload is not None:
            stream.upload.resumeProducing()

    def _frames_of(self, stream: Exchange) -> list[bytes | memoryview]:
        """As much of the body as the windows allow; nothing while the server does not read."""
        found: list[bytes | memoryview] = []
        if self.is_blocked:
            return found
        while stream.unsent and (size := min(len(stream.unsent), self.window, stream.window, wire.DEFAULT_FRAME)) > 0:
            part, stream.unsent = stream.unsent[:size], stream.unsent[size:]
            self.window -= size
            stream.window -= size
            ends = wire.END_STREAM if stream.is_whole and not stream.unsent else 0
            found += wire.head(size, wire.DATA, ends, stream.number), part
        return found

    def send_bodies(self) -> None:
        """Sends what waited for a window; the streams that were served are the last ones next time."""
        for stream in [stream for stream in self.streams.values() if stream.unsent]:
            number = stream.number
            if self.window > 0 and not self.is_blocked and self.streams.get(number) is stream:
                self._continue(stream)
                if number in self.streams:
                    self.streams[number] = self.streams.pop(number)

    def _give_up(self, stream: Exchange, why: Failure) -> None:
        """Ends a request whose body does not come, or is not taken."""
        if self._remove(stream, RESET_HERE):
            self._control(wire.reset(stream.number, Code.CANCEL))
            stream.fail(why)
            self._close_when_done()

    def cancel(self, stream: Exchange) -> None:
        """Resets a stream whose answer is not needed."""
        if self._remove(stream, RESET_HERE):
            self._control(wire.reset(stream.number, Code.CANCEL))
            self._close_when_done()

    def grant(self, stream: Exchange) -> None:
        """Opens the window of a stream whose reader goes on."""
        if self.streams.get(stream.number) is stream and stream.receive_window <= WINDOW // 2:
            more, stream.receive_window = WINDOW - stream.receive_window, WINDOW
            self._control(wire.window_update(stream.number, more))

    def _remove(self, stream: Exchange, how: int) -> bool:
        if self.streams.get(stream.number) is not stream:
            return False
        del self.streams[stream.number]
        self.note_ended(stream.number, how)
        if not self.streams:
            self.idle_since = self._reactor.seconds()
            self._owner.rests(self)
        if stream.upload is not None:
            stream.upload.stop()
        return True

    def _fail(self, stream: Exchange, how: int, why: Exception) -> None:
        if self._remove(stream, how):
            stream.fail(Failure(why))
            self._close_when_done()

    # -- what the server sends

    def dataReceived(self, data: bytes) -> None:
        self._heard_at, self._pinged = self._reactor.seconds(), False
        try:
            self.receive(data)
        except ConnectionFault as fault:
            self._break(fault)

    def seconds(self) -> float:
        return self._heard_at

    def fields(self, number: int, flags: int, decoded: list[Field]) -> None:
        stream = self.streams.get(number)
        if stream is None:
            if self._is_idle(number):
                raise ConnectionFault(Code.PROTOCOL_ERROR, "HEADERS of no stream")
            self._late(number, "HEADERS")
            return
        ends = bool(flags & wire.END_STREAM)
        if stream.answer is not None:
            if not ends or stream.missing:
                raise StreamFault(number, Code.PROTOCOL_ERROR, "trailers before the end of the body")
        elif self._decoder.oversized:
            raise StreamFault(number, Code.PROTOCOL_ERROR, f"server response headers exceeded {MAX_HEAD} bytes")
        elif not self._begin_answer(stream, decoded, ends):
            return
        if ends:
            stream.complete = True
            self.complete(stream)
        elif stream.answer is not None and not stream.answer.has_reader:
            stream.answer.flow(wait=True)

    def _begin_answer(self, stream: Exchange, decoded: list[Field], ends: bool) -> bool:
        """Gives the head of an answer to the one who waits for it; False for an interim answer.  Raises StreamFault."""
        try:
            answer = _head(decoded)
            if 100 <= answer.code < 200:
                stream.skipped += self._decoder.total
                if ends or answer.code == 101 or stream.skipped > MAX_HEAD:
                    raise BadAnswer("too many interim answers, or one that ends the stream")
                return False
            bodiless = stream.bodiless or answer.code in (204, 304)
            length = 0 if bodiless else content_length(answer.headers.getRawHeaders(b"content-length"))
        except BadAnswer as problem:
            raise StreamFault(stream.number, Code.PROTOCOL_ERROR, str(problem)) from None
        if length is not None:
            answer.length = length
        if ends and length:
            raise StreamFault(stream.number, Code.PROTOCOL_ERROR, "unexpected EOF")
        stream.missing, stream.answer = length, answer
        answered, stream.answered = stream.answered, None
        answer.begin(stream, stream.abort)
        if answered is not None:
            answered.callback(answer)
        return True

    def body(self, stream: Exchange, data: bytes) -> None:
        if stream.answer is None:
            raise StreamFault(stream.number, Code.PROTOCOL_ERROR, "DATA before HEADERS")
        try:
            stream.answer.feed(data)
        except BadAnswer as problem:
            raise StreamFault(stream.number, Code.PROTOCOL_ERROR, str(problem)) from None

    def complete(self, stream: Exchange) -> None:
        answer = stream.answer
        if answer is None:
            raise StreamFault(stream.number, Code.PROTOCOL_ERROR, "an end before HEADERS")
        is_sent = stream.is_whole and not stream.unsent
        if not self._remove(stream, ENDED if is_sent else RESET_HERE):
            return  # its reader has ended it
        if not is_sent:
            self.answer(wire.reset(stream.number, Code.NO_ERROR))  # the rest of the request is not needed
        answer.finish()
        self._close_when_done()

    def reset_by_peer(self, stream: Exchange, code: int) -> None:
        if code == Code.REFUSED_STREAM and stream.answer is None:
            self._fail(stream, RESET_BY_PEER, Unprocessed(_reset_text(stream.number, code)))
        else:
            self._fail(stream, RESET_BY_PEER, BadAnswer(_reset_text(stream.number, code)))

    def refuse(self, number: int, code: Code, why: str) -> None:
        self.answer(wire.reset(number, code))
        stream = self.streams.get(number)
        if stream is not None:
            self._fail(stream, RESET_HERE, BadAnswer(why))

    def open_window(self, stream: Exchange | None, increment: int) -> None:
        if stream is None:
            self.window += increment
            if self.window > wire.MAX_WINDOW_BYTES:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "the connection's window is too large")
            self.send_bodies()
            self.count_update(increment, self.window)
            return
        stream.window += increment
        if stream.window > wire.MAX_WINDOW_BYTES:
            raise StreamFault(stream.number, Code.FLOW_CONTROL_ERROR, "the stream's window is too large")
        if stream.unsent:
            self._continue(stream)
        self.count_update(0, self.window)

    def settings(self, values: dict[int, int]) -> None:
        if values.get(wire.ENABLE_PUSH):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a server has enabled push")
        if not self._knows_streams or wire.MAX_CONCURRENT_STREAMS in values:
            self._knows_streams = True
            self.max_streams = values.get(wire.MAX_CONCURRENT_STREAMS, _MOST_STREAMS)
            self._owner.allows(self.max_streams)
            if not self.max_streams:
                self.leave()
        self._max_fields_bytes = values.get(wire.MAX_HEADER_LIST_SIZE, self._max_fields_bytes)
        window = values.get(wire.INITIAL_WINDOW_SIZE, self.initial_window)
        more, self.initial_window = window - self.initial_window, window
        for stream in self.streams.values():
            stream.window += more
            if stream.window > wire.MAX_WINDOW_BYTES:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a stream's window is too large")
        self.send_bodies()

    def peer_leaves(self, last: int, code: int) -> None:
        self._goaway_text = (
            f"http2: server sent GOAWAY and closed the connection; LastStreamID={last}, ErrCode={_name(code)}"
        )
        self.leave()
        for stream in [stream for number, stream in self.streams.items() if number > last]:
            if stream.answer is None:
                self._fail(stream, RESET_HERE, Unprocessed(self._goaway_text))
            else:
                self._fail(stream, RESET_HERE, BadAnswer(self._goaway_text))

    def _control(self, frames: bytes) -> None:
        try:
            self.answer(frames)
        except ConnectionFault as fault:
            self._break(fault)

    # -- the transport

    def _check_health(self) -> None:
        """Sends a PING when nothing has come for some time; ends a connection without an answer, or without requests."""
        self._health = None
        now = self._reactor.seconds()
        quiet, ping = health_seconds()
        allowed = quiet + ping if self._pinged else quiet
        wait = allowed - (now - self._heard_at) if quiet else MAX_IDLE_SECONDS
        if self._over or (self._pinged and wait <= 0):
            self.abort(BadAnswer("http2: client connection lost"))
            return
        if not self.streams and now - self.idle_since >= MAX_IDLE_SECONDS:
            self.leave()
        if wait <= 0:
            self._pinged, wait = True, ping
            self.transport.write(wire.head(8, wire.PING, 0, 0) + bytes(8))
        self._health = self._reactor.callLater(min(wait, MAX_IDLE_SECONDS), self._check_health)

    def leave(self) -> None:
        """Takes no more requests; ends when those under way are answered."""
        if not self.is_leaving:
            self.is_leaving = True
            self._owner.leaving(self)
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self.is_leaving and not self.streams and not self._over:
            self._over = True
            close_when_sent(self.transport)

    def _break(self, fault: ConnectionFault) -> None:
        """Ends the connection, whose server has violated the protocol."""
        if not self._over:
            self.transport.write(wire.goaway(0, fault.code))
            self.abort(BadAnswer(f"connection error: {fault.code.name}: {fault}"))

    def abort(self, why: Exception) -> None:
        """Ends the connection at once; requests under way fail."""
        self._over = True
        self.leave()
        self.transport.abortConnection()
        self._fail_all(Failure(why))

    def _fail_all(self, why: Failure) -> None:
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            self.note_ended(stream.number, RESET_HERE)
            if stream.upload is not None:
                stream.upload.stop()
            stream.fail(why)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self._over = True
        self.leave()
        if self._health is not None:
            self._health.cancel()
            self._health = None
        self._owner.ended(self)
        self._fail_all(Failure(BadAnswer(self._goaway_text)) if self._goaway_text else reason)


def _name(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return f"unknown error code {code:#x}"


def _reset_text(number: int, code: int) -> str:
    return f"stream error: stream ID {number}; {_name(code)}; received from peer"


def _fields_bytes(head: bytes, length: int | None) -> int:
    """The size of the fields that a head becomes: their names and values, and 32 bytes for each (RFC 9113, 6.5.2)."""
    size = len(head) + 28 * head.count(b"\r\n") + _PSEUDO_BYTES
    return size if length is None else size + len(str(length)) + _LENGTH_BYTES


def _block(head: bytes) -> bytes:
    """The header block of a request whose head is written as for HTTP/1.1, up to the headers of the framing."""
    first, *lines = head.removesuffix(b"\r\n").split(b"\r\n")
    method, target, _ = first.split(b" ")
    fields, authority = [], b""
    for line in lines:
        if line[:6].lower() == b"host: ":
            authority = line[6:]
        else:
            fields.append(_encoded_line(line) if len(line) <= _MAX_KEPT_LINE_BYTES else _encoded_line.__wrapped__(line))
    begin = ((b":method", method), (b":scheme", b"https"), (b":authority", authority), (b":path", target))
    return b"".join([*(encoded_field.__wrapped__(name, value) for name, value in begin), *fields])


@lru_cache(_KEPT_LINES)
def _encoded_line(line: bytes) -> bytes:
    """Most of a request's headers are those of requests before."""
    name, _, value = line.partition(b": ")
    return encoded_field.__wrapped__(name, value)


def _head(decoded: list[Field]) -> Answer:
    """The head of an answer.  Raises BadAnswer."""
    name, code = decoded[0] if decoded else (b"", b"")
    if name != b":status" or len(code) != 3 or not code.isdigit():
        raise BadAnswer("malformed response from server: missing status pseudo header")
    headers = Headers()
    for name, value in decoded[1:]:
        try:
            header_line(name, value)
        except BadHead:
            raise BadAnswer("malformed header field") from None
        if name != name.lower() or name in CONNECTION_FIELDS:
            raise BadAnswer("malformed header field")
        headers.addRawHeader(name, value)
    return Answer((b"HTTP", 2, 0), int(code), b"", headers)
