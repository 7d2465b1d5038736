"""Empty lists and maps become null in fields that Go always writes, and nowhere else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kapi.schema.empty_lists import adds_empty, nil_empty_lists
from kapi.schema.types import Field, Kind, Type
from tests.schema.managedfields_kit import TEXT, TEXTS, struct

LIST = Type(Kind.LIST, elem=TEXT)


def always(name: str, type_: Type) -> Field:
    return Field(name, type_, pointer=False, omitempty=False)


INNER = struct("Inner", always("l", LIST), Field("o", LIST))
PLAIN = struct("Plain", Field("l", LIST))
OUTER = struct(
    "Outer",
    always("l", LIST),
    always("m", TEXTS),
    always("s", TEXT),
    Field("o", LIST),
    Field("p", LIST, pointer=True, omitempty=False),
    always("v", Type(Kind.LIST)),
    Field("in", INNER),
    Field("plain", PLAIN),
    Field("items", Type(Kind.LIST, elem=INNER)),
    Field("named", Type(Kind.MAP, elem=INNER)),
    always("kept", Type(Kind.LIST, elem=INNER)),
)
OUTER.fields["self"] = Field("self", OUTER)


@pytest.mark.parametrize(
    ("obj", "stored"),
    [
        ({"l": [], "m": {}, "v": []}, {"l": None, "m": None, "v": None}),
        ({"l": ["a"], "m": {"a": ""}, "v": [[]]}, {"l": ["a"], "m": {"a": ""}, "v": [[]]}),
        ({"l": None}, {"l": None}),
        ({}, {}),
        ({"s": "", "o": [], "p": [], "unknown": []}, {"s": "", "o": [], "p": [], "unknown": []}),
        ({"in": {"l": [], "o": []}, "plain": {"l": []}}, {"in": {"l": None, "o": []}, "plain": {"l": []}}),
        ({"in": {}, "items": [], "named": {}}, {"in": {}, "items": [], "named": {}}),
        ({"items": [None, {}, {"l": []}, {"l": ["a"]}]}, {"items": [None, {}, {"l": None}, {"l": ["a"]}]}),
        ({"named": {"a": None, "b": {"l": []}}}, {"named": {"a": None, "b": {"l": None}}}),
        ({"kept": []}, {"kept": None}),
        ({"kept": [{"l": []}]}, {"kept": [{"l": None}]}),
    ],
)
def test_what_is_stored_for_empty_ones(obj: Any, stored: Any) -> None:
    nil_empty_lists(obj, OUTER)
    assert obj == stored


@pytest.mark.parametrize(
    ("sent", "found", "adds"),
    [
        ({"l": []}, {}, True),
        ({"l": []}, None, True),
        ({"l": []}, {"l": None}, True),
        ({"l": []}, {"l": []}, True),  # as it is null in the storage
        ({"l": []}, {"l": ["a"]}, False),
        ({"l": ["a"]}, {}, False),
        ({"l": None}, {}, False),
        ({"m": {}}, {}, True),
        ({"m": []}, {}, False),
        ({"l": {}}, {}, False),
        ({"s": ""}, {}, False),
        ({"unknown": []}, {}, False),
        ({"in": {"l": []}}, {}, True),
        ({"in": {"l": []}}, {"in": {"l": ["a"]}}, False),
        ({"in": {"s": []}}, {}, False),
        ({"items": [{"l": ["a"]}, {"o": []}]}, {"items": [{}, {}]}, True),
        ({"items": [{"l": ["a"]}, {"o": []}]}, {"items": [{}, {"o": ["a"]}]}, False),
        ({"items": [{"o": []}]}, {}, False),
        ({"named": {"a": {"l": []}}}, {"named": {"b": {}}}, True),
        ({"named": {"a": {"l": []}}}, {"named": {"a": {"l": ["a"]}}}, False),
        ({"named": {"a": {}}}, {"named": {"a": {}}}, False),
        ({"v": [[]]}, {"v": [[]]}, False),
        ([], {}, False),
    ],
)
def test_whether_a_client_adds_empty_ones(sent: Any, found: Any, adds: bool) -> None:
    before = copy.deepcopy((sent, found))
    assert adds_empty(sent, found, OUTER) is adds
    assert (sent, found) == before
