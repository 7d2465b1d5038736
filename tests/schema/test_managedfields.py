"""``managedFields`` after every kind of write, over small types and the Kubernetes types of SMD's vectors."""

from __future__ import annotations

import copy
import gc
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.status import BadRequest, Conflict, StatusError
from kapi.schema.apply import lastapplied
from kapi.schema.apply.shape import Shape
from kapi.schema.managedfields import FieldManager
from kapi.schema.types import Field, Kind, Type
from tests.schema.smd_schema import Parser

TEXT = Type(Kind.STRING)
TEXTS = Type(Kind.MAP, elem=TEXT)
T1, T2, T3 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"


def struct(name: str, *fields: Field) -> Type:
    return Type(Kind.STRUCT, name=name, fields={field.name: field for field in fields})


META = struct(
    "ObjectMeta",
    *(Field(name, TEXT) for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")),
    Field("labels", TEXTS),
    Field("annotations", TEXTS),
    Field("finalizers", Type(Kind.LIST, elem=TEXT, list_type="set")),
    Field("managedFields", Type(Kind.LIST, elem=Type(Kind.ANY))),
)
CONFIG_MAP = struct(
    "ConfigMap",
    Field("apiVersion", TEXT),
    Field("kind", TEXT),
    Field("metadata", META, pointer=False, omitempty=False),
    Field("data", TEXTS),
)
CM = GroupVersionKind("", "v1", "ConfigMap")


def config_map(data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    if data is not None:
        obj["data"] = data
    return obj


def fields_of(obj: dict[str, Any]) -> list[Any]:
    return [
        (e["manager"], e["operation"], e.get("time"), e["fieldsV1"]) for e in obj["metadata"].get("managedFields") or []
    ]


@pytest.fixture
def manager() -> FieldManager:
    return FieldManager(CONFIG_MAP, CM)


def created(manager: FieldManager, obj: dict[str, Any], by: str = "c", now: str = T1) -> dict[str, Any]:
    manager.update(None, obj, by, now)
    obj["metadata"]["uid"] = "u"
    return obj


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


# -- apply --------------------------------------------------------------------------------------------------------


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


# -- properties ---------------------------------------------------------------------------------------------------

texts = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=4)


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_applying_twice_is_applying_once(before: dict[str, str], data: dict[str, str]) -> None:
    manager = FieldManager(CONFIG_MAP, CM)
    live = created(manager, config_map(before), "u")
    once = manager.apply(live, config_map(data), "a", True, T2)
    assert manager.apply(once, config_map(data), "a", False, T3) == once


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=60, deadline=None)
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


ITEM = struct("Item", Field("port", Type(Kind.ANY)), Field("note", TEXT))
THING = struct(
    "Thing",
    Field("apiVersion", TEXT),
    Field("kind", TEXT),
    Field("metadata", META, pointer=False, omitempty=False),
    Field("items", Type(Kind.LIST, elem=ITEM, list_type="map", list_map_keys=("port",)), omitempty=False),
    Field("texts", Type(Kind.LIST, elem=Type(Kind.ANY), list_type="set")),
    Field("on", Type(Kind.BOOLEAN), pointer=False, omitempty=False),
    Field("free", Type(Kind.ANY)),
)
ALIKE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"items": [{"port": 1}]}, {"items": [{"port": True}]}),
    ({"items": [{"port": "1"}]}, {"items": [{"port": 1}]}),
    ({"items": [{"port": 1, "note": "a"}]}, {"items": [{"port": 1}]}),
    ({"items": [{"port": 1}, {"port": 1}]}, {"items": [{"port": 1}]}),
    ({"items": None}, {"items": []}),
    ({"texts": [1]}, {"texts": [True]}),
    ({"texts": ["a", {}]}, {"texts": ["b", {}]}),
    ({"on": False}, {"on": True}),
    ({"free": {"a": {"b": 1}, "c": 2}}, {"free": {"a": 1, "b": {"c": 2}}}),
    ({"free": {"a": 1, "b": {"c": 2}}}, {"free": {"a": {"b": {"c": 2}}}}),
    ({"free": {"a": {}}}, {"free": {"a": {"b": 1}}}),
    ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"b": "1"}}}),
]


@pytest.mark.parametrize(("one", "other"), ALIKE + [(b, a) for a, b in ALIKE])
def test_objects_that_are_nearly_alike_are_told_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A manager that has seen the one object finds in the other what a manager finds that has seen none."""
    kind = GroupVersionKind("example.com", "v1", "Thing")

    def fields(manager: FieldManager, parts: dict[str, Any]) -> bytes:
        obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **copy.deepcopy(parts)}
        manager.update(None, obj, "m", T1)
        return orjson.dumps(fields_of(obj))

    warm = FieldManager(THING, kind)
    assert fields(warm, one) == fields(FieldManager(THING, kind), one) != fields(warm, other)
    assert fields(warm, other) == fields(FieldManager(THING, kind), other)


def test_what_was_made_of_a_type_is_freed_with_its_manager() -> None:
    """Of a definition that is replaced or gone: of a large one it is hundreds of thousands of objects."""

    def count() -> int:
        return sum(isinstance(each, Shape) for each in gc.get_objects())

    other = "example.com/v2"
    kind = GroupVersionKind("example.com", "v1", "Thing")
    gc.collect()
    gc.disable()
    try:
        before = count()
        manager = FieldManager(THING, kind, versions={other: (THING, dict, dict)})
        for parts, _ in ALIKE:
            obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **copy.deepcopy(parts)}
            manager.update(None, obj, "m", T1)
        obj["metadata"]["managedFields"][0]["apiVersion"] = other
        manager.update(obj, copy.deepcopy(obj), "n", T1)
        assert count() > before + 5
        del manager
        assert count() == before
    finally:
        gc.enable()


class Thorough(FieldManager):
    """Works every update out."""

    def _owns(self, *_: Any) -> bool:
        return False


writes = st.tuples(
    st.sampled_from(["update", "update", "update", "apply"]),
    st.sampled_from("abc"),
    texts,
    st.one_of(st.none(), texts),
    st.sampled_from(["same", "none", "edited"]),
)


@settings(max_examples=300, deadline=None)
@given(texts, st.lists(writes, max_size=6))
def test_updates_of_ones_own_fields_end_as_all_others(before: dict[str, str], steps: list[Any]) -> None:
    """What a manager alone has stays as it is when he writes some of it again; nobody sees that it was not worked out."""
    one, other = FieldManager(CONFIG_MAP, CM), Thorough(CONFIG_MAP, CM)
    lives = [created(manager, config_map(dict(before)), "a") for manager in (one, other)]
    for number, (verb, name, data, labels, sent) in enumerate(steps):
        now = f"2026-01-01T00:00:{number + 10}Z"
        results = []
        for manager, live in zip((one, other), lives, strict=True):
            metadata: dict[str, Any] = {"resourceVersion": str(number)} if sent == "edited" else {}
            if labels is not None:
                metadata["labels"] = dict(labels)
            new = config_map(dict(data), **metadata)
            if verb == "apply":
                new["metadata"].pop("resourceVersion", None)
                new = manager.apply(live, new, name, True, now)
            else:
                entries = copy.deepcopy(live["metadata"].get("managedFields"))
                if sent == "edited" and entries:
                    entries[0]["fieldsV1"] = {"f:metadata": {"f:resourceVersion": {}}, **entries[0]["fieldsV1"]}
                if sent != "none":
                    new["metadata"]["managedFields"] = entries
                manager.update(live, new, name, now)
            new["metadata"]["uid"] = "u"
            results.append(new)
        assert orjson.dumps(results[0]) == orjson.dumps(results[1])
        lives = results


class Quick(FieldManager):
    """Works no update out."""

    def _updated(self, *_: Any) -> Any:
        raise AssertionError


def test_who_writes_his_own_fields_again_is_not_worked_out() -> None:
    manager = Quick(CONFIG_MAP, CM)
    live = created(manager, config_map({"a": "1", "b": "1"}))
    new = config_map({"a": "2", "b": "1"})
    manager.update(live, new, "c", T2)
    assert fields_of(new) == [("c", "Update", T2, {"f:data": {".": {}, "f:a": {}, "f:b": {}}})]
