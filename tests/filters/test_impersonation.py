"""Acting as somebody else, only as far as policy goes."""

from __future__ import annotations

import contextlib
from copy import copy
from typing import Any

import pytest

from kapi.authorization.fixed import PrivilegedGroups
from kapi.authorization.interface import Attributes, Decision, Verdict
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


AGENT = UserInfo(
    "system:serviceaccount:x:agent",
    extra={"authentication.kubernetes.io/node-name": ("n1",), "authentication.kubernetes.io/node-uid": ("u",)},
)
PREFIX = "system:serviceaccount:x:"
NO_OPINION = Verdict(Decision.NO_OPINION)


class Asked:
    """Allows the verbs of which ``allows`` is a part, all others not; remembers what it was asked."""

    def __init__(self, *allows: str, verdict: Verdict = NO_OPINION) -> None:
        self.allows, self.verdict = allows, verdict
        self.verbs: list[str] = []
        self.questions: list[Attributes] = []

    def authorize(self, question: Attributes) -> Verdict:
        self.verbs.append(question.verb)
        self.questions.append(copy(question))
        return Verdict(Decision.ALLOW) if any(each in question.verb for each in self.allows) else self.verdict

    def act(self, name: str, who: UserInfo = ALICE, **others: Any) -> RequestContext:
        return acting(impersonation(self), name, who, **others)


def acting(step: Any, name: str, who: UserInfo = ALICE, uri: str = "/api/v1/pods", **others: Any) -> RequestContext:
    headers = {f"Impersonate-{key}": value for key, value in {"User": name, **others}.items()}
    ctx = request(uri, headers=headers, user=who)
    with pytest.raises(StopIteration):
        step(ctx).send(None)
    return ctx


@pytest.mark.parametrize(
    ("who", "name", "others", "modes"),
    [
        (ALICE, "jane", {}, ["user-info"]),
        (ALICE, "jane", {"Uid": "u", "Group": "g"}, ["user-info"]),
        (ALICE, "system:node:n1", {}, ["arbitrary-node"]),
        (ALICE, "system:node:n1", {"Uid": "u"}, []),
        (ALICE, "system:node:n1", {"Group": "g"}, []),
        (ALICE, "system:node:n1", {"Extra-K": "v"}, []),
        (ALICE, "system:node:", {}, ["user-info"]),
        (ALICE, "system:node:N_1", {}, ["user-info"]),
        (ALICE, "system:nodes", {}, ["user-info"]),
        (ALICE, PREFIX + "app", {}, ["serviceaccount"]),
        (ALICE, PREFIX + "app", {"Uid": "u"}, []),
        (ALICE, PREFIX + "app", {"Group": "g"}, []),
        (ALICE, PREFIX + "app", {"Extra-K": "v"}, []),
        (ALICE, "system:serviceaccount:x", {}, ["user-info"]),
        (AGENT, "system:node:n1", {}, ["associated-node", "arbitrary-node"]),
        (AGENT, "system:node:n1", {"Uid": "u"}, []),
        (AGENT, "system:node:n2", {}, ["arbitrary-node"]),
        (UserInfo("agent", extra=AGENT.extra), "system:node:n1", {}, ["arbitrary-node"]),
        (
            UserInfo(AGENT.name, extra={"authentication.kubernetes.io/node-name": ("n1", "n1")}),
            "system:node:n1",
            {},
            ["arbitrary-node"],
        ),
    ],
)
def test_the_modes_that_apply_are_tried_from_the_narrowest(
    who: UserInfo, name: str, others: dict[str, Any], modes: list[str]
) -> None:
    asked = Asked()
    with pytest.raises(Forbidden) as caught:
        asked.act(name, who, **others)
    assert asked.verbs == [*(f"impersonate-on:{mode}:list" for mode in modes), "impersonate"]
    assert f"cannot {asked.verbs[0]} resource" in caught.value.message, "the error of the first mode is told"


@pytest.mark.parametrize(
    ("who", "name", "others", "on", "questions"),
    [
        (ALICE, "jane", {"Uid": "7", "Group": ["a", "b"], "Extra-example.com%2Fk": ["v", "w"]}, "user-info", [
            ("users", "", "", "jane"), ("uids", "", "", "7"), ("groups", "", "", "a"), ("groups", "", "", "b"),
            ("userextras", "example.com/k", "", "v"), ("userextras", "example.com/k", "", "w"),
        ]),
        (ALICE, "system:node:n1", {}, "arbitrary-node", [("nodes", "", "", "n1")]),
        (AGENT, "system:node:n1", {}, "associated-node", [("nodes", "", "", "*")]),
        (ALICE, PREFIX + "app", {}, "serviceaccount", [("serviceaccounts", "", "x", "app")]),
    ],
)  # fmt: skip
def test_a_constrained_mode_asks_for_the_action_and_for_all_that_is_impersonated(
    who: UserInfo, name: str, others: dict[str, Any], on: str, questions: list[tuple[str, ...]]
) -> None:
    asked = Asked("impersonate")
    ctx = asked.act(name, who, uri="/apis/apps/v1/namespaces/y/deployments/d/scale", **others)
    first, *rest = asked.questions
    assert (first.verb, first.group, first.version) == (f"impersonate-on:{on}:get", "apps", "v1")
    assert (first.resource, first.subresource, first.namespace, first.name) == ("deployments", "scale", "y", "d")
    assert [(each.resource, each.subresource, each.namespace, each.name) for each in rest] == questions
    assert {(each.verb, each.group, each.version, each.is_resource) for each in rest} == {
        (f"impersonate:{on}", "authentication.k8s.io", "v1", True)
    }
    assert ctx.impersonation_constraint == f"impersonate:{on}"
    keys = {"authentication.kubernetes.io/associated-node-keys": tuple(sorted(AGENT.extra))}
    extra = keys if on == "associated-node" else who.extra
    assert all((each.user.name, each.user.extra) == (who.name, extra) for each in asked.questions)


@pytest.mark.parametrize(
    ("name", "others", "question", "groups"),
    [
        ("jane", {}, ("users", "", "jane"), ["system:authenticated"]),
        ("system:node:n1", {"Uid": "7"}, ("users", "", "system:node:n1"), ["system:authenticated"]),
        (PREFIX + "app", {"Uid": "7"}, ("serviceaccounts", "x", "app"),
         ["system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"]),
        (PREFIX + "app", {"Group": "g"}, ("serviceaccounts", "x", "app"), ["g", "system:authenticated"]),
        ("jane", {"Group": "system:unauthenticated"}, ("users", "", "jane"), ["system:unauthenticated"]),
        ("jane", {"Group": "system:authenticated"}, ("users", "", "jane"), ["system:authenticated"]),
        ("system:anonymous", {}, ("users", "", "system:anonymous"), ["system:unauthenticated"]),
        ("system:anonymous", {"Group": "system:unauthenticated"}, ("users", "", "system:anonymous"),
         ["system:unauthenticated"]),
        ("system:anonymous", {"Group": "system:authenticated"}, ("users", "", "system:anonymous"),
         ["system:authenticated", "system:unauthenticated"]),
    ],
)  # fmt: skip
def test_the_plain_verb_asks_for_names_and_groups_in_the_core_group(
    name: str, others: dict[str, Any], question: tuple[str, ...], groups: list[str]
) -> None:
    asked = Asked("impersonate")
    step = impersonation(asked, constrained=False)
    ctx = acting(step, name, **others, **{"Extra-K": ["v", ""]})
    first = asked.questions[0]
    assert (first.resource, first.namespace, first.name) == question
    assert ctx.user is not None and list(ctx.user.groups) == groups
    assert set(asked.verbs) == {"impersonate"} and ctx.impersonation_constraint == ""
    found = {each.resource: (each.group, each.subresource) for each in asked.questions}
    assert found.pop("userextras") == ("authentication.k8s.io", "k") and asked.questions[-1].name == ""
    assert found.pop("uids", None) in (None, ("authentication.k8s.io", ""))
    assert set(found.values()) == {("", "")}


def test_the_mode_that_last_served_a_requestor_is_tried_first_for_him_alone() -> None:
    asked = Asked("serviceaccount", "user-info:list")
    step = impersonation(asked)

    def verbs(name: str, who: UserInfo = ALICE) -> list[str]:
        asked.verbs = []
        with contextlib.suppress(Forbidden):
            acting(step, name, who)
        return asked.verbs

    on, plain = "impersonate-on:user-info:list", "impersonate"
    assert verbs("jane") == [on, "impersonate:user-info", plain]
    asked.allows = ("impersonate",)
    assert verbs("jane") == [on, "impersonate:user-info"]
    asked.allows = ()
    assert verbs("jane") == [on, plain]
    asked.verdict = Verdict(Decision.DENY)
    assert verbs("system:node:n1") == ["impersonate-on:arbitrary-node:list", plain]

    class Plain(Asked):
        def authorize(self, question: Attributes) -> Verdict:
            self.verbs.append(question.verb)
            return Verdict(Decision.ALLOW if question.verb == plain else Decision.NO_OPINION)

    asked = Plain()
    step = impersonation(asked)
    assert verbs("jane") == [on, plain]
    assert verbs("jane") == [plain], "it costs no more than before there were others"
    assert verbs(PREFIX + "app") == [plain]
    assert verbs("jane", AGENT) == [on, plain]
    assert verbs("jane") == verbs("jane", AGENT) == [plain], "each requestor has his own"


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict(Decision.NO_OPINION), ""),
        (Verdict(Decision.DENY, "why"), ": why"),
        (Verdict(Decision.NO_OPINION, "", "broken"), ": broken"),
        (Verdict(Decision.NO_OPINION, "why", "broken"), ": broken: why"),
    ],
)
def test_a_refusal_has_the_error_and_the_reason(verdict: Verdict, told: str) -> None:
    with pytest.raises(Forbidden) as caught:
        acting(impersonation(Asked(verdict=verdict), constrained=False), "jane")
    assert caught.value.message == (
        'users "jane" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
        f"at the cluster scope{told}"
    )


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"Group": ["a", ""]}, "impersonating the empty string group is not allowed"),
        ({"Group": ["a", "b", "c", "system:masters"]}, "impersonating the system:masters group is not allowed"),
        ({"Extra-a.b%2Fk": ["v", "w", "x", "y"], "Extra-a.b%2Fl": ["v", ""]},
         "impersonating the empty string value in extra is not allowed"),
    ],
)  # fmt: skip
def test_what_no_right_allows_in_a_constrained_mode(others: dict[str, Any], text: str) -> None:
    asked = Asked("user-info")
    with pytest.raises(Forbidden, match=text):
        asked.act("jane", **others)
    assert asked.verbs[:2] == ["impersonate-on:user-info:list", "impersonate:user-info"]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Uid": 'u"'}, 'UID:"u\\"", Groups:[]string(nil), Extra:map[string][]string(nil)'),
        ({"Group": ["a", "b"]}, 'UID:"", Groups:[]string{"a", "b"}, Extra:map[string][]string(nil)'),
        ({"Extra-L": "w", "Extra-K": ["v", "x"]},
         'UID:"", Groups:[]string(nil), Extra:map[string][]string{"k":[]string{"v", "x"}, "l":[]string{"w"}}'),
        ({"User": "", "Uid": "u"}, 'UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)'),
    ],
)  # fmt: skip
def test_what_lacks_a_user_name_is_refused_in_upstreams_words(headers: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        run({f"Impersonate-{key}": value for key, value in headers.items()})
    assert caught.value.message == (f'requested &user.DefaultInfo{{Name:"", {text}}} without impersonating a user name')


def test_an_empty_name_impersonates_nobody() -> None:
    ctx = run({"Impersonate-User": "", "Impersonate-Uid": ""})
    assert ctx.user is ADMIN and ctx.original_user is None


def test_one_key_may_come_in_several_forms() -> None:
    ctx = run({"Impersonate-User": "jane", "Impersonate-Extra-K": ["v", "w"], "Impersonate-Extra-%6B": "x"})
    assert ctx.user is not None and sorted(ctx.user.extra["k"]) == ["v", "w", "x"]
    assert list(ctx.http.requestHeaders.getAllRawHeaders()) == []
