"""Answers in protobuf: for whom asks for it, of everything that has it, and saying what JSON says."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kapi.endpoints.discovery.handler import DiscoveryHandler
from kapi.machinery.gvk import GroupVersionKind
from kapi.resources.catalogue import BUILT_IN
from kapi.schema import protobuf
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI
from tests.endpoints.built_in_groups import groups_of
from tests.endpoints.test_discovery import context
from tests.endpoints.test_openapi import Packed
from tests.protobuf_fields import fields

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAPS = "/api/v1/namespaces/n/configmaps"
MAP = GroupVersionKind("", "v1", "ConfigMap")
STATUS = GroupVersionKind("", "v1", "Status")


def ask(api: MemoryAPI, method: str, path: str, body: Any = None, accept: str = PROTOBUF) -> MemoryRequest:
    return api.ask(method, path, body, headers={"Accept": accept})


def content_type(answer: MemoryRequest) -> str:
    found: str = answer.header("content-type")
    return found


def decoded(answer: MemoryRequest, kind: GroupVersionKind) -> dict[str, Any]:
    assert content_type(answer) == PROTOBUF
    return protobuf.decode(b"".join(answer.chunks), kind)


@pytest.fixture
def two(api: MemoryAPI) -> MemoryAPI:
    for name in "ab":
        assert (
            api.ask("POST", MAPS, {"metadata": {"name": name, "labels": {"l": name}}, "data": {"k": name}}).code == 201
        )
    return api


def test_an_object_and_the_answer_to_its_creation(two: MemoryAPI) -> None:
    for answer, name in (
        (ask(two, "POST", MAPS, {"metadata": {"name": "c"}, "data": {"k": "c"}}), "c"),
        (ask(two, "GET", f"{MAPS}/a"), "a"),
        (ask(two, "GET", f"{MAPS}/a"), "a"),  # the second time from what was kept
    ):
        found = decoded(answer, MAP)
        assert (found["metadata"]["name"], found["data"]) == (name, {"k": name})
        assert found["metadata"]["resourceVersion"] and found["metadata"]["managedFields"][0]["fieldsV1"]


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        (f"{PROTOBUF},application/json", PROTOBUF),
        (f"application/json,{PROTOBUF}", "application/json"),
        (f"{PROTOBUF};q=0.1,application/json", "application/json"),
        (f"application/json;q=0.1,{PROTOBUF}", PROTOBUF),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"),
    ],
)
def test_the_best_liked_type_is_given(two: MemoryAPI, accept: str, given: str) -> None:
    assert content_type(ask(two, "GET", f"{MAPS}/a", accept=accept)) == given


def test_a_list_and_its_pages(two: MemoryAPI) -> None:
    kind = MAP._replace(kind="ConfigMapList")
    whole = decoded(ask(two, "GET", MAPS), kind)
    assert [item["metadata"]["name"] for item in whole["items"]] == ["a", "b"]
    assert whole["metadata"]["resourceVersion"] == two.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    first = decoded(ask(two, "GET", f"{MAPS}?limit=1"), kind)
    assert first["metadata"]["remainingItemCount"] == 1
    second = decoded(ask(two, "GET", f"{MAPS}?limit=1&continue={first['metadata']['continue']}"), kind)
    assert [item["metadata"]["name"] for item in second["items"]] == ["b"]
    assert "items" not in decoded(ask(two, "GET", f"{MAPS}?labelSelector=l=none"), kind)


def test_another_version_than_the_stored_one(api: MemoryAPI) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"},
        "reason": "R", "message": "m", "type": "Normal",
    }  # fmt: skip
    assert api.ask("POST", "/api/v1/namespaces/n/events", event).code == 201
    path, kind = "/apis/events.k8s.io/v1/namespaces/n/events", GroupVersionKind("events.k8s.io", "v1", "Event")
    assert decoded(ask(api, "GET", f"{path}/e"), kind)["regarding"]["name"] == "p"
    found = decoded(ask(api, "GET", path), kind._replace(kind="EventList"))
    assert found["items"][0]["note"] == "m"


def test_metadata_alone(two: MemoryAPI) -> None:
    one = ask(two, "GET", f"{MAPS}/a", accept=f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    several = ask(two, "GET", MAPS, accept=f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    for answer, kind, places in ((one, "PartialObjectMetadata", 1), (several, "PartialObjectMetadataList", 2)):
        assert content_type(answer) == PROTOBUF
        envelope = protobuf.envelope(b"".join(answer.chunks))
        assert (envelope.api_version, envelope.kind) == ("meta.k8s.io/v1", kind)
        assert [number for number, _, _ in fields(envelope.raw)] == ([1] if places == 1 else [1, 2, 2])


def test_errors_are_statuses(two: MemoryAPI) -> None:
    answer = ask(two, "GET", f"{MAPS}/none")
    found = decoded(answer, STATUS)
    assert (answer.code, found["code"], found["reason"]) == (404, 404, "NotFound")
    assert found["details"]["name"] == "none"
    deleted = decoded(ask(two, "DELETE", f"{MAPS}/a"), STATUS)
    assert deleted["status"] == "Success" and deleted["details"]["kind"] == "configmaps"


def test_no_table_has_a_protobuf_form(two: MemoryAPI) -> None:
    answer = ask(two, "GET", MAPS, accept=f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io")
    assert answer.code == 406


def frames(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    while data:
        size = int.from_bytes(data[:4])
        parts = {number: value for number, _, value in fields(data[4 : 4 + size])}
        data = data[4 + size :]
        assert isinstance(parts[1], bytes) and isinstance(parts[2], bytes)
        ((_, _, raw),) = fields(parts[2])
        assert isinstance(raw, bytes)
        found.append((parts[1].decode(), protobuf.decode(raw, MAP)))
    return found


def test_a_watch_is_a_stream_of_frames(two: MemoryAPI) -> None:
    answer = ask(
        two,
        "GET",
        f"{MAPS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    )
    two.turn()
    assert content_type(answer) == f"{PROTOBUF};stream=watch"
    assert two.ask("DELETE", f"{MAPS}/a").code == 200
    two.turn()
    events = frames(b"".join(answer.chunks))
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events] == [
        ("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", ""), ("DELETED", "a"),
    ]  # fmt: skip
    assert events[2][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_that_cannot_begin_says_so_in_a_frame(two: MemoryAPI) -> None:
    two.caches.floor = two.caches.revision
    answer = ask(two, "GET", f"{MAPS}?watch=true&resourceVersion=1")
    two.turn()
    ((kind, found),) = frames(b"".join(answer.chunks))
    assert (kind, found["kind"], found["code"]) == ("ERROR", "Status", 410)


def test_discovery_documents(api: MemoryAPI) -> None:
    handler = DiscoveryHandler(lambda: groups_of(BUILT_IN), lambda: "192.0.2.1:6443")
    for path, kind in (
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/api/v1", "APIResourceList"),
        ("/apis/apps/v1", "APIResourceList"),
    ):
        answer = handler.handle(context(path, accept=PROTOBUF))
        assert answer is not None and isinstance(answer.body, bytes)
        found = protobuf.decode(answer.body, GroupVersionKind("", "v1", kind))
        assert (answer.content_type, found["kind"]) == (PROTOBUF.encode(), kind)
    assert {resource["name"] for resource in found["resources"]} >= {"deployments", "deployments/scale"}


def test_the_aggregated_discovery_document() -> None:
    handler = DiscoveryHandler(lambda: groups_of(BUILT_IN), lambda: "192.0.2.1:6443")
    form = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = handler.handle(context("/apis", accept=f"{PROTOBUF};{form}"))
    assert answer is not None and isinstance(answer.body, bytes)
    assert answer.content_type == f"{PROTOBUF};{form}".encode()
    plain = handler.handle(context("/apis", accept=f"application/json;{form}"))
    assert plain is not None and isinstance(plain.body, bytes)
    assert dict(plain.headers)[b"etag"] == dict(answer.headers)[b"etag"]
    packed = Packed(answer.body.removeprefix(b"k8s\0"))
    assert packed.all(1, 1) + packed.all(1, 2) == [b"apidiscovery.k8s.io/v2", b"APIGroupDiscoveryList"]
    groups = [Packed(data) for data in packed.all(2, 2)]
    wanted = orjson.loads(plain.body)["items"]
    assert [group.all(1, 1)[0].decode() for group in groups] == [item["metadata"]["name"] for item in wanted]
    for group, item in zip(groups, wanted, strict=True):
        for version, said in zip(map(Packed, group.all(2)), item["versions"], strict=True):
            assert (version.all(1), version.all(3)) == ([said["version"].encode()], [b"Current"])
            for resource, row in zip(map(Packed, version.all(2)), said["resources"], strict=True):
                texts = [[text.decode() for text in resource.all(number)] for number in (1, 3, 4, 5, 6, 7)]
                names = ("resource", "scope", "singularResource")
                lists = [row.get(name, []) for name in ("verbs", "shortNames", "categories")]
                assert texts == [*([row[name]] for name in names), *lists]
                kind = [[text.decode() for text in resource.all(2, number)] for number in (1, 2, 3)]
                assert kind == [[row["responseKind"][name]] for name in ("group", "version", "kind")]
                subs = [text.decode() for text in resource.all(8, 1)]
                assert subs == [sub["subresource"] for sub in row.get("subresources", [])]


def test_the_aggregated_document_goes_before_a_plain_one_that_is_named_first() -> None:
    """Upstream asks for clauses of the aggregated document alone before it looks at the others."""
    handler = DiscoveryHandler(lambda: groups_of(BUILT_IN), lambda: "192.0.2.1:6443")
    other = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = handler.handle(context("/apis", accept=f"{PROTOBUF}, {other}"))
    assert answer is not None and answer.content_type == other.encode()
