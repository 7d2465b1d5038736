"""The header blocks of requests and answers (RFC 9113, section 8)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import starmap

from kapi.request.target import is_host, origin_form
from kapi.serving.request import RequestHeaders
from kapi.wire.http2.fields import CONNECTION_FIELDS, Decoder, Field, encoded_field

_SPACES = b" \t"
_CONTROLS = bytes({*range(32), 127} - {9})
_METHODS = frozenset({b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS"})
_IS_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+\Z").match
_IS_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z").match
_SPECIAL = CONNECTION_FIELDS | {b"te", b"content-length", b"host"}
_PLAIN_PATH = re.compile(rb"/[!-~]*\Z").match
_MAX_CACHED_FIELD_BYTES = 256  # the check of a longer field is not cached
_MAX_CACHED_BLOCKS = 16  # header blocks that a connection remembers
_MAX_CACHED_BLOCK_BYTES = 512  # a longer block is not remembered
_MAX_CACHED_BLOCK_FIELDS = 32  # a block with more fields is not remembered
_MAX_LENGTH_DIGITS = 18  # of a content-length


class Malformed(Exception):
    """A malformed request (section 8.1.1); ``str(error)`` says why."""


class Head:
    """The header section of a request.  ``length`` is its content-length, or None."""

    __slots__ = ("method", "path", "fields", "headers", "length", "continues", "size")

    def __init__(self, method: bytes, path: bytes | None, fields: list[Field], length: int | None) -> None:
        self.method = method
        self.path = path  # in origin form; None when it or the host is invalid, or missing as with CONNECT
        self.size = 0  # bytes of a block that did not fit into one frame, else 0
        self.fields = fields
        headers = RequestHeaders()
        headers.add(fields)
        self.headers = headers.fields
        self.length = length
        expected = self.headers.get(b"Expect")
        #: the client waits for a 100 before it sends the body
        self.continues = expected is not None and expected[0].lower() == b"100-continue"


def remember(decoder: Decoder[Head | None], block: bytes, head: Head) -> None:
    """Remembers the request of a block that comes for the second time, since clients repeat their requests.

    A block that changes the dynamic table is never remembered: the change clears the cache.
    """
    if len(block) > _MAX_CACHED_BLOCK_BYTES or len(head.fields) > _MAX_CACHED_BLOCK_FIELDS:
        return
    known = decoder.known
    if block in known:
        known[block] = head
        return
    if len(known) >= _MAX_CACHED_BLOCKS:
        known.clear()
    known[block] = None


def request_head(decoded: list[Field]) -> Head:
    """The header section of decoded fields.  Raises Malformed."""
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in decoded:
        if not name.startswith(b":"):
            break
        if name in pseudo:
            raise Malformed(f"{name!r} stands there twice")
        pseudo[name] = value
        count += 1
    fields = decoded[count:]
    length = _checked(fields)
    method, path, host = pseudo.pop(b":method", b""), pseudo.pop(b":path", None), pseudo.pop(b":authority", None)
    scheme = pseudo.pop(b":scheme", None)
    if pseudo:
        raise Malformed(f"{next(iter(pseudo))!r} is no part of a request")
    if method not in _METHODS:
        if not _IS_TOKEN(method):
            raise Malformed("there is no method")
        if method == b"CONNECT" and (path is not None or scheme is not None):
            raise Malformed("CONNECT has neither a path nor a scheme")
    if method != b"CONNECT" and (not path or not scheme):
        raise Malformed("there is no path or no scheme")
    if host is not None:
        if host.translate(None, _CONTROLS) != host:
            raise Malformed("a control character stands in the host")
        fields = _with_host(fields, host)
    if path is not None and not _PLAIN_PATH(path):
        found = origin_form(method, path)
        path = None if found is None else found[0]
    head = Head(method, path, fields, length)
    hosts = head.headers.get(b"Host")
    if hosts is not None and not is_host(hosts[0]):
        head.path = None
    return head


def _with_host(fields: list[Field], host: bytes) -> list[Field]:
    for name, value in fields:
        if name == b"host":
            if value.lower() != host.lower():
                raise Malformed("two hosts are named")
            return fields
    return [(b"host", host), *fields]


def trailers(decoded: list[Field]) -> None:
    """Checks trailers, which are not used.  Raises Malformed."""
    _checked(decoded)


def _checked(fields: list[Field]) -> int | None:
    """Checks regular fields, and returns their content-length.  Raises Malformed."""
    special = False
    for field in fields:
        if _known(field) if len(field[0]) + len(field[1]) <= _MAX_CACHED_FIELD_BYTES else _is_special(field):
            special = True
    return _check_special(fields) if special else None


def _is_special(field: Field) -> bool:
    """Checks name and value; returns whether ``_check_special`` must see the field.  Raises Malformed."""
    name, value = field
    if not _IS_NAME(name):
        raise Malformed("a name is none, or not in lower case, or of the part that comes first")
    if value.translate(None, _CONTROLS) != value:
        raise Malformed("a control character stands in a value")
    return name in _SPECIAL or value.strip(_SPACES) != value


#: cached, since clients repeat their fields
_known = functools.lru_cache(maxsize=512)(_is_special)


def _check_special(fields: list[Field]) -> int | None:
    """Checks fields with a meaning for the request, and trims the values of all fields, as HTTP/1.1 does.  Raises Malformed."""
    length: int | None = None
    host = False
    for index, (name, value) in enumerate(fields):
        if value.strip(_SPACES) != value:  # Go's server accepts it, and its clients send "Bearer " for an empty token
            value = value.strip(_SPACES)
            fields[index] = name, value
        if name in CONNECTION_FIELDS or (name == b"te" and value.lower() != b"trailers"):
            raise Malformed(f"{name!r} is of a connection")
        if name == b"host":
            if host:
                raise Malformed("two hosts are named")
            host = True
        elif name == b"content-length":
            if not (value.isdigit() and len(value) <= _MAX_LENGTH_DIGITS) or length not in (None, int(value)):
                raise Malformed("the length is none")
            length = int(value)
    return length


# -- answers

CONTINUE = b"\x08\x03100"
_STATUSES = {200: b"\x88", 204: b"\x89", 206: b"\x8a", 304: b"\x8b", 400: b"\x8c", 404: b"\x8d", 500: b"\x8e"}


def answer_block(status: int, fields: Sequence[Field]) -> tuple[bytes, bool]:
    """(block, whether it has a Connection field: then it is the connection's last answer).

    Connection-specific fields are left out, and line breaks in values become spaces.
    """
    parts = [_STATUSES.get(status) or b"\x08\x03%d" % status, *starmap(encoded_field, fields)]
    return b"".join(parts), b"" in parts and any(name.lower() == b"connection" for name, _ in fields)
