"""A server with logical clusters, and one of these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kapi.testing.cluster import LogicalCluster
from kapi.testing.process import KapiProcess
from tests.integration.server_process import ForkedServer


@pytest.fixture(scope="module")
def server() -> Iterator[KapiProcess]:
    with ForkedServer("--testbed", "--enable-logical-clusters") as server:
        yield server


@pytest.fixture
def cluster(server: KapiProcess, tmp_path: Path) -> Iterator[LogicalCluster]:
    cluster = LogicalCluster(server, tmp_path)
    cluster.open()
    yield cluster
    cluster.close()


@pytest.fixture
def pair(server: KapiProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LogicalCluster]]:
    """Two logical clusters."""
    made = [LogicalCluster(server, tmp_path_factory.mktemp("cluster")) for _ in range(2)]
    for cluster in made:
        cluster.open()
    yield made
    for cluster in made:
        cluster.close()
