"""Notes the store's history from outside of kapi, before it is compacted.

It reads the stream as it is on the server.  ``gate`` is a file that holds the newest revision noted: servers under
test trim the stream no further than that (see ``launch``), so that the record has no holes; what they have let go of in
their own memory they answer with 410 all the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hiredis

from kapi.store.entries import read_entry
from kapi.store.interface import Change
from kapi.store.script import Keys

KEYS = Keys.under("kapi")
_PAGE = 5000
_PAUSE = 0.1  # seconds


class Refused(Exception):
    """The server answers, but with an error."""


#: what a question to a server can fail with
FAILURES = (OSError, EOFError, TimeoutError, Refused)


class Valkey:
    """A connection to a Valkey server at a port or a unix socket."""

    def __init__(self, where: int | str) -> None:
        self.where = where
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._parser = hiredis.Reader()

    async def ask(self, *command: Any, timeout: float = 1.0) -> Any:
        """Raises OSError, EOFError, TimeoutError, Refused."""
        try:
            async with asyncio.timeout(timeout):
                if self._writer is None or self._reader is None:
                    if isinstance(self.where, int):
                        opened = await asyncio.open_connection("127.0.0.1", self.where)
                    else:
                        opened = await asyncio.open_unix_connection(self.where)
                    self._reader, self._writer = opened
                    self._parser = hiredis.Reader()
                self._writer.write(hiredis.pack_command(command))
                while True:
                    reply = self._parser.gets()
                    if reply is not False:
                        break
                    data = await self._reader.read(1 << 16)
                    if not data:
                        raise EOFError("the server closed the connection")
                    self._parser.feed(data)
        except BaseException:
            self.close()
            raise
        if isinstance(reply, Exception):
            raise Refused(str(reply))
        return reply

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


async def order(where: int | str, *command: Any) -> None:
    """One command on a connection of its own; nothing when nobody listens, or it is refused."""
    link = Valkey(where)
    try:
        await link.ask(*command)
    except FAILURES:
        pass
    finally:
        link.close()


class Recorder:
    """``where`` answers the port or socket of the server to read, None while there is none."""

    def __init__(self, where: Callable[[], Awaitable[int | str | None]], gate: Path) -> None:
        self.changes: list[Change] = []
        self.branches: list[list[Change]] = []  # what a primary knew and its successor does not, of each fail-over
        self.problems: list[str] = []
        self._where = where
        self.keeps_gate_shut = False  # nothing is trimmed: a server that starts may be later than the history lasts
        self._gate = os.open(gate, os.O_RDWR | os.O_CREAT, 0o600)
        self._link: Valkey | None = None
        self._stopping = False

    @property
    def revision(self) -> int:
        return self.changes[-1].revision if self.changes else 0

    async def run(self) -> None:
        while not self._stopping:
            try:
                while await self._read() and not self._stopping:
                    pass
            except (OSError, EOFError, TimeoutError, Refused):
                self._drop()
            await asyncio.sleep(_PAUSE)
        self._drop()

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._drop()
        os.close(self._gate)

    async def catch_up(self, patience: float = 120.0) -> None:
        """Done when everything that is there now is noted.  Raises TimeoutError."""
        async with asyncio.timeout(patience):
            newest = int(await self._asked("GET", KEYS.revision) or 0)
            while self.revision < newest:
                await asyncio.sleep(_PAUSE / 5)

    async def objects(self) -> dict[str, bytes]:
        """The hash as it is: key to value."""
        flat = await self._asked("HGETALL", KEYS.objects)
        return {flat[n].decode(): flat[n + 1] for n in range(0, len(flat), 2)}

    async def _asked(self, *command: Any) -> Any:
        """On a connection of its own, again and again."""
        while True:
            where = await self._where()
            if where is not None:
                link = Valkey(where)
                try:
                    return await link.ask(*command, timeout=5.0)
                except (OSError, EOFError, TimeoutError, Refused):
                    pass
                finally:
                    link.close()
            await asyncio.sleep(_PAUSE)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None

    async def _connect(self) -> Valkey | None:
        where = await self._where()
        if self._link is None or self._link.where != where:
            self._drop()
            if where is None:
                return None
            self._link = Valkey(where)
            await self._compare(self._link)
        return self._link

    async def _read(self) -> bool:
        """Notes a page; True when there may be more at once."""
        link = await self._connect()
        if link is None:
            return False
        entries = await link.ask("XRANGE", KEYS.stream, f"({self.revision}-0", "+", "COUNT", _PAGE)
        for entry in entries:
            change = read_entry(entry)
            if change.revision != self.revision + 1:
                self.problems.append(f"the stream goes from {self.revision} to {change.revision}")
            self.changes.append(change)
        if entries and not self.keeps_gate_shut:
            os.pwrite(self._gate, b"%020d" % self.revision, 0)
        return len(entries) == _PAGE

    async def _compare(self, link: Valkey) -> None:
        """After a new connection: what this server does not know was lost with its predecessor."""
        if not self.changes:
            return
        at = f"{self.revision}-0"
        found = await link.ask("XRANGE", KEYS.stream, at, at)
        if found and read_entry(found[0]) == self.changes[-1]:
            return
        known = {}
        for entry in await link.ask("XRANGE", KEYS.stream, "-", "+", timeout=10.0):
            change = read_entry(entry)
            known[change.revision] = change
        branch: list[Change] = []
        while self.changes and known.get(self.revision) != self.changes[-1]:
            if known and self.revision < min(known):
                break  # compacted: what is older is the same
            branch.insert(0, self.changes.pop())
        if branch:
            self.branches.append(branch)
