"""An answer of an HTTP/1.1 server with all of its body, as treq wants it."""

from __future__ import annotations

from functools import cache
from typing import Any

from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse
from zope.interface import implementer

_SLICE = 16 * 1024  # bytes that a decoder is given at once


class BadAnswer(Exception):
    """What the server sent is not HTTP."""


class AnswerTooLarge(Exception):
    """The server sent more than is read."""


class _Delivery:
    """The transport of who receives a body; the connection is long free."""

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
        self.length: Any = 0

    def setPreviousResponse(self, response: object) -> None:
        self.previousResponse = response

    def deliverBody(self, protocol: Any) -> None:
        """In slices, so that who decompresses can stop before there is too much."""
        delivery = _Delivery()
        protocol.makeConnection(delivery)
        body = self.body
        for start in range(0, len(body), _SLICE):
            if delivery.stopped:
                break
            protocol.dataReceived(body[start : start + _SLICE] if len(body) > _SLICE else body)
        protocol.connectionLost(_done())


@cache
def _done() -> Failure:
    """The end of a body.  Commands have no use for it, and its module takes long to load."""
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


def content_length(values: Any) -> int | None:
    """Of an answer with these Content-Length headers.  Raises BadAnswer."""
    if values is None:
        return None
    if len(set(values)) != 1 or not values[0].isdigit():
        raise BadAnswer("bad Content-Length")
    return int(values[0])
