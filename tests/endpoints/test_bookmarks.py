"""What bookmarks carry: an empty object of the watched kind as Go writes it, in each form that a watch may have."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.testing.memory_api import MemoryAPI

INITIAL = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60"
ENDS = {"k8s.io/initial-events-end": "true"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WATCHED = [row for row in BUILT_IN if "watch" in row.verbs]


def events(api: MemoryAPI, path: str, accept: str = "application/json", more: str = "") -> list[Any]:
    # of no object: the bookmark is the first event
    uri = f"{path}?{INITIAL}&fieldSelector=metadata.name%3Dnone{more}"
    watch = api.ask("GET", uri, headers={"Accept": accept})
    api.turn()
    return watch.events


POD_SPEC = {"containers": None}
TEMPLATE = {"metadata": {}, "spec": POD_SPEC}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/secrets", {}),
        ("/api/v1/pods", {"spec": POD_SPEC, "status": {}}),
        ("/api/v1/services", {"spec": {}, "status": {"loadBalancer": {}}}),
        (
            "/apis/apps/v1/deployments",
            {
                "spec": {
                    "replicas": 0,
                    "selector": None,
                    "template": TEMPLATE,
                    "strategy": {},
                },
                "status": {},
            },
        ),
        (
            "/apis/apps/v1/replicasets",
            {"spec": {"replicas": 0, "selector": None, "template": TEMPLATE}, "status": {"replicas": 0}},
        ),
        (
            "/apis/apps/v1/statefulsets",
            {
                "spec": {
                    "replicas": 0,
                    "selector": None,
                    "template": TEMPLATE,
                    "serviceName": "",
                    "updateStrategy": {},
                },
                "status": {"replicas": 0, "availableReplicas": 0},
            },
        ),
        ("/apis/rbac.authorization.k8s.io/v1/roles", {"rules": None}),
        ("/apis/discovery.k8s.io/v1/endpointslices", {"addressType": "", "endpoints": None, "ports": None}),
    ],
)
def test_a_bookmark_is_an_empty_object_of_its_kind(api: MemoryAPI, path: str, expected: dict[str, Any]) -> None:
    (event,) = events(api, path)
    found = event["object"]
    assert (event["type"], found.pop("metadata")["annotations"]) == ("BOOKMARK", ENDS)
    assert {name: value for name, value in found.items() if name not in ("kind", "apiVersion")} == expected


def test_a_daemon_set_has_its_generation_in_an_annotation(api: MemoryAPI) -> None:
    (event,) = events(api, "/apis/apps/v1/daemonsets")
    assert event["object"]["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "0", **ENDS}


def _name(row: Resource) -> str:
    return f"{row.plural}.{row.version}.{row.group}"


@pytest.mark.parametrize("row", WATCHED, ids=_name)
def test_every_kind_has_bookmarks_in_every_form(api: MemoryAPI, row: Resource) -> None:
    path = f"{'/apis/' + row.group if row.group else '/api'}/{row.version}/{row.plural}"
    (event,) = events(api, path)
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", row.kind)
    (event,) = events(api, path, TABLE)
    table = event["object"]
    assert (event["type"], table["kind"], len(table["rows"])) == ("BOOKMARK", "Table", 1)
    assert table["columnDefinitions"]  # the first event has them
    assert table["rows"][0]["object"]["metadata"]["annotations"] == ENDS
    uri = f"{path}?{INITIAL}&fieldSelector=metadata.name%3Dnone"
    watch = api.ask("GET", uri, headers={"Accept": "application/vnd.kubernetes.protobuf"})
    api.turn()
    assert b"BOOKMARK" in watch.written and row.kind.encode() in watch.written


def test_the_end_of_the_initial_events_is_told_to_who_wants_no_objects(api: MemoryAPI) -> None:
    (event,) = events(api, "/api/v1/pods", TABLE, "&includeObject=None")
    assert event["object"]["rows"][0]["object"]["metadata"]["annotations"] == ENDS
