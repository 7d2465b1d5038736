"""The events of a watch, one by one (upstream: apimachinery ``watch``, client-go ``rest/watch``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson
from twisted.internet.defer import CancelledError

from kapi.client.errors import ConnectionFailed, UnexpectedAnswer, from_status
from kapi.machinery.tree import Object, Tree
from kapi.wire.transport import Stream, StreamClosed

MAX_EVENT = 64 * 1024 * 1024  # bytes


class WatchEvent(NamedTuple):
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


class Watch:
    """``async for event in watch`` until the server ends it; ``close()`` ends it from this side.

    An ERROR event is raised as the StatusError that it holds (Expired for 410), a broken connection as ConnectionFailed.
    """

    def __init__(self, stream: Stream, decode: Callable[[bytes], Tree] = orjson.loads) -> None:
        self._stream = stream
        self._decode = decode
        self._lines: list[bytes] = []  # complete, the next one last
        self._rest: list[bytes] = []
        self._size = 0
        self._closed = False

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> WatchEvent:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def lines(self) -> list[bytes]:
        """Waits for events.  Returns all that have come, at least one, undecoded; [] at the end."""
        while not self._lines:
            if self._closed:
                return []
            try:
                data = await self._stream.read()
            except StreamClosed:
                return []
            except CancelledError:
                self.close()
                raise
            except Exception as problem:
                raise ConnectionFailed(f"the watch broke: {problem}") from problem
            if not data:
                return []
            self._take(data)
        found, self._lines = self._lines[::-1], []
        return found

    def _take(self, data: bytes) -> None:
        end = data.rfind(b"\n")
        if end < 0:
            self._rest.append(data)
            self._size += len(data)
            if self._size > MAX_EVENT:
                self.close()
                raise UnexpectedAnswer(f"a watch event is larger than {MAX_EVENT} bytes")
            return
        whole = b"".join((*self._rest, data[:end]))
        rest = data[end + 1 :]
        self._rest, self._size = ([rest] if rest else []), len(rest)
        self._lines = [line for line in reversed(whole.split(b"\n")) if line.strip()]

    async def next(self) -> WatchEvent | None:
        """The next event, or None at the end."""
        if not self._lines:
            self._lines = (await self.lines())[::-1]
            if not self._lines:
                return None
        return self.decoded(self._lines.pop())

    def decoded(self, line: bytes) -> WatchEvent:
        """The event of one line.  Raises the StatusError of an ERROR event, and UnexpectedAnswer."""
        try:
            tree = self._decode(line)
            kind, obj = tree["type"], tree["object"]
        except (ValueError, KeyError, TypeError):
            self.close()
            raise UnexpectedAnswer("unable to decode an event from the watch stream") from None
        if kind == "ERROR":
            self.close()
            raise from_status(obj if isinstance(obj, dict) else {})
        return WatchEvent(kind, obj)

    def close(self) -> None:
        """Ends the watch and its connection."""
        if not self._closed:
            self._closed = True
            self._stream.close()
