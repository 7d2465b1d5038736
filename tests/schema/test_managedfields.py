"""``managedFields`` after every kind of write, over small types and the Kubernetes types of SMD's vectors."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.status import BadRequest, Conflict, StatusError
from kapi.schema.apply import lastapplied
from kapi.schema.managedfields import FieldManager
from kapi.schema.types import Field, Kind, Type
from tests.examples import examples
from tests.schema.managedfields_kit import (
    CM,
    CONFIG_MAP,
    META,
    T1,
    T2,
    T3,
    TEXT,
    TEXTS,
    THING,
    config_map,
    created,
    fields_of,
    struct,
    texts,
)
from tests.schema.smd_schema import Parser


@pytest.fixture
def manager() -> FieldManager:
    return FieldManager(CONFIG_MAP, CM)


def test_create_owns_every_field_but_what_the_server_sets(manager: FieldManager) -> None:
    obj = created(manager, config_map({"k": "v"}, labels={"b": "1", "a": "2"}, namespace="n"))
    entry = obj["metadata"]["managedFields"][0]
    assert list(entry) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]
    assert orjson.dumps(entry["fieldsV1"]) == (
        b'{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}}}}'
    )


def test_an_update_takes_what_it_changes(manager: FieldManager) -> None:
    live = created(manager, config_map({"k": "v", "l": "w"}))
    new = config_map({"k": "x", "l": "w", "m": "n"}, uid="u")
    manager.update(live, new, "d", T2)
    assert fields_of(new) == [
        ("c", "Update", T1, {"f:data": {".": {}, "f:l": {}}}),
        ("d", "Update", T2, {"f:data": {"f:k": {}, "f:m": {}}}),
    ]


def test_an_update_without_change_keeps_everything(manager: FieldManager) -> None:
    live = created(manager, config_map({"k": "v"}))
    new = config_map({"k": "v"}, uid="u")
    manager.update(live, new, "d", T2)
    assert new["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_removing_a_field_ends_its_ownership_and_changes_no_time(manager: FieldManager) -> None:
    live = created(manager, config_map({"k": "v", "l": "w"}))
    new = config_map({"k": "v"}, uid="u")
    manager.update(live, new, "d", T2)
    assert fields_of(new) == [("c", "Update", T1, {"f:data": {".": {}, "f:k": {}}})]


@pytest.mark.parametrize("reset", [[], [{}], [{"manager": ""}]])
def test_a_client_can_reset_ownership(manager: FieldManager, reset: list[Any]) -> None:
    live = created(manager, config_map({"k": "v"}))
    new = config_map({"k": "x"}, uid="u", managedFields=reset)
    manager.update(live, new, "d", T2)
    assert "managedFields" not in new["metadata"]


def test_unreadable_entries_of_a_client_are_overruled(manager: FieldManager) -> None:
    live = created(manager, config_map({"k": "v"}))
    new = config_map({"k": "v"}, uid="u", managedFields=[{"manager": "x", "operation": "Nope", "apiVersion": "v1"}])
    manager.update(live, new, "d", T2)
    assert new["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_entries_a_client_edits_are_believed(manager: FieldManager) -> None:
    live = created(manager, config_map({"k": "v"}))
    mine = [{"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {"f:k": {}}}}]  # fmt: skip
    new = config_map({"k": "v"}, uid="u", managedFields=mine)
    manager.update(live, new, "d", T2)
    assert new["metadata"]["managedFields"] == mine


def test_objects_without_ownership_stay_so_until_the_first_apply(manager: FieldManager) -> None:
    live = config_map({"k": "v"}, uid="u")
    new = config_map({"k": "x"}, uid="u")
    manager.update(live, new, "d", T2)
    assert "managedFields" not in new["metadata"]
    applied = manager.apply(live, config_map({"n": "1"}), "ssa", False, T3)
    assert fields_of(applied) == [
        ("ssa", "Apply", T3, {"f:data": {"f:n": {}}}),
        ("before-first-apply", "Update", T3, {"f:data": {".": {}, "f:k": {}}}),
    ]


def test_no_more_than_ten_updaters(manager: FieldManager) -> None:
    live = created(manager, config_map({"k0": "v"}), by="m0")
    for i in range(1, 13):
        new = copy.deepcopy(live)
        new["data"][f"k{i}"] = "v"
        manager.update(live, new, f"m{i}", f"2026-01-01T00:00:{i:02}Z")
        live = new
    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{i}" for i in range(4, 13))]
    assert live["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}
    }
    assert live["metadata"]["managedFields"][0]["time"] == "2026-01-01T00:00:03Z"


def test_reset_fields_belong_to_nobody() -> None:
    type_ = struct("Thing", Field("metadata", META, pointer=False, omitempty=False),
                   Field("spec", TEXTS), Field("status", TEXTS))  # fmt: skip
    gvk = GroupVersionKind("example.com", "v1", "Thing")
    obj = {"metadata": {"name": "t"}, "spec": {"a": "1"}, "status": {"b": "2"}}
    main, status = copy.deepcopy(obj), copy.deepcopy(obj)
    FieldManager(type_, gvk, ("status",)).update(None, main, "m", T1)
    FieldManager(type_, gvk, ("spec", "metadata"), "status").update(None, status, "m", T1)
    assert main["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {".": {}, "f:a": {}}}
    entry = status["metadata"]["managedFields"][0]
    assert entry["fieldsV1"] == {"f:status": {".": {}, "f:b": {}}} and list(entry)[-1] == "subresource"


def test_conflicts_name_the_owner(manager: FieldManager) -> None:
    live = created(manager, config_map({"k": "v", "l": "w"}))
    with pytest.raises(Conflict) as caught:
        manager.apply(live, config_map({"k": "x"}), "ssa", False, T2)
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "c" using v1: .data.k'
    assert caught.value.status["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "c" using v1', "field": ".data.k"}]
    }
    with pytest.raises(Conflict) as caught:
        manager.apply(live, config_map({"l": "x", "k": "x"}), "ssa", False, T2)
    assert caught.value.message == ('Apply failed with 2 conflicts: conflicts with "c" using v1:\n- .data.k\n- .data.l')


def test_force_takes_and_the_same_value_is_shared(manager: FieldManager) -> None:
    live = manager.apply(None, config_map({"k": "v"}), "a", False, T1)
    live["metadata"]["uid"] = "u"
    shared = manager.apply(live, config_map({"k": "v"}), "b", False, T2)
    assert fields_of(shared) == [
        ("b", "Apply", None, {"f:data": {"f:k": {}}}),
        ("a", "Apply", T1, {"f:data": {"f:k": {}}}),
    ]
    forced = manager.apply(live, config_map({"k": "x"}), "b", True, T2)
    assert fields_of(forced) == [("b", "Apply", T2, {"f:data": {"f:k": {}}})]
    assert forced["data"] == {"k": "x"}


def test_what_an_applier_drops_goes_unless_another_owns_it(manager: FieldManager) -> None:
    live = manager.apply(None, config_map({"k": "v", "l": "w", "m": "x"}), "a", False, T1)
    live["metadata"]["uid"] = "u"
    live = manager.apply(live, config_map({"l": "w"}), "b", False, T1)
    result = manager.apply(live, config_map({"m": "x"}), "a", False, T2)
    assert result["data"] == {"l": "w", "m": "x"}


def test_what_another_owns_stays_when_the_last_key_or_item_in_it_goes() -> None:
    """Empty, as an object without a type shows; it is not null."""
    fields = (Field("labels", TEXTS), Field("tags", Type(Kind.LIST, elem=TEXT, list_type="set")))
    about = (Field("apiVersion", TEXT), Field("kind", TEXT), Field("metadata", META))
    type_ = struct("Thing", *about, *fields, Field("inner", struct("Inner", *fields)))
    manager = FieldManager(type_, GroupVersionKind("example.com", "v1", "Thing"))

    def thing(**parts: Any) -> dict[str, Any]:
        return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **parts}

    full = {"labels": {"a": "b"}, "tags": ["a"]}
    live = manager.apply(None, thing(**full, inner=full), "a", False, T1)
    live["metadata"]["uid"] = "u"
    entry = {"f:inner": {"f:labels": {".": {}}, "f:tags": {".": {}}}, "f:labels": {".": {}}}
    live["metadata"]["managedFields"].append({
        "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": entry, "manager": "b", "operation": "Update",
    })  # fmt: skip
    result = manager.apply(live, thing(), "a", False, T2)
    assert {key: result.get(key) for key in ("labels", "tags", "inner")} == {
        "labels": {}, "tags": None, "inner": {"labels": {}},
    }  # fmt: skip


def test_fields_of_updates_survive_an_applier_that_never_had_them(manager: FieldManager) -> None:
    live = manager.apply(None, config_map({"k": "v"}), "a", False, T1)
    live["metadata"]["uid"] = "u"
    new = copy.deepcopy(live)
    new["data"]["x"] = "y"
    manager.update(live, new, "u", T2)
    assert manager.apply(new, config_map(), "a", False, T3)["data"] == {"x": "y"}


def test_sets_merge(manager: FieldManager) -> None:
    live = manager.apply(None, config_map(finalizers=["a.io/a"]), "a", False, T1)
    live["metadata"]["uid"] = "u"
    live = manager.apply(live, config_map(finalizers=["b.io/b"]), "b", False, T2)
    assert live["metadata"]["finalizers"] == ["a.io/a", "b.io/b"]
    assert fields_of(live)[1][3] == {"f:metadata": {"f:finalizers": {'v:"b.io/b"': {}}}}
    with pytest.raises(StatusError) as caught:
        manager.apply(live, config_map(finalizers=["b.io/b", "b.io/b"]), "b", False, T2)
    assert caught.value.code == 500 and caught.value.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
        '.metadata.finalizers: duplicate entries for key [="b.io/b"]'
    )


def test_one_of_several_items_with_a_key_belongs_with_all_its_fields_to_who_removed_the_others() -> None:
    manager = FieldManager(THING, GroupVersionKind("example.com", "v1", "Thing"))
    thing: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    one, other = ({"port": 1, "note": note} for note in "ab")
    live = created(manager, {**thing, "items": [one, other]})
    new = {**copy.deepcopy(live), "items": [one]}
    manager.update(live, new, "u", T2)
    owned = {manager: fields.get("f:items") for manager, _, _, fields in fields_of(new)}
    assert owned == {"u": {'k:{"port":1}': {".": {}, "f:note": {}, "f:port": {}}}}
    same = copy.deepcopy(new)
    same["items"] = [one, one]
    manager.update(new, same, "v", T3)
    owned = {manager: fields.get("f:items") for manager, _, _, fields in fields_of(same)}
    assert owned == {"v": {'k:{"port":1}': {}}}


def test_bodies_that_cannot_be_applied(manager: FieldManager) -> None:
    with pytest.raises(BadRequest) as caught:
        manager.apply(None, {**config_map(), "kind": "Secret"}, "a", False, T1)
    assert caught.value.message == "invalid object type: /v1, Kind=Secret"
    with pytest.raises(BadRequest) as caught:
        manager.apply(None, config_map(managedFields=[]), "a", False, T1)
    assert caught.value.message == "metadata.managedFields must be nil"
    with pytest.raises(StatusError) as error:
        manager.apply(None, {**config_map(), "bogus": 1}, "a", False, T1)
    assert error.value.message == (
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema"
    )


def test_client_side_apply_is_taken_over_by_kubectl_only(manager: FieldManager) -> None:
    last = orjson.dumps(config_map({"k": "v"})).decode()
    live = created(
        manager, config_map({"k": "v"}, annotations={lastapplied.ANNOTATION: last}), "kubectl-client-side-apply"
    )
    with pytest.raises(Conflict):
        manager.apply(live, config_map({"k": "x"}), "other", False, T2)
    result = manager.apply(live, config_map({"k": "x"}), "kubectl", False, T2)
    assert result["data"] == {"k": "x"}
    assert orjson.loads(result["metadata"]["annotations"][lastapplied.ANNOTATION]) == config_map({"k": "x"})


@pytest.mark.parametrize(
    "last", [config_map({"k": "v"}) | {"apiVersion": "v2"}, ["v1"], "v1", config_map({"k": 1}), None], ids=str
)
def test_what_was_applied_in_another_form_is_not_taken_over(manager: FieldManager, last: Any) -> None:
    text = orjson.dumps(last).decode()
    live = created(
        manager, config_map({"k": "v"}, annotations={lastapplied.ANNOTATION: text}), "kubectl-client-side-apply"
    )
    with pytest.raises(Conflict):
        manager.apply(live, config_map({"k": "x"}), "kubectl", False, T2)


def test_lists_of_a_deployment_merge_by_key() -> None:
    kind = GroupVersionKind("apps", "v1", "Deployment")
    manager = FieldManager(Parser.load("k8s-schema.yaml").type("io.k8s.api.apps.v1.Deployment"), kind)

    def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
        spec = {"template": {"spec": {"containers": list(containers)}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

    live = manager.apply(None, deployment({"name": "a", "image": "i"}, {"name": "b", "image": "i"}), "a", False, T1)
    live["metadata"]["uid"] = "u"
    result = manager.apply(live, deployment({"name": "c", "image": "j"}, {"name": "a", "tty": True}), "b", False, T2)
    assert [c["name"] for c in result["spec"]["template"]["spec"]["containers"]] == ["c", "a", "b"]
    dropped = manager.apply(result, deployment({"name": "a", "image": "i"}), "a", False, T3)
    assert [c["name"] for c in dropped["spec"]["template"]["spec"]["containers"]] == ["c", "a"]


def test_custom_resources_without_schema_have_granular_maps_and_atomic_lists() -> None:
    manager = FieldManager(None, GroupVersionKind("example.com", "v1", "Thing"))
    obj: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"l": [1], "m": {"a": 1}},
    }
    result = manager.apply(None, obj, "a", False, T1)
    assert fields_of(result)[0][3] == {"f:spec": {".": {}, "f:l": {}, "f:m": {".": {}, "f:a": {}}}}


@settings(max_examples=examples(60), deadline=None)
@given(texts, texts)
def test_applying_twice_is_applying_once(before: dict[str, str], data: dict[str, str]) -> None:
    manager = FieldManager(CONFIG_MAP, CM)
    live = created(manager, config_map(before), "u")
    once = manager.apply(live, config_map(data), "a", True, T2)
    assert manager.apply(once, config_map(data), "a", False, T3) == once


@settings(max_examples=examples(60), deadline=None)
@given(texts, texts)
def test_disjoint_appliers_never_conflict_and_their_order_does_not_matter(
    one: dict[str, str], two: dict[str, str]
) -> None:
    two = {key.upper(): value for key, value in two.items()}
    manager = FieldManager(CONFIG_MAP, CM)

    def apply_all(*steps: tuple[str, dict[str, str]]) -> dict[str, Any]:
        live = manager.apply(None, config_map({"0": "0"}), "base", False, T1)
        live["metadata"]["uid"] = "u"
        for name, data in steps:
            live = manager.apply(live, config_map(data), name, False, T2)
        return live

    assert apply_all(("a", one), ("b", two)) == apply_all(("b", two), ("a", one))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), texts), max_size=5))
def test_the_last_forced_apply_of_each_is_what_stands(steps: list[tuple[str, dict[str, str]]]) -> None:
    """Every value an applier still owns is the one it applied last; nothing unowned is left over."""
    manager = FieldManager(CONFIG_MAP, CM)
    live = manager.apply(None, config_map(), "base", False, T1)
    live["metadata"]["uid"] = "u"
    last: dict[str, dict[str, str]] = {}
    for name, data in steps:
        live = manager.apply(live, config_map(data), name, True, T2)
        last[name] = data
    owned = {name: set(fields.get("f:data", {})) - {"."} for name, _, _, fields in fields_of(live)}
    for name, elements in owned.items():
        for element in elements:
            assert live["data"][element[2:]] == last[name][element[2:]]
    left = set(live.get("data") or {})
    assert left == {element[2:] for elements in owned.values() for element in elements}


def test_an_item_of_a_list_without_its_key_belongs_to_nobody() -> None:
    """Upstream's typed value of such an object cannot be made: no fields are tracked, and nothing can be applied."""
    item = struct("Reference", Field("name", TEXT), Field("kind", TEXT))
    type_ = struct("Account", Field("apiVersion", TEXT), Field("kind", TEXT), Field("metadata", META),
                   Field("secrets", Type(Kind.LIST, elem=item, list_type="map", list_map_keys=("name",))))  # fmt: skip
    manager = FieldManager(type_, GroupVersionKind("", "v1", "Account"))
    account: dict[str, Any] = {"apiVersion": "v1", "kind": "Account", "metadata": {"name": "a", "namespace": "n"}}
    whole = {**account, "secrets": [{"name": "s"}]}
    broken = {**copy.deepcopy(account), "secrets": [{}]}
    live = created(manager, copy.deepcopy(whole))
    for old, new in ((None, copy.deepcopy(broken)), (live, broken)):
        manager.update(old, new, "m", T2)
        assert "managedFields" not in new["metadata"]
    with pytest.raises(StatusError) as caught:
        manager.apply(broken, account, "ssa", False, T3)
    assert caught.value.message == (
        "failed to create manager for existing fields: failed to convert new object (n/a; /v1, Kind=Account) to smd typed: "
        '.secrets: element 0: associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )
