"""Requests in memory, as the filters see them."""

from __future__ import annotations

import io
from typing import Any

from twisted.web.http_headers import Headers

from kapi.request.context import RequestContext
from kapi.request.parse import parse_request_info, split_uri
from kapi.request.user import UserInfo


class MemoryHTTP:
    """The part of twisted.web's Request that filters and authenticators read."""

    clientproto = b"HTTP/1.1"

    def __init__(
        self, headers: dict[str, str | list[str]], body: bytes = b"", peer: Any = None, uri: str = "/"
    ) -> None:
        self.uri = uri.encode()
        self.requestHeaders = Headers()
        for name, value in headers.items():
            self.requestHeaders.setRawHeaders(name, value if isinstance(value, list) else [value])
        self.content = io.BytesIO(body)
        self.transport = peer

    def getHeader(self, name: str) -> str | None:
        values = self.requestHeaders.getRawHeaders(name)
        return values[-1] if values else None


class Peer:
    """A transport whose client showed certificates."""

    def __init__(self, *chain: Any) -> None:
        self._kapi_peer_chain = list(chain)
        self._tlsConnection = object()


def request(
    uri: str = "/api/v1/namespaces/x/pods",
    method: str = "GET",
    headers: dict[str, str | list[str]] | None = None,
    user: UserInfo | None = None,
    peer: Any = None,
    info: bool = True,
) -> RequestContext:
    path, query = split_uri(uri.encode())
    ctx = RequestContext(MemoryHTTP(headers or {}, peer=peer, uri=uri), method, path, query)
    if info:
        ctx.info = parse_request_info(method, path, query)
    ctx.user = user
    return ctx
