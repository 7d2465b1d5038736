"""Requests that come through the site of another application, in which the API is mounted.

That site has read the whole request, over whatever transport it serves, and frames the answer.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from kapi.request.target import origin_form
from kapi.serving.request import MAX_BODY, APIRequest


class MountedResource(Resource):
    """A resource whose requests are made by ``make``, and run like those of a port."""

    isLeaf = True

    def __init__(self, make: Callable[[MountedChannel], APIRequest]) -> None:
        super().__init__()
        self._make = make

    def render(self, request: Any) -> int:
        target = _below(request)
        if target is None:
            request.setResponseCode(400)
            request.finish()
            return NOT_DONE_YET
        for name in (b"content-type", b"server"):  # of the site
            request.responseHeaders.removeHeader(name)
        made = self._make(MountedChannel(request))
        made.requestHeaders.add(_fields(request.requestHeaders))  # type: ignore[attr-defined]
        size = request.content.seek(0, io.SEEK_END)
        request.content.seek(0)
        made.gotLength(size)
        if size > MAX_BODY:
            made.body_size = size
        elif size:
            made.handleContentChunk(request.content.read())
        request.notifyFinish().addErrback(made.connectionLost)
        made.requestReceived(request.method, target, request.clientproto)
        return NOT_DONE_YET


def _fields(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, values in headers.getAllRawHeaders() for value in values]


def _below(request: Any) -> bytes | None:
    """Path and query relative to the mount point of the resource; None for an invalid target."""
    found = origin_form(request.method, request.uri)
    if found is None:
        return None
    path, mark, query = found[0].partition(b"?")
    mounted = len(request.prepath)  # segments of the path that led here
    below = path.split(b"/", mounted + 1)[mounted + 1 :] if mounted else [path[1:]]
    return b"/" + b"".join(below) + mark + query


class MountedChannel:
    """The channel of an APIRequest: the request of the other site."""

    factory = None

    def __init__(self, request: Any) -> None:
        self._request = request
        self.transport = request.transport

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: Headers) -> None:
        self._request.setResponseCode(int(code), reason)
        for name, values in headers.getAllRawHeaders():
            self._request.responseHeaders.setRawHeaders(name, values)
        self._request.write(b"")  # sends the headers now: the first event of a watch may come late

    def write(self, data: bytes) -> None:
        self._request.write(data)

    def registerProducer(self, producer: object, streaming: bool) -> None:
        self._request.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        if self._request.channel is not None:  # the client is connected
            self._request.unregisterProducer()

    def requestDone(self, request: APIRequest) -> None:
        self._request.finish()

    def abortConnection(self) -> None:
        channel = self._request.channel
        (getattr(channel, "abortConnection", None) or channel.transport.abortConnection)()

    def getPeer(self) -> IAddress:
        peer: IAddress = self._request.getClientAddress()
        return peer

    def getHost(self) -> IAddress:
        host: IAddress = self._request.getHost()
        return host

    def isSecure(self) -> bool:
        return bool(self._request.isSecure())
