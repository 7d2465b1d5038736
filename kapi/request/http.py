"""The HTTP request behind a RequestContext, and what writes its answer: of this server's own channels, or of another Site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.web.http_headers import Headers


class Waiting(Protocol):
    """An answer that has not come yet."""

    def left(self) -> None:
        """The client has gone."""


class HTTPRequest(Protocol):
    """As twisted.web's Request, with what an API server needs besides.

    ``write_whole`` sends an answer from its headers to its end; ``shrink`` says that it will take long, ``abort`` that it ends
    in the middle.  ``waiting`` is notified when the client leaves.
    """

    method: bytes
    uri: bytes
    clientproto: bytes
    content: Any  # a file with the body
    transport: Any
    requestHeaders: Headers
    responseHeaders: Headers
    waiting: Waiting | None

    @property
    def gone(self) -> bool: ...  # the client has left

    @property
    def body_too_large(self) -> bool: ...

    @property
    def sentLength(self) -> int: ...  # bytes of the answer's body

    def getHeader(self, key: str, /) -> str | None: ...

    def getClientAddress(self) -> IAddress: ...

    def notifyFinish(self) -> Deferred[None]: ...

    def setResponseCode(self, code: int, message: bytes | None = None) -> None: ...

    def registerProducer(self, producer: object, streaming: bool, /) -> None: ...

    def unregisterProducer(self) -> None: ...

    def write(self, data: bytes, /) -> None: ...

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None: ...

    def finish(self) -> None: ...

    def shrink(self) -> None: ...

    def abort(self) -> None: ...
