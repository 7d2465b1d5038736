"""Short cuts of managed fields: they end as the long way does."""

from __future__ import annotations

import copy
import gc
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema.apply.shape import Shape
from kapi.schema.managedfields import FieldManager
from kapi.schema.types import Field
from tests.examples import examples
from tests.schema.managedfields_kit import (
    CM,
    CONFIG_MAP,
    META,
    T1,
    T2,
    TEXT,
    THING,
    config_map,
    created,
    fields_of,
    struct,
    texts,
)

ALIKE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"items": [{"port": 1}]}, {"items": [{"port": True}]}),
    ({"items": [{"port": "1"}]}, {"items": [{"port": 1}]}),
    ({"items": [{"port": 1, "note": "a"}]}, {"items": [{"port": 1}]}),
    ({"items": [{"port": 1}, {"port": 1}]}, {"items": [{"port": 1}]}),
    ({"items": None}, {"items": []}),
    ({"texts": [1]}, {"texts": [True]}),
    ({"texts": ["a", {}]}, {"texts": ["a"]}),
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


def test_a_reference_that_is_one_whole_is_owned_unless_it_is_empty() -> None:
    """Its type is atomic, and Go always writes it: an empty one is no change, and tells nothing of those that are not."""
    texts = (Field(name, TEXT, pointer=False, omitempty=False) for name in ("kind", "name"))
    reference = replace(struct("Reference", *texts), map_type="atomic")
    type_ = struct("Scaler", Field("apiVersion", TEXT), Field("kind", TEXT), Field("metadata", META),
                   Field("target", reference, pointer=False, omitempty=False))  # fmt: skip
    warm = FieldManager(type_, GroupVersionKind("", "v1", "Scaler"))
    for target, owned in (({"kind": "", "name": ""}, []), ({"kind": "a", "name": "b"}, [{"f:target": {}}])):
        obj = {"apiVersion": "v1", "kind": "Scaler", "metadata": {"name": "t"}, "target": target}
        warm.update(None, obj, "m", T1)
        assert [fields for *_, fields in fields_of(obj)] == owned


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


@settings(max_examples=examples(300), deadline=None)
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
