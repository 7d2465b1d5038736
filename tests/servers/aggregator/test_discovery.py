"""The resources of other servers, as discovery shows them: from their aggregated documents, or from the lists of old servers."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kapi.endpoints.discovery.groups import GroupEntry
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.servers.aggregator.discovery import from_aggregated
from kapi.servers.aggregator.groups import merged_group
from tests.servers.aggregator.controller_case import ControllerCase, remote

V1, V2 = GroupVersion("a.example.com", "v1"), GroupVersion("a.example.com", "v2")
NO_KIND = {"group": "", "version": "", "kind": ""}


def resource(name: str, **more: Any) -> Object:
    return {"resource": name, "scope": "Namespaced", "singularResource": "", "verbs": ["get"], **more}


def document(**versions: list[Object]) -> bytes:
    found = [{"version": version, "resources": resources} for version, resources in versions.items()]
    return orjson.dumps(
        {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "a.example.com"}, "versions": found}]}
    )


class DiscoveryTests(ControllerCase):
    def later(self, seconds: float = 61) -> None:
        self.clock.advance(seconds)
        self.turn()

    def version(self, name: str = "v1") -> Any:
        services = [service for service in self.services.list() if service["spec"].get("service")]
        group = merged_group("a.example.com", [], services, self.remote)
        assert isinstance(group, GroupEntry)
        return next(entry for entry in group.versions if entry.version == name)

    def names(self, gv: GroupVersion = V1) -> list[str]:
        return [item["resource"] for item in self.remote[gv]]

    def test_a_server_is_asked_for_its_aggregated_document_first(self) -> None:
        self.backend_client.answers["/apis"] = document(v1=[resource("things", subresources=[{"subresource": "x"}])])
        self.make_available()
        (thing,) = self.remote[V1]
        self.assertEqual(thing["responseKind"], NO_KIND)
        self.assertEqual(thing["subresources"], [{"subresource": "x", "responseKind": NO_KIND, "verbs": None}])
        self.assertFalse(self.version().stale)
        (asked,) = self.backend_client.discovered
        form = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
        self.assertEqual(asked, ("v1.a.example.com", f"{form.format('v2')},{form.format('v2beta1')}", ""))

    def test_one_request_is_enough_for_all_group_versions_of_a_server(self) -> None:
        other = remote()
        other["metadata"]["name"], other["spec"]["version"] = "v2.a.example.com", "v2"
        self.backend_client.answers.update({"/apis": document(v1=[resource("a")], v2=[resource("b")])})
        self.backend_client.answers["/apis/a.example.com/v2"] = b""
        self.make_available()
        self.services.put(other)
        self.later(1)
        self.assertEqual((self.names(), self.names(V2)), (["a"], ["b"]))
        self.later()
        self.assertLessEqual(len(self.backend_client.discovered), 4)

    def test_a_document_that_has_not_changed_is_not_sent_again(self) -> None:
        self.backend_client.etag = '"1"'
        self.backend_client.answers["/apis"] = document(v1=[resource("a")])
        self.make_available()
        self.backend_client.answers["/apis"] = document(v1=[resource("b")])
        self.later()
        self.assertEqual((self.names(), self.backend_client.discovered[-1][2]), (["a"], '"1"'))
        self.backend_client.etag = '"2"'
        self.later()
        self.assertEqual(self.names(), ["b"])

    def test_while_a_server_does_not_answer_its_versions_are_stale(self) -> None:
        self.backend_client.hanging.add("v1.a.example.com")
        self.backend_client.answers["/apis"] = document(v1=[resource("a")])
        self.make_available()
        self.later(6)
        self.assertEqual((self.condition()["status"], self.version().stale, self.version().remote), ("True", True, []))
        self.backend_client.hanging.clear()
        for _ in range(3):  # a request may be under way still
            self.later(6)
        self.assertEqual((self.version().stale, self.names()), (False, ["a"]))
        self.backend_client.hanging.add("v1.a.example.com")
        for _ in range(4):
            self.later(20)
        self.assertEqual((self.version().stale, self.version().remote), (True, []))

    def test_a_server_that_does_not_know_such_documents_is_asked_for_each_group_version(self) -> None:
        self.backend_client.form = "application/json"
        listed = {"groupVersion": "a.example.com/v1", "resources": [{"name": "old", "kind": "Old"}]}
        self.backend_client.answers.update({"/apis": b"{}", "/apis/a.example.com/v1": orjson.dumps(listed)})
        self.make_available()
        self.assertEqual(self.names(), ["old"])

    def test_a_version_that_a_server_does_not_have_has_no_resources(self) -> None:
        self.backend_client.answers["/apis"] = document(v3=[resource("a")])
        self.make_available()
        self.assertEqual((self.version().stale, self.version().remote), (False, []))

    def test_what_is_no_document_makes_a_version_stale(self) -> None:
        self.backend_client.answers["/apis"] = document(v1=[resource("a")])
        self.make_available()
        self.assertFalse(self.version().stale)
        kind = b'{"kind": "APIGroupDiscoveryList", "items": '
        for bad in (b"x", b"[1]", b'{"items": []}', kind + b"1}", kind + b'[{"versions": [{"version": "v1"}]}]}'):
            self.backend_client.answers["/apis"] = bad
            self.later()
            self.assertTrue(self.version().stale, bad)

    def test_a_server_that_fails_its_check_is_asked_too(self) -> None:
        self.backend_client.answers["/apis"] = document(v1=[resource("a")])
        self.make_available()
        del self.backend_client.answers["/apis/a.example.com/v1"]
        for _ in range(3):
            self.later()
        self.assertEqual((self.condition()["status"], self.condition()["reason"]), ("False", "FailedDiscoveryCheck"))
        self.backend_client.answers["/apis"] = document(v1=[resource("b")])
        self.later()
        self.assertEqual((self.version().stale, self.names(), self.version().remote), (False, ["b"], self.remote[V1]))

    def test_what_is_deleted_is_not_asked_any_more(self) -> None:
        self.backend_client.answers["/apis"] = document(v1=[resource("a")])
        self.make_available()
        self.services.remove("v1.a.example.com")
        asked = len(self.backend_client.discovered)
        self.later()
        self.assertEqual((len(self.backend_client.discovered), self.remote), (asked, {}))


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_both_versions_of_the_document_are_read(version: str) -> None:
    kind = {"group": "g", "version": "v", "kind": "K"}
    item = resource("a", responseKind=kind, shortNames=["s"], categories=[], unknown=1)
    raw = orjson.loads(document(v1=[item]))
    found = from_aggregated({"apiVersion": f"apidiscovery.k8s.io/{version}", **raw})
    assert found == {V1: [resource("a", responseKind=kind, shortNames=["s"])]}
