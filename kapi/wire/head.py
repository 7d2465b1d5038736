"""Heads of outgoing requests: all are encoded here, and a header that would be read as several is refused.

The rest of a value behind a line break would be a header of its own to the server, and a user's name comes from certificates,
tokens and webhooks.  Upstream: ``net/http`` and ``golang.org/x/net/http/httpguts``, client-go
``transport/round_trippers.go`` (the headers with the user's identity).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:  # commands start faster
    from kapi.request.user import UserInfo

Header = tuple[bytes, bytes]
_name = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
#: HTTP leaves the meaning of bytes above ASCII open; here they are UTF-8
_value = re.compile(rb"[\t\x20-\x7e\x80-\xff]*").fullmatch
_target = re.compile(rb"[\x21-\x7e\x80-\xff]+").fullmatch
_IN_NAMES = "!#$&'*+-.^_`|~"  # besides letters and digits; "%" escapes others


class BadHead(ValueError):
    """A request that cannot be written."""


def header_line(name: bytes, value: bytes) -> bytes:
    """``name: value`` without the line's end.  Raises BadHead, which does not quote the value."""
    if _name(name) is None:
        raise BadHead(f'net/http: invalid header field name "{name[:100].decode("ascii", "backslashreplace")}"')
    if _value(value) is None:
        raise BadHead(f'net/http: invalid header field value for "{name.decode("ascii")}"')
    return b"%s: %s" % (name, value)


def checked(headers: Iterable[Header]) -> list[Header]:
    """The same headers, checked, for a caller that writes them itself.  Raises BadHead."""
    found = list(headers)
    for name, value in found:
        header_line(name, value)
    return found


def request_line(method: bytes, target: bytes) -> bytes:
    """The first line without its end.  Raises BadHead."""
    if _name(method) is None:
        raise BadHead("net/http: invalid method")
    if _target(target) is None:
        raise BadHead("net/http: invalid request target")
    return b"%s %s HTTP/1.1" % (method, target)


def request_head(method: bytes, target: bytes, headers: Iterable[Header]) -> bytes:
    """Everything before the body.  Raises BadHead."""
    lines = [request_line(method, target)]
    lines.extend(header_line(name, value) for name, value in headers)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def identity_headers(user: UserInfo) -> list[Header]:
    """The user, in the headers of request-header authentication.

    Raises BadHead for a user that a header cannot hold: one with a control character, with half a surrogate pair, or with blanks
    at an end, which the reader would strip and so see another user.
    """
    found = [_identity(b"X-Remote-User", user.name)]
    if user.uid:
        found.append(_identity(b"X-Remote-Uid", user.uid))
    found.extend(_identity(b"X-Remote-Group", group) for group in user.groups)
    for key, values in user.extra.items():
        try:
            name = b"X-Remote-Extra-" + quote(key, safe=_IN_NAMES).encode()
        except UnicodeEncodeError:
            raise BadHead("net/http: invalid header field name") from None
        found.extend(_identity(name, value) for value in values)
    return found


def _identity(name: bytes, text: str) -> Header:
    try:
        value = text.encode()
    except UnicodeEncodeError:
        value = b"\n"  # refused below, as any invalid value
    if value != value.strip(b" \t"):
        value = b"\n"
    header_line(name, value)
    return name, value
