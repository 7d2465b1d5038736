"""Which paths and methods lead to an endpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.gvk import GroupVersion
from kapi.resources.catalogue import BUILT_IN
from kapi.testing.memory_api import MemoryAPI, succeed

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/n/pods/a/status", 200),
        ("GET", "/api/v1/namespaces/n/nodes", 404),
        ("GET", "/api/v1/namespaces/n/pods/a/status/more", 404),
        ("GET", "/api/v1/namespaces/n/pods/a//b", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/pods/a/status", 404),
        ("POST", "/api/v1/pods", 405),
        ("GET", "/api/v1/watch/componentstatuses", 404),
        ("GET", "/api/v1/watch/namespaces/n/pods/a/status", 404),
        ("GET", "/api/v1/namespaces/n/bindings/a", 404),
        ("GET", "/api/v1/namespaces/n/bindings", 405),
        ("DELETE", "/api/v1/namespaces/n/pods/a/eviction", 405),
        ("DELETE", "/api/v1/namespaces/n/pods/a/status", 405),
        # no review is served without authenticators and authorizers
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", 404),
        ("POST", "/api/v1/namespaces/n/serviceaccounts/a/token", 404),
    ],
)
def test_paths(api: MemoryAPI, method: str, path: str, code: int) -> None:
    assert api.ask("POST", "/api/v1/namespaces/n/pods", POD).code == 201
    answer = api.ask(method, path, {} if method == "POST" else None)
    assert answer.code == code
    if code == 404:
        assert answer.json["message"] == "the server could not find the requested resource"


def test_a_resource_that_is_not_listed() -> None:
    rows = [replace(row, verbs=("create", "get")) for row in BUILT_IN if row.plural == "configmaps"]
    api: MemoryAPI = succeed(MemoryAPI.started(rows))
    path = "/api/v1/namespaces/n/configmaps"
    assert api.ask("POST", path, {"metadata": {"name": "a"}}).code == 201
    codes = [api.ask("GET", f"{path}{more}").code for more in ("/a", "", "?watch=1")]
    assert codes == [200, 405, 405]
    assert [api.ask("DELETE", f"{path}{more}").code for more in ("/a", "")] == [405, 405]
    assert api.ask("GET", "/api/v1/watch/namespaces/n/configmaps").code == 405


def test_a_version_is_known_until_its_last_resource_is_removed() -> None:
    table, kept = ResourceTable(), GroupVersion("apps", "v1")
    for row in BUILT_IN:
        if row.plural in ("deployments", "daemonsets"):
            table.add(row, None)
    for plural, left in (("deployments", [kept]), ("deployments", [kept]), ("daemonsets", [])):
        table.remove("apps", "v1", plural)
        assert table.group_versions() == left
