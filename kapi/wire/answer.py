"""An answer of an HTTP/1.1 server with its complete body, with the interface that treq needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from twisted.internet.interfaces import IProtocol
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse
from zope.interface import implementer

MAX_HEAD = 256 * 1024  # bytes of status line and headers
_BREAK = b"\r\n\r\n"
_SLICE_BYTES = 16 * 1024  # bytes that a decoder is given at once


class BadAnswer(Exception):
    """What the server sent is not HTTP."""


class AnswerTooLarge(Exception):
    """The server sent more than is read."""


class _Delivery:
    """The transport that a receiver of a body gets; the connection itself serves other requests by then."""

    stopped = False

    def abortConnection(self) -> None:
        self.stopped = True

    loseConnection = stopProducing = abortConnection


@implementer(IResponse)
class Answer:
    """An answer with all of its body."""

    request = None
    previousResponse = None

    def __init__(self, version: tuple[bytes, int, int], code: int, phrase: bytes, headers: Headers) -> None:
        self.version, self.code, self.phrase, self.headers = version, code, phrase, headers
        self.body = b""
        self.length: int | str = 0

    def setPreviousResponse(self, response: object) -> None:
        self.previousResponse = response

    def deliverBody(self, protocol: IProtocol) -> None:
        """Gives the body in slices, so that a receiver which decompresses can stop before the result is too large."""
        delivery = _Delivery()
        protocol.makeConnection(delivery)  # type: ignore[arg-type]  # as much of a transport as a reader of bodies asks
        body = self.body
        for start in range(0, len(body), _SLICE_BYTES):
            if delivery.stopped:
                break
            protocol.dataReceived(body[start : start + _SLICE_BYTES] if len(body) > _SLICE_BYTES else body)
        protocol.connectionLost(_done())


@cache
def _done() -> Failure:
    """The end of a body.  Not imported above: the module takes long to load, and commands do not need it."""
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
        if answer is None or answer.code >= 200:
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
