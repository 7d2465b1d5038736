"""An answer of an HTTP/1.1 server, with the methods that treq needs (``agent.py`` says that they are its interface)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from twisted.internet.interfaces import IProtocol, IPushProducer
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from zope.interface import implementer

from kapi.request.transport import StreamTransport

MAX_HEAD = 256 * 1024  # bytes of status line and headers
_BREAK = b"\r\n\r\n"
_PACKED_BYTES = 4096  # that are decoded at once; a byte may become a thousand


class BadAnswer(Exception):
    """What the server sent is not HTTP."""


class AnswerTooLarge(Exception):
    """The server sent more than is read."""


Ended = Callable[[Failure | None], object]  # called at the end of a body, with what has cut it off


def _ignore(why: Failure | None) -> None:
    """The end of a body that nothing reads."""


@implementer(IPushProducer)
class Answer:
    """The head of an answer, and its body on the way to a reader, which is the producer and the transport that a reader sees.

    The connection waits while there is no reader, or while it has enough.  After the end it may serve another request.
    """

    request = None
    previousResponse = None

    def __init__(self, version: tuple[bytes, int, int], code: int, phrase: bytes, headers: Headers) -> None:
        self.version, self.code, self.phrase, self.headers = version, code, phrase, headers
        self._packed = headers.hasHeader(b"content-encoding")  # treq removes it
        self.length: int | str = "twisted.web.iweb.UNKNOWN_LENGTH"
        self.has_reader = False
        self._parts: list[bytes] = []  # that came before there was a reader
        self._over = self._paused = False
        self._why: Failure | None = None
        self._transport: StreamTransport | None = None  # of the connection while the body comes
        self._stop: Callable[[], None] = lambda: None
        self._read: Callable[[bytes], object] = self._parts.append
        self._ended: Ended = _ignore

    # -- the connection's side

    def begin(self, transport: StreamTransport, stop: Callable[[], None]) -> None:
        """``stop`` ends the connection."""
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
            self._read, self._ended = len, _ignore  # a circle with the reader would wait for the collector
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
        if self._packed:
            read = partial(self._decode, read)
        self.read(read, lambda why: protocol.connectionLost(why or done()))

    def _decode(self, read: Callable[[bytes], object], data: bytes) -> None:
        """Gives packed data to treq's decoder, a little at a time, until the reader has enough.  Raises BadAnswer."""
        from twisted.web.client import ResponseFailed  # the decoder has loaded the module

        for start in range(0, len(data), _PACKED_BYTES):
            if self._read is len:
                return  # the reader has enough
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
        """Makes the server wait, or lets it go on."""
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
    """The status line and the headers.  Raises BadAnswer."""
    first, *lines = data.split(b"\r\n")
    protocol, _, rest = first.partition(b" ")
    number, _, phrase = rest.partition(b" ")
    if protocol not in (b"HTTP/1.1", b"HTTP/1.0") or len(number) != 3 or not number.isdigit():
        raise BadAnswer(f'malformed HTTP response "{first[:200].decode("utf-8", "replace")}"')
    headers = Headers()
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadAnswer(f"malformed MIME header line: {line[:200].decode('utf-8', 'replace')}")
        try:
            headers.addRawHeader(name, value.strip())
        except ValueError:
            raise BadAnswer(f"malformed MIME header line: {line[:200].decode('utf-8', 'replace')}") from None
    return Answer((b"HTTP", 1, 1 if protocol.endswith(b"1") else 0), int(number), phrase, headers)


def next_head(raw: bytes) -> tuple[Answer | None, bytes]:
    """The head at the beginning of ``raw`` and the bytes after it; None while the head is incomplete.  Raises BadAnswer."""
    end = raw.find(_BREAK)
    if end >= 0:
        return read_head(raw[:end]), raw[end + len(_BREAK) :]
    if len(raw) > MAX_HEAD:
        raise BadAnswer(f"server response headers exceeded {MAX_HEAD} bytes")
    return None, raw


def final_head(raw: bytes) -> tuple[Answer | None, bytes]:
    """As ``next_head``, but interim answers (1xx) are skipped.  Raises BadAnswer."""
    while True:
        answer, raw = next_head(raw)
        if answer is None or not 100 <= answer.code < 200:
            return answer, raw
        if answer.code == 101:
            raise BadAnswer("unexpected 101 Switching Protocols")


def framing(answer: Answer, bodiless: bool) -> tuple[bool, int | None]:
    """Whether the body is chunked; if not, its length in bytes, or None when it ends with the connection.

    ``bodiless``: there is no body, whatever the head says (HEAD).  Raises BadAnswer.
    """
    coding = answer.headers.getRawHeaders(b"transfer-encoding")
    if bodiless or answer.code in (204, 304):
        return False, 0
    if coding is None:
        return False, content_length(answer.headers.getRawHeaders(b"content-length"))
    if len(coding) != 1 or coding[0].lower() != b"chunked":
        raise BadAnswer("unsupported transfer encoding")
    return True, None


def content_length(values: Sequence[bytes] | None) -> int | None:
    """The length that these Content-Length headers name.  Raises BadAnswer."""
    if values is None:
        return None
    if len(set(values)) != 1 or not values[0].isdigit():
        raise BadAnswer("bad Content-Length")
    return int(values[0])
