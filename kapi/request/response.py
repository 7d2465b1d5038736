"""The answer of a handler, as a value.  One writer (``kapi.endpoints.writer``) sends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import overload

from kapi.request.http import HTTPRequest

JSON = b"application/json"
#: a header with which an answer ends its connection: later bytes of the client are not read
CLOSE = (b"connection", b"close")
SLICE = 64 * 1024  # bytes in one write: a larger one is quadratic in HTTP/2


class Parts(Sequence[bytes]):
    """Slices of a body, each made on access.  Making them raises nothing."""

    size: int  # bytes of all slices

    def held(self) -> Iterable[bytes]:
        """The object that is kept only for this body."""
        return ()

    def kept(self) -> Iterable[bytes]:
        """The objects that it keeps in memory, also those that are still needed elsewhere."""
        return self.held()

    def part(self, position: int) -> bytes:
        """The slice at a valid position."""
        raise NotImplementedError

    @overload
    def __getitem__(self, position: int) -> bytes: ...
    @overload
    def __getitem__(self, position: slice) -> list[bytes]: ...
    def __getitem__(self, position: int | slice) -> bytes | list[bytes]:
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(len(self)))]
        if not 0 <= position < len(self):
            raise IndexError(position)
        return self.part(position)


class Response:
    """A whole answer in memory.

    ``body`` is bytes, or byte slices that are written one after another through a pull producer (a LIST joins cached bytes
    without copying them into one string).
    """

    __slots__ = ("status", "content_type", "body", "headers")

    def __init__(
        self,
        status: int,
        body: bytes | Sequence[bytes] = b"",
        content_type: bytes = JSON,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = tuple(headers)

    def drop(self) -> None:
        """Releases the resources of a response that is not sent."""


class StreamResponse(Response):
    """An answer that is written over time: ``run(http_request)`` writes it after the headers; its Deferred fires at the end.

    ``unused`` is called when the answer is not sent, since the client has disconnected, for example to close a connection.
    """

    __slots__ = ("run", "_unused")

    def __init__(
        self,
        run: Callable[[HTTPRequest], Awaitable[None]],
        status: int = 200,
        content_type: bytes = JSON,
        headers: Iterable[tuple[bytes, bytes]] = (),
        unused: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(status, b"", content_type, headers)
        self.run = run
        self._unused = unused

    def drop(self) -> None:
        if self._unused is not None:
            self._unused()


class Document:
    """A body for many requests, which is compressed once for all of them."""

    __slots__ = ("body", "compressed")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.compressed: object = None  # the compressed body, set by the writer


class DocumentResponse(Response):
    """Answers with a document."""

    __slots__ = ("document",)

    def __init__(
        self, document: Document, content_type: bytes = JSON, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(200, document.body, content_type, headers)
        self.document = document


class HijackedResponse(Response):
    """The handler has taken over the connection (upgrade, proxy); nothing more is written."""

    def __init__(self, status: int = 101) -> None:
        super().__init__(status)


_WHOLE = (Response, DocumentResponse)


def leaves_whole(response: Response) -> bool:
    """Whether the answer is sent with one write."""
    body = response.body
    return type(response) in _WHOLE and isinstance(body, bytes) and len(body) <= SLICE
