"""An answer of an HTTP/1.1 server, with the methods that treq needs (``agent.py`` says that they are its interface).

Heads are read as leniently as by Go (``net/textproto``): lines may end with a bare LF, and a line that begins with a blank
continues the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from twisted.internet.interfaces import IProtocol, IPushProducer
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from zope.interface import implementer

if TYPE_CHECKING:
    from twisted.web.http import _ChunkedTransferDecoder

MAX_HEAD = 256 * 1024  # bytes of status line and headers
_MAX_LENGTH_DIGITS = 19
_break = re.compile(rb"\n\r?\n").search
_PACKED_BYTES = 4096  # compressed bytes that are decoded at once; one byte may become a thousand


class BadAnswer(Exception):
    """What the server sent is not HTTP."""


class AnswerTooLarge(Exception):
    """The server sent more than is read."""


class BrokenBody(Exception):
    """The body of an answer that does not come, or cannot be decoded."""

    def __init__(self, why: object) -> None:
        super().__init__(f"unexpected error when reading response body. Please retry. Original error: {why}")


Ended = Callable[[Failure | None], object]  # called at the end of a body, with the error that ended it too early


def _ignore(why: Failure | None) -> None:
    """Stands for ``ended`` where the body has no reader."""


@implementer(IPushProducer)
class Answer:
    """The head of an answer, and the stream of its body: the producer and the transport of the body's reader.

    The connection is paused while there is no reader, or while the reader pauses.  After the body it may serve another request.
    """

    request = None
    previousResponse = None

    def __init__(self, version: tuple[bytes, int, int], code: int, phrase: bytes, headers: Headers) -> None:
        self.version, self.code, self.phrase, self.headers = version, code, phrase, headers
        #: the number of the body's content encodings, since treq removes the header
        self._packings = sum(value.count(b",") + 1 for value in headers.getRawHeaders(b"content-encoding", ()))
        self.length: int | str = "twisted.web.iweb.UNKNOWN_LENGTH"
        self.has_reader = False
        self._parts: list[bytes] = []  # pieces that came before there was a reader
        self._over = self._paused = False
        self._why: Failure | None = None
        self._transport: IPushProducer | None = None  # the connection's, until the body is complete
        self._stop: Callable[[], None] = lambda: None
        self._read: Callable[[bytes], object] = self._parts.append
        self._ended: Ended = _ignore

    # -- the connection's side

    def begin(self, transport: IPushProducer, stop: Callable[[], None]) -> None:
        """``transport`` gives the body, ``stop`` ends it."""
        self._transport, self._stop = transport, stop

    def feed(self, data: bytes) -> None:
        """Called with a piece of the body."""
        if not self._over:
            self._read(data)

    def finish(self, why: Failure | None = None) -> None:
        """Called at the end of the body; ``why`` is what has cut it off."""
        if self._over:
            return
        if self._paused:  # the connection may be used again
            self.flow(wait=False)
        self._over, self._why, self._transport = True, why, None
        if self.has_reader:
            ended = self._ended
            self._read, self._ended = len, _ignore  # ends the reference cycle with the reader
            ended(why)

    # -- the reader's side

    def read(self, read: Callable[[bytes], object], ended: Ended) -> None:
        """Gives the body to ``read`` piece by piece, then calls ``ended``; not after ``abort``."""
        self.has_reader = True
        self._read, self._ended = read, ended
        waited, self._paused = self._paused, False
        parts, self._parts = self._parts, []
        try:
            for part in parts:
                self._read(part)
        except BadAnswer:
            self.abort()
            ended(Failure())
            return
        if self._over:
            self._read, self._ended = len, _ignore
            ended(self._why)
        elif waited and not self._paused:
            self.flow(wait=False)

    def deliverBody(self, protocol: IProtocol) -> None:
        protocol.makeConnection(self)  # type: ignore[arg-type]  # as much of a transport as a reader of bodies asks
        read = protocol.dataReceived
        if self._packings > 1:  # a further encoding would multiply the size again; Go decodes only one
            self.abort()
            protocol.connectionLost(Failure(BadAnswer("unsupported content encoding")))
            return
        if self._packings:
            read = partial(self._decode, read)
        self.read(read, lambda why: protocol.connectionLost(why or done()))

    def _decode(self, read: Callable[[bytes], object], data: bytes) -> None:
        """Gives compressed data to treq's decoder, a little at a time, until the reader pauses.  Raises BadAnswer."""
        from twisted.web.client import ResponseFailed  # the decoder has loaded the module

        for start in range(0, len(data), _PACKED_BYTES):
            if self._read is len:
                return  # the reader has paused
            try:
                read(data[start : start + _PACKED_BYTES])
            except ResponseFailed as problem:
                raise BadAnswer(f"malformed content encoding: {problem.reasons[0].getErrorMessage()}") from None

    def abort(self) -> None:
        """Ends the connection when the rest of the body is not needed; its reader is not called any more."""
        self._read, self._ended = len, _ignore
        self._parts.clear()
        if not self._over:
            self._over, self._transport = True, None
            self._stop()

    stopProducing = loseConnection = abortConnection = abort

    def flow(self, wait: bool) -> None:
        """Pauses or resumes reading from the server."""
        self._paused = wait
        if self._transport is not None:
            (self._transport.pauseProducing if wait else self._transport.resumeProducing)()

    def pauseProducing(self) -> None:
        self.flow(True)

    def resumeProducing(self) -> None:
        self.flow(False)

    def setPreviousResponse(self, response: object) -> None:
        self.previousResponse = response


@cache
def done() -> Failure:
    """ResponseDone: the end of a body.  Not imported above: the module takes long to load, and commands do not need it."""
    from twisted.web.client import ResponseDone

    return Failure(ResponseDone())


def read_head(data: bytes) -> Answer:
    """The status line and the headers, without the empty line.  Raises BadAnswer."""
    first, *lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    protocol, _, rest = first.partition(b" ")
    number, _, phrase = rest.partition(b" ")
    if protocol not in (b"HTTP/1.1", b"HTTP/1.0") or len(number) != 3 or not number.isdigit():
        raise BadAnswer(f'malformed HTTP response "{_quoted(first)}"')
    headers = Headers()
    for line in _unfolded(lines):
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadAnswer(f"malformed MIME header line: {_quoted(line)}")
        try:
            headers.addRawHeader(name, value.strip())
        except ValueError:
            raise BadAnswer(f"malformed MIME header line: {_quoted(line)}") from None
    return Answer((b"HTTP", 1, 1 if protocol.endswith(b"1") else 0), int(number), phrase, headers)


def _unfolded(lines: list[bytes]) -> list[bytes]:
    """The lines with those that continue others joined to them.  Raises BadAnswer."""
    if not any(line.startswith((b" ", b"\t")) for line in lines):
        return lines
    if lines[0].startswith((b" ", b"\t")):
        raise BadAnswer(f"malformed MIME header initial line: {_quoted(lines[0])}")
    parts: list[list[bytes]] = []
    for line in lines:
        if line.startswith((b" ", b"\t")):
            parts[-1].append(line.strip(b" \t"))
        else:
            parts.append([line.strip(b" \t")])
    return list(map(b" ".join, parts))


def _quoted(line: bytes) -> str:
    return line[:200].decode("utf-8", "replace")


def next_head(raw: bytes) -> tuple[Answer | None, bytes]:
    """The head at the beginning of ``raw`` and the bytes after it; None while the head is incomplete.  Raises BadAnswer."""
    found = _break(raw)
    if found is not None:
        return read_head(raw[: found.start()]), raw[found.end() :]
    if len(raw) > MAX_HEAD:
        raise BadAnswer(f"server response headers exceeded {MAX_HEAD} bytes")
    return None, raw


def final_head(raw: bytes) -> tuple[Answer | None, bytes]:
    """As ``next_head``, but interim answers (1xx) are skipped: None and the bytes after them.  Raises BadAnswer."""
    while True:
        answer, raw = next_head(raw)
        if answer is None or not 100 <= answer.code < 200:
            return answer, raw
        if answer.code == 101:
            raise BadAnswer("unexpected 101 Switching Protocols")


class Body:
    """Finds the end of an answer's body among the bytes of its connection.

    ``feed`` is called with each piece of the body, ``whole`` at its end, with the bytes after it.  ``bodiless``: there is no
    body, whatever the head says (HEAD).  ``length`` is in bytes, None while it is unknown.  Raises BadAnswer.
    """

    def __init__(
        self, answer: Answer, feed: Callable[[bytes], None], whole: Callable[[bytes], None], *, bodiless: bool = False
    ) -> None:
        self._feed, self._whole = feed, whole
        self._chunks: _ChunkedTransferDecoder | None = None
        self.length: int | None = 0
        coding = answer.headers.getRawHeaders(b"transfer-encoding")
        if bodiless or answer.code in (204, 304):
            pass
        elif coding is None:
            self.length = content_length(answer.headers.getRawHeaders(b"content-length"))
        elif len(coding) != 1 or coding[0].lower() != b"chunked":
            raise BadAnswer("unsupported transfer encoding")
        else:
            from twisted.web.http import _ChunkedTransferDecoder  # long to load, and seldom needed by a command

            self.length = None
            self._pieces: list[bytes] = []  # data of the chunks that came together
            self._after: bytes | None = None  # the bytes after the last chunk
            self._chunks = _ChunkedTransferDecoder(self._pieces.append, self._end_of_chunks)
        self._left = self.length  # bytes of the body still to come

    @property
    def ends_with_connection(self) -> bool:
        return self.length is None and self._chunks is None

    def read(self, data: bytes) -> None:
        """The next bytes of the connection; also called without any, for a body of none.  Raises BadAnswer."""
        if self._chunks is not None:
            self._read_chunks(self._chunks, data)
            return
        extra = b""
        if self._left is not None:
            extra, data = data[self._left :], data[: self._left]
            self._left -= len(data)
        if data:
            self._feed(data)
        if self._left == 0:
            self._whole(extra)

    def _read_chunks(self, chunks: _ChunkedTransferDecoder, data: bytes) -> None:
        """Feeds chunks that came together as one piece: they may be of one byte each."""
        broken = ""
        try:
            chunks.dataReceived(data)
        except Exception as problem:  # the decoder has several classes of errors
            broken = f"malformed chunked encoding: {problem}"
        if self._pieces:
            found = b"".join(self._pieces)
            self._pieces.clear()
            self._feed(found)
        if broken:
            raise BadAnswer(broken)
        if self._after is not None:
            self._whole(self._after)

    def _end_of_chunks(self, after: bytes) -> None:
        self._after = after


def content_length(values: Sequence[bytes] | None) -> int | None:
    """The length that these Content-Length headers name.  Raises BadAnswer."""
    if values is None:
        return None
    text = values[0]
    if len(set(values)) != 1 or not text.isdigit() or len(text.lstrip(b"0")) > _MAX_LENGTH_DIGITS or int(text) >= 2**63:
        raise BadAnswer("bad Content-Length")
    return int(text)
