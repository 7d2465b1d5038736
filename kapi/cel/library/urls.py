"""URLs (upstream: apiserver ``cel/library/urls.go``; Go's ``url.ParseRequestURI``)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from kapi.cel.functions import converter, declarer, readable
from kapi.cel.types import CelType
from kapi.cel.values import Opaque
from kapi.machinery.each import elements
from kapi.machinery.urls import BAD_ESCAPE, parse_request_uri

URL = CelType("opaque", "kubernetes.URL")


@dataclass(frozen=True, slots=True)
class URLValue(Opaque):
    """A parsed absolute URL or absolute path."""

    cel_type = URL
    text: str
    scheme: str
    host: str
    path: str
    raw_query: str


def parse(text: str) -> URLValue:
    """Raises ValueError with the part after Go's ``parse "...": ``."""
    parsed = parse_request_uri(text)
    given, mark, fragment = text.partition("#")
    if mark:
        bad = BAD_ESCAPE.search(fragment)
        if bad is not None:
            raise ValueError(f'invalid URL escape "{fragment[bad.start() : bad.start() + 3]}"')
        parsed = parse_request_uri(given)
    return URLValue(text, parsed.scheme, unquote(parsed.host), parsed.path, parsed.raw_query)


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
        if BAD_ESCAPE.search(part):
            continue
        result.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return result


_TEXT = 'URL parse error during conversion from string: parse "{given}": {error}'
d = declarer(URL=URL)

URLS = [
    d("url", "string_to_url", "(string) URL", converter(parse, _TEXT)),
    d("isURL", "is_url_string", "(string) bool", readable(parse_request_uri)),
    d("getScheme", "url_get_scheme", "URL.() string", lambda a: a.scheme),
    d("getHost", "url_get_host", "URL.() string", lambda a: a.host),
    d("getHostname", "url_get_hostname", "URL.() string", _hostname),
    d("getPort", "url_get_port", "URL.() string", _port),
    d("getEscapedPath", "url_get_escaped_path", "URL.() string", _escaped_path),
    d("getQuery", "url_get_query", "URL.() map(string, list(string))", _query),
]
