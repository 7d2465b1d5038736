"""URLs, parsed as in Go's ``net/url``: their parts, and the errors of invalid ones."""

from __future__ import annotations

import re

from msgspec import Struct

from kapi.machinery.golang import quote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(:[0-9]*)?")
#: of ASCII, a host may have no escapes but that of the percent sign
_NOT_IN_HOST = re.compile(r"[ \\^`{|}]|%(?!25|[89a-fA-F][0-9a-fA-F])")
_NOT_IN_ZONE = re.compile(r"[ \\^`{|}]|%(?![0-9a-fA-F]{2})")


class ParsedURL(Struct, frozen=True):
    """The parts of a URL; ``user`` and ``host`` as sent, ``user`` None without an ``@``."""

    scheme: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    raw_query: str = ""
    fragment: str = ""


def parse_url(text: str) -> ParsedURL:
    """``url.Parse``.  Raises ValueError with Go's whole message."""
    given, _, fragment = text.partition("#")
    try:
        return _parse(given, fragment=fragment)
    except ValueError as error:
        raise ValueError(f"parse {quote(given)}: {error}") from None


def parse_request_uri(text: str) -> ParsedURL:
    """``url.ParseRequestURI``: an absolute URL or an absolute path.  Raises ValueError without Go's ``parse "...": ``."""
    if not text:
        raise ValueError("empty url")
    return _parse(text, of_request=True)


def _parse(text: str, *, of_request: bool = False, fragment: str = "") -> ParsedURL:
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    scheme, rest = "", text
    match = _SCHEME.match(text)
    if match is not None:
        scheme, rest = match.group(1).lower(), text[match.end() :]
    elif text.startswith(":"):
        raise ValueError("missing protocol scheme")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return ParsedURL(scheme, raw_query=query, fragment=fragment)  # opaque
        if of_request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    user, host, path = None, "", rest
    if rest.startswith("//") and (scheme or not (of_request or rest.startswith("///"))):
        authority, slash, tail = rest[2:].partition("/")
        before, at, host = authority.rpartition("@")
        user, host, path = before if at else None, _host(host), slash + tail
    bad = BAD_ESCAPE.search(path)
    if bad is not None:
        raise ValueError(f'invalid URL escape "{path[bad.start() : bad.start() + 3]}"')
    return ParsedURL(scheme, user, host, path, query, fragment)


def _host(host: str) -> str:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        port = host[host.rfind(":") :] if ":" in host else ""
    if not _PORT.fullmatch(port):
        raise ValueError(f'invalid port "{port}" after host')
    wrong = (_NOT_IN_ZONE if host.startswith("[") and "%25" in host else _NOT_IN_HOST).search(host)
    if wrong is None:
        return host
    if wrong[0] == "%":
        raise ValueError(f"invalid URL escape {quote(host[wrong.start() : wrong.start() + 3])}")
    raise ValueError(f"invalid character {quote(wrong[0])} in host name")
