"""The HTTP request of a RequestContext, which also writes the answer: from this server's own channels or from another Site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.web.http_headers import Headers

if TYPE_CHECKING:
    from twisted.web.resource import IResource


class Waiting(Protocol):
    """An answer that is not ready yet."""

    def client_gone(self) -> None:
        """Called when the client has disconnected."""


class HTTPRequest(Protocol):
    """Twisted.web's Request with a few additions.

    ``write_whole`` sends a complete answer; ``begin`` sends the headers of an answer whose body of ``size`` bytes follows.
    ``shrink`` frees memory when the answer will take long.  ``abort`` ends an answer in the middle.  ``waiting`` is notified when
    the client disconnects.
    """

    method: bytes
    uri: bytes
    clientproto: bytes
    content: Any  # a file with the body
    transport: Any
    requestHeaders: Headers
    responseHeaders: Headers
    waiting: Waiting | None
    context: Any  # the RequestContext, while the resource is rendered

    @property
    def gone(self) -> bool: ...  # the client has disconnected

    @property
    def finished(self) -> int: ...  # whether the answer is complete

    @property
    def body_too_large(self) -> bool: ...

    @property
    def sentLength(self) -> int: ...  # bytes of the answer's body

    def getHeader(self, key: str, /) -> str | None: ...

    def render(self, resource: IResource, /) -> None: ...

    def getClientAddress(self) -> IAddress: ...

    def notifyFinish(self) -> Deferred[None]: ...

    def setResponseCode(self, code: int, message: bytes | None = None) -> None: ...

    def registerProducer(self, producer: object, streaming: bool, /) -> None: ...

    def unregisterProducer(self) -> None: ...

    def write(self, data: bytes, /) -> None: ...

    def begin(self, fields: Sequence[tuple[bytes, bytes]], size: int) -> None: ...

    def write_whole(self, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None: ...

    def finish(self) -> None: ...

    def shrink(self) -> None: ...

    def abort(self) -> None: ...
