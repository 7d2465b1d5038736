"""PATCH: every kind, its errors, server-side apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kapi.testing.memory_api import MemoryAPI

MAPS = "/api/v1/namespaces/n/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/n/deployments"
MERGE, JSON, STRATEGIC, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@pytest.fixture
def one(api: MemoryAPI) -> MemoryAPI:
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}).code == 201
    return api


def deployment(*containers: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": name, "image": "i"} for name in containers]},
    }
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template}}


@pytest.mark.parametrize(
    ("kind", "patch", "wanted"),
    [
        (MERGE, {"data": {"x": "1"}}, {"k": "v", "x": "1"}),
        (MERGE, {"data": {"k": None, "x": "1"}}, {"x": "1"}),
        (JSON, [{"op": "add", "path": "/data/x", "value": "1"}], {"k": "v", "x": "1"}),
        (JSON, [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/k"}], None),
        (STRATEGIC, {"data": {"$patch": "replace", "y": "2"}}, {"y": "2"}),
    ],
)
def test_patches(one: MemoryAPI, kind: str, patch: Any, wanted: Any) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", patch, type=kind)
    assert answer.code == 200, answer.written
    assert answer.json.get("data") == wanted


def test_a_strategic_patch_merges_lists_by_their_key(api: MemoryAPI) -> None:
    assert api.ask("POST", DEPLOYMENTS, deployment("a", "b")).code == 201
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "new"}]}}}}
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/d", patch, type=STRATEGIC)
    containers = answer.json["spec"]["template"]["spec"]["containers"]
    assert {container["name"]: container["image"] for container in containers} == {"a": "i", "b": "new"}


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ({"a": "b"}, '[{"y":1,"x":[null,1.0]}]'),  # in the place of an object it stays as it is
        (None, '[{"x":[null,1.0],"y":1}]'),
    ],
)
def test_a_merged_list_is_quoted_as_it_was_opened(one: MemoryAPI, labels: Any, shown: str) -> None:
    assert one.ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": labels}}, type=MERGE).code == 200
    answer = one.ask("PATCH", f"{MAPS}/a", '{"metadata":{"labels":[{"y":1,"x":[null,1.0]}]}}', type=MERGE)
    assert answer.code == 422
    assert f'"labels":{shown},' in answer.json["details"]["causes"][0]["message"].replace("\\", "")


@pytest.mark.parametrize(
    ("patch", "quoted"),
    [
        ({"data": {"k": [1], "x": {"$patch": "replace"}}}, "map[data:map[k:[1] x:map[$patch:replace]]]"),
        ({"data": {"$retainKeys": ["k"], "k": [1]}}, "map[data:map[k:[1]]]"),
        (
            {"immutable": [], "metadata": {"labels": {"a": None, "b": {"$patch": "delete"}}}},
            "map[immutable:[] metadata:map[labels:map[]]]",
        ),
    ],
)  # fmt: skip
def test_a_strategic_patch_is_quoted_without_what_was_used_up(one: MemoryAPI, patch: Any, quoted: str) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", patch, type=STRATEGIC)
    assert answer.code == 422, answer.written
    assert answer.json["details"]["causes"][0]["message"].startswith(f'Invalid value: "{quoted}": ')


@pytest.mark.parametrize(
    ("kind", "patch", "code"),
    [
        ("application/json", {}, 415),
        ("text/plain", {}, 415),
        (f"{MERGE}, text/plain", {}, 415),
        (MERGE, b"{", 400),
        (MERGE, {"data": {"k": 1}}, 422),
        (MERGE, {"metadata": {"name": "b"}}, 400),
        (JSON, {}, 400),
        (JSON, [{"op": "remove", "path": "/nope"}], 422),
        (JSON, [{"op": "test", "path": "/data/k", "value": "other"}], 422),
        (JSON, [{"op": "add", "path": "/data/x", "value": "1"}] * 10_001, 413),
        (APPLY, b"a: [", 400),
    ],
)
def test_bad_patches_change_nothing(one: MemoryAPI, kind: str, patch: Any, code: int) -> None:
    before = one.ask("GET", f"{MAPS}/a").json
    query = "?fieldManager=m" if kind == APPLY else ""
    answer = one.ask("PATCH", f"{MAPS}/a{query}", patch, type=kind)
    assert answer.code == code, answer.written
    assert answer.json["kind"] == "Status"
    assert one.ask("GET", f"{MAPS}/a").json == before


@pytest.mark.parametrize(
    ("kind", "prefix"), [(MERGE, "error decoding patch: "), (JSON, "error decoding patch: "), (STRATEGIC, "")]
)
def test_a_patch_that_is_no_json(one: MemoryAPI, kind: str, prefix: str) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", "{", type=kind)
    assert (answer.code, answer.json["message"]) == (400, f"{prefix}unexpected end of JSON input")
    answer = one.ask("PATCH", f"{MAPS}/a?fieldValidation=Ignore", "{", type=kind)
    wanted = "Invalid JSON Patch" if kind == MERGE else "unexpected end of JSON input"
    assert (answer.code, answer.json["message"]) == (400, wanted)


@pytest.mark.parametrize(("patch", "shown"), [([], "[]"), ([None, {"a": None}], "[null,{}]")])
def test_a_list_is_merged_without_validation_and_is_no_object(one: MemoryAPI, patch: Any, shown: str) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a?fieldValidation=Ignore", patch, type=MERGE)
    assert answer.code == 422
    why = "couldn't get version/kind; json parse error: json: cannot unmarshal array"
    assert answer.json["message"].startswith(f' "" is invalid: patch: Invalid value: "{shown}": {why}')


def test_a_patch_of_nothing_is_not_found(api: MemoryAPI) -> None:
    assert api.ask("PATCH", f"{MAPS}/a", {}, type=MERGE).code == 404


def apply(api: MemoryAPI, manager: str, data: dict[str, str], query: str = "") -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": data}
    return api.ask("PATCH", f"{MAPS}/s?fieldManager={manager}{query}", body, type=APPLY)


def test_apply_creates_then_owns(api: MemoryAPI) -> None:
    assert apply(api, "one", {"k": "v"}).code == 201
    assert apply(api, "one", {"k": "v"}).code == 200
    conflict = apply(api, "two", {"k": "w"})
    assert (conflict.code, conflict.json["reason"]) == (409, "Conflict")
    assert conflict.json["details"]["causes"][0]["field"] == ".data.k"
    forced = apply(api, "two", {"k": "w"}, "&force=true")
    assert forced.json["data"] == {"k": "w"}


def test_what_an_applier_drops_goes_unless_somebody_else_has_it(api: MemoryAPI) -> None:
    apply(api, "one", {"mine": "1", "ours": "1"})
    apply(api, "two", {"ours": "1"})
    answer = apply(api, "one", {})
    assert answer.json["data"] == {"ours": "1"}


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ({"apiVersion": 1, "kind": "ConfigMap"}, 400, "invalid object type: /, Kind=ConfigMap"),
        ({"apiVersion": ["v1"], "kind": {}}, 400, "invalid object type: /, Kind="),
        ({"apiVersion": "a/b/c", "kind": "ConfigMap"}, 400, "invalid object type: /, Kind="),
        (
            {"metadata": "s"},
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map",
        ),
        ({"metadata": {"name": "s", "managedFields": []}}, 400, "metadata.managedFields must be nil"),
    ],
)
def test_what_an_applier_cannot_declare(api: MemoryAPI, body: dict[str, Any], code: int, why: str) -> None:
    sent = {"apiVersion": "v1", "kind": "ConfigMap", **body}
    answer = api.ask("PATCH", f"{MAPS}/s?fieldManager=m", sent, type=APPLY)
    assert (answer.code, answer.json["message"][: len(why)]) == (code, why)


def test_an_object_cannot_become_a_list(one: MemoryAPI) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", [{"op": "replace", "path": "", "value": ["x"]}], type=JSON)
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "patch")
    assert 'Invalid value: "[\\"x\\"]": couldn\'t get version/kind; json parse error: ' in answer.json["message"]


@pytest.mark.parametrize(
    ("agent", "manager"),
    [("kubectl/v1.36.0 (linux/amd64) kubernetes/abc", "kubectl"), ("plain", "plain"), ("/1", "unknown"), ("", "unknown"),
     ("x" * 200, "x" * 128), ("a\tb/1", "ab")],
)  # fmt: skip
def test_without_a_manager_it_is_what_the_client_calls_itself(api: MemoryAPI, agent: str, manager: str) -> None:
    made = api.ask("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}}, headers={"User-Agent": agent})
    assert made.code == 201
    assert [entry["manager"] for entry in made.json["metadata"]["managedFields"]] == [manager]


def test_what_was_applied_in_another_version_goes_when_it_is_not_applied_again(api: MemoryAPI) -> None:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}

    def applied(version: str, **spec: Any) -> Any:
        obj = {
            "apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"scaleTargetRef": ref, **spec},
        }  # fmt: skip
        uri = f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/a?fieldManager=me"
        answer = api.ask("PATCH", uri, json.dumps(obj).encode(), type=APPLY)
        assert answer.code in (200, 201), answer.json
        return answer.json["spec"]

    applied("v1", minReplicas=2, maxReplicas=3, targetCPUUtilizationPercentage=50)
    spec = applied("v2", maxReplicas=3)
    assert (spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]) == (1, 3, ref)
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    assert applied("v2", maxReplicas=3, minReplicas=2, behavior=behavior)["minReplicas"] == 2
    spec = applied("v1", maxReplicas=4)
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 4)
    assert "behavior" not in applied("v2", maxReplicas=4)


def test_apply_needs_a_manager(api: MemoryAPI) -> None:
    answer = api.ask("PATCH", f"{MAPS}/s", {"apiVersion": "v1", "kind": "ConfigMap"}, type=APPLY)
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "fieldManager")


def test_unknown_fields_warn_or_fail_as_asked(one: MemoryAPI) -> None:
    warned = one.ask("PATCH", f"{MAPS}/a", {"bogus": 1}, type=MERGE)
    assert warned.code == 200 and warned.warnings == ['299 - "unknown field \\"bogus\\""']
    strict = one.ask("PATCH", f"{MAPS}/a?fieldValidation=Strict", {"bogus": 1}, type=MERGE)
    assert strict.code == 422
    silent = one.ask("PATCH", f"{MAPS}/a?fieldValidation=Ignore", {"bogus": 1}, type=MERGE)
    assert silent.code == 200 and silent.warnings == []


def test_scale_reads_and_writes_the_replicas(api: MemoryAPI) -> None:
    api.ask("POST", DEPLOYMENTS, deployment("a"))
    scale = api.ask("GET", f"{DEPLOYMENTS}/d/scale").json
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 1}, "app=d")
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, type=MERGE)
    assert answer.json["spec"] == {"replicas": 3}
    assert api.ask("GET", f"{DEPLOYMENTS}/d").json["spec"]["replicas"] == 3
    negative = api.ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, type=MERGE)
    assert negative.json["details"]["causes"][0]["field"] == "spec.replicas"


def test_a_scale_must_be_of_the_very_object_and_well_formed(api: MemoryAPI) -> None:
    api.ask("POST", DEPLOYMENTS, deployment("a"))
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": -1}}
    other = {"name": "d", "namespace": "n", "uid": "other"}
    put = api.ask("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "metadata": other}).json
    assert put["message"].startswith('Operation cannot be fulfilled on deployments.apps "d": StorageError: ')
    gone = api.ask("PUT", f"{DEPLOYMENTS}/gone/scale", {**scale, "metadata": {**other, "name": "gone"}})
    assert gone.code == 404
    patched = api.ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"metadata": {"uid": "other"}}, type=MERGE).json
    assert (patched["reason"], patched["details"]["kind"]) == ("Conflict", "deployments/scale")
    for patch, why in (
        ({"$patch": "replace"}, "(d based on URL) was undeterminable: name must be provided"),
        ({"metadata": {"name": "e"}}, "(e) does not match the name on the URL (d)"),
    ):
        unnamed = api.ask("PATCH", f"{DEPLOYMENTS}/d/scale", patch, type=STRATEGIC)
        assert (unnamed.code, unnamed.json["message"]) == (400, f"the name of the object {why}")
    labelled = {"name": "d", "namespace": "n", "labels": {"a b": "c"}}
    wrong = api.ask("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "metadata": labelled}).json
    assert [cause["field"] for cause in wrong["details"]["causes"]] == ["metadata.labels", "spec.replicas"]


def test_whole_numbers_of_strategic_patches_are_cut_to_the_field(api: MemoryAPI) -> None:
    assert api.ask("POST", DEPLOYMENTS, deployment("a")).code == 201
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"replicas": 2**32 + 3}}, type=STRATEGIC)
    assert (answer.code, answer.json["spec"]["replicas"]) == (200, 3)
    refused = api.ask("PATCH", f"{DEPLOYMENTS}/d", {"spec": {"replicas": 2**32 + 3}}, type=MERGE)
    assert refused.code == 422


@pytest.mark.parametrize(("version", "why"), [({}, "unrecognized type: string"), (1, "cannot convert int64 to string")])
def test_the_version_in_a_strategic_patch_must_be_a_text(one: MemoryAPI, version: Any, why: str) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", {"apiVersion": version}, type=STRATEGIC)
    assert (answer.code, answer.json["message"].endswith(why)) == (422, True)
    assert one.ask("PATCH", f"{MAPS}/a", {"apiVersion": "other/v9"}, type=STRATEGIC).code == 200


def test_what_cannot_be_made_of_an_apply_is_a_fault_of_the_server(api: MemoryAPI) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "x"}}}
    answer = api.ask("PATCH", "/api/v1/namespaces/n/resourcequotas/q?fieldManager=m", body, type=APPLY)
    why = (
        "failed to convert new object (/q; /v1, Kind=ResourceQuota) to proper version: unable to convert unstructured "
    )
    assert (answer.code, answer.json["message"][: len(why)]) == (500, why)


def test_a_patch_that_takes_the_version_away_leaves_no_name(api: MemoryAPI) -> None:
    """Also where the kind is stored in another version, which has fields that are always there."""
    path = "/apis/autoscaling/v1/namespaces/n/horizontalpodautoscalers"
    spec = {"maxReplicas": 1, "scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"}}
    assert api.ask("POST", path, {"metadata": {"name": "h"}, "spec": spec}).code == 201
    answer = api.ask("PATCH", f"{path}/h", {"apiVersion": None}, type=MERGE)
    why = "the name of the object (h based on URL) was undeterminable: name must be provided"
    assert (answer.code, answer.json["message"]) == (400, why)
    strict = api.ask("PATCH", f"{path}/h?fieldValidation=Strict", {"apiVersion": None}, type=MERGE)
    unknown = 'strict decoding error: unknown field "metadata", unknown field "spec", unknown field "status"'
    assert (strict.code, strict.json["message"].endswith(unknown)) == (422, True)


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"metrics": [None, {"type": "Pods"}]}, 422, "spec.metrics[0].type: Required value"),
        ({"behavior": {"scaleUp": {"policies": [None]}}}, 422, "spec.behavior.scaleUp.policies[0].type"),
        ({"metrics": [{"type": "Pods", "pods": {"target": {"value": "much"}}}]}, 500, "failed to convert new object: "),
    ],
)
def test_an_apply_may_have_null_in_a_list_while_another_version_has_a_manager(
    api: MemoryAPI, spec: Any, code: int, text: str
) -> None:
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 1, "scaleTargetRef": target}}
    path = "/apis/autoscaling/{}/namespaces/n/horizontalpodautoscalers"
    assert api.ask("POST", path.format("v1"), body).code == 201
    applied = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **body, "spec": spec}
    answer = api.ask("PATCH", f"{path.format('v2')}/h?fieldManager=m", applied, type=APPLY)
    assert answer.code == code, answer.json
    assert text in answer.json["message"]


def test_what_is_wrong_with_an_apply_comes_before_what_is_missing(api: MemoryAPI) -> None:
    path = "/api/v1/namespaces/n/services/none/status?fieldManager=m"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "none"}, "status": {"other": 1}}
    answer = api.ask("PATCH", path, body, type=APPLY)
    assert (answer.code, answer.json["message"].rpartition(": ")[2]) == (500, "field not declared in schema")
    del body["status"]
    answer = api.ask("PATCH", path, body, type=APPLY)  # a Service may be created by an update of its status
    assert (answer.code, answer.json["message"]) == (422, 'Service "none" is invalid: spec.ports: Required value')


@pytest.mark.parametrize(
    ("path", "kind"), [(f"{DEPLOYMENTS}/x/status", "Deployment"), ("/api/v1/namespaces/n/pods/x/resize", "Pod")]
)
def test_an_apply_to_a_subresource_of_a_missing_object_is_not_looked_at(api: MemoryAPI, path: str, kind: str) -> None:
    for body in ({"kind": kind}, {"apiVersion": "v9"}, {"metadata": {"name": "other"}}, {"metadata": 5}):
        answer = api.ask("PATCH", f"{path}?fieldManager=m", body, type=APPLY)
        assert (answer.code, answer.json["reason"]) == (404, "NotFound")


def test_an_apply_that_creates_needs_a_version_that_can_be_read(api: MemoryAPI) -> None:
    def apply(dry_run: str, **metadata: str) -> Any:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", **metadata}}
        return api.ask("PATCH", f"{MAPS}/new?fieldManager=m{dry_run}", body, type=APPLY)

    for dry_run in ("&dryRun=All", ""):
        answer = apply(dry_run, resourceVersion="x")
        assert (answer.code, answer.json["message"]) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    answer = apply("&dryRun=All", resourceVersion="5", selfLink="/x")
    assert (answer.code, answer.json["metadata"]["selfLink"]) == (201, "/x")  # removed only on the way to the store
    answer = apply("", resourceVersion="5", selfLink="/x")
    assert (answer.code, "selfLink" in answer.json["metadata"]) == (201, False)


def owners(api: MemoryAPI, path: str) -> list[Any]:
    """(manager, operation, subresource, whether with a time, fields of the spec) of each entry."""
    found = api.ask("GET", path).json["metadata"]["managedFields"]
    return [
        (
            item["manager"],
            item["operation"],
            item.get("subresource", ""),
            "time" in item,
            sorted(item["fieldsV1"].get("f:spec", {})),
        )
        for item in found
    ]


def test_a_write_to_a_scale_divides_the_entry_of_who_updates_and_keeps_the_one_of_who_applies(api: MemoryAPI) -> None:
    """Upstream identifies an update by the version, which is another one in a Scale."""
    body = {**deployment("a"), "apiVersion": "apps/v1", "kind": "Deployment"}
    body["spec"]["replicas"] = 2
    assert api.ask("PATCH", f"{DEPLOYMENTS}/d?fieldManager=one", body, type=APPLY).code == 201
    change = {"spec": {"replicas": 3, "paused": True}}
    assert api.ask("PATCH", f"{DEPLOYMENTS}/d?fieldManager=two", change, type=MERGE).code == 200
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}}
    assert api.ask("PUT", f"{DEPLOYMENTS}/d/scale?fieldManager=three", scale).code == 200
    assert owners(api, f"{DEPLOYMENTS}/d") == [
        ("one", "Apply", "", True, ["f:selector", "f:template"]),
        ("two", "Update", "", False, ["f:replicas"]),
        ("two", "Update", "", True, ["f:paused"]),
    ]
    body["spec"]["replicas"] = 3
    assert api.ask("PATCH", f"{DEPLOYMENTS}/d?fieldManager=one", body, type=APPLY).code == 200
    assert api.ask("PUT", f"{DEPLOYMENTS}/d/scale?fieldManager=three", scale).code == 200
    assert owners(api, f"{DEPLOYMENTS}/d")[0] == ("one", "Apply", "", True, ["f:replicas", "f:selector", "f:template"])


def test_a_scale_that_is_applied_without_replicas_owns_none(api: MemoryAPI) -> None:
    assert api.ask("POST", DEPLOYMENTS, deployment("a")).code == 201
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {}}
    assert api.ask("PATCH", f"{DEPLOYMENTS}/d/scale?fieldManager=other", body, type=APPLY).code == 200
    assert {owner[0] for owner in owners(api, f"{DEPLOYMENTS}/d")} == {"tests"}


@pytest.mark.parametrize(
    ("type_", "patch", "names"),
    [
        (JSON, [{"op": "add", "path": path, "value": 1} for path in ("/b", "/metadata/d", "/a")], "a b metadata.d"),
        (
            JSON,
            [{"op": "replace", "path": "/metadata", "value": {"name": "a", "d": 1, "c": 1}}],
            "metadata.d metadata.c",
        ),
        (MERGE, {"b": 1, "metadata": {"d": 1, "c": 1}, "a": 1}, "a b metadata.c metadata.d"),
    ],
)
def test_unknown_fields_are_told_in_the_order_of_the_patched_text(
    one: MemoryAPI, type_: str, patch: object, names: str
) -> None:
    wanted = [f'unknown field "{name}"' for name in names.split()]
    answer = one.ask("PATCH", f"{MAPS}/a?dryRun=All", patch, type=type_)
    assert [json.loads(text.partition(" - ")[2]) for text in answer.warnings] == wanted
    answer = one.ask("PATCH", f"{MAPS}/a?fieldValidation=Strict", patch, type=type_)
    assert answer.json["message"].rpartition("strict decoding error: ")[2] == ", ".join(wanted)


def test_a_json_patch_reports_what_is_wrong_in_the_order_of_its_text(one: MemoryAPI) -> None:
    patch = (
        b'[{"op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"}},'
        b'{"foo":1,"op":"test","op":"test","path":"/data/k","value":"v"}]'
    )
    wanted = [
        'json patch duplicate field "[0].value.a"',
        'json patch unknown field "[1].foo"',
        'json patch duplicate field "[1].op"',
        'duplicate field "metadata.labels.a"',
    ]
    answer = one.ask("PATCH", f"{MAPS}/a?dryRun=All", patch, type=JSON)
    assert [json.loads(text.partition(" - ")[2]) for text in answer.warnings] == wanted
    answer = one.ask("PATCH", f"{MAPS}/a?fieldValidation=Strict", patch, type=JSON)
    assert answer.json["message"].rpartition("strict decoding error: ")[2] == ", ".join(wanted)


@pytest.mark.parametrize(
    ("kind", "labels", "shown"), [(MERGE, {"app": None}, "{}"), (MERGE, None, "null"), (APPLY, {}, "{}")]
)
def test_an_invalid_object_is_quoted_as_it_was_sent(api: MemoryAPI, kind: str, labels: Any, shown: str) -> None:
    assert api.ask("POST", DEPLOYMENTS, deployment("a")).code == 201
    body = {"spec": {"template": {"metadata": {"labels": labels}}}}
    if kind == APPLY:
        body = {"kind": "Deployment", "apiVersion": "apps/v1", **deployment("a")}
        body["metadata"] = {"name": "new"}
        body["spec"]["template"]["metadata"]["labels"] = labels
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/{'new' if kind == APPLY else 'd'}?fieldManager=m", body, type=kind)
    assert answer.code == 422
    assert f"spec.template.metadata.labels: Invalid value: {shown}: `selector`" in answer.json["message"]


def test_a_body_is_quoted_as_it_was_sent(api: MemoryAPI) -> None:
    body = deployment("a")
    body["spec"]["template"]["metadata"]["labels"] = {}
    assert "labels: Invalid value: {}: `selector`" in api.ask("POST", DEPLOYMENTS, body).json["message"]
    del body["spec"]["template"]["metadata"]["labels"]
    assert "labels: Invalid value: null: `selector`" in api.ask("POST", DEPLOYMENTS, body).json["message"]


def test_other_kinds_of_meta_are_no_options_of_a_deletion(one: MemoryAPI) -> None:
    answer = one.ask("DELETE", f"{MAPS}/a", {"kind": "Status"})
    assert (answer.code, answer.json["message"]) == (
        400,
        "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
    )


def test_a_definition_without_a_schema_for_the_items_of_a_map(api: MemoryAPI) -> None:
    items = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": 5}
    schema = {"type": "object", "properties": {"c": items}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "a.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"kind": "CustomResourceDefinition", "metadata": {"name": "things.a.example.com"}, "spec": spec}
    answer = api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert 'items: Invalid value: {"Schema":null,"JSONSchemas":null}: must only have' in answer.json["message"]


REVISIONS = "/apis/apps/v1/namespaces/n/controllerrevisions"


def revised(api: MemoryAPI, data: Any, patch: Any, form: str) -> tuple[int, str]:
    """Code and message after a patch of a ControllerRevision with this data."""
    api.ask("DELETE", f"{REVISIONS}/r")
    assert api.ask("POST", REVISIONS, {"metadata": {"name": "r"}, "data": data, "revision": 1}).code == 201
    answer = api.ask("PATCH", f"{REVISIONS}/r", patch, type=f"application/{form}-patch+json")
    return answer.code, answer.json.get("message", "")


def test_a_patch_writes_the_data_of_a_revision_anew(api: MemoryAPI) -> None:
    """What it opens has its keys sorted; a strategic one opens everything, and so changes what it does not name."""
    data = {"spec": {"y": ["z"], "x": 1}, "a": {"d": 1, "c": 2}}
    operation = {"op": "replace", "path": "/data/spec/y", "value": ["linux"]}
    assert revised(api, data, [operation], "json") == (
        422,
        'ControllerRevision.apps "r" is invalid: data: Invalid value: '
        '{"a":{"d":1,"c":2},"spec":{"x":1,"y":["linux"]}}: field is immutable',
    )
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert revised(api, data, labels, "merge") == (200, "")
    assert revised(api, {"a": 1, "b": 2}, labels, "strategic-merge") == (200, "")
    assert revised(api, {"b": 2, "a": 1}, labels, "strategic-merge") == (
        422,
        'ControllerRevision.apps "r" is invalid: data: Invalid value: {"a":1,"b":2}: field is immutable',
    )


@pytest.mark.parametrize(
    ("text", "labels", "code"),
    [
        ('{ "b": 1, "a": 2 }', {}, 200),  # nothing changes: not the text either
        ('{ "b": 1, "a": 2 }', {"l": "w"}, 422),  # written anew: compact, with sorted keys
        ('{"b":1,"a":2}', {"l": "w"}, 422),
        ('{"a":2,"b":1}', {"l": "w"}, 200),
    ],
)
def test_an_apply_writes_the_data_of_a_revision_anew_if_it_changes_something(
    api: MemoryAPI, text: str, labels: Any, code: int
) -> None:
    head = '"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r", "labels": {"l": "v"}}'
    assert api.ask("POST", REVISIONS, f'{{{head}, "data": {text}, "revision": 1}}').code == 201
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "r", "labels": labels},
        "revision": 1,
    }
    answer = api.ask("PATCH", f"{REVISIONS}/r?fieldManager=m&force=true", body, type=APPLY)
    assert answer.code == code, answer.written
    if code == 200:
        assert {entry["operation"] for entry in answer.json["metadata"]["managedFields"]} == {"Update", "Apply"}
        replaced = api.ask("PUT", f"{REVISIONS}/r", f'{{{head}, "data": {text}, "revision": 1}}')
        assert replaced.code == 200, "the text is still the one that was sent"
    else:
        assert answer.json["details"]["causes"][0]["field"] == "data"


def test_a_null_among_bytes_is_empty(api: MemoryAPI) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "binaryData": {"b": None}}
    applied = api.ask("PATCH", f"{MAPS}/a?fieldManager=m", body, type=APPLY)
    created = api.ask("POST", MAPS, {**body, "metadata": {"name": "b"}})
    assert [(answer.code, answer.json["binaryData"]) for answer in (applied, created)] == [(201, {"b": ""})] * 2


def test_bytes_that_cannot_be_decoded_are_explained_by_the_kind_of_patch(one: MemoryAPI) -> None:
    change = {"binaryData": {"b": "1E"}}
    merged, strategic = (one.ask("PATCH", f"{MAPS}/a", change, type=kind) for kind in (MERGE, STRATEGIC))
    assert merged.json["message"].endswith(": illegal base64 data at input byte 0")
    assert strategic.json["message"].endswith(": error decoding from json: illegal base64 data at input byte 0")


@pytest.mark.parametrize(
    ("plural", "annotation"),
    [
        ("daemonsets", "deprecated.daemonset.template.generation"),
        ("deployments", "deprecated.deployment.rollback.to"),
    ],
)
def test_a_patch_whose_result_cannot_be_converted(api: MemoryAPI, plural: str, annotation: str) -> None:
    path = f"/apis/apps/v1/namespaces/n/{plural}"
    created = api.ask("POST", path, deployment("c")).json
    merge = {"metadata": {"annotations": {annotation: "x"}}, "spec": {"template": None}}
    answer = api.ask("PATCH", f"{path}/d", merge, type=MERGE)
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "patch")
    assert answer.json["message"].endswith('strconv.ParseInt: parsing "x": invalid syntax')
    answer = api.ask("PATCH", f"{path}/d", {"metadata": {"annotations": {annotation: "x"}}}, type=STRATEGIC)
    assert (answer.code, "reason" in answer.json) == (500, False)
    assert answer.json["message"].endswith('strconv.ParseInt: parsing "x": invalid syntax')
    assert api.ask("GET", f"{path}/d").json == created


def test_version_and_kind_are_found_in_any_case_of_letters(one: MemoryAPI) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", {"apiVersion": None, "ApiVersion": "v1", "data": {"k": "w"}}, type=MERGE)
    assert (answer.code, answer.json.get("data")) == (200, {"k": "w"})
    answer = one.ask("POST", MAPS, {"Kind": "Secret", "metadata": {"name": "b"}})
    assert answer.code == 400
    assert "cannot be handled as a ConfigMap" in answer.json["message"]
    answer = one.ask("POST", MAPS, {"kind": "ConfigMap", "metadata": {"name": "b"}, "KIND": "Secret"})
    assert (answer.code, "cannot be handled as a ConfigMap" in answer.json["message"]) == (400, True), "the last counts"
    for type_, patch in (
        (MERGE, {"KIND": "x"}),
        (STRATEGIC, {"KIND": "x"}),
        (JSON, [{"op": "add", "path": "/KIND", "value": "x"}]),
    ):
        assert one.ask("PATCH", f"{MAPS}/a", patch, type=type_).code == 200, "of a patched object the last by name"
    answer = one.ask("POST", MAPS, {"kind": "ConfigMap", "metadata": {"name": "b"}, "Kind": 1, "KIND": None})
    assert "cannot unmarshal number into Go struct field .kind of type string" in answer.json["message"]


@pytest.mark.parametrize("name", ["apiVersion", "kind"])
def test_a_json_patch_cannot_make_version_or_kind_another_type(one: MemoryAPI, name: str) -> None:
    answer = one.ask("PATCH", f"{MAPS}/a", [{"op": "replace", "path": f"/{name}", "value": {}}], type=JSON)
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "patch")
    assert answer.json["message"].endswith(f"json: cannot unmarshal object into Go struct field .{name} of type string")


def test_an_applied_quantity_is_a_scalar(api: MemoryAPI) -> None:
    """Also where the apply conflicts, since upstream checks the types first."""
    path = "/api/v1/namespaces/n/resourcequotas"
    assert api.ask("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1"}}}).code == 201
    hard = {"cpu": "2", "memory": {"a": "b"}}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    answer = api.ask("PATCH", f"{path}/q?fieldManager=m", body, type="application/apply-patch+yaml")
    assert answer.code == 500
    assert answer.json["message"].endswith(": .spec.hard.memory: expected any scalar, got &{map[a:b]}")
