"""Quantities as rules see them, label selectors, images, values as Go prints them."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import quantities
from kapi.machinery.field import Path
from kapi.machinery.selectors import selector_text
from kapi.resources.shared.internal import difference, internal, internal_form
from kapi.resources.shared.poddefaults import pull_policy
from kapi.resources.shared.printing import label_selector
from kapi.resources.shared.replicas import number_of
from kapi.resources.shared.selectors import is_convertible, is_empty, matches, validate_label_selector
from kapi.schema.builtin import definition


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        ("1", "1000m", 0),
        ("1Ki", "1k", 1),
        ("0.5", "600m", -1),
        ("1e3", "1k", 0),
        ("-1", "1n", -1),
        ("1Gi", "1024Mi", 0),
    ],
)
def test_quantities_compare_by_value(a: str, b: str, order: int) -> None:
    assert quantities.compare(a, b) == order


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        ("100m", "900m", "1"),
        ("1Gi", "512Mi", "1536Mi"),
        ("0", "1Ki", "1Ki"),
        ("1k", "1", "1001"),
        ("1e3", "1e3", "2e3"),
    ],
)
def test_sums_keep_the_form(a: str, b: str, total: str) -> None:
    assert quantities.add(a, b) == total


def test_rounding() -> None:
    assert quantities.rounded_to_milli("1u") == "1m"
    assert quantities.rounded_to_milli("100m") == "100m"
    assert (quantities.ceiling("1500m"), quantities.ceiling("-1500m"), quantities.milli("1.5")) == (2, -2, 1500)
    assert quantities.is_whole("1k") and not quantities.is_whole("1m")
    assert quantities.sign("1e999999") == 1


@pytest.mark.parametrize("text", ["", "1x", "m", "1ki", "--1"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError):
        quantities.parse(text)


SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
    ],
}


@pytest.mark.parametrize(
    ("labels", "result"),
    [
        ({"app": "web", "tier": "a"}, True),
        ({"app": "web"}, False),
        ({"app": "web", "tier": "c"}, False),
        ({"app": "web", "tier": "b", "old": ""}, False),
    ],
)
def test_selectors_match(labels: dict[str, str], result: bool) -> None:
    assert matches(SELECTOR, labels) is result


def test_an_empty_selector_matches_all_and_none_nothing() -> None:
    assert matches({}, {"a": "b"}) and not matches(None, {"a": "b"})


def test_a_selector_is_shown_as_text_in_the_order_of_its_keys() -> None:
    assert (selector_text({}), selector_text(None)) == ("", "")
    assert selector_text(SELECTOR) == "app=web,!old,tier in (a,b)"
    twice = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["y", "x", "y"]}]}
    assert selector_text(twice) == "a notin (x,y,y)"


def test_a_table_shows_a_selector_that_cannot_be_evaluated_as_an_error() -> None:
    assert label_selector(None) == label_selector({}) == "<none>"
    assert label_selector(SELECTOR) == "app=web,!old,tier in (a,b)"
    assert label_selector({"matchLabels": {"app": "not a label"}}) == "<error>"
    assert label_selector({"matchExpressions": [{"key": "a", "operator": "Is"}]}) == "<error>"


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (
            {"key": "a", "operator": "In"},
            "values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "values: Forbidden: may not be specified when `operator`",
        ),
        ({"key": "a", "operator": "Is"}, 'operator: Invalid value: "Is": not a valid selector operator'),
        ({"key": "", "operator": "Exists"}, 'key: Invalid value: "": name part must be non-empty'),
    ],
)
def test_what_selectors_may_not_be(requirement: dict[str, Any], text: str) -> None:
    errors: list[Any] = []
    validate_label_selector({"matchExpressions": [requirement]}, Path("s"), errors)
    assert any(str(error).startswith("s.matchExpressions[0]." + text) for error in errors), [str(e) for e in errors]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("registry:5000/a/b", "Always"),
        ("a@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
def test_images_are_pulled_always_unless_they_have_a_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_differences_are_told_as_go_prints_them() -> None:
    old: dict[str, Any] = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Always"}
    lines = difference("PodSpec", old, old | {"restartPolicy": "Never"}).replace("\u00a0", " ").splitlines()
    changed = [" ".join(line.split()) for line in lines if line[:1] in "+-"]
    assert changed == ['- "RestartPolicy": "Always",', '+ "RestartPolicy": "Never",']


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("ownerReferences", ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]),
        ("managedFields", ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"]),
    ],
)
def test_lists_of_an_objects_metadata_keep_the_order_of_their_fields(name: str, fields: list[str]) -> None:
    shown = internal("PodTemplateSpec", {"metadata": {name: [dict.fromkeys(sorted(fields), "x")]}})
    assert list(shown[name][0]) == fields


def test_raw_parts_of_internal_values_stay_as_they_were_sent() -> None:
    shown = internal("OpaqueDeviceConfiguration", {"driver": "d", "parameters": {"kind": "K", "apiVersion": "v1"}})
    assert list(shown["Parameters"]) == ["kind", "apiVersion"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"key": "k", "effect": "e"}, ["Key", "Operator", "Value", "Effect", "TolerationSeconds"]),
        ({"Key": "k"}, ["Key"]),  # in that form already
        ({}, []),
    ],
)
def test_values_of_the_wire_get_the_internal_form(value: Any, shown: list[str]) -> None:
    assert list(internal_form(definition("io.k8s.api.core.v1.Toleration"), value)) == shown


def term(operator: str, *values: str, key: str = "a") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": [*values]} if values else {})}]}


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        (None, [], [{}, {"a": "b"}]), ({}, [{}, {"a": "b"}], []),
        ({"matchLabels": {"a": "b", "c": "d"}}, [{"a": "b", "c": "d", "e": "f"}], [{"a": "b"}, {"a": "x", "c": "d"}, {}]),
        (term("In", "b", "c"), [{"a": "b"}, {"a": "c"}], [{"a": "d"}, {"b": "b"}, {}]),
        (term("NotIn", "b", "c"), [{"a": "d"}, {}, {"b": "b"}], [{"a": "b"}, {"a": "c"}]),
        (term("Exists"), [{"a": ""}, {"a": "b"}], [{}, {"b": "a"}]),
        (term("DoesNotExist"), [{}, {"b": "a"}], [{"a": ""}, {"a": "b"}]),
        ({"matchLabels": {"x": "y"}, **term("Exists")}, [{"x": "y", "a": ""}], [{"x": "y"}, {"a": ""}]),
    ],
)  # fmt: skip
def test_which_labels_a_selector_matches(selector: Any, matching: list[Any], other: list[Any]) -> None:
    assert [matches(selector, labels) for labels in [*matching, *other]] == [True] * len(matching) + [False] * len(
        other
    )


@pytest.mark.parametrize(
    ("selector", "good"),
    [
        ({}, True), ({"matchLabels": {"a": "b"}}, True), ({"matchLabels": {"a b": "b"}}, False),
        ({"matchLabels": {"a": "b c"}}, False),
        (term("In"), False), (term("NotIn"), False), (term("In", "b"), True), (term("NotIn", "b"), True), (term("Exists"), True),
        (term("DoesNotExist"), True), (term("Exists", "b"), False), (term("DoesNotExist", "b"), False), (term("Gt", "1"), False),
        (term("In", "b", key="a b"), False), (term("In", "b c"), False), (term("In", "b", "b c"), False),
    ],
)  # fmt: skip
def test_which_selectors_can_be_evaluated(selector: Any, good: bool) -> None:
    assert is_convertible(selector) is good


def test_which_selectors_are_empty() -> None:
    empty: list[Any] = [None, {}, {"matchLabels": {}}, {"matchLabels": None, "matchExpressions": []}]
    assert [is_empty(each) for each in (*empty, {"matchLabels": {"a": "b"}}, term("Exists"))] == [True] * 4 + [
        False
    ] * 2


@pytest.mark.parametrize(
    ("value", "number"),
    [(None, 0), (3, 3), (0, 0), ("3", 3), ("25%", 25), ("x", 0), ("%", 0), ("-5%", 0), ("", 0), ("9" * 30, 0),
     ("9" * 30 + "%", 0)],
)  # fmt: skip
def test_numbers_in_amounts_of_pods(value: Any, number: int) -> None:
    assert number_of(value) == number
