"""The recorder notes every change once, and what a successor of its server does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapi.store.interface import CREATED
from tests.consistency.recorder import KEYS, Recorder, Valkey
from tests.store.servers import Server


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made = [Server(), Server()]
    yield made
    for server in made:
        server.stop()


async def write(server: Server, revision: int, value: str) -> None:
    link = Valkey(server.port)
    data = b'{"metadata":{"name":"%s"}}' % value.encode()
    await link.ask("SET", KEYS.revision, revision)
    await link.ask("XADD", KEYS.stream, f"{revision}-0", f"{CREATED}core/configmaps/a/{value}", data)
    link.close()


def test_it_follows_to_a_successor_and_notes_what_was_lost(servers: list[Server], tmp_path: Path) -> None:
    current = servers[0]

    async def where() -> int:
        return current.port

    async def run() -> None:
        nonlocal current
        recorder = Recorder(where, tmp_path / "gate")
        recorder.keeps_gate_shut = True
        running = asyncio.create_task(recorder.run())
        for revision in (1, 2):
            for server in servers:
                await write(server, revision, f"both{revision}")
            await recorder.catch_up()
            assert (tmp_path / "gate").read_text() == ("" if recorder.keeps_gate_shut else f"{revision:020}")
            recorder.keeps_gate_shut = False
        await write(servers[0], 3, "lost")
        await recorder.catch_up()
        assert [change.revision for change in recorder.changes] == [1, 2, 3]
        assert int((tmp_path / "gate").read_text()) == 3
        await write(servers[1], 3, "kept")
        await write(servers[1], 4, "more")
        current = servers[1]
        await recorder.catch_up()
        assert [change.key.rpartition("/")[2] for change in recorder.changes] == ["both1", "both2", "kept", "more"]
        assert [[change.key.rpartition("/")[2] for change in branch] for branch in recorder.branches] == [["lost"]]
        assert recorder.problems == []
        await write(servers[1], 6, "hole")
        await recorder.catch_up()
        assert recorder.problems == ["the stream goes from 4 to 6"]
        recorder.stop()
        await running
        recorder.close()

    asyncio.run(run())
