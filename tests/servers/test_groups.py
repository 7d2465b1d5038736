"""API groups of a program: their rows, over the real endpoints in memory."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapi.machinery.status import Forbidden
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Strategy, StrategyContext
from kapi.servers.additions import APIGroup, APIGroupResource, APIVersion
from kapi.servers.groups import group_rows
from kapi.testing.memory_api import MemoryAPI, succeed

GARDEN = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "howto" / "garden_server.py"))
GROUP = APIGroup(name="garden.example.com", resources=[GARDEN["BEDS"], GARDEN["GROWN"]])
BEDS = "/apis/garden.example.com/v1/namespaces/default/beds"
OLD_BEDS = BEDS.replace("/v1/", "/v1alpha1/")
PLANTS = "/apis/garden.example.com/v1/plants"


@pytest.fixture
def api() -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started([*BUILT_IN, *group_rows([GROUP], ())]))
    for name in ("rose", "tulip"):
        made = api.ask("POST", PLANTS, {**header("Plant", name), "spec": {"light": "sun"}})
        assert made.code == 201, made.written
    return api


def header(kind: str, name: str, version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": f"garden.example.com/{version}", "kind": kind, "metadata": {"name": name}}


def bed(name: str = "north", **spec: object) -> dict[str, Any]:
    return {**header("Bed", name), "spec": spec}


def test_defaults_are_those_of_the_schema_and_of_the_strategy(api: MemoryAPI) -> None:
    assert api.ask("GET", f"{PLANTS}/rose").json["spec"] == {"light": "sun", "distance": 20}
    made = api.ask("POST", BEDS, bed(rows=["rose"])).json
    assert made["spec"] == {"length": 100, "rows": ["rose"]}
    assert made["metadata"]["generation"] == 1 and made["metadata"]["uid"]


def test_a_strategy_validates_what_the_schema_accepts(api: MemoryAPI) -> None:
    refused = api.ask("POST", BEDS, bed(rows=["rose", "elm"]))
    assert refused.code == 422 and refused.json["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "elm": there is no such plant',
            "field": "spec.rows[1]",
        }
    ]
    assert api.ask("POST", BEDS, bed()).code == 201
    shrunk = api.ask("PUT", f"{BEDS}/north", bed(length=50))
    assert shrunk.code == 422 and "a bed does not shrink" in shrunk.json["message"]
    assert api.ask("PUT", f"{BEDS}/north", bed(length=150)).json["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("wide", "spec"),
        ({"length": "wide"}, "spec.length"),
        ({"rows": "rose"}, "spec.rows"),
        ({"rows": [1]}, "rows[0]"),
    ],
)
def test_a_strategy_sees_no_object_of_another_shape(api: MemoryAPI, spec: object, field: str) -> None:
    refused = api.ask("POST", BEDS, {**header("Bed", "north"), "spec": spec})
    assert refused.code == 422 and field in refused.json["message"]
    refused = api.ask("POST", OLD_BEDS, {**header("Bed", "north", "v1alpha1"), "spec": spec})
    assert refused.code == 422 or "rows" in field  # a field that v1alpha1 does not have


def test_a_strategy_sees_no_object_without_what_is_required(api: MemoryAPI) -> None:
    for place, version in ((BEDS, "v1"), (OLD_BEDS, "v1alpha1")):
        refused = api.ask("POST", place, header("Bed", "north", version))
        assert refused.code == 422 and "spec: Required value" in refused.json["message"]
    api.ask("POST", BEDS, bed())
    for place in (BEDS, OLD_BEDS):
        refused = api.ask("PATCH", f"{place}/north", {"spec": None}, type="application/merge-patch+json")
        assert refused.code == 422 and "spec: Required value" in refused.json["message"]


def test_versions_are_converted_by_the_program(api: MemoryAPI) -> None:
    old = {**header("Bed", "north", "v1alpha1"), "spec": {"plant": "rose"}}
    made = api.ask("POST", OLD_BEDS, old)
    assert made.code == 201 and made.json["spec"] == {"length": 100, "plant": "rose"}
    assert made.json["apiVersion"] == "garden.example.com/v1alpha1"
    assert api.ask("GET", f"{BEDS}/north").json["spec"] == {"length": 100, "rows": ["rose"]}
    patch = {"spec": {"rows": ["rose", "tulip"]}}
    kind = "application/merge-patch+json"
    assert api.ask("PATCH", f"{BEDS}/north", patch, type=kind).json["spec"]["rows"] == ["rose", "tulip"]
    seen = api.ask("GET", f"{OLD_BEDS}/north").json
    assert seen["spec"]["plant"] == "rose"
    assert seen["metadata"]["annotations"] == {"garden.example.com/further-rows": "tulip"}
    refused = api.ask("PATCH", f"{OLD_BEDS}/north", {"spec": {"plant": "elm"}}, type=kind)
    assert refused.code == 422 and "there is no such plant" in refused.json["message"]
    assert api.ask("GET", OLD_BEDS).json["items"][0]["apiVersion"] == "garden.example.com/v1alpha1"


def test_only_its_subresource_writes_the_status(api: MemoryAPI) -> None:
    made = api.ask("POST", BEDS, {**bed(), "status": {"watered": "never"}}).json
    assert "status" not in made
    kind = "application/merge-patch+json"
    change = {"spec": {"length": 300}, "status": {"watered": "today"}}
    state = api.ask("PATCH", f"{BEDS}/north/status", change, type=kind).json
    assert state["status"] == {"watered": "today"} and state["spec"] == {"length": 100}
    assert api.ask("GET", f"{PLANTS}/rose/status").code == 404


def test_apply_knows_who_owns_a_field(api: MemoryAPI) -> None:
    kind = "application/apply-patch+yaml"
    place = f"{BEDS}/north?fieldManager="
    assert api.ask("PATCH", f"{BEDS}/south?fieldManager=one", bed("south"), type=kind).json["spec"] == {"length": 100}
    assert api.ask("PATCH", f"{place}one", bed(length=120), type=kind).code == 201
    conflict = api.ask("PATCH", f"{place}two", bed(length=130), type=kind)
    assert conflict.code == 409 and 'conflict with "one": .spec.length' in conflict.json["message"]
    assert api.ask("PATCH", f"{place}two", bed(length=120), type=kind).code == 200


def test_a_watch_has_objects_of_its_version(api: MemoryAPI) -> None:
    stream = api.ask("GET", f"{OLD_BEDS}?watch=1")
    api.ask("POST", BEDS, bed(rows=["tulip"]))
    api.turn()
    (event,) = stream.events
    assert event["type"] == "ADDED" and event["object"]["spec"] == {"length": 100, "plant": "tulip"}


def test_field_selectors_columns_and_warnings(api: MemoryAPI) -> None:
    api.ask("POST", BEDS, bed())
    api.ask("POST", BEDS, bed("south", length=200))
    found = api.ask("GET", f"{BEDS}?fieldSelector=spec.length%3D200").json["items"]
    assert [item["metadata"]["name"] for item in found] == ["south"]
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = api.ask("GET", BEDS, headers=accept).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Length"]
    assert table["rows"][0]["cells"] == ["north", 100]
    warned = api.ask("GET", OLD_BEDS).warnings
    assert "Bed is deprecated; use v1" in str(warned)


class Locked(Strategy):
    allow_unconditional_update = False

    def prepare_for_create(self, obj: Any, ctx: StrategyContext) -> None:
        obj["spec"]["creator"] = ctx.user.name if ctx.user else ""

    def prepare_for_update(self, obj: Any, old: Any, ctx: StrategyContext) -> None:
        obj["spec"]["creator"] = old["spec"]["creator"]

    def canonicalize(self, obj: Any) -> None:
        obj["spec"]["tags"] = sorted(obj["spec"].get("tags") or [])

    def admit_delete(self, obj: Any, ctx: StrategyContext) -> None:
        if "kept" in obj["spec"]["tags"]:
            raise Forbidden("the vase is kept")

    def warnings_on_delete(self, options: Any) -> list[str]:
        return ["gone for ever"]

    def warnings_on_create(self, obj: Any, ctx: StrategyContext) -> list[str]:
        return ["handle with care"]


SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "creator": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}


def simple(**changes: Any) -> APIGroupResource:
    given: dict[str, Any] = {"kind": "Vase", "plural": "vases", "versions": [APIVersion(name="v1", schema=SCHEMA)]}
    return APIGroupResource(**{**given, **changes})


def test_strategies_prepare_and_normalize() -> None:
    rows = group_rows([APIGroup(name="vases.example.com", resources=[simple(strategy=Locked())])], ())
    api: MemoryAPI = succeed(MemoryAPI.started([*BUILT_IN, *rows]))
    place = "/apis/vases.example.com/v1/namespaces/default/vases"
    vase = {"apiVersion": "vases.example.com/v1", "kind": "Vase", "metadata": {"name": "a"}}
    made = api.ask("POST", place, {**vase, "spec": {"tags": ["b", "a"], "creator": "me"}})
    assert made.json["spec"] == {"creator": "tester", "tags": ["a", "b"]}
    assert "handle with care" in str(made.warnings)
    refused = api.ask("PUT", f"{place}/a", {**vase, "spec": {}})
    assert refused.code == 422 and "metadata.resourceVersion" in refused.json["message"]
    vase["metadata"]["resourceVersion"] = made.json["metadata"]["resourceVersion"]  # type: ignore[index]
    assert api.ask("PUT", f"{place}/a", {**vase, "spec": {"creator": "me"}}).json["spec"]["creator"] == "tester"
    assert api.ask("PATCH", f"{place}/a", {"spec": {"tags": ["kept"]}}, type="application/merge-patch+json").code == 200
    refused = api.ask("DELETE", f"{place}/a")
    assert (refused.code, refused.json["message"]) == (403, "the vase is kept")
    assert api.ask("PATCH", f"{place}/a", {"spec": {"tags": None}}, type="application/merge-patch+json").code == 200
    gone = api.ask("DELETE", f"{place}/a")
    assert gone.code == 200 and "gone for ever" in str(gone.warnings)


def refusals() -> Iterator[tuple[list[APIGroup], str]]:
    def group(*resources: APIGroupResource, name: str = "vases.example.com") -> APIGroup:
        return APIGroup(name=name, resources=resources)

    yield [group(simple(), name="apps")], "the API group apps is served already"
    yield [group(simple()), group(simple())], "the API group vases.example.com is served already"
    yield [group(simple(), simple(kind="Other"))], "vases is twice in the API group vases.example.com"
    yield [group(simple(), simple(plural="others"))], "Vase is twice in the API group vases.example.com"
    yield [group(simple(versions=[]))], "vases.vases.example.com: spec.versions"
    yield [group(simple(plural="Vases"))], "spec.names.plural: Invalid value"
    twice = [APIVersion(name="v1", schema=SCHEMA)] * 2
    yield [group(simple(versions=twice))], "spec.versions: Invalid value"
    loose = [APIVersion(name="v1", schema={"properties": {"spec": {}}})]
    yield [group(simple(versions=loose))], "openAPIV3Schema.type: Required value"


@pytest.mark.parametrize(("groups", "why"), list(refusals()))
def test_what_cannot_be_served_is_named(groups: list[APIGroup], why: str) -> None:
    with pytest.raises(ValueError, match=why.replace(".", r"\.")):
        group_rows(groups, {"apps"})
