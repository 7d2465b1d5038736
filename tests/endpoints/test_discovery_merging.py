"""The groups of several servers in one list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.endpoints.discovery.merging import in_order, merge_groups
from kapi.machinery.tree import Object


@pytest.mark.parametrize(
    ("lists", "merged"),
    [
        ([], ""),
        (["abc", "bc"], "abc"),
        (["ac", "bc"], "abc"),
        (["cab", "ab"], "cab"),
        (["ba", "ca"], "bca"),
        (["da", "db", "c"], "cdab"),
        (["ab", "ba"], "ab"),  # the first that has all names
        (["abx", "bay"], "abxy"),  # a contradiction
        (["aba"], "ab"),
    ],
)
def test_names_keep_their_order_and_stand_by_name_where_they_have_none(lists: list[str], merged: str) -> None:
    assert "".join(in_order([list(names) for names in lists])) == merged


@given(
    st.lists(
        st.permutations("abcdef").flatmap(lambda names: st.integers(0, 6).map(lambda end: names[:end])), max_size=4
    )
)
def test_each_name_comes_once(lists: list[list[str]]) -> None:
    assert sorted(in_order(lists)) == sorted({name for names in lists for name in names})


def resource(name: str, *verbs: str, **more: Any) -> Object:
    return {"resource": name, "verbs": list(verbs), **more}


def group(name: str, freshness: str = "Current", **versions: list[Object]) -> Object:
    return {
        "metadata": {"name": name},
        "versions": [
            {"version": version, **({"resources": resources} if resources else {}), "freshness": freshness}
            for version, resources in versions.items()
        ],
    }


APPS = group("apps", v1=[resource("deployments", "get")])
BATCH = group("batch", v1=[resource("jobs", "get", "list")])


def test_lists_that_are_the_same_are_not_made_anew() -> None:
    own = [APPS, BATCH]
    assert merge_groups({"a": own}, "a") is own
    other = [group("apps", "Stale", v1=[resource("deployments", "get")]), BATCH]
    assert merge_groups({"a": other, "b": own}, "b") is own


def test_groups_and_versions_of_all_servers_are_there() -> None:
    newer = group("batch", v2=[resource("jobs", "get")], v1=[resource("jobs", "get", "list")])
    found = merge_groups({"a": [APPS, BATCH], "b": [newer], "c": [group("new", v1=[])]}, "b")
    assert [item["metadata"]["name"] for item in found] == ["apps", "batch", "new"]
    assert [version["version"] for version in found[1]["versions"]] == ["v2", "v1"]
    assert found[0] is APPS


def test_resources_have_the_verbs_and_subresources_of_all_servers() -> None:
    one = resource("jobs", "watch", "get", subresources=[{"subresource": "status", "verbs": ["get"]}])
    two = resource("jobs", "get", "list", shortNames=["j"], subresources=[{"subresource": "scale", "verbs": ["get"]}])
    (merged,) = merge_groups(
        {"a": [group("batch", v1=[one])], "b": [group("batch", "Stale", v1=[two, resource("crons")])]}, "b"
    )
    jobs, crons = merged["versions"][0]["resources"]
    assert (jobs["verbs"], [sub["subresource"] for sub in jobs["subresources"]]) == (
        ["get", "list", "watch"],
        ["scale", "status"],
    )
    assert "shortNames" not in jobs and merged["versions"][0]["freshness"] == "Current"  # the first server's
    assert crons == resource("crons")
    without = {"resource": "jobs", "verbs": None}
    (merged,) = merge_groups(
        {"a": [group("batch", v1=[{**without, "scope": "x"}])], "b": [group("batch", v1=[without])]}, "b"
    )
    assert merged["versions"][0]["resources"] == [{**without, "scope": "x"}]


_groups = st.lists(st.sampled_from("abc"), unique=True).map(
    lambda names: [group(name, v1=[resource(name, "get")]) for name in names]
)


@given(st.dictionaries(st.sampled_from("123"), _groups, min_size=1))
def test_all_servers_make_the_same_of_the_same_lists(lists: dict[str, list[Object]]) -> None:
    merged = [merge_groups(lists, own) for own in lists]
    assert all(each == merged[0] for each in merged)
