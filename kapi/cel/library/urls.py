"""URLs (upstream: apiserver ``cel/library/urls.go``; Go's ``url.ParseRequestURI``)."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declarer
from kapi.cel.types import CelType
from kapi.cel.values import Opaque
from kapi.machinery.checkpoint import steps
from kapi.machinery.each import elements

URL = CelType("opaque", "kubernetes.URL")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(:[0-9]*)?")


class URLValue(Opaque):
    """A parsed absolute URL or absolute path."""

    __slots__ = ("text", "scheme", "host", "path", "raw_query")
    cel_type = URL

    def __init__(self, text: str, scheme: str, host: str, path: str, raw_query: str) -> None:
        self.text, self.scheme, self.host, self.path, self.raw_query = text, scheme, host, path, raw_query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URLValue) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def parse(text: str) -> URLValue:
    """Raises ValueError with the part after Go's ``parse "...": ``."""
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    scheme, rest = "", text
    match = _SCHEME.match(text)
    if match is not None:
        scheme, rest = match.group(1).lower(), text[match.end() :]
    elif text[0] == ":":
        raise ValueError("missing protocol scheme")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URLValue(text, scheme, "", "", query)  # opaque
        raise ValueError("invalid URI for request")
    host, path = "", rest
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, tail = rest[2:].partition("/")
        host, path = _authority(authority), slash + tail
    bad = _BAD_ESCAPE.search(path)
    if bad is not None:
        raise ValueError(f'invalid URL escape "{path[bad.start() : bad.start() + 3]}"')
    return URLValue(text, scheme, host, path, query)


def _authority(text: str) -> str:
    host = text.rpartition("@")[2]
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        colon = host.find(":")
        port = host[colon:] if colon >= 0 else ""
        if colon >= 0 and port.count(":") > 1:
            port = host[host.rfind(":") :]
    if not _PORT.fullmatch(port):
        raise ValueError(f'invalid port "{port}" after host')
    forbidden = ' "<>\\^`{|}%' if _BAD_ESCAPE.search(host) else ' "<>\\^`{|}'
    for char in steps(host, 200):
        if char in forbidden:
            raise ValueError(f'invalid character "{char}" in host name')
    return unquote(host)


def _hostname(url: URLValue) -> str:
    if url.host.startswith("["):
        return url.host[1 : url.host.rfind("]")]
    head, colon, tail = url.host.rpartition(":")
    return head if colon and (tail.isdigit() or not tail) else url.host


def _port(url: URLValue) -> str:
    tail = url.host[url.host.rfind("]") + 1 :] if url.host.startswith("[") else url.host
    head, colon, port = tail.rpartition(":")
    return port if colon and port.isdigit() else ""


def _escaped_path(url: URLValue) -> str:
    return quote(unquote(url.path), safe="/$&+,:;=@!'()*~") if "%" not in url.path else url.path


def _query(url: URLValue) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for part in elements(url.raw_query.split("&")):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        if _BAD_ESCAPE.search(part):
            continue
        result.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return result


def _of(text: str) -> URLValue:
    try:
        return parse(text)
    except ValueError as error:
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": {error}') from None


def _is(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


d = declarer(URL=URL)

URLS = [
    d("url", "string_to_url", "(string) URL", _of),
    d("isURL", "is_url_string", "(string) bool", _is),
    d("getScheme", "url_get_scheme", "URL.() string", lambda a: a.scheme),
    d("getHost", "url_get_host", "URL.() string", lambda a: a.host),
    d("getHostname", "url_get_hostname", "URL.() string", _hostname),
    d("getPort", "url_get_port", "URL.() string", _port),
    d("getEscapedPath", "url_get_escaped_path", "URL.() string", _escaped_path),
    d("getQuery", "url_get_query", "URL.() map(string, list(string))", _query),
]
