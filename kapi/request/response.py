"""What a handler answers.  One writer (``kapi.endpoints.writer``) puts it on the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import overload

from kapi.request.http import HTTPRequest

JSON = b"application/json"
SLICE = 64 * 1024  # bytes in one write: a larger one is quadratic in HTTP/2


class Parts(Sequence[bytes]):
    """Slices of a body, each made when it is asked for.  Making them raises nothing."""

    size: int  # bytes of all of them
    held = 0  # bytes that are kept for this body; others are made from what is in memory anyway

    def part(self, position: int) -> bytes:
        """The slice at a position that there is."""
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


class StreamResponse(Response):
    """An answer that goes on: ``run(http_request)`` writes it after the headers; its Deferred fires at the end."""

    __slots__ = ("run",)

    def __init__(
        self,
        run: Callable[[HTTPRequest], Awaitable[None]],
        status: int = 200,
        content_type: bytes = JSON,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(status, b"", content_type, headers)
        self.run = run


class HijackedResponse(Response):
    """The handler has taken over the connection (upgrade, proxy); nothing more is written."""

    def __init__(self, status: int = 101) -> None:
        super().__init__(status)


def leaves_whole(response: Response) -> bool:
    """Whether one write puts it on the wire."""
    body = response.body
    return type(response) is Response and isinstance(body, bytes) and len(body) <= SLICE
