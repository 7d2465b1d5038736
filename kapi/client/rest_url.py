"""The URL that client-go's REST client asks for the URL it is given.

Upstream: client-go ``rest/client.go`` (NewRESTClient), ``rest/request.go`` (NewRequest); Go's ``path.Join``.
"""

from __future__ import annotations

import posixpath
from urllib.parse import quote, unquote, urlsplit


def rest_url(url: str) -> str:
    """Without query and fragment, with a path as ``rest_path`` makes it.  Raises ValueError for what is no URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{quote(rest_path(unquote(parts.path)), safe='/$&+,:;=@')}"


def rest_path(path: str) -> str:
    """From the root on, without doubled slashes, dots and a slash at the end."""
    return posixpath.normpath("/" + path.lstrip("/"))
