"""The heads and bodies of HTTP/1.1 requests: bytes in, values out (upstream: Go's ``net/http``, ``request.go``, ``transfer.go``).

llhttp parses header fields and trailers.  It is stricter than Go: it refuses lines without CR, and a Content-Length beside a
Transfer-Encoding.  The request line is parsed here, since Go takes any token as a method and llhttp only those that it knows.
Bodies are framed here too: httptools does not tell where a message ends, and behind its end are other requests, or the first
bytes of an upgraded connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from kapi.request.headers import MAX_HEADERS
from kapi.request.target import is_host, origin_form
from kapi.serving.request_headers import RequestHeaders

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
_MAX_EXCESS_BYTES = 16 * 1024  # of a chunked body that are no data, beyond what short chunks need
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
    """Collects what llhttp finds."""

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
        pass  # the request decides about that
    except HttpParserError as error:
        raise _refusal(str(error)) from None
    return found.fields


def _refusal(text: str) -> Refused:
    """For what llhttp says of an error: it has no other names for them."""
    if "Transfer-Encoding" in text and "Content-Length" not in text:
        return _unsupported_coding()
    return bad_request(b"invalid header value" if "header value char" in text else b"")


def _unsupported_coding() -> Refused:
    return Refused(b"501 Not Implemented", b"Unsupported transfer encoding")


def _section(text: bytes) -> Section:
    section = Section(parse_fields(text) if text != b"\r\n" else {})
    hosts = section.fields.get(b"Host", ())
    if len(hosts) > 1:
        raise bad_request()  # proxies and servers may each believe another one
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
        """What follows the body; None while it is not complete."""
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
        self._rest = b""  # of a line that is not complete
        self._left = 0  # bytes of the current chunk
        self._ends = False  # CRLF follows: the end of a chunk
        self._excess = 0  # see _MAX_EXCESS_BYTES
        self._trailers: bytes | None = None  # None before the last chunk

    def receive(self, data: bytes) -> bytes | None:
        """What follows the body; None while it is not complete.  Raises Refused."""
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
