"""What is served is what was authorized: who has one verb for everything gets nothing that needs another."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.integration.server_process import ServerProcess
from tests.security.attacker import JSON, MERGE, Attacker
from tests.security.test_rights import CRDS, RBAC, grant, rule
from tests.waiting import until

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "WATCH")
#: the methods that each verb is for
VERBS = {
    "get": ("GET", "HEAD"), "list": ("GET", "HEAD"), "watch": ("GET",), "create": ("POST",), "update": ("PUT",),
    "patch": ("PATCH",), "delete": ("DELETE",), "deletecollection": ("DELETE",), "impersonate": (), "proxy": (),
}  # fmt: skip
NO = (403, 404, 405)
CONNECTIONS = 8  # at once: each watch that is served lasts a second


class Asking:
    """Requests over one connection, as whom the administrator likes."""

    def __init__(self, attacker: Attacker) -> None:
        self._connection = http.client.HTTPSConnection(
            attacker.host, attacker.port, context=attacker.context, timeout=120
        )
        self._token = attacker.token

    def ask(self, user: str, method: str, path: str) -> tuple[int, bytes]:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Impersonate-User": user,
            "Content-Type": MERGE if method == "PATCH" else JSON,
        }
        self._connection.request(method, path, b"{}" if method in ("POST", "PUT", "PATCH") else None, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def group(server: ServerProcess) -> Iterator[str]:
    """A group with a custom resource that has subresources."""
    admin, name = Attacker(server, "admintoken"), "verbs.example.com"
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
    }  # fmt: skip
    names = {"plural": "foos", "singular": "foo", "kind": "Foo"}
    spec = {"group": name, "scope": "Namespaced", "names": names, "versions": [version]}
    admin.create(CRDS, {"metadata": {"name": f"foos.{name}"}, "spec": spec})
    until(lambda: admin.ask("GET", f"/apis/{name}/v1/foos").status == 200)
    yield name
    admin.ask("DELETE", f"{CRDS}/foos.{name}")


def paths_of(group: str, namespace: str) -> Iterator[str]:
    for base, plural, name, subresources in (
        ("/api/v1", "secrets", "s", ("status",)),
        ("/api/v1", "pods", "p", ("status", "log", "exec", "proxy", "binding", "eviction")),
        ("/apis/apps/v1", "replicasets", "r", ("status", "scale")),
        (f"/apis/{group}/v1", "foos", "f", ("status", "scale")),
        ("/api/v1", "serviceaccounts", "default", ("token",)),
    ):
        for prefix in ("", "/watch", "/proxy"):
            for scope in (f"/namespaces/{namespace}", ""):
                if prefix == "/watch" and plural == "foos":
                    continue  # a watch whatever the method is, which lasts as long as one
                collection = f"{base}{prefix}{scope}/{plural}"
                yield from (collection, f"{collection}/", f"{collection}/{name}", f"{collection}//{name}")
                for subresource in subresources:
                    yield from (f"{collection}/{name}/{subresource}", f"{collection}//{subresource}")
    yield from (f"/api/v1/namespaces/{namespace}", f"/api/v1/namespaces/{namespace}/status")
    yield from ("/api/v1/namespaces", f"/api/v1/namespaces/{namespace}/finalize", "/api/v1/nodes/n/proxy/x")
    for kind in ("tokenreviews", "watch/tokenreviews", "proxy/tokenreviews"):
        yield f"/apis/authentication.k8s.io/v1/{kind}"


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_verb_serves_its_methods_alone(admin: Attacker, namespace: str, group: str, verb: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    admin.create(f"{base}/pods", {"metadata": {"name": "p"}, "spec": spec})
    admin.create(f"{base}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "hidden-b"}})
    foo = {"apiVersion": f"{group}/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"n": 1}}
    admin.create(f"/apis/{group}/v1/namespaces/{namespace}/foos", foo)
    user = f"only-{verb}"
    grant(admin, user, "", f"{namespace}-{verb}", rule("*", "*", verb))

    def served(paths: Sequence[str]) -> int:
        count = 0
        with closing(Asking(admin)) as asking:
            for path, method in itertools.product(paths, METHODS):
                status, body = asking.ask(user, method, f"{path}?timeoutSeconds=1&dryRun=All")
                if method not in VERBS[verb]:
                    assert status in NO, (verb, method, path, status, body)
                elif status not in NO:
                    count += 1
                    assert verb in ("get", "list", "watch") or b"hidden" not in body, (verb, method, path)
        return count

    paths = list(paths_of(group, namespace))
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        counts = pool.map(served, (paths[first::CONNECTIONS] for first in range(CONNECTIONS)))
        assert bool(sum(counts)) == bool(VERBS[verb]), "the test asks for something that is served"
    found = admin.ask("GET", f"{base}/secrets/s").tree
    assert "deletionTimestamp" not in found["metadata"] and "aGlkZGVuLWI=" in json.dumps(found)
    for plural in ("clusterrolebindings", "clusterroles"):
        admin.ask("DELETE", f"{RBAC}/{plural}/{namespace}-{verb}")
