"""The URL to which client-go's REST client sends the requests for a configured URL.

Upstream: client-go ``rest/client.go`` (NewRESTClient), ``rest/request.go`` (NewRequest), ``rest/url_utils.go``; Go's
``path.Join``.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote, unquote, urlsplit

from kapi.client.config import without_user
from kapi.machinery.golang import quote as quoted

_NO_HOST = re.compile(r"[\s\\^`{|}/?#@\x00-\x20\x7f]")  # characters that are in no host's name
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_PORT = re.compile(r"(:\d*)?")
MAX_PORT = 65535


class NoServer(ValueError):
    """A URL to which no request can be sent."""


def server_url(host: str, tls: bool) -> str:
    """The http or https URL of a server that is given as a URL or as "host:port"; the latter means https with ``tls``.

    Raises ValueError, and NoServer with what Go says when a request is sent.
    """
    try:
        scheme, place, path = _parse(host)
    except NoServer:
        scheme = place = ""
    if not host:
        raise ValueError('host must be a URL or a host:port pair: ""')
    if not scheme or not place:
        host = f"{'https' if tls else 'http'}://{host}"
        scheme, place, path = _parse(host)
        if path not in ("", "/"):
            given = host.partition("://")[2]
            raise ValueError(f'host must be a URL or a host:port pair: "{without_user(given)}"')
    if scheme not in ("http", "https"):
        raise NoServer(f'unsupported protocol scheme "{scheme}"')
    if place in ("", ":"):
        raise NoServer("http: no Host in request URL")
    port = place.rpartition(":")[2] if not place.endswith("]") and ":" in place else ""
    if port and int(port) > MAX_PORT:
        raise NoServer(f"dial tcp: address {port}: invalid port")
    return urlsplit(host).geturl()


def _parse(url: str) -> tuple[str, str, str]:
    """Scheme, host with its port, and path, like Go's ``url.Parse``.  Raises NoServer."""
    match = re.match(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(//([^/?#]*))?([^?#]*)", url)
    assert match is not None  # all its parts may be missing
    scheme, place, path = (match[1] or "").lower(), (match[3] or "").rpartition("@")[2], match[4]
    if not scheme and ":" in path.partition("/")[0]:
        raise NoServer(
            "missing protocol scheme" if url.startswith(":") else "first path segment in URL cannot contain colon"
        )
    for part in (place, path):
        if bad := _BAD_ESCAPE.search(part):
            raise NoServer(f'invalid URL escape "{bad[0]}"')
    name, port = place, ""
    if place.startswith("["):
        name, bracket, port = place.partition("]")
        if not bracket:
            raise NoServer("missing ']' in host")
    elif ":" in place:
        name = place[: place.index(":")]
        port = place[place.index(":") :]
    if not _PORT.fullmatch(port):
        raise NoServer(f"invalid port {quoted(port)} after host")
    if escaped := re.search("%(?!25)..", place):
        raise NoServer(f'invalid URL escape "{escaped[0]}"')
    if bad := _NO_HOST.search(name):
        raise NoServer(f"invalid character {quoted(bad[0])} in host name")
    return scheme, place, path


def rest_url(url: str) -> str:
    """The URL without query and fragment, with the path of ``rest_path``.  Raises ValueError for an invalid URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{quote(rest_path(unquote(parts.path)), safe='/$&+,:;=@')}"


def rest_path(path: str) -> str:
    """The path from the root, without doubled slashes, dot segments and a slash at the end."""
    return posixpath.normpath("/" + path.lstrip("/"))
