"""Values in messages take the form that Go writes, by the place that the error names."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.field import FieldError, Path, format_value, invalid, required, too_many
from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import builtin
from kapi.schema.patched_text import all_sorted, json_patched, merged
from kapi.schema.quoted import complete
from tests.growth.counting import effort

DEPLOYMENT = builtin.type_of(GroupVersionKind("apps", "v1", "Deployment"))
CLASS = builtin.type_of(GroupVersionKind("storage.k8s.io", "v1", "StorageClass"))
SELECTOR = {"matchExpressions": [{"operator": "In", "values": ["a"], "key": "k"}], "matchLabels": {"b": "1", "a": "2"}}


def shown(path: str, value: Any, sent: Any = None, type_: Any = DEPLOYMENT) -> str:
    error = invalid(path, value, "")
    complete([error], type_, lambda: sent)
    return error.body()


@pytest.mark.parametrize(
    ("sent", "text"),
    [({"spec": {"template": {"metadata": {"labels": {}}}}}, "{}"), ({"spec": {"template": {}}}, "null"), ({}, "null")],
)
def test_an_empty_map_is_told_from_none(sent: Any, text: str) -> None:
    assert shown("spec.template.metadata.labels", None, sent) == f"Invalid value: {text}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec.template.spec.containers[0].image", '""'),
        ("spec.minReadySeconds", "0"),
        ("spec.replicas", "null"),  # a pointer
        ("spec.template.spec.containers[0].ports", "null"),
        ("nowhere", "null"),
        ("spec.selector.matchExpressions[x]", "null"),
    ],
)
def test_what_is_absent_is_the_zero_value_of_its_field(path: str, text: str) -> None:
    assert shown(path, None, {}) == f"Invalid value: {text}"


def test_fields_come_in_the_order_of_the_type_and_maps_by_key() -> None:
    text = '{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["a"]}]}'
    assert shown("spec.selector", SELECTOR) == f"Invalid value: {text}"
    owner = {"uid": "u", "name": "n", "controller": True, "kind": "K", "apiVersion": "v1"}
    text = '[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}]'
    assert shown("metadata.ownerReferences", [owner], type_=CLASS) == f"Invalid value: {text}"


def test_a_value_in_the_internal_form_has_the_empty_lists_that_were_sent() -> None:
    value = {
        "Template": {
            "Spec": {"Volumes": None, "Containers": [{"Name": "c", "Args": None, "Env": None}], "NodeSelector": None}
        }
    }
    container = {"name": "c", "args": []}
    sent = {"spec": {"template": {"spec": {"volumes": [], "containers": [container], "nodeSelector": {}}}}}
    text = '{"Template":{"Spec":{"Volumes":[],"Containers":[{"Name":"c","Args":[],"Env":null}],"NodeSelector":{}}}}'
    assert shown("spec", value, sent) == f"Invalid value: {text}"


def test_errors_without_a_value_stay_as_they_are() -> None:
    errors: list[FieldError] = [required(Path("metadata").child("name")), too_many(Path("spec"), -1, 3)]
    before = [str(error) for error in errors]
    complete(errors, CLASS, lambda: {})
    assert [str(error) for error in errors] == before


def test_an_error_that_stays_as_it_is_leaves_the_next_ones_to_be_completed() -> None:
    ordered = '{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["a"]}]}'
    same = invalid("spec.selector", SELECTOR, "")
    errors = [
        required(Path("metadata").child("name")), invalid("spec.replicas", 1, ""), invalid("spec.paused", "x", ""),
        invalid("nowhere", {"b": 1, "a": 2}, ""), same, same, invalid("spec.selector", SELECTOR, ""),
        invalid("spec.template.metadata.labels", None, ""), invalid("spec.minReadySeconds", None, ""),
    ]  # fmt: skip
    complete(errors, DEPLOYMENT, lambda: {"spec": {"template": {"metadata": {"labels": {}}}}})
    assert [error.body() for error in errors] == [
        "Required value", "Invalid value: 1", 'Invalid value: "x"', 'Invalid value: {"b":1,"a":2}',
        *[f"Invalid value: {ordered}"] * 3, "Invalid value: {}", "Invalid value: 0",
    ]  # fmt: skip


def test_floats_are_written_as_go_writes_them() -> None:
    assert shown("spec", 1e20) == "Invalid value: 1e+20"
    assert shown("spec", 1.5) == "Invalid value: 1.5"


def test_a_merged_object_has_sorted_keys_where_the_patch_looked() -> None:
    obj = {
        "kind": "StorageClass",
        "apiVersion": "v1",
        "metadata": {"namespace": "b", "name": "a"},
        "parameters": {"a": "<"},
    }
    text = (
        '{"apiVersion":"v1","kind":"StorageClass","metadata":{"name":"a","namespace":"b"},"parameters":{"a":"\\u003c"}}'
    )
    assert format_value(merged(obj, CLASS, {"parameters": {"a": "<"}})) == text
    touched = '"metadata":{"annotations":{},"name":"a"}'
    obj = {"metadata": {"name": "a", "annotations": {}}}
    assert format_value(merged(obj, CLASS, {"metadata": {"annotations": {}}})) == f"{{{touched}}}"


def test_a_json_patch_leaves_what_it_sends_as_it_was_sent() -> None:
    obj = {
        "kind": "K",
        "metadata": {"name": "a", "labels": {"z": "1", "a": "2"}},
        "parameters": {"z": 1, "a": {"d": 1, "c": 2}},
    }
    text = format_value(json_patched(obj, CLASS, [{"op": "add", "path": "/parameters/a", "value": {"d": 1, "c": 2}}]))
    assert (
        text == '{"kind":"K","metadata":{"name":"a","labels":{"a":"2","z":"1"}},"parameters":{"a":{"d":1,"c":2},"z":1}}'
    )
    assert format_value(json_patched([1], CLASS, [{"op": "replace", "path": "", "value": [1]}, {}])) == "[1]"


def test_a_custom_resource_is_sorted_all_through() -> None:
    assert format_value(all_sorted({"b": [{"d": 1, "c": 2}], "a": None})) == '{"a":null,"b":[{"c":2,"d":1}]}'


def test_many_errors_that_quote_one_list_cost_one_copy() -> None:
    """Each entry that is wrong is told with the whole list, and one error may be told for each."""
    path = Path("spec").child("selector")

    def work(count: int) -> int:
        value = {"matchExpressions": [{"key": f"k{n}", "operator": "In"} for n in range(count)]}
        errors = [invalid(path, value, "") for _ in range(count)] + [invalid(path, value, "")] * count
        return effort(lambda: complete(errors, DEPLOYMENT))

    assert work(400) / work(100) < 6
