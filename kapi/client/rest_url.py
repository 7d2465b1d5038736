"""The URL to which client-go's REST client sends the requests for a configured URL.

Upstream: client-go ``rest/client.go`` (NewRESTClient), ``rest/request.go`` (NewRequest); Go's ``path.Join``.
"""

from __future__ import annotations

import posixpath
from urllib.parse import quote, unquote, urlsplit


def rest_url(url: str) -> str:
    """The URL without query and fragment; its path is what ``rest_path`` returns.  Raises ValueError for what is no URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{quote(rest_path(unquote(parts.path)), safe='/$&+,:;=@')}"


def rest_path(path: str) -> str:
    """The path from the root, without doubled slashes, dot segments and a slash at the end."""
    return posixpath.normpath("/" + path.lstrip("/"))
