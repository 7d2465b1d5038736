"""Acting as somebody else, only as far as policy goes."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.authorization.fixed import PrivilegedGroups
from kapi.authorization.union import Link, UnionAuthorizer
from kapi.filters.impersonation import impersonation
from kapi.machinery.status import BadRequest, Forbidden
from kapi.request.context import RequestContext
from kapi.request.headers import first_header
from kapi.request.user import UserInfo
from tests.authorization.policies import authorizer, binding, role, rule, user
from tests.filters.requests import request

ADMIN = UserInfo("admin", groups=("system:masters",))
ALICE = UserInfo("alice", groups=("dev", "system:authenticated"))


def run(
    headers: dict[str, Any], who: UserInfo = ADMIN, uri: str = "/api/v1/namespaces/x/pods", *rules: Any
) -> RequestContext:
    policy = authorizer(role("r", *rules), binding("b", "r", user("alice")))
    ctx = request(uri, headers=headers, user=who)
    waiting: Any = impersonation(UnionAuthorizer([Link(PrivilegedGroups()), Link(policy)]))(ctx)
    if waiting is not None:
        with pytest.raises(StopIteration):  # no authorizer here has to wait
            waiting.send(None)
    return ctx


def test_without_headers_nothing_changes() -> None:
    ctx = run({})
    assert ctx.user is ADMIN and ctx.original_user is None
    assert ctx.latencies is None


def test_user_groups_uid_and_extra() -> None:
    ctx = run(
        {
            "Impersonate-User": "jane",
            "Impersonate-Group": ["a", "b"],
            "Impersonate-Uid": "u",
            "Impersonate-Extra-Example.org%2fProject": "p",
            "Impersonate-Extra-Bad%zz": "q",
        }
    )
    assert ctx.user == UserInfo(
        "jane", "u", ("a", "b", "system:authenticated"), {"bad%zz": ("q",), "example.org/project": ("p",)}
    )
    assert ctx.original_user is ADMIN
    assert ctx.latencies is not None and ctx.latencies["impersonation"] > 0 and not ctx.waited


def test_the_headers_are_gone_afterwards() -> None:
    ctx = run({"Impersonate-User": "jane", "Impersonate-Extra-K": "v"})
    assert not first_header(ctx, "Impersonate-User") and not first_header(ctx, "Impersonate-Extra-K")


def test_service_accounts_nodes_and_anonymous_get_their_groups() -> None:
    account = run({"Impersonate-User": "system:serviceaccount:x:app"}).user
    assert account is not None
    assert account.groups == ("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated")
    node = run({"Impersonate-User": "system:node:n1"}).user
    assert node is not None and node.groups == ("system:nodes", "system:authenticated")
    nobody = run({"Impersonate-User": "system:anonymous"}).user
    assert nobody is not None and nobody.groups == ("system:unauthenticated",)


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-K"])
def test_a_user_name_is_needed(header: str) -> None:
    with pytest.raises(BadRequest, match="without impersonating a user name"):
        run({header: "x"})


def test_headers_without_permission_are_refused() -> None:
    with pytest.raises(Forbidden) as caught:
        run({"Impersonate-User": "jane"}, ALICE)
    assert caught.value.message == (
        'pods is forbidden: User "alice" cannot impersonate-on:user-info:list resource "pods" in API group "" '
        'in the namespace "x"'
    )


def test_the_plain_verb_covers_what_it_names_and_no_more() -> None:
    users = rule("impersonate", "users", names="jane")
    assert run({"Impersonate-User": "jane"}, ALICE, "/version", users).user is not None
    with pytest.raises(Forbidden):
        run({"Impersonate-User": "joe"}, ALICE, "/version", users)
    with pytest.raises(Forbidden):
        run({"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}, ALICE, "/version", users)
    with pytest.raises(Forbidden):
        run({"Impersonate-User": "jane", "Impersonate-Extra-Scopes": "x"}, ALICE, "/version", users)
    with pytest.raises(Forbidden):
        run({"Impersonate-User": "system:serviceaccount:kube-system:x"}, ALICE, "/version", users)


CONSTRAINED = (
    rule("impersonate:user-info", "users groups", "authentication.k8s.io"),
    rule("impersonate-on:user-info:list", "pods"),
)


def test_constrained_impersonation_is_bound_to_the_action() -> None:
    assert run({"Impersonate-User": "jane"}, ALICE, "/api/v1/namespaces/x/pods", *CONSTRAINED).user is not None
    with pytest.raises(Forbidden, match="impersonate-on:user-info:get"):
        run({"Impersonate-User": "jane"}, ALICE, "/api/v1/namespaces/x/pods/p", *CONSTRAINED)


def test_who_has_used_one_form_of_constrained_impersonation_may_use_another() -> None:
    accounts = (
        rule("impersonate:serviceaccount", "serviceaccounts", "authentication.k8s.io"),
        rule("impersonate-on:serviceaccount:list", "pods"),
    )
    step = impersonation(authorizer(role("r", *CONSTRAINED, *accounts), binding("b", "r", user("alice"))))
    for name in ("jane", "system:serviceaccount:x:robot", "jane", "joe"):
        ctx = request("/api/v1/namespaces/x/pods", headers={"Impersonate-User": name}, user=ALICE)
        waiting: Any = step(ctx)
        with pytest.raises(StopIteration):
            waiting.send(None)
        assert ctx.user is not None and ctx.user.name == name


def test_constrained_impersonation_never_reaches_masters() -> None:
    with pytest.raises(Forbidden, match="impersonating the system:masters group is not allowed"):
        headers = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
        run(headers, ALICE, "/api/v1/namespaces/x/pods", *CONSTRAINED)


@pytest.mark.parametrize("count", [3, 4, 9])
def test_many_groups_or_extras_are_asked_for_at_once_and_one_by_one_only_if_that_is_refused(count: int) -> None:
    groups = [f"g{number}" for number in range(count)]
    headers = {"Impersonate-User": "jane", "Impersonate-Group": groups, "Impersonate-Extra-example.com%2Fk": groups}

    class Counts:
        def __init__(self, *rules: Any) -> None:
            self.policy = authorizer(role("r", *CONSTRAINED[1:], *rules), binding("b", "r", user("alice")))
            self.names: list[str] = []

        def authorize(self, question: Any) -> Any:
            if question.resource in ("groups", "userextras"):
                self.names.append(question.name)
            return self.policy.authorize(question)

    def act(counts: Counts) -> tuple[str, ...]:
        ctx = request("/api/v1/namespaces/x/pods", headers=headers, user=ALICE)
        waiting: Any = impersonation(counts)(ctx)
        with pytest.raises(StopIteration):
            waiting.send(None)
        assert ctx.user is not None and ctx.user.extra == {"example.com/k": tuple(groups)}
        return ctx.user.groups

    what = "users groups userextras/example.com/k"
    every = Counts(rule("impersonate:user-info", f"{what} userextras/*", "authentication.k8s.io"))
    assert act(every) == (*groups, "system:authenticated")
    assert every.names == (["*"] * 2 if count >= 4 else groups * 2)
    names = " ".join([*groups, "jane"])
    each = Counts(rule("impersonate:user-info", what, "authentication.k8s.io", names))
    assert act(each) == (*groups, "system:authenticated")
    assert each.names == (["*", *groups] * 2 if count >= 4 else groups * 2)


def test_an_account_may_be_its_own_node() -> None:
    account = UserInfo("system:serviceaccount:x:agent", extra={"authentication.kubernetes.io/node-name": ("n1",)})
    policy = authorizer(
        role(
            "r",
            rule("impersonate:associated-node", "nodes", "authentication.k8s.io"),
            rule("impersonate-on:associated-node:list", "pods"),
        ),
        binding("b", "r", {"kind": "ServiceAccount", "name": "agent", "namespace": "x"}),
    )

    def act(node: str) -> RequestContext:
        ctx = request("/api/v1/pods", headers={"Impersonate-User": f"system:node:{node}"}, user=account)
        waiting: Any = impersonation(policy)(ctx)
        with pytest.raises(StopIteration):
            waiting.send(None)
        return ctx

    assert act("n1").user == UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
    with pytest.raises(Forbidden):
        act("n2")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("", "v", "impersonating the empty string key in extra is not allowed"),
        ("k", "v", "impersonating an invalid key in extra is not allowed: "),
        ("example.com%2F", "v", "impersonating an invalid key in extra is not allowed: "),
        ("example.com%2Fk", "", "impersonating the empty string value in extra is not allowed"),
    ],
)
def test_extras_that_constrained_impersonation_never_sets(key: str, value: str, text: str) -> None:
    headers = {"Impersonate-User": "jane", f"Impersonate-Extra-{key}": value}
    extras = rule("impersonate:user-info", "userextras/k userextras/example.com/k", "authentication.k8s.io")
    with pytest.raises(Forbidden) as caught:
        run(headers, ALICE, "/api/v1/namespaces/x/pods", *CONSTRAINED, extras)
    assert text in caught.value.message


def test_constrained_impersonation_sets_extras_by_their_rights() -> None:
    headers = {"Impersonate-User": "jane", "Impersonate-Extra-example.com%2Fk": "v"}
    extras = rule("impersonate:user-info", "userextras/example.com/k", "authentication.k8s.io")
    user = run(headers, ALICE, "/api/v1/namespaces/x/pods", *CONSTRAINED, extras).user
    assert user is not None and user.extra == {"example.com/k": ("v",)}
    with pytest.raises(Forbidden, match="impersonate:user-info"):
        run(headers, ALICE, "/api/v1/namespaces/x/pods", *CONSTRAINED)
