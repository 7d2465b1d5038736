"""One server for all attacks; those that need flags of their own start one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import Attacker


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    process = ForkedServer("--anonymous-auth=true").start()
    yield process
    assert process.stop() == 0


@pytest.fixture
def admin(server: ServerProcess) -> Attacker:
    return Attacker(server, "admintoken")


@pytest.fixture
def alice(server: ServerProcess) -> Attacker:
    """Without any rights but those of everybody who is authenticated."""
    return Attacker(server, "alicetoken")


@pytest.fixture
def namespace(admin: Attacker) -> Iterator[str]:
    name = f"attack-{uuid.uuid4().hex[:8]}"
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    admin.ask("DELETE", f"/api/v1/namespaces/{name}")
