"""The URL to which client-go's REST client sends the requests for a configured URL.

Upstream: client-go ``rest/client.go`` (NewRESTClient), ``rest/request.go`` (NewRequest), ``rest/url_utils.go``; Go's
``path.Join``.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote, unquote, urlsplit

_NO_HOST = re.compile(r"[\s\\^`{|}]")  # characters that are in no host's name


def server_url(host: str, tls: bool) -> str:
    """The http or https URL of a server that is given as a URL or as "host:port"; the latter means https with ``tls``.

    Raises ValueError.
    """
    try:
        parts = urlsplit(host)
    except ValueError:
        parts = None
    if parts is None or not parts.scheme or not parts.netloc or _NO_HOST.search(parts.netloc):
        parts = urlsplit(f"{'https' if tls else 'http'}://{host}")
        if not parts.netloc or parts.path not in ("", "/") or _NO_HOST.search(parts.netloc):
            raise ValueError(f'host must be a URL or a host:port pair: "{host}"')
    if parts.scheme not in ("http", "https"):
        raise ValueError(f'unsupported protocol scheme "{parts.scheme}"')
    return parts.geturl()


def rest_url(url: str) -> str:
    """The URL without query and fragment, with the path of ``rest_path``.  Raises ValueError for an invalid URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{quote(rest_path(unquote(parts.path)), safe='/$&+,:;=@')}"


def rest_path(path: str) -> str:
    """The path from the root, without doubled slashes, dot segments and a slash at the end."""
    return posixpath.normpath("/" + path.lstrip("/"))
