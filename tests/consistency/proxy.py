"""A proxy between two parts, whose links can be cut, silenced, slowed down: every connection goes through it.

``bounds`` of what is held: one chunk a direction; while nothing is forwarded, nothing is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

MODES = ("cut", "blackhole", "deaf", "mute", "delay", "trickle")
_CHUNK = 1 << 16
_TRICKLE = 64  # bytes each time


class Link:
    """How a link is at the moment: ``pass``, or one of MODES.

    cut        connections are reset, new ones refused
    blackhole  connections stay, nothing goes either way; new ones are accepted and silent
    deaf       what the client sends is lost on the way (half-open); answers go through
    mute       what the server answers stays away; requests go through
    delay      each piece takes a while
    trickle    a few bytes at a time
    """

    def __init__(self) -> None:
        self.mode = "pass"
        self.changed = asyncio.Event()
        self.open: set[asyncio.StreamWriter] = set()

    def set(self, mode: str) -> None:
        self.mode = mode
        self.changed.set()
        self.changed = asyncio.Event()
        if mode == "cut":
            self.reset()

    def reset(self) -> None:
        """Breaks what is open: after a black hole both ends would wait for each other."""
        for writer in list(self.open):
            writer.transport.abort()


class Proxy:
    """Listens on ``port``; ``target`` opens a connection to the server.  ``link_of`` tells links apart by the peer's host."""

    def __init__(
        self, port: int, target: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
    ) -> None:
        self.port = port
        self.link = Link()
        self.links: dict[str, Link] = {}  # by the client's address; others use ``link``
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port, limit=_CHUNK)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in (self.link, *self.links.values()):
            link.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername") or ("",)
        link = self.links.get(peer[0], self.link)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream: asyncio.StreamWriter | None = None
        link.open.add(writer)
        try:
            while link.mode == "blackhole":
                await link.changed.wait()
            if link.mode == "cut":
                return
            answers, upstream = await self._target()
            link.open.add(upstream)
            directions = [
                asyncio.ensure_future(_pump(link, reader, upstream, "deaf")),
                asyncio.ensure_future(_pump(link, answers, writer, "mute")),
            ]
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, upstream):
                if end is not None:
                    link.open.discard(end)
                    end.transport.abort() if link.mode == "cut" else end.close()
            self._tasks.discard(task)


async def _pump(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: str) -> None:
    """Forwards one direction until it ends."""
    try:
        while True:
            data = await reader.read(_CHUNK)
            if not data:
                return
            while link.mode == "blackhole":
                await link.changed.wait()
            if link.mode == silent:
                continue
            if link.mode == "delay":
                await asyncio.sleep(0.15)
            elif link.mode == "trickle":
                while len(data) > _TRICKLE and link.mode == "trickle":
                    writer.write(data[:_TRICKLE])
                    data = data[_TRICKLE:]
                    await asyncio.sleep(0.01)
            writer.write(data)
            await writer.drain()
    except (OSError, EOFError):
        return


def to_port(port: int, source: str = "") -> Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    return connect


def to_socket(path: str) -> Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(path)

    return connect
