"""What somebody holds is compared with what he grants as upstream does, without taking rules apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.authorization.interface import Attributes
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.covers import HeldRules, missing_compacted
from kapi.authorization.rbac.escalation import MAX_MISSING_LENGTH, EscalationCheck
from kapi.authorization.rbac.policy import PolicyRule, any_allows
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import Forbidden
from kapi.request.user import UserInfo
from tests.authorization.policies import authorizer, binding, role, user
from tests.authorization.test_escalation import ALICE, GROUP
from tests.growth.counting import effort

VERBS = ("get", "list", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/log", "*/log", "secrets/log", "*")
NAMES = ("a", "b", "")
URLS = ("/a", "/a/*", "/a/b", "*", "/a/b**")


def some(values: Sequence[str], least: int = 1) -> Any:
    return st.lists(st.sampled_from(values), min_size=least, max_size=3)


RULES = st.one_of(
    st.builds(PolicyRule, some(VERBS), some(GROUPS), some(RESOURCES), some(NAMES, 0)),
    st.builds(PolicyRule, some(VERBS), urls=some(URLS)),
)


def one_by_one(held: list[PolicyRule], wanted: Iterable[PolicyRule]) -> list[str]:
    """The lines of upstream's refusal: each single right is compared with each held rule."""
    out: list[PolicyRule] = []
    joined: dict[Any, list[str]] = {}
    for rule in wanted:
        for group in rule.groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or (None,):
                        if not any(covers(known, verb, group, resource, name) for known in held):
                            joined.setdefault((group, resource, name), []).append(verb)
        for url in rule.urls:
            for verb in rule.verbs:
                if not any(has(known.verbs, verb) and reaches(known.urls, url) for known in held):
                    out.append(PolicyRule((verb,), urls=(url,)))
    for (group, resource, name), verbs in joined.items():
        out.append(PolicyRule(verbs, (group,), (resource,), () if name is None else (name,)))
    return sorted(rule.compact() for rule in out)


def has(values: Sequence[str], value: str) -> bool:
    return "*" in values or value in values


def reaches(urls: Sequence[str], url: str) -> bool:
    return any(url == known or known.endswith("*") and url.startswith(known.rstrip("*")) for known in urls)


def covers(held: PolicyRule, verb: str, group: str, resource: str, name: str | None) -> bool:
    _, slash, subresource = resource.partition("/")
    return (
        has(held.verbs, verb)
        and has(held.groups, group)
        and (has(held.resources, resource) or bool(slash) and f"*/{subresource}" in held.resources)
        and (not held.names or name in held.names)
    )


@given(st.lists(RULES, max_size=5), st.lists(RULES, max_size=3))
def test_the_missing_rules_are_those_of_comparing_one_by_one(held: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    missing, complete = missing_compacted(held, wanted, MAX_MISSING_LENGTH)
    assert complete
    assert sorted(rule.compact() for rule in missing) == one_by_one(held, wanted)


@given(st.lists(RULES, max_size=5), st.sampled_from(("get", "watch")), st.data())
def test_an_index_allows_what_one_of_its_rules_allows(held: list[PolicyRule], verb: str, data: Any) -> None:
    resource, subresource = (
        data.draw(st.sampled_from(words)) for words in (("pods", "pods/log", "x"), ("", "log", "a/b"))
    )
    question = Attributes(
        UserInfo("alice"),
        verb,
        group=data.draw(st.sampled_from(("", "apps", "x"))),
        resource=resource,
        subresource=subresource,
        name=data.draw(st.sampled_from(("", "a", "x"))),
    )
    path = Attributes(
        UserInfo("alice"), verb, is_resource=False, path=data.draw(st.sampled_from(("/a", "/a/", "/a/b/c", "/b")))
    )
    index = HeldRules(held)
    assert index.allows(question) == any_allows(held, question)
    assert index.allows(path) == any_allows(held, path)


def words(what: str, count: int) -> list[str]:
    return [f"{what}{number}" for number in range(count)]


def single(number: int) -> dict[str, Any]:
    return {"verbs": ["get"], "apiGroups": [""], "resources": [f"resources{number}"], "resourceNames": [f"n{number}"]}


def broad(size: int) -> dict[str, Any]:
    return {"verbs": words("v", size), "apiGroups": words("g", size), "resources": words("r", size)}


def judge(rbac: RBACAuthorizer, obj: Any) -> None:
    """Lets a role through.  Raises Forbidden."""
    check = EscalationCheck(rbac, rbac).check(GroupResource(GROUP, "clusterroles"), ALICE, "", "new", obj, None)
    with pytest.raises(StopIteration):
        check.send(None)


def holding(*rules: Any) -> RBACAuthorizer:
    return authorizer(role("own", *rules), binding("own", "own", user("alice")))


MANY = 1500  # compared one by one they would be seven times the lines that are allowed


def test_many_rules_are_granted_by_whoever_holds_many() -> None:
    held = holding(*map(single, range(MANY)))
    new = role("new", *map(single, range(MANY)))
    assert effort(lambda: judge(held, new)) < 300 * MANY
    with pytest.raises(Forbidden) as caught:
        judge(held, role("new", *map(single, range(MANY + 1))))
    assert caught.value.message.endswith(
        'not currently held:\n{APIGroups:[""], Resources:["resources1500"], ResourceNames:["n1500"], Verbs:["get"]}'
    )


def test_a_broad_rule_is_granted_by_whoever_holds_its_parts() -> None:
    """Each part of eight million rights, held in another of 200 rules among many others."""
    parts = [{**broad(200), "resources": [resource]} for resource in words("r", 200)]
    others = list(map(single, range(MANY)))
    held, new = holding(*others, *parts), role("new", broad(200))
    assert effort(lambda: judge(held, new)) < 600_000
    parts[7] = {**parts[7], "verbs": words("v", 199)}
    with pytest.raises(Forbidden) as caught:
        judge(holding(*others, *parts), role("new", broad(200)))
    lines = caught.value.message.splitlines()[1:]
    assert lines == sorted(f'{{APIGroups:["g{number}"], Resources:["r7"], Verbs:["v199"]}}' for number in range(200))


def test_a_refusal_lists_no_more_than_can_be_read() -> None:
    held, new = holding(single(1)), role("new", broad(200))
    with pytest.raises(Forbidden) as caught:
        judge(held, new)

    def again() -> None:
        with pytest.raises(Forbidden):
            judge(held, new)

    assert effort(again) < 1_000_000
    assert len(caught.value.message) < 2 * MAX_MISSING_LENGTH
    assert caught.value.message.endswith("\nand more")
