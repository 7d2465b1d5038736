"""A running server over a store that other programs damage, empty or write to."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import hiredis
import pytest

from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, connect
from tests.integration.test_data_safety import CONFIGMAPS, Client
from tests.store.servers import Server
from tests.waiting import until

REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential=true"


@pytest.fixture
def store() -> Iterator[Server]:
    server = Server(appendonly="yes", appendfsync="always")
    yield server
    server.stop()


@pytest.fixture
def running(store: Server) -> Iterator[ServerProcess]:
    process = ForkedServer(f"--redis-servers={store.url}", "--controllers=namespace-controller").start()
    yield process
    process.stop()


def command(store: Server, *words: bytes | str | int) -> Any:
    """What another program does to the store."""
    reader = hiredis.Reader()
    with socket.create_connection(("127.0.0.1", store.port), timeout=120) as connection:
        connection.sendall(hiredis.pack_command(words))
        while (reply := reader.gets()) is False:
            reader.feed(connection.recv(65536))
    assert not isinstance(reply, Exception), reply
    return reply


class Watcher:
    """A watch on a connection of its own."""

    def __init__(self, server: ServerProcess, path: str) -> None:
        self._connection = connect(server)
        self._connection.request("GET", path, headers={"Authorization": "Bearer admintoken"})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200

    def next(self) -> Any:
        return json.loads(self._answer.readline())

    def close(self) -> None:
        self._connection.close()


def plain(server: ServerProcess, path: str) -> tuple[int, str]:
    connection = connect(server)
    connection.request("GET", path, headers={"Authorization": "Bearer admintoken"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def no_traceback(server: ServerProcess) -> None:
    assert not any("Traceback" in line for line in server.output), "".join(server.output)


@pytest.mark.parametrize("embedded", [False, True])
def test_half_a_surrogate_pair_in_raw_json_harms_nobody(store: Server, embedded: bool) -> None:
    flags = [] if embedded else [f"--redis-servers={store.url}"]
    server = ForkedServer(*flags, "--controllers=").start()
    try:
        client = Client(server)
        watcher = Watcher(server, f"{REVISIONS}?watch=1&labelSelector=a%3Db")
        body = {"metadata": {"name": "odd", "labels": {"a": "b"}}, "data": {"v": "\ud800"}, "revision": 1}
        assert client.ask("POST", REVISIONS, body)[0] == 201
        assert watcher.next()["object"]["data"] == {"v": "\ufffd"}
        assert client.create("after")[0] == 201
        assert client.names() == {"after"}
        watcher.close()
        client.close()
        server.end()
        server.start()
        client = Client(server)
        assert client.ask("GET", f"{REVISIONS}?labelSelector=a%3Db")[1]["items"][0]["data"] == {"v": "\ufffd"}
        assert client.ask("DELETE", f"{REVISIONS}/odd")[0] == 200
        client.close()
        no_traceback(server)
    finally:
        server.stop()


def test_entries_of_another_program_halt_nobody_and_prevent_no_start(store: Server, running: ServerProcess) -> None:
    client = Client(running)
    assert client.create("before")[0] == 201
    script = """
    redis.call('XADD', KEYS[2], redis.call('GET', KEYS[1]) .. '-7', 'torn', 'a', 'b', 'c')
    redis.call('XADD', KEYS[2], '*', 'foreign', 'entry')
    """
    command(store, "EVAL", script, 2, "{kapi}:revision", "{kapi}:changes")
    command(store, "HSET", "{kapi}:objects", b"\xff", "x", "no key of ours", "1:1\nx")
    command(store, "HSET", "{kapi}:objects", "core/configmaps/default/bare", "no header")
    until(lambda: client.create("after")[0] in (201, 409))
    until(lambda: client.names() >= {"before", "after"})
    until(lambda: plain(running, "/readyz")[0] == 200)  # a refused write is told of until the next probe
    client.close()
    running.end()
    running.start()
    client = Client(running)
    assert client.names() == {"before", "after"}
    status, text = plain(running, "/readyz?verbose")
    assert (status, "store-entries ok: " in text, "entries that kapi did not write were skipped" in text) == (
        200,
        True,
        True,
    )
    assert plain(running, "/metrics")[1].count('kapi_store_skipped_entries_total{where="') == 2
    assert client.ask("GET", f"{CONFIGMAPS}/bare")[0] == 500
    assert client.ask("DELETE", f"{CONFIGMAPS}/bare?{OPTION}")[0] == 200
    assert client.create("bare")[0] == 201
    client.close()
    no_traceback(running)


def test_a_store_that_was_emptied_shows_nothing_any_more(store: Server, running: ServerProcess) -> None:
    client = Client(running)
    assert client.create("gone")[0] == 201
    watcher = Watcher(running, f"{CONFIGMAPS}?watch=1&resourceVersion=0")
    while watcher.next()["object"]["metadata"]["name"] != "gone":
        pass
    command(store, "FLUSHALL")
    status, answer = client.ask("GET", f"{CONFIGMAPS}/gone")
    assert status in (503, 404), answer
    event = watcher.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    watcher.close()
    until(lambda: client.ask("GET", CONFIGMAPS)[0] == 200)
    assert client.names() == set()
    client.close()


def test_an_object_that_is_torn_while_the_server_runs_goes_with_its_namespace(
    store: Server, running: ServerProcess
) -> None:
    client = Client(running)
    assert client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})[0] == 201
    maps = "/api/v1/namespaces/n/configmaps"
    for name in ("whole", "torn"):
        assert client.ask("POST", maps, {"metadata": {"name": name}})[0] == 201
    script = """
    local revision = redis.call('INCR', KEYS[1])
    redis.call('HSET', KEYS[2], ARGV[1], revision .. ':3\\n{"kind":"Conf')
    redis.call('XADD', KEYS[3], revision .. '-0', 'u' .. ARGV[1], '{"kind":"Conf')
    """
    watcher = Watcher(running, f"{maps}?watch=1&labelSelector=!x")
    keys = ("{kapi}:revision", "{kapi}:objects", "{kapi}:changes")
    command(store, "EVAL", script, 3, *keys, "core/configmaps/n/torn")
    events = [watcher.next() for _ in range(3)]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events][-1] == ("DELETED", "torn")
    assert [item["metadata"]["name"] for item in client.ask("GET", maps)[1]["items"]] == ["whole"]
    assert client.ask("GET", f"{maps}/torn")[0] == 500
    assert client.ask("DELETE", "/api/v1/namespaces/n")[0] == 200
    until(lambda: client.ask("GET", "/api/v1/namespaces/n")[0] == 404)
    assert command(store, "HEXISTS", "{kapi}:objects", "core/configmaps/n/torn") == 0
    watcher.close()
    client.close()
    no_traceback(running)


def test_a_full_store_is_freed_with_kubectl(kubectl_binary: str) -> None:
    """Creates are refused with what helps, the server starts on it, and the deletion of a namespace makes space."""
    store = Server(appendonly="yes")
    server = ForkedServer(f"--redis-servers={store.url}").start()
    try:
        client, kubectl = Client(server), Kubectl(server, kubectl_binary)
        assert client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "bulk"}})[0] == 201
        command(store, "CONFIG", "SET", "maxmemory", used(store) + 5_000_000)
        body = {"metadata": {"generateName": "bulk-"}, "data": {"bulk": "x" * 100_000}}
        refused, bulk = 0, "/api/v1/namespaces/bulk/configmaps"
        while refused < 40:  # for longer than any history is kept: the objects alone take all memory
            status, answer = client.ask("POST", bulk, body)
            refused = refused + 1 if status == 503 else 0
            time.sleep(0.1)
        assert "delete objects, or raise maxmemory" in answer["message"]
        client.close()
        assert "the store is full" in not_writable(server)
        assert server.end() == 0
        server.start()
        kubectl.run("delete", "namespace", "bulk", "--timeout=100s")
        until(lambda: plain(server, "/readyz")[0] == 200)
        client = Client(server)
        until(lambda: client.create("after")[0] == 201)  # what the deletions wrote is history for two seconds
        client.close()
        no_traceback(server)
    finally:
        server.stop()
        store.stop()


def used(store: Server) -> int:
    memory = dict(line.split(":", 1) for line in command(store, "INFO", "memory").decode().split("\r\n") if ":" in line)
    return int(memory["used_memory"])


def not_writable(server: ServerProcess) -> str:
    """Why it cannot write to its store, once it knows."""
    return until(lambda: (found := plain(server, "/readyz/store-writes"))[0] == 500 and found[1])
