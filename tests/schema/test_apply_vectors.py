"""Field sets, validation, merge and comparison over structured-merge-diff's own schemas and objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import builtin
from kapi.schema.apply import comparing, fieldset, typed
from kapi.schema.apply.shape import DEDUCED, Shape, Shapes, shape_of
from kapi.schema.apply.structure import structure
from kapi.schema.types import Field, Kind, Type
from tests.schema.managedfields_kit import ITEM, TEXT, struct
from tests.schema.smd_schema import VECTORS, Parser


def load(name: str) -> Any:
    return yaml.load((VECTORS / name).read_text(), yaml.CSafeLoader)


def plain(value: Any) -> Any:
    """YAML's dates as the text they were."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def k8s(name: str) -> Shape:
    return shape_of(Parser.load("k8s-schema.yaml").type(name), Shapes())


def schema() -> Shape:
    return shape_of(Parser.load("schema.yaml").type("schema"), Shapes())


@pytest.mark.parametrize(
    ("group", "kind", "obj", "key"),
    [
        ("resource.k8s.io", "ResourceClaim", {"status": {"devices": [{"driver": "d", "pool": "p", "device": "x"}]}},
         'k:{"device":"x","driver":"d","pool":"p"}'),
        ("", "Service", {"spec": {"ports": [{"port": 80}]}}, 'k:{"port":80,"protocol":"TCP"}'),
        ("", "Pod", {"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a"}]}},
         'k:{"topologyKey":"a","whenUnsatisfiable":""}'),
    ],
)  # fmt: skip
def test_a_key_that_an_item_lacks_has_the_default_of_its_field(group: str, kind: str, obj: Any, key: str) -> None:
    """The one that the API declares, or Go's empty value of a field that is always written; an optional one has none."""
    shape = shape_of(builtin.type_of(GroupVersionKind(group, "v1", kind)), Shapes())
    ((part, fields),) = obj.items()
    added = comparing.compare(shape, {}, obj).added[f"f:{part}"]
    items = added[f"f:{next(iter(fields))}"]
    assert [element for element in items if element != "."] == [key]


def test_values_with_the_same_structure_have_the_same_fields() -> None:
    """What an atomic map or an unknown field has counts for nothing, and what a map has counts by its names."""
    shape = shape_of(builtin.type_of(GroupVersionKind("", "v1", "Pod")), Shapes())

    def key(selector: Any, unknown: Any = None, **labels: str) -> Any:
        reference = {"env": [{"name": "e", "valueFrom": {"secretKeyRef": selector}}], "name": "c"}
        obj = {"metadata": {"labels": labels}, "unknown": unknown, "spec": {"containers": [reference]}}
        return structure(shape, obj)

    same = key({"key": "a"}, {"a": 1}, x="1")
    assert key({"key": "b", "name": "c"}, {"b": {"c": 2}}, x="2") == same
    assert key({"key": "a"}, {"a": 1}, y="1") != same
    assert key({"key": "a"}, {"a": 1}) != same
    assert key({"key": "a"}, [1], x="1") == same


def test_path_elements_are_written_by_their_kind_and_then_by_their_value() -> None:
    """Fields, keys, values, positions; values as upstream compares them: numbers, texts, booleans, lists, maps, null."""
    written = [
        ".", "f:a", "f:b", 'k:{"a":1}', 'k:{"a":1,"b":1}', 'k:{"a":2}', 'k:{"a":10}', 'k:{"a":"1"}', 'k:{"b":0}',
        "v:1", "v:1.5", "v:2", "v:10", 'v:"a"', 'v:"b"', "v:false", "v:true", "v:[1]", "v:[2]", 'v:{"a":1}', "v:null",
        "i:2", "i:10",
    ]  # fmt: skip
    assert list(fieldset.canonical(dict.fromkeys(reversed(written), {}))) == written


SETS = [
    ("io.k8s.api.core.v1.Pod", "pod.yaml", "podset.json"),
    ("io.k8s.api.core.v1.Node", "node.yaml", "nodeset.json"),
    ("io.k8s.api.core.v1.Endpoints", "endpoints.yaml", "endpointsset.json"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition",
        "prometheus-crd.yaml",
        "prometheus-crdset.json",
    ),
]


@pytest.mark.parametrize(("type_name", "object_file", "set_file"), SETS)
def test_the_set_of_a_new_object(type_name: str, object_file: str, set_file: str) -> None:
    """All that an object adds to nothing, in upstream's order to the byte."""
    added = comparing.compare(k8s(type_name), {}, plain(load(object_file))).added
    assert json.dumps(fieldset.canonical(added), separators=(",", ":")) == (VECTORS / set_file).read_text().strip()


@pytest.mark.parametrize("set_file", [row[2] for row in SETS])
def test_sets_survive_decoding(set_file: str) -> None:
    text = (VECTORS / set_file).read_text().strip()
    assert json.dumps(fieldset.decode(json.loads(text)), separators=(",", ":")) == text


@pytest.mark.parametrize(
    ("type_name", "object_file"),
    [row[:2] for row in SETS] + [("io.k8s.api.apps.v1.Deployment", "k8s-deployment.yaml")],
)
def test_an_object_merged_with_itself_is_itself(type_name: str, object_file: str) -> None:
    shape, value = k8s(type_name), plain(load(object_file))
    typed.validate(shape, value, allow_duplicates=True)
    assert typed.merge(shape, value, value) == value
    assert typed.merge(shape, {}, value) == value
    assert typed.merge(shape, value, {}) == value
    same = comparing.compare(shape, value, value)
    assert not same.added and not same.modified and not same.removed


def test_what_goes_from_a_list_is_what_would_come() -> None:
    """Every field of an item, with and without others that stay."""
    shape, pod = k8s("io.k8s.api.core.v1.Pod"), plain(load("pod.yaml"))
    other = {"name": "other", "image": "i"}
    for stays in ([], [other]):
        less, more = (
            {**pod, "spec": {**pod["spec"], "containers": [*stays, *given]}}
            for given in ([], pod["spec"]["containers"])
        )
        removed, added = comparing.compare(shape, more, less), comparing.compare(shape, less, more)
        assert removed.removed == added.added and not (removed.added or added.removed)
        name = pod["spec"]["containers"][0]["name"]
        shown = {fieldset.show(path) for path in fieldset.walk(removed.removed)}
        assert f'.spec.containers[name="{name}"].image' in shown


def test_an_object_with_a_schema_inside() -> None:
    """``k8s-schema-*-fieldoverride.yaml`` are not here: upstream only times the reading of schemas with them."""
    shape = shape_of(Parser.load("apiresourceimport.yaml").type("apiresourceimport"), Shapes())
    value = plain(load("apiresourceimport-cr.yaml"))
    typed.validate(shape, value)
    assert typed.merge(shape, value, value) == value
    added = comparing.compare(shape, {}, value).added
    assert fieldset.decode(json.loads(json.dumps(fieldset.canonical(added)))) == fieldset.canonical(added)
    less = {**value, "spec": {**value["spec"], "kind": "Other"}}
    changed = comparing.compare(shape, value, less)
    assert [fieldset.show(path) for path in fieldset.walk(changed.modified)] == [".spec.kind"]
    assert not changed.added and not changed.removed


def test_the_schema_of_schemas_describes_itself() -> None:
    typed.validate(schema(), load("schema.yaml"))


def test_a_wrong_schema_is_refused() -> None:
    with pytest.raises(typed.SchemaError):
        typed.validate(schema(), load("bad-schema.yaml"))


def test_merging_and_comparing_schemas() -> None:
    shape = schema()
    merged = typed.merge(shape, load("struct.yaml"), load("list.yaml"))
    assert [type_["name"] for type_ in merged["types"]] == ["struct", "structField", "list"]
    assert typed.merge(shape, load("bad-scalar.yaml"), load("scalar.yaml")) == load("scalar.yaml")
    assert typed.merge(shape, load("scalar.yaml"), load("bad-scalar.yaml")) == load("bad-scalar.yaml")
    changed = comparing.compare(shape, load("scalar.yaml"), load("bad-scalar.yaml")).modified
    shown = ["- Modified Fields:", *map(fieldset.show, fieldset.walk(changed))]
    assert shown == (VECTORS / "scalar-compare-output.txt").read_text().split("\n")[:2]


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        ({"a": {"b": 1}}, {"a": [1]}, {"f:a": {"f:b": {}}}, {"f:a": {}}, {}),
        ({"a": {"b": 1}}, {"a": 1}, {"f:a": {"f:b": {}}}, {"f:a": {}}, {}),
        ({"a": {"b": 1}}, {"a": None}, {"f:a": {"f:b": {}}}, {}, {}),
        ({"a": 1}, None, {"f:a": {}}, {}, {}),
        ({"a": [1]}, {"a": 1}, {}, {"f:a": {}}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2}}, {"f:a": {"f:c": {}}}, {"f:a": {"f:b": {}}}, {}),
    ],
)
def test_values_of_different_forms_differ_in_both(old: Any, new: Any, removed: Any, modified: Any, added: Any) -> None:
    found, back = comparing.compare(DEDUCED, old, new), comparing.compare(DEDUCED, new, old)
    assert (found.removed, found.modified, found.added) == (removed, modified, added)
    assert (back.removed, back.modified, back.added) == (added, modified, removed)


SET = struct("Set", Field("l", Type(Kind.LIST, elem=TEXT, list_type="set")))
KEYED = struct("Keyed", Field("l", Type(Kind.LIST, elem=ITEM, list_type="map", list_map_keys=("port",))))


@pytest.mark.parametrize(
    ("type_", "old", "new", "removed", "modified", "added"),
    [
        (SET, ["a", "b"], ["b", "a"], [], [], []),
        (SET, ["a", "b"], ["b", "c"], ['v:"a"'], [], ['v:"c"']),
        (SET, ["a", "a"], ["a"], ['v:"a"'], [], ['v:"a"']),
        (SET, ["a"], ["a", "a"], ['v:"a"'], [], ['v:"a"']),
        (SET, ["a", "a"], ["a", "a"], [], [], []),
        (SET, ["a", "a"], ["a", "a", "a"], [], ['v:"a"'], []),
        (SET, ["a", "a"], [], ['v:"a"'], [], []),
        (SET, [], ["a", "a", "a"], [], [], ['v:"a"']),
        (KEYED, [{"port": 1}], [{"port": 1, "note": "n"}], [], [], ["k:{\"port\":1}.f:note"]),
        (KEYED, [{"port": 1, "note": "n"}], [{"port": 1, "note": "m"}], [], ["k:{\"port\":1}.f:note"], []),
        (KEYED, [{"port": 1, "note": "n"}], [{"port": 1}], ["k:{\"port\":1}.f:note"], [], []),
        (KEYED, [], [{"port": 1, "note": "n"}], [], [],
         ["k:{\"port\":1}", "k:{\"port\":1}.f:port", "k:{\"port\":1}.f:note"]),
        (KEYED, [{"port": 1, "note": "n"}, {"port": 1}], [{"port": 1, "note": "n"}], ["k:{\"port\":1}"], [],
         ["k:{\"port\":1}", "k:{\"port\":1}.f:port", "k:{\"port\":1}.f:note"]),
        (KEYED, [{"port": 1, "note": "n"}], [{"port": 1, "note": "n"}, {"port": 1}],
         ["k:{\"port\":1}", "k:{\"port\":1}.f:port", "k:{\"port\":1}.f:note"], [], ["k:{\"port\":1}"]),
        (KEYED, [{"port": 1}, {"port": 1}], [{"port": 1}, {"port": 1, "note": "n"}], [], ["k:{\"port\":1}"], []),
    ],
)  # fmt: skip
def test_items_of_a_list_differ_by_their_element(
    type_: Type, old: Any, new: Any, removed: list[str], modified: list[str], added: list[str]
) -> None:
    found = comparing.compare(shape_of(type_, Shapes()), {"l": old}, {"l": new})
    parts = [sorted(".".join(path[1:]) for path in fieldset.walk(part) if len(path) > 1)
             for part in (found.removed, found.modified, found.added)]  # fmt: skip
    assert parts == [sorted(removed), sorted(modified), sorted(added)]


HOLDER = struct("Holder", Field("l", Type(Kind.LIST, elem=ITEM, list_type="map", list_map_keys=("port",))),
                Field("in", ITEM), Field("m", Type(Kind.MAP, elem=ITEM)))  # fmt: skip
KEY = 'k:{"port":1}'


@pytest.mark.parametrize(
    ("fields", "grown"),
    [
        ({"f:l": {}}, {"f:l": {}}),
        ({"f:l": {KEY: {}}}, {"f:l": {".": {}, KEY: {}}}),
        ({"f:l": {KEY: {"f:note": {}}}}, {"f:l": {".": {}, KEY: {"f:note": {}}}}),
        ({"f:in": {"f:note": {"f:x": {}}}}, {"f:in": {".": {}, "f:note": {".": {}, "f:x": {}}}}),
        ({"f:m": {"f:a": {"f:note": {}}}}, {"f:m": {".": {}, "f:a": {"f:note": {}}}}),
        ({"f:none": {"f:a": {}}}, {"f:none": {"f:a": {}}}),
        # what does not fit the shape leads nowhere
        ({"f:l": {"f:a": {"f:port": {"f:x": {}}}}}, {"f:l": {".": {}, "f:a": {"f:port": {"f:x": {}}}}}),
        ({"f:in": {KEY: {"f:port": {"f:x": {}}}}}, {"f:in": {".": {}, KEY: {"f:port": {"f:x": {}}}}}),
        ({"f:none": {KEY: {"f:a": {"f:b": {}}}}}, {"f:none": {KEY: {"f:a": {"f:b": {}}}}}),
        ({"f:l": {".": {}, "v:1": {"f:a": {"f:b": {}}}}}, {"f:l": {".": {}, "v:1": {"f:a": {"f:b": {}}}}}),
    ],
)
def test_declared_fields_above_a_member_are_members(fields: Any, grown: Any) -> None:
    assert typed.with_named_fields(shape_of(HOLDER, Shapes()), fields) == grown
    assert typed.with_named_fields(None, fields) == fields
