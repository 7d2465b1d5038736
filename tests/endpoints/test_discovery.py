"""Discovery: documents of the catalogue, order of groups and versions, negotiation, ETags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from kapi.endpoints.discovery.groups import GroupEntry, VersionEntry, sort_versions, version_rank
from kapi.endpoints.discovery.handler import DiscoveryHandler
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.resources.catalogue import BUILT_IN
from kapi.testing.memory_api import MemoryAPI
from tests.endpoints.built_in_groups import groups_of

AGGREGATED = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"


class Http:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers

    def getHeader(self, name: str) -> str | None:
        return self.headers.get(name.lower())


def context(path: str, method: str = "GET", **headers: str) -> RequestContext:
    return RequestContext(Http({name.replace("_", "-"): value for name, value in headers.items()}), method, path, {})


def handler(groups: Any = None) -> DiscoveryHandler:
    found = groups_of(BUILT_IN) if groups is None else groups
    return DiscoveryHandler(lambda: found, lambda: "192.0.2.1:6443")


def document(path: str, **headers: str) -> Any:
    response = handler().handle(context(path, **headers))
    assert response is not None and isinstance(response.body, bytes)
    return orjson.loads(response.body)


def test_versions_are_sorted_by_what_they_promise() -> None:
    versions = ["v1beta1", "v10", "foo", "v2", "v1alpha2", "v1", "v1beta2", "bar"]
    assert sort_versions(versions) == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha2", "bar", "foo"]
    ranked = sorted(
        [*versions, "v1alpha1", "v2alpha1", "v3beta1", "v0", "v1gamma1", "v1beta0"], key=version_rank, reverse=True
    )
    assert ranked == [
        "v10", "v2", "v1", "v3beta1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha2", "v1alpha1", "v1gamma1", "v1beta0", "v0",
        "foo", "bar",
    ]  # fmt: skip


def test_the_preferred_version_is_the_first() -> None:
    group = document("/apis/autoscaling")
    assert [entry["version"] for entry in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


def test_subresources_stand_after_their_resource() -> None:
    names = [entry["name"] for entry in document("/apis/apps/v1")["resources"]]
    start = names.index("deployments")
    assert names[start : start + 3] == ["deployments", "deployments/scale", "deployments/status"]


def test_a_subresource_may_be_of_another_group() -> None:
    aggregated = document("/apis", accept=AGGREGATED)
    (apps,) = (group for group in aggregated["items"] if group["metadata"]["name"] == "apps")
    (row,) = (each for each in apps["versions"][0]["resources"] if each["resource"] == "deployments")
    kinds = {sub["subresource"]: sub["responseKind"] for sub in row["subresources"]}
    assert kinds["scale"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert row["responseKind"] == {
        "group": "",
        "version": "",
        "kind": "Deployment",
    }  # of the group, as its versions say


def test_the_core_documents_have_no_api_version() -> None:
    assert "apiVersion" not in document("/api")
    assert "apiVersion" not in document("/api/v1")
    assert document("/api")["serverAddressByClientCIDRs"][0]["serverAddress"] == "192.0.2.1:6443"


@pytest.mark.parametrize(
    "path",
    ["/api/", "/api/v1/", "/apis/", "/apis/apps/", "/apis/apps/v1/", "/api//", "/apis/apps//", "/apis/apps/v1///"],
)
def test_a_trailing_slash_changes_nothing(path: str) -> None:
    assert document(path) == document(path.rstrip("/"))


@pytest.mark.parametrize(
    "path",
    [
        "/apis/nosuch",
        "/apis/apps/v9",
        "/api/v2",
        "/apis//apps",
        "/apis//",
        "/apis/apps//v1/",
        "/apis/apps/v1/deployments",
        "/",
        "/apiary",
    ],
)
def test_other_paths_are_not_discoverys(path: str) -> None:
    assert handler().handle(context(path)) is None


@pytest.mark.parametrize("method", ["POST", "DELETE", "HEAD", "OPTIONS"])
def test_the_core_group_and_versions_can_only_be_read(method: str) -> None:
    for path in ("/api", "/api/v1", "/apis/apps/v1"):
        with pytest.raises(status.MethodNotAllowed):
            handler().handle(context(path, method))


def test_a_version_in_a_form_that_it_does_not_have() -> None:
    for path in ("/api", "/api/v1", "/apis/apps/v1"):
        with pytest.raises(status.NotAcceptable, match="406: Not Acceptable\n\nAvailable representations: "):
            handler().handle(context(path, accept="text/html"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_groups_are_answered_whatever_the_method(method: str) -> None:
    for path, kind in (("/apis", "APIGroupList"), ("/apis/apps", "APIGroup")):
        answer = handler().handle(context(path, method))
        assert answer is not None and isinstance(answer.body, bytes)
        assert orjson.loads(answer.body)["kind"] == kind


def test_the_aggregated_document_is_answered_to_whoever_asks_for_it() -> None:
    # also behind a clause that asks for the plain one: what chooses between the two looks for the aggregated alone
    for accept in (f"{AGGREGATED},application/json", f"application/json,{AGGREGATED}", f"text/html,*/*,{AGGREGATED}"):
        assert document("/apis", accept=accept)["kind"] == "APIGroupDiscoveryList"
    for accept in (f"{AGGREGATED.replace('v2', 'v9')},application/json", f"{AGGREGATED};stream=x,*/*", "*/*"):
        assert document("/apis", accept=accept)["kind"] == "APIGroupList"


def test_the_aggregated_document_is_written_in_yaml_and_with_indentation_too() -> None:
    answer = handler().handle(context("/api", accept=AGGREGATED.replace("json", "yaml")))
    assert answer is not None and isinstance(answer.body, bytes)
    assert answer.content_type == b"application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert answer.body.startswith(b"apiVersion: apidiscovery.k8s.io/v2\nitems:\n- metadata:")
    answer = handler().handle(context("/api", accept=f"{AGGREGATED};pretty=1"))
    assert answer is not None and isinstance(answer.body, bytes) and answer.body.startswith(b'{\n  "kind"')


def test_an_etag_is_compared_as_it_stands() -> None:
    server = handler()
    first = server.handle(context("/apis", accept=AGGREGATED))
    assert first is not None
    etag = dict(first.headers)[b"etag"].decode()
    for other in (f"W/{etag}", f'{etag}, "x"', "*", etag.strip('"')):
        again = server.handle(context("/apis", accept=AGGREGATED, if_none_match=other))
        assert again is not None and again.status == 200


def test_versions_of_custom_resources_are_answered_whatever_the_method() -> None:
    resource = next(row for row in BUILT_IN if row.plural == "leases")
    custom = replace(resource, group="example.com", typed_items=True)
    server = handler([GroupEntry("example.com", [VersionEntry("v1", [custom])])])
    for method in ("POST", "DELETE", "HEAD"):
        answer = server.handle(context("/apis/example.com/v1", method))
        assert answer is not None and isinstance(answer.body, bytes)
        assert orjson.loads(answer.body)["kind"] == "APIResourceList"
    with pytest.raises(status.NotAcceptable) as raised:
        server.handle(context("/apis/example.com/v1", accept="text/html"))
    assert raised.value.status["message"].startswith("only the following media types are accepted: ")


@pytest.mark.parametrize("path", ["/apis/apps", "/api/v1"])
def test_only_the_roots_are_aggregated(path: str) -> None:
    with pytest.raises(status.NotAcceptable):
        handler().handle(context(path, accept=AGGREGATED))


def test_an_unchanged_document_is_not_sent_again() -> None:
    server = handler()
    first = server.handle(context("/apis", accept=AGGREGATED))
    assert first is not None
    etag = dict(first.headers)[b"etag"].decode()
    again = server.handle(context("/apis", accept=AGGREGATED, if_none_match=etag))
    assert again is not None and (again.status, again.body) == (304, b"")


def test_a_changed_set_of_groups_shows_after_invalidation() -> None:
    groups: list[GroupEntry] = []
    server = handler(groups)
    assert server.handle(context("/apis/new.example.com")) is None
    empty = server.handle(context("/apis", accept=AGGREGATED))
    groups.append(GroupEntry("new.example.com", [VersionEntry("v1", remote=[], stale=True)]))
    server.invalidate()
    assert server.handle(context("/apis/new.example.com")) is not None
    full = server.handle(context("/apis", accept=AGGREGATED))
    assert empty is not None and full is not None and empty.body != full.body
    assert isinstance(full.body, bytes)
    assert orjson.loads(full.body)["items"][0]["versions"] == [{"version": "v1", "freshness": "Stale"}]


def test_the_paths_of_all_groups_are_listed() -> None:
    groups = [
        GroupEntry("", [VersionEntry("v1", [])]),
        GroupEntry("a.b", [VersionEntry("v2", []), VersionEntry("v1", [])]),
    ]
    paths = ["/api", "/api/v1", "/apis", "/apis/", "/apis/a.b", "/apis/a.b/v2", "/apis/a.b/v1"]
    assert handler(groups).paths() == paths


def test_yaml_is_spoken() -> None:
    response = handler().handle(context("/apis/policy", accept="application/yaml"))
    assert response is not None and response.content_type == b"application/yaml"
    assert response.body == (
        b"apiVersion: v1\nkind: APIGroup\nname: policy\npreferredVersion:\n  groupVersion: policy/v1\n  version: v1\n"
        b"versions:\n- groupVersion: policy/v1\n  version: v1\n"
    )


@pytest.mark.parametrize("uri", ["/api/v1/watch", "/apis/apps/v1/proxy/?a=b"])
def test_a_special_path_that_names_nothing_is_an_internal_error_to_upstream(api: MemoryAPI, uri: str) -> None:
    answer = api.ask("GET", uri)
    why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {uri}"
    assert (answer.code, answer.header("content-type")) == (500, "text/plain; charset=utf-8")
    assert answer.written.decode() == f'Internal Server Error: "{uri}": {why}\n'


@pytest.mark.parametrize("path", ["/api//", "/api/v1//", "/apis/apps//", "/apis/apps/v1//", "/version//"])
def test_slashes_at_the_end_mean_nothing(api: MemoryAPI, path: str) -> None:
    assert api.ask("GET", path).json == api.ask("GET", path.rstrip("/")).json
