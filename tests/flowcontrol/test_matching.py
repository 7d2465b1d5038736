"""Whom the rules of a flow schema are about, however many they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from kapi.flowcontrol import controller
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.matching import schema_matcher
from kapi.flowcontrol.metrics import Meter
from kapi.machinery.tree import Object
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo
from tests.growth.counting import lines, stretches

MANY = 2000
ACCOUNT = "system:serviceaccount:"
NAMES = [
    "alice",
    "bob",
    f"{ACCOUNT}n:a",
    f"{ACCOUNT}n:b",
    f"{ACCOUNT}m:a",
    f"{ACCOUNT}n:a:b",
    "system:serviceaccount",
    "",
]
GROUPS = ["dev", "ops", ""]
PATHS = ["/healthz", "/metrics"]
METRICS = RequestInfo(False, "/metrics", "get")

subjects = st.one_of(
    st.sampled_from([*NAMES[:3], "*", ""]).map(lambda name: {"kind": "User", "user": {"name": name}}),
    st.sampled_from([*GROUPS, "*"]).map(lambda name: {"kind": "Group", "group": {"name": name}}),
    st.builds(
        lambda namespace, name: {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}},
        st.sampled_from(["n", "m"]),
        st.sampled_from(["a", "b", "*"]),
    ),
    st.sampled_from([{"kind": "User"}, {"kind": "Other", "user": {"name": "alice"}}]),
)
rules = st.builds(
    lambda about, path: {
        "subjects": about,
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": [path]}],
    },  # fmt: skip
    st.lists(subjects, max_size=4),
    st.sampled_from(PATHS),
)
users = st.builds(UserInfo, st.sampled_from(NAMES), groups=st.lists(st.sampled_from(GROUPS), max_size=2).map(tuple))


def is_about(subject: Object, user: UserInfo) -> bool:
    """As upstream asks one subject after the other."""
    kind = subject["kind"]
    if kind == "User" and "user" in subject:
        return subject["user"]["name"] in ("*", user.name)
    if kind == "Group":
        return subject["group"]["name"] == "*" or subject["group"]["name"] in user.groups
    if kind == "ServiceAccount":
        account = subject["serviceAccount"]
        start = f"{ACCOUNT}{account['namespace']}:"
        return user.name.startswith(start) if account["name"] == "*" else user.name == start + account["name"]
    return False


@given(st.lists(rules, max_size=5), users, st.sampled_from(PATHS))
def test_rules_are_found_by_whom_they_are_about(given_rules: list[Object], user: UserInfo, path: str) -> None:
    wanted = any(
        any(is_about(subject, user) for subject in rule["subjects"])
        and rule["nonResourceRules"][0]["nonResourceURLs"] == [path]
        for rule in given_rules
    )
    info = RequestInfo(False, path, "get")
    assert schema_matcher({"rules": given_rules})(info, user) == wanted


def schema(count: int) -> Object:
    about = [
        {
            "subjects": [{"kind": "User", "user": {"name": f"u{number}"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }
        for number in range(count)
    ]
    level = {"name": "global-default"}
    return {
        "metadata": {"name": "many", "uid": "u"},
        "spec": {"matchingPrecedence": 1, "priorityLevelConfiguration": level, "rules": about},
    }


def test_thousands_of_rules_are_made_ready_in_steps_and_once() -> None:
    made = FlowController(Clock(), 600, Meter())
    for mandatory in (True, False):
        for obj in controller.levels(mandatory=mandatory):
            made.level_changed("ADDED", obj)
    large = schema(MANY)
    found = stretches(lambda: made.schema_changed("ADDED", large))
    assert found.longest < MANY / 2, found.where
    assert max(lines(made.configure).values()) < MANY, "not again in one piece"
    assert made.classify(METRICS, UserInfo("u7")).schema.name == "many"
    made.schema_changed("DELETED", large)
    made.configure()
    assert made.classify(METRICS, UserInfo("u7")).schema.name == "catch-all"


@pytest.mark.parametrize("name", ["u7", "stranger"])
def test_a_request_costs_no_more_with_thousands_of_rules(name: str) -> None:
    few, many = (
        sum(lines(lambda matcher=matcher: matcher(METRICS, UserInfo(name))).values())  # type: ignore[misc]
        for matcher in (schema_matcher(schema(count)["spec"]) for count in (10, MANY))
    )
    assert many == few
