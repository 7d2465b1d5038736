"""Sixty-four clients on two API servers want more than a quota allows: all of it is given out, and never more."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.consistency.cluster import TOKEN, ApiServer, Cluster
from tests.waiting import until

CLIENTS, LIMIT = 64, 100
PATH = "/api/v1/namespaces/storm/secrets"
QUOTA = "/api/v1/namespaces/storm/resourcequotas/q"


class Client:
    """A connection to one server."""

    def __init__(self, server: ApiServer) -> None:
        context = ssl.create_default_context(cafile=server.authority)
        self._connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._connection.close()


def is_up(server: ApiServer) -> bool:
    with contextlib.suppress(OSError):
        return Client(server).ask("GET", "/apis/apiregistration.k8s.io/v1/apiservices")[0] == 200
    return False


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(controllers="*")
    try:
        cluster.start()
        for server in cluster.servers:
            until(lambda server=server: is_up(server))
        yield cluster
    finally:
        cluster.stop()


class Storm:
    """Every client creates until a quota refuses it; somebody counts all the time."""

    def __init__(self, cluster: Cluster, wave: str) -> None:
        self.cluster, self.wave = cluster, wave
        self.made: list[str] = []
        self.refusals: list[str] = []
        self.others: Counter[int] = Counter()
        self.most = 0
        self.failures: list[BaseException] = []
        self.over = threading.Event()

    def run(self) -> None:
        counter = threading.Thread(target=self.guarded, args=(self.count,))
        clients = [threading.Thread(target=self.guarded, args=(self.create, n)) for n in range(CLIENTS)]
        for thread in (counter, *clients):
            thread.start()
        for thread in clients:
            thread.join(60)
        self.over.set()
        counter.join(30)
        assert not any(thread.is_alive() for thread in (counter, *clients)), "a client hangs"
        if self.failures:
            raise self.failures[0]

    def guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as failure:
            self.failures.append(failure)

    def create(self, number: int) -> None:
        client = Client(self.cluster.servers[number % 2])
        for attempt in range(200):
            name = f"{self.wave}-{number}-{attempt}"
            code, answer = client.ask("POST", PATH, {"metadata": {"name": name}})
            if code == 201:
                self.made.append(name)
            elif code == 403:
                self.refusals.append(answer["message"])
                break
            else:  # two servers wanted the same unit too often: try again
                self.others[code] += 1
        else:
            raise AssertionError(f"client {number} was never refused")
        client.close()

    def count(self) -> None:
        client = Client(self.cluster.servers[0])
        while not self.over.is_set():
            self.most = max(self.most, len(client.ask("GET", PATH)[1]["items"]))
        client.close()


def test_a_quota_is_reached_and_never_exceeded(cluster: Cluster) -> None:
    client = Client(cluster.servers[0])
    assert client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "storm"}})[0] == 201
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"secrets": str(LIMIT), "count/secrets": "1000"}}}
    assert client.ask("POST", "/api/v1/namespaces/storm/resourcequotas", quota)[0] == 201

    def used() -> str:
        return str((client.ask("GET", QUOTA)[1].get("status") or {}).get("used", {}).get("secrets", ""))

    until(lambda: used() == "0")
    first = Storm(cluster, "one")
    first.run()
    assert (len(first.made), used()) == (LIMIT, str(LIMIT))
    assert first.most <= LIMIT
    assert set(first.others) <= {409, 500}, first.others
    wanted = f"exceeded quota: q, requested: secrets=1, used: secrets={LIMIT}, limited: secrets={LIMIT}"
    assert all(text.endswith(wanted) for text in first.refusals), first.refusals

    for name in first.made[:30]:
        assert client.ask("DELETE", f"{PATH}/{name}")[0] == 200
    until(lambda: used() == str(LIMIT - 30))
    second = Storm(cluster, "two")
    second.run()
    assert (len(second.made), used()) == (30, str(LIMIT))
    assert second.most <= LIMIT
    assert len(client.ask("GET", PATH)[1]["items"]) == LIMIT
    client.close()
