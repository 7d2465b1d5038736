"""The bodies in audit events: those of every endpoint, in JSON whatever the client sends and accepts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kapi.filters.audit import audit, audit_init
from kapi.filters.chain import FilterChain
from kapi.filters.request_info import received_timestamp, request_info
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.serving.run import RequestRunner
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.audit.audit_kit import Bench
from tests.authorization.secured import SecuredAPI
from tests.servers.apiextensions.conftest import serve_custom_resources
from tests.servers.apiextensions.definition_kit import FOOS, definition, install, version

NAMESPACE = "/api/v1/namespaces/n"
MAPS = f"{NAMESPACE}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/n/deployments"
MERGE = "application/merge-patch+json"
POD: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT: Object = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]},
    },
}


class Audited:
    """A server in memory with an audit log."""

    def __init__(self, level: str = "RequestResponse", api: MemoryAPI | None = None) -> None:
        self.bench = Bench({"level": level})
        self.api = api = api or succeed(MemoryAPI.started())

        def identify(ctx: RequestContext) -> None:
            ctx.user = api.user

        auditor = self.bench.auditor
        filters = [
            received_timestamp(api.clock.seconds), request_info, audit_init(auditor), identify, audit(auditor),
        ]  # fmt: skip
        api.runner = RequestRunner(FilterChain(filters, api.site.answer), cast(Reactor, api.clock))

    def ask(self, method: str, uri: str, body: object = None, code: int = 200, type: str = "", **headers: str) -> Any:
        """The last event of a request."""
        answer = self.api.ask(method, uri, body, type=type, headers=headers)
        assert answer.code == code, answer.written
        event = self.bench.sink.events[-1]
        assert (event["stage"], event["requestURI"]) == ("ResponseComplete", uri)
        return event


def test_a_scale_that_is_written() -> None:
    server = Audited()
    server.ask("POST", DEPLOYMENTS, DEPLOYMENT, 201)
    scale = {"metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": 2}}
    event = server.ask("PUT", f"{DEPLOYMENTS}/d/scale", scale)
    assert (event["requestObject"]["kind"], event["requestObject"]["spec"]) == ("Scale", {"replicas": 2})
    assert event["responseObject"]["spec"] == {"replicas": 2}
    event = server.ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, type=MERGE)
    assert event["requestObject"] == {"spec": {"replicas": 3}}


@pytest.mark.parametrize(
    ("name", "code", "body"),
    [
        ("binding", 201, {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "m"}}),
        ("eviction", 201, {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 7}}),
        ("eviction", 400, {"metadata": {"name": "another"}}),
    ],
)
def test_what_is_posted_to_a_pod(name: str, code: int, body: Object) -> None:
    server = Audited("Request")
    server.ask("POST", f"{NAMESPACE}/pods", POD, 201)
    event = server.ask("POST", f"{NAMESPACE}/pods/p/{name}", body, code)
    found = event["requestObject"]
    assert found["kind"].lower() == name
    assert {key: found[key] for key in body} == body
    assert "responseObject" not in event


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_written_object_has_its_defaults(method: str) -> None:
    """As upstream, whose decoder sets them: what a policy or a webhook sees can be read in the log."""
    server = Audited()
    sent: Object = {"metadata": {"name": "w", "uid": "sent"}, "spec": {"ports": [{"port": 80}]}}
    stored = server.ask("POST", f"{NAMESPACE}/services", {**sent, "metadata": {"name": "w"}}, 201)["responseObject"]
    if method == "PUT":
        sent = {**stored, "spec": {**stored["spec"], "sessionAffinity": None}}
        event = server.ask("PUT", f"{NAMESPACE}/services/w", sent)
    else:
        event = server.ask("POST", f"{NAMESPACE}/services", sent, 409)
    found = event["requestObject"]
    assert found["spec"]["sessionAffinity"] == "None"
    assert found["spec"]["ports"][0]["protocol"] == "TCP"
    assert found["metadata"]["uid"] == sent["metadata"]["uid"]  # before the server drops it


def test_a_written_object_has_the_version_of_the_request() -> None:
    server = Audited()
    uri = "/apis/autoscaling/v1/namespaces/n/horizontalpodautoscalers"
    spec = {
        "maxReplicas": 2,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "targetCPUUtilizationPercentage": 5,
    }
    found = server.ask("POST", uri, {"metadata": {"name": "h"}, "spec": spec}, 201)["requestObject"]
    assert found["apiVersion"] == "autoscaling/v1"
    assert found["spec"] == {**spec, "minReplicas": 1}


def test_a_token_that_is_asked_for_has_its_default() -> None:
    server = Audited(api=SecuredAPI())
    accounts = f"{NAMESPACE}/serviceaccounts"
    server.ask("POST", accounts, {"metadata": {"name": "s"}}, 201)
    event = server.ask("POST", f"{accounts}/s/token", {"spec": {"audiences": ["a"]}}, 201)
    assert event["requestObject"]["spec"]["expirationSeconds"] == 3600
    assert event["responseObject"]["kind"] == "TokenRequest"


FORMS = ["application/vnd.kubernetes.protobuf", "application/yaml", "application/json"]


@pytest.mark.parametrize("accept", FORMS)
def test_answers_in_json_whatever_the_client_accepts(accept: str) -> None:
    server, plain = Audited(), Audited()
    partial = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    asked: list[tuple[str, str, object, int, str, str]] = [
        ("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}, 201, "", ""),
        ("GET", f"{MAPS}/a", None, 200, "", ""),
        ("GET", MAPS, None, 200, "", ""),
        ("GET", MAPS, None, 200, "", partial if accept != FORMS[1] else ""),
        ("GET", f"{MAPS}/none", None, 404, "", ""),
        ("PATCH", f"{MAPS}/a", {"data": {"k": "w"}}, 200, MERGE, ""),
        ("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}}, 200, "", ""),
        ("POST", DEPLOYMENTS, DEPLOYMENT, 201, "", ""),
        ("GET", f"{DEPLOYMENTS}/d/scale", None, 200, "", ""),
        ("DELETE", f"{MAPS}/a", None, 200, "", ""),
        ("DELETE", MAPS, None, 200, "", ""),
    ]
    for method, uri, body, code, type_, convert in asked:
        found = server.ask(method, uri, body, code, type_, Accept=accept + convert)
        expected = plain.ask(method, uri, body, code, type_, Accept="application/json" + convert)
        assert _timeless(found.get("responseObject")) == _timeless(expected["responseObject"]), (method, uri)
        assert _timeless(found["responseStatus"]) == _timeless(expected["responseStatus"])


@pytest.mark.parametrize("accept", FORMS)
@pytest.mark.parametrize("level", ["Metadata", "Request"])
def test_lower_levels_have_no_answers(accept: str, level: str) -> None:
    server = Audited(level)
    assert "responseObject" not in server.ask("POST", MAPS, {"metadata": {"name": "a"}}, 201, Accept=accept)
    for uri, code in ((f"{MAPS}/a", 200), (MAPS, 200), (f"{MAPS}/none", 404)):
        assert "responseObject" not in server.ask("GET", uri, None, code, Accept=accept)


@pytest.mark.parametrize(("name", "default"), [("v1", "one"), ("v2", "two")])
def test_a_custom_object_has_the_defaults_of_the_version_that_was_sent(name: str, default: str) -> None:
    """Without a conversion, which may need a webhook."""
    server = Audited()
    serve_custom_resources(server.api)
    one, two = ({"a": {"type": "string", "default": value}, "b": {"type": "string"}} for value in ("one", "two"))
    install(server.api, definition(version("v1", spec=one), version("v2", storage=False, spec=two)))
    foo = {"apiVersion": f"example.com/{name}", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"b": "c", "x": 1}}
    recorded = server.ask("POST", FOOS.replace("/v1/", f"/{name}/"), foo, 201)["requestObject"]
    assert recorded == {**foo, "spec": {"a": default, "b": "c"}}


def test_documents_that_are_no_objects_are_not_recorded() -> None:
    event = Audited().ask("GET", "/version")
    assert "responseObject" not in event


def _timeless(tree: Any) -> Any:
    """Without what differs between two servers."""
    if isinstance(tree, dict):
        return {key: _timeless(value) for key, value in tree.items() if key != "uid"}
    return [_timeless(item) for item in tree] if isinstance(tree, list) else tree
