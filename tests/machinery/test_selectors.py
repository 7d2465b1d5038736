"""Label selectors: what a text selects, and what apimachinery says of one that is malformed."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.label_requirements import LabelRequirement
from kapi.machinery.selectors import (
    FieldSelector,
    LabelSelector,
    Predicate,
    SelectorError,
    from_label_selector,
    parse_fields,
    parse_labels,
    selector_text,
    with_labels,
)
from kapi.machinery.sharding import Shards

_SHOWN = {
    "exists": "{0}",
    "!": "!{0}",
    "in": "{0} in ({1})",
    "notin": "{0} notin ({1})",
    "gt": "{0}>{1}",
    "lt": "{0}<{1}",
}


def shown(selector: LabelSelector) -> str:
    """As Go's ``Selector.String``."""
    return ",".join(
        _SHOWN.get(each.operator, "{0}" + each.operator + "{1}").format(each.key, ",".join(sorted(each.values)))
        for each in selector.requirements
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a", "a"), ("!a", "!a"), ("! a", "!a"), ("a,!b", "a,!b"), ("b=1,a=2", "a=2,b=1"), ("a=", "a="), ("a=,b", "a=,b"),
        ("a==v", "a==v"), ("a!=v", "a!=v"), ("a!=", "a!="), ("a = v , b", "a=v,b"), ("a in (v)", "a in (v)"),
        ("a in (w,v)", "a in (v,w)"), ("a notin (v,)", "a notin (,v)"), ("a in (,v)", "a in (,v)"), ("a in ()", "a in ()"),
        ("a in (,)", "a in ()"), ("a in (,,)", "a in ()"), ("a in (v,,w)", "a in (,v,w)"), ("a>5", "a>5"), ("a<5", "a<5"),
        ("a.b/c=1", "a.b/c=1"), ("in in (in)", "in in (in)"), ("notin notin (notin)", "notin notin (notin)"), (" ", ""),
    ],
)  # fmt: skip
def test_how_a_text_is_read(text: str, read: str) -> None:
    assert shown(parse_labels(text)) == read


_NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
    "'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"), ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
    ],
)  # fmt: skip
def test_texts_that_are_no_list_of_requirements(text: str, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_labels(text)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("!", "found '', expected: identifier"), ("!!a", "found '!', expected: identifier"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a gt 5", "found 'gt', expected: in, notin, =, ==, !=, gt, lt"),
        ("a!b", "found '!', expected: in, notin, =, ==, !=, gt, lt"), ("a>=1", "found '=', expected: identifier"),
        ("a=(b", "found '(', expected: identifier"), ("a==!", "found '!', expected: identifier"),
        ("a in", "found '' expected: '('"), ("a in v", "found 'v' expected: '('"), ("a notin )", "found ')' expected: '('"),
        ("a in (", "found '', expected: ',', ')' or identifier"), ("a in (=)", "found '=', expected: ',', ')' or identifier"),
        ("a in (v", "found '', expected: ',' or ')'"), ("a in (v w)", "found 'w', expected: ',' or ')'"),
        ("a in (v!)", "found '!', expected: ',' or ')'"), ("a in (v,!)", "found '!', expected: ',', or identifier"),
        *((f"a{text}", f'values[0]: Invalid value: "{text[1:]}": {_INTEGER}') for text in (">", ">x", "<1.5")),
        ("a<-5", f'values[0][a]: Invalid value: "-5": {_VALUE}'), ("a=-v", f'values[0][a]: Invalid value: "-v": {_VALUE}'),
        ("a in (v,-w)", f'values[0][a]: Invalid value: "-w": {_VALUE}'),
        ("a in (-v,_w)", f'[values[0][a]: Invalid value: "-v": {_VALUE}, values[1][a]: Invalid value: "_w": {_VALUE}]'),
        ("-a", f'<nil>: Invalid value: "-a": name part {_NAME}'),
        ("a/b/c", f'<nil>: Invalid value: "a/b/c": a valid label key {_NAME} with an optional DNS subdomain prefix and \'/\' '
                  "(e.g. 'example.com/MyName')"),
    ],
)  # fmt: skip
def test_requirements_that_are_malformed(text: str, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_labels(text)
    assert str(caught.value) == f"unable to parse requirement: {why}"


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("a", ["", "v"], [None]), ("!a", [None], ["", "v"]), ("a=v", ["v"], [None, "", "w"]), ("a=", [""], [None, "v"]),
        ("a!=v", [None, "", "w"], ["v"]), ("a in (v,w)", ["v", "w"], [None, "", "x"]), ("a notin (v,)", [None, "x"], ["v", ""]),
        ("a>5", ["6", "10"], [None, "", "5", "4", "x", "6.5"]), ("a<5", ["4", "-6", "+4"], [None, "5", "6", "x"]),
        ("a>4,a<6", ["5"], ["4", "6"]),
    ],
)  # fmt: skip
def test_what_a_selector_matches(text: str, yes: list[str | None], no: list[str | None]) -> None:
    many = ",".join([text, *(f"!x{number}" for number in range(200))])  # so many are kept in another form
    for selector in (parse_labels(text), parse_labels(many)):
        for values, matches in ((yes, True), (no, False)):
            for value in values:
                labels = {"b": "5"} if value is None else {"a": value, "b": "5"}
                assert selector.matches(labels) is matches, value


_ALL: dict[str, Any] = {
    "matchLabels": {"b": "1", "a": "2"},
    "matchExpressions": [
        {"key": "c", "operator": "In", "values": ["y", "x"]}, {"key": "d", "operator": "NotIn", "values": ["z"]},
        {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "DoesNotExist"},
    ],
}  # fmt: skip


def test_selectors_of_objects() -> None:
    assert from_label_selector(None) is None
    every = from_label_selector({})
    assert every is not None and every.empty and every.matches({})
    found = from_label_selector(_ALL)
    assert found is not None and not found.empty
    assert shown(found) == "a=2,b=1,c in (x,y),d notin (z),e,!f"
    for wrong, why in (
        ({"matchExpressions": [{"key": "a", "operator": "Is"}]}, '"Is" is not a valid label selector operator'),
        ({"matchExpressions": [{"key": "a"}]}, '"" is not a valid label selector operator'),
        ({"matchLabels": {"a": "-"}}, f'values[0][a]: Invalid value: "-": {_VALUE}'),
    ):
        with pytest.raises(SelectorError) as caught:
            from_label_selector(wrong)
        assert str(caught.value) == why


def test_the_text_of_a_selector_of_an_object() -> None:
    assert selector_text(_ALL) == "a=2,b=1,c in (x,y),d notin (z),e,!f"
    assert [selector_text(none) for none in (None, {})] == ["", ""]
    assert selector_text({"matchExpressions": [{"key": "a", "operator": "Is"}]}) == "a"


@pytest.mark.parametrize(
    ("labels", "names"), [({}, ["a", "b", "c"]), ({"x": "1"}, ["a", "b"]), ({"x": "1", "y": "2"}, ["b"]), ({"x": "2"}, [])]
)  # fmt: skip
def test_objects_with_labels(labels: dict[str, str], names: list[str]) -> None:
    objects = [
        {"metadata": {"name": "a", "labels": {"x": "1"}}}, {"metadata": {"name": "b", "labels": {"x": "1", "y": "2", "z": "3"}}},
        {"metadata": {"name": "c"}},
    ]  # fmt: skip
    assert [obj["metadata"]["name"] for obj in with_labels(labels, objects)] == names


def test_what_a_predicate_selects_and_counts() -> None:
    labels, fields = parse_labels("a=b"), parse_fields("c=d")
    for predicate, empty, counts in (
        (Predicate(), True, True), (Predicate(labels), False, False), (Predicate(fields=fields), False, False),
        (Predicate(shards=Shards.of("uid", [(0, 1)])), False, True), (Predicate(fields=FieldSelector()), True, True),
    ):  # fmt: skip
        assert (predicate.empty, predicate.counts) == (empty, counts)
    both = Predicate(labels, fields)
    assert [both.matches({"a": a}, {"c": c}) for a, c in (("b", "d"), ("x", "d"), ("b", "x"))] == [True, False, False]
    assert both.labels.requirements == (LabelRequirement("a", "=", frozenset("b")),)
