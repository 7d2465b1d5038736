"""What workers and watchers have in common: a server they talk to, and another one when that does not answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import orjson

from kapi.machinery.tree import Object
from tests.consistency.http_client import Connection, NoAnswer, context
from tests.consistency.records import Journal

UNAVAILABLE = (429, 503, 504)  # right while something is broken; 500 is not
_FULL = "range is full"  # upstream's 500: node ports are few here, and some are reserved by servers that were killed
_TLS = context()


class Client:
    """``ports`` are the servers'; ``timeout`` (seconds) bounds one request."""

    def __init__(self, name: str, ports: Sequence[int], journal: Journal, seed: int, timeout: float) -> None:
        self.name = name
        self.journal = journal
        self.rng = random.Random(seed)
        self.stopping = False
        self.server = seed % len(ports)
        self.newest = 0  # revision this client was told of
        self._connections = [Connection(port, _TLS, timeout) for port in ports]

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def connection(self) -> Connection:
        return self._connections[self.server]

    async def elsewhere(self) -> None:
        """Something failed: try the next server in a moment."""
        self.connection.close()
        self.server = (self.server + 1) % len(self._connections)
        await asyncio.sleep(self.rng.uniform(0.02, 0.2))

    async def ask(
        self, verb: str, method: str, target: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Object]:
        """Status and answer; 0 when there was none."""
        data = b"" if body is None else orjson.dumps(body)
        self.journal.operations[verb] += 1
        try:
            status, answer = await self.connection.ask(method, target, data, kind)
            found = orjson.loads(answer) if answer else {}
        except (NoAnswer, ValueError):
            self.journal.statuses[0] += 1
            return 0, {}
        self.journal.statuses[status] += 1
        if status == 500:
            self.noted_error(f"{method} {target}", answer, allowed=_FULL in str(found.get("message")))
        return status, found

    def noted_error(self, request: str, body: bytes, *, allowed: bool) -> None:
        """Keeps a 500 for the report."""
        text = f"{request} of server {self.server} at {self.now():.2f}: {body.decode(errors='replace')}"
        self.journal.errors.append(text)
        if not allowed:
            self.journal.complaints.append(text)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def revision_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def value_of(obj: Object) -> str:
    return str((obj["metadata"].get("annotations") or {}).get("v", ""))
