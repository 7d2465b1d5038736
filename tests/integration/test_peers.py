"""Servers on one store that serve different resources: each passes on requests for what only another one serves."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kapi.testing.process import KapiProcess
from tests.authentication.identities import Authority, name
from tests.certificates import key_pem, pem
from tests.integration.server_process import ForkedServer, connect
from tests.store.servers import Server, free_port
from tests.waiting import until

JOBS = "apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "apis/apps/v1/namespaces/default/deployments"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#: upstream's lifetime of an endpoint is 15 s; a store drops it after a minute
SECONDS = 100.0


class Named(ForkedServer):
    """A server on a machine of its own; all have one CA, one signing key and one store."""

    program = "tests.integration.named_server"

    def __init__(self, name: str, shared: Path, store: Server, *flags: str) -> None:
        self.port = free_port()
        super().__init__(
            f"--redis-servers={store.url}", f"--cert-dir={shared / 'pki'}", f"--secure-port={self.port}", "--controllers=",
            "--advertise-address=127.0.0.1", *flags, directory=shared / name,
        )  # fmt: skip
        self.host = name
        self.shared = shared

    @property
    def authority(self) -> Path:
        return self.shared / "pki" / "ca.crt"

    def command(self) -> list[str]:
        program, flags = super().command()[:3], super().command()[3:]
        return [*program, self.host, *flags]

    def ask(
        self, method: str, path: str, body: object = None, token: str = "admintoken", **headers: str
    ) -> tuple[int, http.client.HTTPMessage, Any]:
        connection = connect(self)
        try:
            sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
            connection.request(method, f"/{path}", None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            found = answer.read()
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return answer.status, answer.headers, json.loads(found) if is_json else found.decode()
        finally:
            connection.close()

    def groups(self, **parameters: str) -> dict[str, list[str]]:
        more = "".join(f";{key}={value}" for key, value in parameters.items())
        code, _, found = self.ask("GET", "apis", Accept=AGGREGATED + more)
        assert code == 200, found
        return {item["metadata"]["name"]: [each["version"] for each in item["versions"]] for item in found["items"]}

    def metric(self, line: str) -> float:
        found = re.search(rf"^{re.escape(line)} (\S+)$", self.ask("GET", "metrics")[2], re.MULTILINE)
        return float(found[1]) if found else 0.0


class Pair(NamedTuple):
    """``first`` has no Deployments, ``second`` no Jobs."""

    first: Named
    second: Named


def trust(directory: Path) -> list[str]:
    """The flags of servers that pass on requests to each other."""
    front = Authority("front-proxy-ca")
    certificate, key = front.issue(name("front-proxy-client"))
    for file, content in (("front.crt", front.pem), ("own.crt", pem(certificate)), ("own.key", key_pem(key))):
        (directory / file).write_bytes(content)
    headers = {"username": "User", "uid": "Uid", "group": "Group"}
    return [
        f"--requestheader-client-ca-file={directory / 'front.crt'}", "--requestheader-allowed-names=front-proxy-client",
        *(f"--requestheader-{what}-headers=X-Remote-{header}" for what, header in headers.items()),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-", f"--proxy-client-cert-file={directory / 'own.crt'}",
        f"--proxy-client-key-file={directory / 'own.key'}", f"--peer-ca-file={directory / 'pki' / 'ca.crt'}",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def pair(store: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("peers")
    flags = trust(directory)
    first = Named("first", directory, store, "--runtime-config=apps/v1=false", *flags)
    second = Named("second", directory, store, "--runtime-config=batch/v1=false", *flags)
    servers: list[KapiProcess] = []
    try:
        for server in (first, second):
            servers.append(server.start())
        until(lambda: "v1" in second.groups().get("batch", ()))  # its start waits for no more than seconds
        yield Pair(first, second)
    finally:
        for process in servers:
            process.stop()


def job(name: str) -> Any:
    container = {"name": "main", "image": "main"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def test_a_request_goes_to_the_server_that_serves_its_resource(pair: Pair) -> None:
    second = pair.second
    code, _, made = second.ask("POST", JOBS, job("one"))
    assert (code, made["kind"]) == (201, "Job"), made
    code, headers, found = second.ask("GET", f"{JOBS}/one", **{"Audit-ID": "of-the-client"})
    assert (code, found["metadata"]["uid"], headers.get_all("Audit-ID")) == (
        200,
        made["metadata"]["uid"],
        ["of-the-client"],
    )
    assert [item["metadata"]["name"] for item in second.ask("GET", "apis/batch/v1/jobs")[2]["items"]] == ["one"]
    # another server's errors come back as they are
    assert second.ask("GET", f"{JOBS}/none")[2]["details"] == {"group": "batch", "kind": "jobs", "name": "none"}
    assert second.ask("POST", JOBS, {**job("two"), "spec": {}})[0] == 422
    labels = 'group="batch",resource="jobs",version="v1"'
    assert second.metric(f'apiserver_rerouted_request_total{{code="201",{labels}}}') == 1
    assert second.metric(f'apiserver_rerouted_request_total{{code="404",{labels}}}') == 1


def test_a_watch_is_passed_on_as_it_happens(pair: Pair) -> None:
    connection = connect(pair.second)
    try:
        connection.request(
            "GET",
            f"/{JOBS}?watch=true&fieldSelector=metadata.name%3Dwatched",
            headers={"Authorization": "Bearer admintoken"},
        )
        events = connection.getresponse()
        assert events.status == 200
        assert pair.first.ask("POST", JOBS, job("watched"))[0] == 201
        event = json.loads(events.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "watched")
    finally:
        connection.close()


def test_the_other_server_knows_the_user_and_no_other_header_names_one(pair: Pair) -> None:
    groups = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    code, _, refused = pair.second.ask("GET", JOBS, token="alicetoken", **groups)
    assert (code, refused["reason"]) == (403, "Forbidden") and 'User "alice"' in refused["message"], refused
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "patch"]}
    base = "apis/rbac.authorization.k8s.io/v1/namespaces/default"
    assert pair.first.ask("POST", f"{base}/roles", {**role, "rules": [rule]})[0] == 201
    subject = {"kind": "Group", "name": "qa", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    assert (
        pair.first.ask("POST", f"{base}/rolebindings", {**role, "subjects": [subject], "roleRef": reference})[0] == 201
    )
    until(lambda: pair.second.ask("POST", JOBS, job("of-alice"), token="alicetoken", **groups)[0] == 201)


def test_a_request_is_passed_on_once(pair: Pair) -> None:
    code, _, refused = pair.second.ask("GET", JOBS, **{"X-Kubernetes-Peer-Proxied": "true"})
    assert (code, refused["message"]) == (404, "the server could not find the requested resource")
    assert pair.second.ask("GET", "apis/batch/v1/namespaces/default/nothing")[0] == 404  # nobody serves it


def test_discovery_has_the_groups_of_all_servers_unless_a_client_wants_only_one(pair: Pair) -> None:
    until(lambda: "v1" in pair.first.groups().get("apps", ()))  # it has heard of the second when that was ready
    merged = [server.groups() for server in pair]
    assert merged[0] == merged[1] and merged[0]["batch"] == ["v1"]
    alone = [server.groups(profile="nopeer") for server in pair]
    assert ["batch" in groups for groups in alone] == [True, False]
    assert ["apps" in groups for groups in alone] == [False, True]
    code, headers, document = pair.first.ask("GET", "apis", Accept=AGGREGATED)
    other, again, same = pair.second.ask("GET", "apis", Accept=AGGREGATED, **{"If-None-Match": headers["ETag"]})
    assert (code, other, again["ETag"], same) == (200, 304, headers["ETag"], "")
    assert pair.first.metric("aggregator_discovery_peer_aggregated_cache_hits_total") > 0
    # only the aggregated document of /apis is merged
    assert "batch" not in str(pair.second.ask("GET", "apis")[2])
    assert pair.second.ask("GET", "apis/batch/v1")[0] == 404


def test_custom_resources_are_asked_of_no_other_server(pair: Pair) -> None:
    until(lambda: "v1" in pair.first.groups().get("apps", ()))
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }  # fmt: skip
    path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert pair.first.ask("POST", path, definition)[0] == 201
    for server in pair:
        until(lambda server=server: "example.com" in server.groups())
    assert pair.first.ask("DELETE", f"{path}/things.example.com")[0] == 200
    for server in pair:
        until(lambda server=server: "example.com" not in server.groups())
        assert server.ask("GET", "apis/example.com/v1/things")[0] == 404


def test_a_server_that_has_died_is_answered_for_with_503_and_another_takes_over(store: Server, tmp_path: Path) -> None:
    flags = trust(tmp_path)
    gone = Named("gone", tmp_path, store, *flags)
    asked = Named("asked", tmp_path, store, "--runtime-config=batch/v1=false", *flags)
    third = Named("third", tmp_path, store, *flags)
    try:
        gone.start()
        asked.start()
        assert asked.ask("GET", JOBS)[0] == 200
        gone.end(signal.SIGKILL)
        code, headers, text = asked.ask("GET", JOBS)
        assert (code, text) == (
            503,
            f"error trying to reach service: dial tcp 127.0.0.1:{gone.port}: connect: connection refused\n",
        )
        third.start()
        until(lambda: asked.ask("GET", JOBS)[0] == 200)
        third.end()  # in order: it takes its address and its identity away
        code, _, found = asked.ask("GET", JOBS)
        assert code == 503, found
    finally:
        for server in (gone, asked, third):
            server.stop()


def test_servers_without_the_feature_do_not_know_of_each_other(store: Server, tmp_path: Path) -> None:
    server = Named(
        "alone",
        tmp_path,
        store,
        "--runtime-config=batch/v1=false",
        "--feature-gates=UnknownVersionInteroperabilityProxy=false",
    )
    with server:
        assert server.ask("GET", JOBS)[0] == 404
        assert "poststarthook/peer-endpoint-reconciler-controller" not in server.ask("GET", "readyz?verbose")[2]
