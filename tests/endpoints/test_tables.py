"""Tables: what their cells are made from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = "/api/v1/namespaces/n/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def test_ages_follow_the_clock_that_creation_times_are_taken_from(api: MemoryAPI) -> None:
    api.ask("POST", MAPS, {"metadata": {"name": "one"}})
    api.turn(90)
    watch = api.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=60", headers=TABLE)
    api.turn()
    found = [api.ask("GET", uri, headers=TABLE).json for uri in (f"{MAPS}/one", MAPS)]
    for table in (*found, watch.events[0]["object"]):
        assert table["rows"][0]["cells"] == ["one", 0, "90s"]


@pytest.mark.parametrize("query", ["", "watch=1&"])
def test_an_object_that_rows_cannot_include(api: MemoryAPI, query: str) -> None:
    answer = api.ask("GET", f"{MAPS}?{query}includeObject=x", headers=TABLE)
    why = 'Unable to convert to Table as requested: includeObject: Invalid value: "x"'
    assert (answer.code, answer.json["message"][: len(why)]) == (400, why)


def test_a_type_without_columns_of_its_own_has_those_of_all() -> None:
    rows = [replace(row, table=None) for row in BUILT_IN if row.plural == "configmaps"]
    api: MemoryAPI = succeed(MemoryAPI.started(rows))
    assert api.ask("GET", MAPS, headers=TABLE).json["rows"] is None
    made = api.ask("POST", MAPS, {"metadata": {"name": "one"}}).json["metadata"]["creationTimestamp"]
    table = api.ask("GET", MAPS, headers=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert [row["cells"] for row in table["rows"]] == [["one", made]]


@pytest.mark.parametrize("include", ["", "?includeObject=Object", "?includeObject=None"])
def test_rows_of_an_older_version_show_what_only_the_stored_version_says(api: MemoryAPI, include: str) -> None:
    autoscalers = "/apis/autoscaling/{}/namespaces/n/horizontalpodautoscalers"
    metric = {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "30"}}}
    reference = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 5, "metrics": [metric]}
    body = {"metadata": {"name": "h"}, "spec": spec}
    older = autoscalers.format("v1")
    assert api.ask("POST", autoscalers.format("v2"), body).code == 201
    watch = api.ask("GET", f"{older}{include or '?'}&watch=1&timeoutSeconds=60", headers=TABLE)
    api.turn()
    patched = api.ask("PATCH", f"{older}/h{include}", {}, headers=TABLE, type="application/merge-patch+json")
    found = [api.ask("GET", uri + include, headers=TABLE).json for uri in (older, f"{older}/h")]
    for table in (*found, watch.events[0]["object"], patched.json):
        (row,) = table["rows"]
        assert row["cells"][2] == "<unknown>/30"
        whole = row["object"]
        if include.endswith("=Object"):
            assert whole["apiVersion"] == "autoscaling/v1" and "autoscaling" in str(whole["metadata"]["annotations"])
        elif not include:
            assert whole["kind"] == "PartialObjectMetadata" and "annotations" not in whole["metadata"]
        else:
            assert whole is None


_DAEMON = {
    "metadata": {"name": "d", "annotations": {"a": "b"}},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
_AUTOSCALER = {
    "metadata": {"name": "d", "annotations": {"a": "b"}},
    "spec": {
        "maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}},
    },
}


@pytest.mark.parametrize(
    ("path", "other", "body", "annotation"),
    [
        (
            "/apis/apps/v1/{}/daemonsets",
            "/apis/apps/v1/{}/daemonsets",
            _DAEMON,
            "deprecated.daemonset.template.generation",
        ),
        (
            "/apis/autoscaling/v2/{}/horizontalpodautoscalers",
            "/apis/autoscaling/v1/{}/horizontalpodautoscalers",
            _AUTOSCALER,
            "autoscaling.alpha.kubernetes.io/behavior",
        ),
    ],
)
def test_metadata_alone_has_no_annotations_that_stand_for_fields(
    api: MemoryAPI, path: str, other: str, body: Object, annotation: str
) -> None:
    made, seen = path.format("namespaces/n"), other.format("namespaces/n")
    assert api.ask("POST", made, body).code == 201
    assert annotation in api.ask("GET", f"{seen}/d").json["metadata"]["annotations"]
    one, many = (
        {"Accept": f"application/json;as={kind};v=v1;g=meta.k8s.io"}
        for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
    )
    watch = api.ask("GET", f"{seen}?watch=1&timeoutSeconds=60", headers=one)
    api.turn()
    (item,) = api.ask("GET", seen, headers=many).json["items"]
    for found in (item, api.ask("GET", f"{seen}/d", headers=one).json, watch.events[0]["object"]):
        assert (found["kind"], found["metadata"]["annotations"]) == ("PartialObjectMetadata", {"a": "b"})
