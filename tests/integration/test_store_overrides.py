"""``--redis-servers-overrides``: single resources in stores of their own, beside the embedded store or another Valkey."""

from __future__ import annotations

import base64
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess, run_to_end
from tests.integration.test_data_safety import CONFIGMAPS, Client
from tests.integration.test_store_faults import Watcher, command, no_traceback, plain
from tests.store.replicated import LOGIN, NAME, Replicated
from tests.store.servers import Server, free_port
from tests.waiting import until

EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
KEYS = "{kapi}:objects"


def event(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"}
    return {"metadata": {"name": name}, "involvedObject": about, "type": "Normal", "reason": "Seen"}


def stored(store: Server) -> set[str]:
    """The keys of what is in it, without what servers make for themselves."""
    keys = {key.decode() for key in command(store, "HKEYS", KEYS)}
    return {
        key for key in keys if key.startswith(("core/events/default", "core/configmaps/default", "core/pods/default"))
    }


def names(client: Client, path: str) -> set[str]:
    status, found = client.ask("GET", path)
    assert status == 200, found
    return {item["metadata"]["name"] for item in found["items"]}


@pytest.fixture
def other() -> Iterator[Server]:
    server = Server(appendonly="yes", appendfsync="always")
    yield server
    server.stop()


@pytest.fixture
def main() -> Iterator[Server]:
    server = Server(appendonly="yes", appendfsync="always")
    yield server
    server.stop()


@pytest.fixture
def server(main: Server, other: Server) -> Iterator[ServerProcess]:
    flags = (f"--redis-servers={main.url}", f"--redis-servers-overrides=/events#{other.url}")
    process = ForkedServer(
        "--testbed", *flags, "--controllers=namespace-controller,garbage-collector-controller"
    ).start()
    yield process
    process.stop()


def test_what_is_written_is_in_its_store_and_comes_back_after_a_restart(
    main: Server, other: Server, server: ServerProcess
) -> None:
    client = Client(server)
    assert client.create("c")[0] == 201
    status, made = client.ask("POST", EVENTS, event("e"))
    assert status == 201
    assert (stored(main), stored(other)) == ({"core/configmaps/default/c"}, {"core/events/default/e"})
    # revisions are each store's own; both groups of events are one resource
    assert made["metadata"]["resourceVersion"] == client.ask("GET", f"{NEW_EVENTS}/e")[1]["metadata"]["resourceVersion"]
    assert made["metadata"]["resourceVersion"] == command(other, "GET", "{kapi}:revision").decode()
    assert client.ask("GET", EVENTS)[1]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert client.ask("GET", f"{EVENTS}/e?resourceVersion=99999")[0] == 504
    client.close()
    server.end()
    server.start()
    client = Client(server)
    assert (client.names(), names(client, EVENTS)) == ({"c"}, {"e"})
    assert client.ask("PATCH", f"{EVENTS}/e", None)[0] in (400, 415)
    assert client.ask("DELETE", f"{EVENTS}/e")[0] == 200
    assert stored(other) == set()
    client.close()
    no_traceback(server)


def test_watches_follow_the_store_of_their_resource(server: ServerProcess) -> None:
    client = Client(server)
    for number in range(3):
        client.create(f"before-{number}")
    revision = client.ask("POST", EVENTS, event("first"))[1]["metadata"]["resourceVersion"]
    watchers = [Watcher(server, f"{path}?watch=1&resourceVersion={revision}") for path in (EVENTS, NEW_EVENTS)]
    client.create("between")
    client.ask("POST", NEW_EVENTS, {**event_of_the_new_group("second")})
    client.ask("DELETE", f"{EVENTS}/first")
    for watcher in watchers:
        seen = [(found["type"], found["object"]["metadata"]["name"]) for found in (watcher.next(), watcher.next())]
        assert seen == [("ADDED", "second"), ("DELETED", "first")]
        watcher.close()
    status, settled = client.ask("GET", "/kapi/settled")
    assert (status, int(settled["revision"]) > int(revision)) == (200, True)
    client.close()


def event_of_the_new_group(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"}
    moment = "2026-01-01T00:00:00.000000Z"
    reporter = {"reportingController": "example.com/c", "reportingInstance": "c-1", "eventTime": moment}
    return {
        "metadata": {"name": name},
        "regarding": about,
        "type": "Normal",
        "reason": "Seen",
        "action": "Look",
        **reporter,
    }


def test_a_store_that_hangs_is_named_and_holds_nobody_else(other: Server, server: ServerProcess) -> None:
    client = Client(server)
    assert client.ask("POST", EVENTS, event("e"))[0] == 201
    other.process.send_signal(signal.SIGSTOP)
    try:
        line = "[+]redis-1 ok: the store of events does not answer in time\n"
        until(lambda: line in plain(server, "/readyz?verbose")[1])
        assert client.create("c")[0] == 201 and "c" in client.names()
        assert plain(server, "/readyz") == (200, "ok")
    finally:
        other.process.send_signal(signal.SIGCONT)
    until(lambda: client.ask("GET", f"{EVENTS}/e")[0] == 200)
    until(lambda: "[+]redis-1 ok\n" in plain(server, "/readyz?verbose")[1])
    client.close()
    no_traceback(server)


def test_a_store_that_is_away_takes_only_its_resources_along(other: Server, server: ServerProcess) -> None:
    client = Client(server)
    assert client.ask("POST", EVENTS, event("e"))[0] == 201
    watcher = Watcher(server, f"{CONFIGMAPS}?watch=1")
    other.process.send_signal(signal.SIGKILL)
    other.process.wait()
    until(lambda: client.ask("GET", EVENTS)[0] == 503)
    assert client.ask("POST", EVENTS, event("f"))[0] == 503
    assert names(client, f"{EVENTS}?resourceVersion=0") == {"e"}
    assert client.create("c")[0] == 201 and "c" in client.names()
    while watcher.next()["object"]["metadata"]["name"] != "c":
        pass
    for path in ("/livez", "/healthz", "/readyz"):
        assert plain(server, path) == (200, "ok")
    assert "[+]redis-1 ok: the store of events is not reachable\n" in plain(server, "/readyz?verbose")[1]
    assert re.findall("^kapi_store_available.*", plain(server, "/metrics")[1], re.M) == [
        'kapi_store_available{storage_cluster_id="redis-0"} 1',
        'kapi_store_available{storage_cluster_id="redis-1"} 0',
    ]
    health = {one["metadata"]["name"]: one["conditions"][0]["status"] for one in components(client)}
    assert (health["etcd-0"], health["etcd-1"]) == ("True", "False")
    # a namespace stays until it is known that none of its events remain
    assert client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})[0] == 201
    assert client.ask("DELETE", "/api/v1/namespaces/n")[0] == 200
    until(lambda: remaining(client, "n"))

    again = Server(appendonly="yes", appendfsync="always", port=str(other.port))
    try:  # it comes back empty: what was served of it goes, and nothing else
        until(lambda: client.ask("GET", EVENTS)[0] == 200)
        until(lambda: names(client, EVENTS) == set())
        assert client.ask("POST", EVENTS, event("g"))[0] == 201
        assert "c" in client.names()
        assert client.create("d")[0] == 201
        while watcher.next()["object"]["metadata"]["name"] != "d":
            pass
        until(lambda: client.ask("GET", "/api/v1/namespaces/n")[0] == 404)
        assert "[+]redis-1 ok\n" in plain(server, "/readyz?verbose")[1]
    finally:
        again.stop()
    watcher.close()
    client.close()
    no_traceback(server)


def components(client: Client) -> list[Any]:
    found: list[Any] = client.ask("GET", "/api/v1/componentstatuses")[1]["items"]
    return found


def remaining(client: Client, namespace: str) -> bool:
    conditions = client.ask("GET", f"/api/v1/namespaces/{namespace}")[1]["status"].get("conditions", [])
    return any(one["type"] == "NamespaceDeletionContentFailure" and one["status"] == "True" for one in conditions)


def test_the_main_store_that_is_away_leaves_the_others(main: Server, server: ServerProcess) -> None:
    client = Client(server)
    main.process.send_signal(signal.SIGKILL)
    main.process.wait()
    until(lambda: client.ask("GET", CONFIGMAPS)[0] == 503)
    assert plain(server, "/readyz")[0] == 500
    assert client.ask("POST", EVENTS, event("e"))[0] == 201
    assert names(client, EVENTS) == {"e"}
    client.close()


def test_events_beside_the_embedded_store_for_several_workers(other: Server) -> None:
    server = ForkedServer(f"--redis-servers-overrides=/events#{other.url}", "--workers=2").start()
    try:
        clients = [Client(server) for _ in range(6)]  # of both workers
        for number, client in enumerate(clients):
            assert client.ask("POST", EVENTS, event(f"e{number}"))[0] == 201
            for reader in clients:
                assert f"e{number}" in names(reader, EVENTS)
        kept = {f"e{number}" for number in range(6)}
        assert stored(other) == {f"core/events/default/{name}" for name in kept}
        for client in clients:
            client.close()
        server.end()
        server.flags.append("--event-ttl=1s")
        server.start()
        clients = [Client(server) for _ in range(6)]
        for number, client in enumerate(clients):
            assert client.ask("POST", EVENTS, event(f"short{number}"))[0] == 201
        until(lambda: len(stored(other)) == 6)  # their time is over, and one of the servers has looked
        until(lambda: all(names(client, EVENTS) == kept for client in clients))
        for client in clients:
            client.close()
    finally:
        server.stop()


def test_the_whole_of_a_namespace_goes_and_owners_are_followed_across_stores(main: Server, other: Server) -> None:
    flags = (f"--redis-servers={main.url}", f"--redis-servers-overrides=/configmaps#{other.url},/secrets#{other.url}")
    server = ForkedServer(*flags, "--controllers=namespace-controller,garbage-collector-controller").start()
    try:
        client = Client(server)
        services, maps = "/api/v1/namespaces/n/services", "/api/v1/namespaces/n/configmaps"
        assert client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})[0] == 201
        for way, remains in (("Background", False), ("Foreground", False), ("Orphan", True)):
            status, owner = client.ask("POST", services, {"metadata": {"name": "owner"}, "spec": {"clusterIP": "None"}})
            assert status == 201, owner
            reference = {"apiVersion": "v1", "kind": "Service", "name": "owner", "uid": owner["metadata"]["uid"]}
            reference["blockOwnerDeletion"] = True
            for number in range(20):
                owned = {"metadata": {"name": f"{way.lower()}-{number}", "ownerReferences": [reference]}}
                assert client.ask("POST", maps, owned)[0] == 201
            assert client.ask("DELETE", f"{services}/owner?propagationPolicy={way}")[0] == 200
            until(lambda: client.ask("GET", f"{services}/owner")[0] == 404)
            if remains:
                assert len(names(client, maps)) == 20
                assert not any("ownerReferences" in one["metadata"] for one in client.ask("GET", maps)[1]["items"])
            else:
                until(lambda: not names(client, maps))
        assert client.ask("DELETE", "/api/v1/namespaces/n")[0] == 200
        until(lambda: client.ask("GET", "/api/v1/namespaces/n")[0] == 404)
        assert command(other, "HKEYS", KEYS) == [] or not any(b"/n/" in key for key in command(other, "HKEYS", KEYS))
        client.close()
        no_traceback(server)
    finally:
        server.stop()


def test_a_quota_counts_what_is_in_another_store(main: Server, other: Server) -> None:
    flags = (f"--redis-servers={main.url}", f"--redis-servers-overrides=/secrets#{other.url}")
    server = ForkedServer(*flags, "--controllers=resourcequota-controller").start()
    try:
        client = Client(server)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "3", "count/configmaps": "2"}}}
        quotas, secrets = "/api/v1/namespaces/default/resourcequotas", "/api/v1/namespaces/default/secrets"
        assert client.ask("POST", quotas, quota)[0] == 201
        until(lambda: "used" in (client.ask("GET", f"{quotas}/q")[1].get("status") or {}))
        codes = [client.ask("POST", secrets, {"metadata": {"name": f"s{number}"}})[0] for number in range(4)]
        assert codes == [201, 201, 201, 403]
        assert client.ask("DELETE", f"{secrets}/s0")[0] == 200
        until(lambda: client.ask("GET", f"{quotas}/q")[1]["status"]["used"]["count/secrets"] == "2")
        # no trace of accounts in a store that has no quotas: nobody there could ever take them away
        assert command(other, "EXISTS", "{kapi}:accounts") == 0
        client.close()
    finally:
        server.stop()


def test_what_is_left_in_the_store_of_before_is_told_of_and_not_served(main: Server, other: Server) -> None:
    before = ForkedServer(f"--redis-servers={main.url}", "--controllers=").start()
    try:
        client = Client(before)
        assert client.ask("POST", EVENTS, event("old"))[0] == 201
        client.close()
        before.end()
        before.flags.append(f"--redis-servers-overrides=/events#{other.url}")
        before.start()
        client = Client(before)
        assert names(client, EVENTS) == set()
        assert client.ask("POST", EVENTS, event("old"))[0] == 201
        told = plain(before, "/readyz?verbose")[1]
        assert re.search(r"store-entries ok: \d+ events are in a store that does not keep them\n", told), told
        assert plain(before, "/metrics")[1].count('apiserver_storage_objects{resource="events"}') == 1
        left = "events are not served: they are in a store that does not keep them"
        until(lambda: any(left in line for line in before.output))
        client.close()
        no_traceback(before)
    finally:
        before.stop()


def run(tmp_path: Path, *flags: str) -> str:
    code, printed = run_to_end(f"--data-dir={tmp_path / 'd'}", "--secure-port=0", *flags)
    assert code == 1
    return printed


def test_one_store_under_two_names_is_refused(other: Server, tmp_path: Path) -> None:
    overrides = f"/events#{other.url},/pods#redis://localhost:{other.port}"
    told = run(tmp_path, f"--redis-servers-overrides={overrides}").splitlines()
    assert told[-1].startswith("kapi: --redis-servers-overrides: redis-2 is the same store as redis-1")
    assert not any("Traceback" in line for line in told)


def test_a_store_that_is_not_there_ends_the_start_with_its_name(tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    told = run(tmp_path, f"--redis-servers-overrides=/events#{url}", "--storage-initialization-timeout=1s").splitlines()
    assert told[-1].startswith(f"kapi: {url}: cannot connect")
    assert not any("Traceback" in line for line in told)


def test_fail_over_of_one_store_is_nothing_to_the_others() -> None:
    servers = Replicated(2, 3)
    sentinels = ";".join(f"redis+sentinel://{LOGIN}@127.0.0.1:{each.port}/{NAME}" for each in servers.sentinels)
    server = ForkedServer(f"--redis-servers-overrides=/events#{sentinels}", "--controllers=").start()
    try:
        client = Client(server)
        assert client.ask("POST", EVENTS, event("before"))[0] == 201
        assert names(client, EVENTS) == {"before"}
        watcher = Watcher(server, f"{EVENTS}?watch=1")
        assert watcher.next()["object"]["metadata"]["name"] == "before"
        servers.primary.process.kill()
        made = 0
        while client.ask("POST", EVENTS, event("after"))[0] not in (201, 409):
            assert client.create(f"c{made}")[0] == 201  # each time, while there is no primary
            made += 1
        assert made
        until(lambda: names(client, EVENTS) == {"before", "after"})
        assert watcher.next()["object"]["metadata"]["name"] == "after"
        assert client.names() >= {f"c{number}" for number in range(made)}
        until(lambda: "[+]redis-1 ok\n" in plain(server, "/readyz?verbose")[1])
        watcher.close()
        client.close()
        no_traceback(server)
    finally:
        server.stop()
        servers.stop()


def encryption(*keys: bytes) -> str:
    named = [{"name": key.decode(), "secret": base64.b64encode(key * 32).decode()} for key in keys]
    rules = [{"resources": ["secrets"], "providers": [{"aesgcm": {"keys": named}}]}]
    return json.dumps(
        {"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "resources": rules}
    )


def test_what_is_encrypted_is_so_in_each_store(other: Server, tmp_path: Path) -> None:
    file = tmp_path / "encryption.json"
    file.write_text(encryption(b"1"))
    server = ForkedServer(
        f"--redis-servers-overrides=/secrets#{other.url}", f"--encryption-provider-config={file}",
        "--encryption-provider-config-automatic-reload", "--controllers=",
    ).start()  # fmt: skip
    try:
        client = Client(server)
        secrets = "/api/v1/namespaces/default/secrets"

        def kept() -> bytes:
            found = command(other, "HGET", KEYS, "core/secrets/default/s")
            assert isinstance(found, bytes)
            return found

        body = {"metadata": {"name": "s"}, "stringData": {"a": "hidden"}}
        status, made = client.ask("POST", secrets, body)
        assert status == 201 and b"k8s:enc:aesgcm:v1:1:" in kept()
        assert b'"s"' not in kept() and b"aGlkZGVu" not in kept()
        file.write_text(encryption(b"2", b"1"))
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        until(lambda: client.ask("PUT", f"{secrets}/s", made)[0] == 200 and b"k8s:enc:aesgcm:v1:2:" in kept())
        transformed = 'apiserver_storage_transformation_operations_total{resource="secrets",status="OK",'
        assert transformed in plain(server, "/metrics")[1]
        client.close()
        server.end()
        server.start()
        client = Client(server)
        assert client.ask("GET", f"{secrets}/s")[1]["data"] == {"a": "aGlkZGVu"}
        client.close()
        no_traceback(server)
    finally:
        server.stop()
