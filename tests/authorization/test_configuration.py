"""AuthorizationConfiguration, AuthenticationConfiguration and ABAC policy files."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred, succeed

from kapi.authentication.configuration import load_authentication
from kapi.authorization.abac import ABACAuthorizer, parse_policies
from kapi.authorization.build import AuthorizationSettings, build_authorization, modes_of
from kapi.authorization.configuration import ConfigurationError, load_authorization
from kapi.authorization.fixed import AlwaysAllow, AlwaysDeny
from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.authorization.match_conditions import compile_conditions
from kapi.authorization.union import Link, UnionAuthorizer
from kapi.machinery.field import Path as FieldPath
from kapi.request.user import UserInfo
from tests.authorization.policies import ask

ALICE = UserInfo("alice", groups=("dev", "system:authenticated"))
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
GOOD = (
    HEAD
    + """
authorizers:
- type: Webhook
  name: policy.example
  webhook:
    timeout: 3s
    authorizedTTL: 1m
    unauthorizedTTL: 5s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/webhook.conf}
    matchConditions: [{expression: "request.user != 'system:admin'"}]
- {type: Node, name: node}
- {type: RBAC, name: rbac}
"""
)


def problems(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_authorization(text.encode(), is_file=lambda path: path != "/etc/missing")
    return str(caught.value)


def test_the_chain_of_a_file() -> None:
    webhook, node, rbac = load_authorization(GOOD.encode(), is_file=lambda path: True)
    assert [each.type for each in (webhook, node, rbac)] == ["Webhook", "Node", "RBAC"]
    settings = webhook.webhook
    assert settings is not None and settings.conditions is not None
    assert (settings.timeout, settings.authorized_ttl, settings.unauthorized_ttl) == (3.0, 60.0, 5.0)
    assert settings.on_error is Decision.DENY and settings.kubeconfig == "/etc/webhook.conf"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HEAD, "authorizers: Required value: at least one authorization mode must be defined"),
        (HEAD + "authorizers: [{type: Nope, name: a}]", 'authorizers[0].type: Unsupported value: "Nope"'),
        (
            HEAD + "authorizers: [{type: RBAC, name: a}, {type: RBAC, name: b}]",
            'authorizers[1].type: Duplicate value: "RBAC"',
        ),
        (
            HEAD + "authorizers: [{type: RBAC, name: a}, {type: Node, name: a}]",
            'authorizers[1].name: Duplicate value: "a"',
        ),
        (HEAD + "authorizers: [{type: RBAC, name: A_}]", "authorizer name is invalid"),
        (
            HEAD + "authorizers: [{type: Webhook, name: a}]",
            "authorizers[0].webhook: Required value: required when type=Webhook",
        ),
        (GOOD.replace("3s", "90s"), 'timeout: Invalid value: "1m30s": must be > 0s and <= 30s'),
        (GOOD.replace("3s", "-1s"), 'timeout: Invalid value: "-1s": must be > 0s and <= 30s'),
        (GOOD.replace("3s", "0s"), "authorizers[0].timeout: Required value"),
        (GOOD.replace("Deny", "Maybe"), 'failurePolicy: Unsupported value: "Maybe"'),
        (GOOD.replace("/etc/webhook.conf", "webhook.conf"), "must be an absolute path"),
        (GOOD.replace("request.user !=", "request.nosuch !="), "compilation failed"),
        (GOOD.replace("timeout: 3s", "timeOut: 3s"), 'unknown field "authorizers[0].webhook.timeOut"'),
        (GOOD.replace("timeout: 3s", "timeout: 3"), "authorizers[0].webhook.timeout: must be a string"),
        (GOOD.replace("3s", "soon"), 'authorizers[0].timeout: Invalid value: "soon"'),
        (GOOD.replace("1m", "-1m"), 'authorizers[0].authorizedTTL: Invalid value: "-1m0s": must be > 0s'),
        (GOOD.replace("5s", "-5s"), 'authorizers[0].unauthorizedTTL: Invalid value: "-5s": must be > 0s'),
        (GOOD.replace("ReviewVersion: v1", "ReviewVersion: v2", 1),
         'subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"'),
        (GOOD.replace("    subjectAccessReviewVersion: v1\n", ""), "subjectAccessReviewVersion: Required value"),
        (GOOD.replace("    matchConditionSubjectAccessReviewVersion: v1\n", ""),
         "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified"),
        (GOOD.replace("matchConditionSubjectAccessReviewVersion: v1", "matchConditionSubjectAccessReviewVersion: v1beta1"),
         'matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1"'),
        (GOOD.replace("    failurePolicy: Deny\n", ""), "failurePolicy: Required value"),
        (GOOD.replace("type: KubeConfigFile, ", ""), "connectionInfo.type: Required value"),
        (GOOD.replace("KubeConfigFile,", "InClusterConfig,"), "kapi does not run inside a cluster: use KubeConfigFile"),
        (GOOD.replace("KubeConfigFile,", "Odd,"),
         'connectionInfo.type: Unsupported value: "Odd": supported values: "InClusterConfig", "KubeConfigFile"'),
        (GOOD.replace(", kubeConfigFile: /etc/webhook.conf", ""), "connectionInfo.kubeConfigFile: Required value"),
        (GOOD.replace("/etc/webhook.conf", "/etc/missing"), 'Invalid value: "/etc/missing": must be a regular file'),
        (GOOD.replace('"request.user != \'system:admin\'"', '" "'), "matchConditions[0].expression: Required value"),
        (GOOD.replace('"request.user != \'system:admin\'"', "request.user"), "must evaluate to bool but got string"),
        (GOOD.replace('"request.user != \'system:admin\'"', "dyn(true)"), "must evaluate to bool but got dyn"),
        (GOOD.replace('"request.user != \'system:admin\'"', "request.resourceAttributes.labelSelector"),
         "must evaluate to bool but got kubernetes.LabelSelectorAttributes"),
        (GOOD.replace('"request.user != \'system:admin\'"', "\"int('x') == 1\""),
         "Internal error: program instantiation failed: type conversion error from 'string' to 'int'"),
        (GOOD.replace('"request.user != \'system:admin\'"', "\"int('x')\""), "must evaluate to bool but got int"),
        (GOOD.replace('"request.user != \'system:admin\'"}', '"true"}, {expression: " true "}, {expression: "true"}'),
         'matchConditions[2].expression: Duplicate value: "true"'),
        (GOOD.replace('[{expression: "request.user != \'system:admin\'"}]', f"[{', '.join(['{expression: a}'] * 65)}]"),
         "matchConditions: Too many: 65: must have at most 64 items"),
        (HEAD + "authorizers: [{name: a}]", "authorizers[0].type: Required value"),
        (HEAD + "authorizers: [{type: RBAC}]", "authorizers[0].name: Required value"),
        (HEAD + "authorizers: [{type: RBAC, name: a, webhook: {}}]", "may only be specified when type=Webhook"),
        (HEAD + "authorizers: []\nauthorizers: []", "strict decoding error: "),
        ("", "empty or no AuthorizationConfiguration"),
        ("[]", "empty or no AuthorizationConfiguration"),
        ("kind: X", "no kind"),
        (HEAD.replace("AuthorizationConfiguration", "X"), "no kind 'X' is registered for version 'apiserver.config.k8s.io/v1'"),
        (HEAD.replace("/v1", "/v0"), "is registered for version 'apiserver.config.k8s.io/v0': expected AuthorizationConfig"),
        ("[", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, wanted: str) -> None:
    assert wanted in problems(text)


def test_all_that_is_wrong_is_said_at_once() -> None:
    entries = ("{name: a}", "{type: Odd, name: b}", "{type: RBAC, name: c}", "{type: RBAC, name: d}", "{type: Webhook, name: c}",
               "{type: Node, name: ''}")  # fmt: skip
    assert problems(f"{HEAD}authorizers: [{', '.join(entries)}]").splitlines() == [
        "authorizers[0].type: Required value",
        'authorizers[1].type: Unsupported value: "Odd": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", '
        '"Webhook"',
        'authorizers[3].type: Duplicate value: "RBAC"',
        'authorizers[4].name: Duplicate value: "c"',
        "authorizers[4].webhook: Required value: required when type=Webhook",
        "authorizers[5].name: Required value",
    ]


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("timeout", "30s", ""), ("timeout", "1ns", ""), ("timeout", "0.5s", ""), ("timeout", "0s", "Required value"),
        ("timeout", "30.001s", 'Invalid value: "30.001s": must be > 0s and <= 30s'),
        ("timeout", "-1s", 'Invalid value: "-1s": must be > 0s and <= 30s'),
        ("authorizedTTL", "0.5s", ""), ("authorizedTTL", "100h", ""), ("authorizedTTL", "0s", ""),
        ("authorizedTTL", "-1ns", 'Invalid value: "-1ns": must be > 0s'), ("unauthorizedTTL", "0.5s", ""),
        ("unauthorizedTTL", "-1s", 'Invalid value: "-1s": must be > 0s'),
    ],
)  # fmt: skip
def test_times_of_a_webhook(field: str, value: str, wanted: str) -> None:
    """0 is what upstream's defaults take for absent."""
    before = next(line for line in GOOD.splitlines() if f" {field}: " in line)
    text = GOOD.replace(before, f"    {field}: {value}")
    if wanted:
        assert problems(text) == f"authorizers[0].{field}: {wanted}"
    else:
        load_authorization(text.encode(), is_file=lambda path: True)


def test_several_webhooks_and_their_defaults(tmp_path: Path) -> None:
    """Without a conditions' version there need be no conditions; times have defaults."""
    file = tmp_path / "webhook.conf"
    file.write_text("")
    hook = "webhook: {timeout: 30s, subjectAccessReviewVersion: v1beta1, failurePolicy: NoOpinion, %s connectionInfo: {%s}}"
    connection = f"type: KubeConfigFile, kubeConfigFile: {file}"
    more = "cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false,"
    entries = [f"{{type: Webhook, name: w{i}, {hook % (each, connection)}}}" for i, each in enumerate(("", more))]
    one, other = (each.webhook for each in load_authorization(f"{HEAD}authorizers: [{', '.join(entries)}]".encode()))
    assert one is not None and other is not None
    assert (one.timeout, one.version, one.on_error, one.conditions) == (30.0, "v1beta1", Decision.NO_OPINION, None)
    assert (one.authorized_ttl, one.unauthorized_ttl) == (300.0, 30.0)
    assert (other.authorized_ttl, other.unauthorized_ttl) == (0.0, 0.0)
    file.unlink()
    with pytest.raises(ConfigurationError, match="must be a regular file"):
        load_authorization(f"{HEAD}authorizers: [{entries[0]}]".encode())


def test_anonymous_paths_and_issuers_of_a_file() -> None:
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
    found = load_authentication((head + "anonymous: {enabled: true, conditions: [{path: /livez}]}").encode())
    assert found.anonymous is True and found.anonymous_paths == ["/livez"]
    with pytest.raises(ConfigurationError, match="enabled should be set to true"):
        load_authentication((head + "anonymous: {enabled: false, conditions: [{path: /livez}]}").encode())
    with pytest.raises(ConfigurationError, match="URL scheme must be https"):
        load_authentication((head + "jwt: [{issuer: {url: 'http://x', audiences: [a]}, claimMappings: {}}]").encode())


_VERSIONED = '{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {%s}}'
POLICIES = "\n".join(
    [
        "# comment",
        _VERSIONED % '"user": "alice", "namespace": "x", "resource": "*", "apiGroup": "*"',
        _VERSIONED % '"group": "dev", "readonly": true, "nonResourcePath": "/metrics*"',
        "",
        '{"user": "bob", "resource": "pods", "readonly": true}',
        _VERSIONED % '"user": "*", "nonResourcePath": "/public"',
    ]
)


def allowed(attributes: Attributes) -> bool:
    return ABACAuthorizer(parse_policies(POLICIES)).authorize(attributes).decision is Decision.ALLOW


def test_abac() -> None:
    def path(who: UserInfo, text: str, verb: str = "get") -> bool:
        return allowed(Attributes(who, verb, is_resource=False, path=text))

    bob = UserInfo("bob")
    assert allowed(ask(ALICE, "delete", "pods", "x")) and not allowed(ask(ALICE, "delete", "pods", "y"))
    assert not allowed(ask(ALICE, "get", "nodes"))
    assert path(ALICE, "/metrics/slis") and not path(ALICE, "/metrics", "post") and not path(bob, "/metrics")
    assert allowed(ask(bob, "list", "pods", "any", "any.group")) and not allowed(ask(bob, "delete", "pods", "any"))
    assert path(ALICE, "/public") and not path(UserInfo("system:anonymous"), "/public")


def test_an_abac_policy_matches_what_it_names_and_no_more() -> None:
    alice, group = UserInfo("alice", groups=("dev",)), {"group": "dev"}
    for fields, asked, wanted in (
        ({"user": "alice"}, ask(alice, "get", "pods", "x"), False),
        ({"user": "alice", "resource": "pods"}, ask(alice, "get", "pods", "x"), False),
        ({"user": "alice", "resource": "pods", "namespace": "x"}, ask(alice, "get", "pods", "x"), True),
        ({"user": "alice", "resource": "pods", "namespace": "x"}, ask(alice, "delete", "pods", "x"), True),
        ({"user": "alice", "resource": "pods", "namespace": "x"}, ask(alice, "get", "pods", "x", "apps"), False),
        ({"user": "alice", "resource": "pods", "namespace": "x", "apiGroup": "apps"}, ask(alice, "get", "pods", "x", "apps"),
         True),
        ({"user": "alice", "resource": "*", "namespace": "*"}, ask(alice, "get", "pods", "x"), True),
        ({"user": "bob", "resource": "*", "namespace": "*"}, ask(alice, "get", "pods", "x"), False),
        ({**group, "resource": "*", "namespace": "*"}, ask(alice, "get", "pods", "x"), True),
        ({**group, "user": "bob", "resource": "*", "namespace": "*"}, ask(alice, "get", "pods", "x"), False),
        ({"user": "alice", "group": "ops", "resource": "*", "namespace": "*"}, ask(alice, "get", "pods", "x"), False),
        ({"resource": "*", "namespace": "*"}, ask(alice, "get", "pods", "x"), False),
        ({**group, "resource": "*", "namespace": "*", "readonly": True}, ask(alice, "watch", "pods", "x"), True),
        ({**group, "resource": "*", "namespace": "*", "readonly": True}, ask(alice, "update", "pods", "x"), False),
    ):  # fmt: skip
        policies = parse_policies(_VERSIONED % json.dumps(fields)[1:-1])
        assert (ABACAuthorizer(policies).authorize(asked).decision is Decision.ALLOW) == wanted, fields


def test_abac_rules_can_be_listed() -> None:
    rules = ABACAuthorizer(parse_policies(POLICIES)).rules_for(ALICE, "x")
    assert len(rules.resource_rules) == 1 and len(rules.non_resource_rules) == 2


def test_a_broken_policy_names_its_line() -> None:
    with pytest.raises(ValueError, match="line 2"):
        parse_policies('{"user": "a"}\n{"kind": "Other", "apiVersion": "v1"}')


class Answers:
    """An authorizer with one answer, which it has at once or must wait for."""

    def __init__(self, reason: str, error: str, waits: bool) -> None:
        self.verdict, self.waits = Verdict(Decision.NO_OPINION, reason, error), waits

    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]:
        return succeed(self.verdict) if self.waits else self.verdict


@pytest.mark.parametrize(
    "waits", [(False, False, False), (True, False, True), (False, True, False), (False, False, True)]
)
def test_who_has_no_opinion_says_why(waits: tuple[bool, bool, bool]) -> None:
    answers = zip(("one", "", "three"), ("", "no connection", "too late"), waits, strict=True)
    verdict = UnionAuthorizer([Link(Answers(*each)) for each in answers]).authorize(ask(ALICE, "get", "pods"))
    found = verdict if isinstance(verdict, Verdict) else result_of(verdict)
    assert found == (Decision.NO_OPINION, "one\nthree", "[no connection, too late]")


def result_of(waiting: Awaitable[Verdict]) -> Any:
    found: list[Any] = []
    ensureDeferred(waiting).addCallback(found.append)  # type: ignore[arg-type]  # it is a coroutine
    return found[0]


def test_fixed_authorizers() -> None:
    assert AlwaysAllow().authorize(ask(ALICE, "x", "y")).decision is Decision.ALLOW
    assert AlwaysDeny().authorize(ask(ALICE, "x", "y")).decision is Decision.NO_OPINION


def test_modes_of_the_flag_have_the_names_that_metrics_show() -> None:
    assert [tuple(mode)[:2] for mode in modes_of(["Node", "RBAC", "AlwaysAllow", "Webhook"])] == [
        ("Node", "node"),
        ("RBAC", "rbac"),
        ("AlwaysAllow", "alwaysallow"),
        ("Webhook", "default"),
    ]


def test_a_chain_is_exchanged_in_one_step() -> None:
    built = build_authorization(AuthorizationSettings(modes_of(["AlwaysAllow"])))
    question = ask(ALICE, "get", "pods")

    def decision() -> Any:
        verdict: Any = built.authorizer.authorize(question)
        return verdict.decision

    assert decision() is Decision.ALLOW
    built.replace(modes_of(["AlwaysDeny", "RBAC"]))
    assert decision() is Decision.NO_OPINION
    with pytest.raises(ValueError, match="unknown authorization mode"):
        built.replace(modes_of(["Nope"]))
    assert decision() is Decision.NO_OPINION
    question.user = UserInfo("root", groups=("system:masters",))
    assert decision() is Decision.ALLOW


@pytest.mark.parametrize(
    ("expressions", "quick", "matches"),
    [
        (["request.user == 'jane'"], True, True), (["request.user == 'jack'"], False, False),
        (["request.user == 'jane'", "'g' in request.groups"], True, True),
        (["request.user == 'jane'", "'h' in request.groups"], False, False),
        (["request.extra['x'] == ['y']"], None, "no such key: x"),
        (["request.extra['x'] == ['y']", "request.user == 'jack'"], None, False),
        (["request.groups.all(a, request.groups.all(b, request.groups.all(c, a + b + c != '')))"], True, True),
    ],
)  # fmt: skip
def test_all_conditions_hold_and_a_false_one_decides(
    expressions: list[str], quick: bool | None, matches: bool | str
) -> None:
    """What is not decided at once, as an error is not, is evaluated again in pieces."""
    conditions, errors = compile_conditions([{"expression": each} for each in expressions], FieldPath("p"))
    assert conditions is not None and errors == []
    review = {"spec": {"user": "jane", "groups": ["g"]}}
    assert conditions.quick(review) is quick
    if isinstance(matches, str):
        with pytest.raises(ValueError, match=matches):
            conditions.matches(review)
    else:
        assert conditions.matches(review) is matches


def test_conditions_that_take_long_are_not_decided_at_once() -> None:
    expression = "request.groups.all(a, request.groups.all(b, a == b || a != b))"
    conditions, _ = compile_conditions([{"expression": expression}], FieldPath("p"))
    assert conditions is not None
    review = {"spec": {"groups": [f"g{number}" for number in range(100)]}}
    assert (conditions.quick(review), conditions.matches(review)) == (None, True)


def test_what_absent_fields_of_a_review_are_for_conditions() -> None:
    resource = "has(request.resourceAttributes)"
    selectors = "request.resourceAttributes."
    for spec, expressions in (
        ({}, ["request.user == ''", "request.uid == ''", "request.groups == []", "request.extra == {}", f"!{resource}",
              "!has(request.nonResourceAttributes)"]),
        ({"user": "u", "uid": "1", "groups": ["g"], "extra": {"a": ["b"]}},
         ["request.user + request.uid == 'u1'", "request.groups == ['g']", "request.extra == {'a': ['b']}"]),
        ({"group": ["g"]}, ["request.groups == ['g']"]),  # of v1beta1
        ({"resourceAttributes": {"verb": "get"}},
         [resource, f"{selectors}verb == 'get'", f"{selectors}name == ''", f"!has({selectors}fieldSelector)",
          f"!has({selectors}labelSelector)"]),
        ({"resourceAttributes": {"fieldSelector": {"rawSelector": "a=b"}, "labelSelector": {"requirements": []}}},
         [f"{selectors}fieldSelector.rawSelector == 'a=b'", f"!has({selectors}fieldSelector.requirements)",
          f"!has({selectors}labelSelector)"]),
        ({"resourceAttributes": {"labelSelector": {"requirements": [{"key": "k", "operator": "Exists"}]}}},
         [f"{selectors}labelSelector.requirements[0].key == 'k'"]),
        ({"nonResourceAttributes": {"path": "/x"}},
         ["request.nonResourceAttributes.path == '/x'", "request.nonResourceAttributes.verb == ''"]),
    ):  # fmt: skip
        for expression in expressions:
            conditions, errors = compile_conditions([{"expression": expression}], FieldPath("p"))
            assert conditions is not None and errors == []
            assert (conditions.matches({"spec": spec}), conditions.quick({"spec": spec})) == (True, True), expression


def test_how_many_conditions_there_may_be_and_what_is_wrong_with_each() -> None:
    many = [{"expression": f"request.user != '{number}'"} for number in range(65)]
    assert compile_conditions(many[:64], FieldPath("p"))[1] == []
    assert [str(error) for error in compile_conditions(many, FieldPath("p"))[1]] == [
        "p.matchConditions: Too many: 65: must have at most 64 items"
    ]
    given = [{"expression": each} for each in ("true", " ", "true", "1", "false")]
    found, errors = compile_conditions([*given, {}], FieldPath("p"))
    assert [str(error).partition(":")[0] for error in errors] == [
        f"p.matchConditions[{number}].expression" for number in (1, 2, 3, 5)
    ]
    assert found is not None and [expression for expression, _ in found.programs] == ["true", "false"]
    assert compile_conditions([], FieldPath("p")) == (None, [])
