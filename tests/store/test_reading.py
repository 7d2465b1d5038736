"""Reads whose connection ends, and reads that no replica confirms, fail with the name of the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.store.connection import ConnectionGone
from kapi.store.entries import Skipped
from kapi.store.errors import StoreUnavailable
from kapi.store.reading import Reading
from kapi.store.script import Keys
from kapi.testing.memory_api import succeed


class Connection:
    """``why``: each command fails with it; else each reply is that of an empty store."""

    def __init__(self, why: str = "") -> None:
        self._why = why

    async def execute_command(self, name: str, *of: object) -> Any:
        if self._why:
            raise ConnectionGone(self._why)
        return {"MGET": [b"5", b"run"], "GET": b"5", "HSCAN": [b"0", []]}.get(name)


class Unconfirmed:
    async def at_least(self, revision: int) -> int:
        raise StoreUnavailable(f"revision {revision} is on no replica")


READS: dict[str, Callable[[Reading], Any]] = {
    "get": lambda reading: reading.get("core/pods/n/a"),
    "position": lambda reading: reading.position(),
    "scan": lambda reading: reading.scan("core/"),
}


@pytest.mark.parametrize("name", READS)
def test_a_connection_that_ends(name: str) -> None:
    connection: Any = Connection("the connection was lost")
    reading = Reading("redis://there", Keys.under("kapi"), Skipped(), lambda: connection, None)
    with pytest.raises(StoreUnavailable, match="^redis://there: the connection was lost$"):
        succeed(READS[name](reading))


@pytest.mark.parametrize("name", READS)
def test_what_no_replica_has(name: str) -> None:
    connection: Any = Connection()
    confirmation: Any = Unconfirmed()
    reading = Reading("redis://there", Keys.under("kapi"), Skipped(), lambda: connection, confirmation)
    with pytest.raises(StoreUnavailable, match="^redis://there: revision 5 is on no replica$"):
        succeed(READS[name](reading))
