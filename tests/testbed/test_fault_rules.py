"""Which requests a rule hits, and what is no rule."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kapi.request.info import RequestInfo
from kapi.testbed.fault_injection import MAX_RULES, Match, Rule, Rules, decoded

UPDATE = RequestInfo(True, "", "update", "apps", "v1", "n1", "deployments", "status", "web")


@pytest.mark.parametrize(
    ("match", "hit"),
    [
        ({}, True), ({"verb": "update"}, True), ({"verb": "get"}, False), ({"resource": "deployments/status"}, True),
        ({"resource": "deployments"}, False), ({"resource": "*"}, True), ({"group": "apps", "name": "w*"}, True),
        ({"group": ""}, False), ({"namespace": "n2"}, False), ({"userAgent": "kopf/*"}, True), ({"user": "bob"}, False),
    ],
)  # fmt: skip
def test_what_matches(match: dict[str, str], hit: bool) -> None:
    rule = decoded(orjson.dumps({"match": match, "status": 409}))
    assert rule.match.matches(UPDATE, "alice", "kopf/1.0 python") is hit


def test_what_is_no_resource_is_never_hit() -> None:
    assert not Match().matches(RequestInfo(False, "/kapi/faults", "delete"), "admin", "")


def test_some_are_let_through_and_some_are_hit() -> None:
    rules = Rules()
    rules.add(Rule(status=500, skip=2, times=2))
    assert [rules.find(UPDATE, "", "") is not None for _ in range(6)] == [False, False, True, True, False, False]
    [told] = rules.all().values()
    assert (told["seen"], told["hits"]) == (6, 2)


def test_the_first_rule_that_hits_counts() -> None:
    rules = Rules()
    first = rules.add(Rule(status=500, times=1))
    rules.add(Rule(status=503))
    found = [rules.find(UPDATE, "", "") for _ in range(2)]
    assert [rule and rule.status for rule in found] == [500, 503]
    assert rules.remove(first) and not rules.remove(first)
    assert rules.remove() and not rules


@pytest.mark.parametrize(
    "body",
    [
        {}, {"status": 200}, {"status": 409, "when": "during"}, {"watch": "stop"}, {"delay": "5"}, {"delay": "1h"},
        {"delay": "-1s"}, {"status": 409, "skip": -1}, {"status": "409"}, {"match": {"kind": "Pod"}, "close": True},
        {"statsu": 409}, [], None, {"watch": "hold", "watchFor": "2h"}, {"watch": "hold", "watchFor": "long"},
    ],
)  # fmt: skip
def test_what_is_no_rule(body: Any) -> None:
    with pytest.raises(ValueError):
        decoded(orjson.dumps(body))


def test_there_are_not_too_many() -> None:
    rules = Rules()
    for _ in range(MAX_RULES):
        rules.add(Rule(close=True))
    with pytest.raises(ValueError):
        rules.add(Rule(close=True))
