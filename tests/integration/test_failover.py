"""A kapi on a store with replicas and Sentinels, as its clients see it when servers go."""

from __future__ import annotations

import json
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapi.store import confirmation
from tests.integration.server_process import ForkedServer
from tests.store.replicated import Replicated
from tests.waiting import until


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.servers = Replicated(1, 3)
        try:
            self.kapi = ForkedServer(f"--redis-servers={self.servers.url}", directory=directory).start()
        except BaseException:
            self.servers.stop()
            raise
        self._context = ssl.create_default_context(cafile=str(self.kapi.authority))

    def stop(self) -> None:
        self.kapi.stop()
        self.servers.stop()

    def ask(self, path: str, obj: object = None) -> tuple[int, str | None, str]:
        """Status, Retry-After and body."""
        body = None if obj is None else json.dumps(obj).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer admintoken"}
        request = urllib.request.Request(self.kapi.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=120) as answer:
                return answer.status, answer.headers["Retry-After"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Retry-After"], error.read().decode()

    def create(self, name: str) -> tuple[int, str | None, str]:
        return self.ask("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_replicas_go_and_come_back(cluster: Cluster) -> None:
    cluster.servers.calm()
    assert cluster.create("before")[0] == 201
    assert cluster.ask("/readyz/store-replicas")[0] == 200
    cluster.servers.cut_off(*cluster.servers.replicas)
    code, retry, body = cluster.create("unknown")
    assert (code, retry) == (504, None), body
    assert "the outcome of the write is unknown" in body
    started = time.monotonic()
    code, retry, body = cluster.create("refused")
    assert (code, retry) == (503, "1"), body
    assert time.monotonic() - started < confirmation.CONFIRMATION_TIMEOUT, "it has waited to be confirmed"
    assert cluster.ask("/readyz/store-replicas")[0] == 500
    assert "[-]store-replicas failed" in cluster.ask("/readyz?verbose")[2]
    for replica in cluster.servers.replicas:
        cluster.servers.signal(replica, signal.SIGCONT)
    until(lambda: cluster.ask("/readyz/store-replicas")[0] == 200)
    assert cluster.create("refused")[0] == 201, "nothing was written when it was refused"


def test_the_primary_is_killed(cluster: Cluster) -> None:
    configmaps = "/api/v1/namespaces/default/configmaps"
    assert cluster.create("before")[0] == 201
    assert '"before"' in cluster.ask(configmaps)[2]  # it has been shown: a reconnection shows nothing more by itself
    cluster.servers.primary.process.kill()

    def answers() -> bool:
        """A controller may have written something that nobody can confirm any more; what is current is not known then."""
        code, _, body = cluster.ask(configmaps)
        return '"before"' in body or (code == 503 and "is not confirmed" in body)

    until(answers)
    assert '"before"' in cluster.ask(f"{configmaps}?resourceVersion=0")[2]
    # one server is left, and nobody to confirm what it writes
    code, retry, _ = cluster.create("after")
    assert (code, retry) in [(504, None), (503, "1")]
    until(lambda: cluster.ask("/readyz/store-sentinels")[0] == 200)
