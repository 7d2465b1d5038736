"""Which groups of watches a change is compared with, however groups come and go."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.watchcache.selection import GroupIndex, Selection

SELECTIONS = [
    (namespace, name, fields)
    for namespace in ("", "ns")
    for name, fields in (("", ""), ("a", ""), ("", "spec.nodeName=x"), ("", "metadata.uid!=u,spec.nodeName=y"))
]


def entry(node: str) -> Any:
    return SimpleNamespace(namespace="ns", name="a", fields={"spec.nodeName": node})


def added(index: GroupIndex, namespace: str, name: str, fields: str) -> Any:
    predicate = Predicate(parse_labels(""), parse_fields(fields))
    return index.group(Selection.of(namespace, name, predicate), predicate)


@pytest.mark.parametrize("gone", [*itertools.permutations(SELECTIONS, 2)])
def test_groups_that_are_dropped_take_no_others_with_them(gone: tuple[tuple[str, str, str], ...]) -> None:
    index = GroupIndex()
    groups = {each: added(index, *each) for each in SELECTIONS}
    for each in gone:
        index.drop(groups[each])
        index.drop(groups.pop(each))
    moved: Any = SimpleNamespace(entry=entry("x"), previous=entry("y"))
    found = list(index.groups_for(moved))
    assert (len(found), set(found)) == (len(groups), set(groups.values()))
    (again,) = {added(index, *gone[0]) for _ in range(2)}
    index.drop(groups.get(gone[0], again))
    assert again not in list(index.groups_for(moved))
    for group in groups.values():
        index.drop(group)
    assert not (index._broad or index._named or index._valued), "nothing is kept of what there was"


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("node", ["x", "y", "z"])
@pytest.mark.parametrize("namespace", ["", "ns", "other"])
def test_only_groups_are_asked_that_may_select_a_change(name: str, node: str, namespace: str) -> None:
    index = GroupIndex()
    groups = {each: added(index, *each) for each in SELECTIONS}
    one: Any = SimpleNamespace(namespace=namespace, name=name, fields={"spec.nodeName": node})
    wanted = {
        group
        for (of, named, fields), group in groups.items()
        if of in ("", namespace) and named in ("", name) and (not fields or fields.endswith(node))
    }
    found = list(index.groups_for(SimpleNamespace(entry=one, previous=None)))  # type: ignore[arg-type]
    assert (len(found), set(found)) == (len(wanted), wanted)
