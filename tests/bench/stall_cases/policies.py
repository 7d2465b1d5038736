"""What says who may do what: RBAC, webhooks, admission policies, priority and fairness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import SIZE, STORED, Case, Object, Place, config, many

RBAC, ADMISSION = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def rule(number: int) -> Object:
    return {"apiGroups": ["a.b"], "resources": [f"r{number}"], "verbs": ["get"]}


def _cluster(prefix: str, plural: str, make: Callable[[], Object]) -> Callable[[Place], Case]:
    return lambda place: place.create(prefix, plural, make(), namespaced=False)


def _as_user(place: Place, rules: list[Object], wanted: list[Object]) -> Case:
    """Somebody who has ``rules`` and may make roles, but not escalate, makes a role with ``wanted``."""
    user = place.name()
    roles = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}
    role = place.create(RBAC, "clusterroles", {"rules": [roles, *rules]}, namespaced=False)
    assert isinstance(role.request.body, dict)
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": role.request.body["metadata"]["name"],
    }
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = place.create(RBAC, "clusterrolebindings", {"roleRef": reference, "subjects": [subject]}, namespaced=False)
    case = place.create(RBAC, "roles", {"rules": wanted}, headers={"Impersonate_User": user})
    case.before = [role.request, binding.request]
    case.after += role.after + binding.after
    case.wait = 1.0
    return case


def _many_rules(place: Place) -> Case:
    rules = many(rule, STORED)
    return _as_user(place, rules, rules)


def _broad_rule(place: Place) -> Case:
    """Few bytes that mean a million single rules."""
    names = [f"n{index}" for index in range(100)]
    broad = {"apiGroups": names, "resources": names, "verbs": names}
    return _as_user(place, [{**broad, "verbs": [name]} for name in names], [broad])


def webhook(number: int, **more: Any) -> Object:
    return {
        "name": f"h{number}.a.b", "clientConfig": {"url": "https://a.example"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], **more,
    }  # fmt: skip


def hook_rule(number: int) -> Object:
    return {"apiGroups": ["a.b"], "apiVersions": ["v1"], "resources": [f"r{number}"], "operations": ["CREATE"]}


def _policy(**spec: Any) -> Object:
    constraints = {"resourceRules": [{**hook_rule(0), "resources": ["nothing"]}]}
    return {"spec": {"matchConstraints": constraints, "validations": [{"expression": "true"}], **spec}}


def _evaluated(*expressions: str, variables: list[Object] | None = None) -> Callable[[Place], Case]:
    """A large ConfigMap is judged by a policy."""

    def make(place: Place) -> Case:
        match = {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
            ]
        }
        validations = [{"expression": text} for text in expressions]
        policy = place.create(
            ADMISSION, "validatingadmissionpolicies",
            {"spec": {"matchConstraints": match, "validations": validations, "variables": variables or []}},
            namespaced=False,
        )  # fmt: skip
        assert isinstance(policy.request.body, dict)
        selector = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
        binding = place.create(
            ADMISSION, "validatingadmissionpolicybindings",
            {"spec": {"policyName": policy.request.body["metadata"]["name"], "validationActions": ["Deny"],
                      "matchResources": {"namespaceSelector": selector, "objectSelector": {"matchLabels": {"judged": "yes"}}}}},
            namespaced=False,
        )  # fmt: skip
        body = {**config(labels={"judged": "yes"}), "data": {f"k{index}": "a" * 80 for index in range(STORED // 100)}}
        case = place.create("/api/v1", "configmaps", body)
        case.before = [policy.request, binding.request]
        case.after += binding.after + policy.after
        case.wait = 2.0
        return case

    return make


def _large_role(*expressions: str) -> Callable[[Place], Case]:
    """As ``_evaluated``, with an object that no limit of its kind keeps small."""

    def make(place: Place) -> Case:
        case = _evaluated(*expressions)(place)
        policy, binding = case.before
        assert isinstance(policy.body, dict) and isinstance(binding.body, dict)
        match = policy.body["spec"]["matchConstraints"]["resourceRules"][0]
        match.update(apiGroups=["rbac.authorization.k8s.io"], resources=["roles"])
        role = place.create(RBAC, "roles", {"metadata": {"labels": {"judged": "yes"}}, "rules": many(rule)})
        role.before, role.wait = case.before, case.wait
        role.after += case.after
        return role

    return make


def _hook(kind: str, path: str, plural: str, size: int = SIZE) -> Callable[[Place], Case]:
    """A large object goes to a webhook and comes back."""

    def make(place: Place) -> Case:
        hook = place.hook(kind, path, place.namespace)
        hook["metadata"]["name"] = place.name()
        hook["webhooks"][0]["objectSelector"] = {"matchLabels": {"hooked": "yes"}}
        configuration = place.create(ADMISSION, plural, hook, namespaced=False)
        body = {**config(labels={"hooked": "yes"}), "data": {f"k{index}": "a" * 40 for index in range(size // 52)}}
        case = place.create("/api/v1", "configmaps", body)
        case.before = [configuration.request]
        case.after += configuration.after
        case.wait = 2.0
        return case

    return make


def _selected(place: Place) -> Case:
    """A small object is asked for the long selectors of a policy and its binding."""
    values = many(lambda i: f"v{i}", STORED)
    selector = {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": values}]}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]
    matched = {"resourceRules": rules, "objectSelector": selector}
    policy = place.create(
        ADMISSION, "validatingadmissionpolicies",
        _policy(matchConstraints=matched, matchConditions=[{"name": "m", "expression": "object.metadata.name != ''"}]),
        namespaced=False,
    )  # fmt: skip
    assert isinstance(policy.request.body, dict)
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    binding = place.create(ADMISSION, "validatingadmissionpolicybindings", {"spec": {
        "policyName": policy.request.body["metadata"]["name"], "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": namespaces, "objectSelector": selector}}}, namespaced=False)  # fmt: skip
    case = place.create("/api/v1", "configmaps", config(labels={"k": "x"}))
    case.before = [policy.request, binding.request]
    case.after += binding.after + policy.after
    case.wait = 2.0
    return case


def _matcher(number: int) -> Object:
    return {"expression": "true", "name": f"m{number}"}


CASES: dict[str, Callable[[Place], Case]] = {
    "role: rules": lambda place: place.create(RBAC, "roles", {"rules": many(rule)}),
    "role: resource names": lambda place: place.create(
        RBAC, "roles", {"rules": [{**rule(0), "resourceNames": many(lambda i: f"n{i}")}]}
    ),
    "cluster role: aggregation": _cluster(
        RBAC, "clusterroles",
        lambda: {"aggregationRule": {"clusterRoleSelectors": many(lambda i: {"matchLabels": {f"k{i}": "v"}})}},
    ),
    "role binding: subjects": lambda place: place.create(RBAC, "rolebindings", {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": many(lambda i: {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"u{i}"}),
    }),
    "escalation: many rules": _many_rules,
    "escalation: a broad rule": _broad_rule,
    "escalation: refused": lambda place: _as_user(place, many(rule, STORED), many(lambda i: rule(-i - 1), STORED)),
    "webhooks: many": _cluster(ADMISSION, "validatingwebhookconfigurations", lambda: {"webhooks": many(webhook)}),
    "webhooks: rules": _cluster(
        ADMISSION, "mutatingwebhookconfigurations",
        lambda: {"webhooks": [webhook(0, rules=many(hook_rule), reinvocationPolicy="Never")]},
    ),
    "webhooks: conditions": _cluster(
        ADMISSION, "validatingwebhookconfigurations", lambda: {"webhooks": [webhook(0, matchConditions=many(_matcher))]}
    ),
    "policy: validations": _cluster(
        ADMISSION, "validatingadmissionpolicies", lambda: _policy(validations=many(lambda i: {"expression": f"{i} > 0"}))
    ),
    "policy: variables": _cluster(
        ADMISSION, "validatingadmissionpolicies",
        lambda: _policy(variables=many(lambda i: {"name": f"v{i}", "expression": f"{i}"})),
    ),
    "policy: rules": _cluster(
        ADMISSION, "validatingadmissionpolicies", lambda: _policy(matchConstraints={"resourceRules": many(hook_rule)})
    ),
    "policy: one sum": _cluster(
        ADMISSION, "validatingadmissionpolicies",
        lambda: _policy(validations=[{"expression": "+".join(["1"] * (SIZE // 2)) + " > 0"}]),
    ),
    "policy: one list": _cluster(
        ADMISSION, "validatingadmissionpolicies",
        lambda: _policy(validations=[{"expression": "1 in [" + ",".join(["1"] * (SIZE // 2)) + "]"}]),
    ),
    "policy: parentheses": _cluster(
        ADMISSION, "validatingadmissionpolicies",
        lambda: _policy(validations=[{"expression": "(" * (SIZE // 2) + "1" + ")" * (SIZE // 2)}]),
    ),
    "CEL: nested loops": _evaluated("object.data.all(a, object.data.all(b, a + b != ''))"),
    "CEL: strings": _evaluated("object.data.all(k, object.data[k].matches('^(a|aa)+$'))"),
    "CEL: concatenation": _evaluated(
        "variables.c.size() > 0", variables=[{"name": "a", "expression": "object.data.map(k, object.data[k]).join('')"},
        {"name": "b", "expression": "variables.a" + " + variables.a" * 9},
        {"name": "c", "expression": "variables.b" + " + variables.b" * 9}],
    ),
    "CEL: lists": _evaluated(
        "variables.keys.isSorted() || variables.keys.sum() == '' || variables.keys.exists(k, k in variables.keys && false)",
        variables=[{"name": "keys", "expression": "object.data.map(k, k)"}],
    ),
    "CEL: equal lists": _evaluated(
        "variables.keys.all(k, variables.keys == variables.keys)",
        variables=[{"name": "keys", "expression": "object.data.map(k, k)"}],
    ),
    "CEL: a large object": _large_role("object.rules.all(r, r.verbs.all(v, v != ''))"),
    "CEL: a large object, all the same": _large_role("object == object && !object.rules.exists(r, r.resources == ['none'])"),
    "webhook called: mutating": _hook("MutatingWebhookConfiguration", "mutate", "mutatingwebhookconfigurations"),
    "webhook called: validating": _hook("ValidatingWebhookConfiguration", "validate", "validatingwebhookconfigurations"),
    "webhook called: growing": _hook("MutatingWebhookConfiguration", "grow", "mutatingwebhookconfigurations", STORED // 3),
    "policy: selectors asked": _selected,
    "flow schema: rules": _cluster(FLOW, "flowschemas", lambda: {"spec": {
        "matchingPrecedence": 9000, "priorityLevelConfiguration": {"name": "global-default"},
        "rules": many(lambda i: {
            "subjects": [{"kind": "User", "user": {"name": f"u{i}"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}),
    }}),
}  # fmt: skip
