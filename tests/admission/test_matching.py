"""Under which versions rules name a request."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.versions import in_version, to_storage
from kapi.admission.webhook.matching import Hook, Invocation, Rule, by_rules, exempt, read_hooks, rule_matches
from kapi.admission.webhook.review import BadReview, make_review, rejection
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object
from kapi.options.options import Options
from kapi.request.user import UserInfo
from tests.admission.fakes import FakeClient, attributes, initializer


def named(version: str, asked: str, *flags: str, equivalent: bool = True) -> str | None:
    """The version under which a rule for ``version`` of IP addresses names a request to another one."""
    rule = Rule.read(
        {
            "apiGroups": ["networking.k8s.io"],
            "apiVersions": [version],
            "operations": ["*"],
            "resources": ["ipaddresses"],
        }
    )
    what: dict[str, Any] = {"group": "networking.k8s.io", "resource": "ipaddresses", "kind": "IPAddress"}
    request = attributes({"metadata": {"name": "10.0.0.9"}}, version=asked, namespace="", **what)
    serves = Options.from_command_line(flags).api_enablement.enabled
    found = by_rules([rule], equivalent, initializer(serves=serves), request)
    if found is None:
        return None
    kind, resource = found
    assert kind.version == resource.version
    return resource.version


BETA = "--runtime-config=networking.k8s.io/v1beta1=true"


@pytest.mark.parametrize(
    ("version", "asked", "flags", "expected"),
    [
        ("v1", "v1", (), "v1"),
        ("v1beta1", "v1", (), None),
        ("v1beta1", "v1", (BETA,), "v1beta1"),
        ("v1", "v1beta1", (BETA,), "v1"),
        ("v1", "v1beta1", (BETA, "--runtime-config=networking.k8s.io/v1/ipaddresses=false"), None),
    ],
)
def test_only_versions_that_are_served_are_equivalent(
    version: str, asked: str, flags: tuple[str, ...], expected: str | None
) -> None:
    assert named(version, asked, *flags) == expected


@pytest.mark.parametrize(
    ("resource", "namespace", "scopes"),
    [("pods", "n", ("*", "Namespaced")), ("nodes", "", ("*", "Cluster")), ("namespaces", "n", ("*", "Cluster")),
     ("namespaces", "", ("*", "Cluster"))],
)  # fmt: skip
def test_a_rule_is_for_one_scope_and_a_namespace_is_of_the_cluster(
    resource: str, namespace: str, scopes: tuple[str, ...]
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    request = attributes({"metadata": {"name": "n"}}, resource=resource, namespace=namespace)
    found = {
        scope: by_rules([Rule.read({**rule, "scope": scope})], False, initializer(), request)
        for scope in ("*", "Namespaced", "Cluster", None)
    }
    assert {scope for scope, named in found.items() if named} == {*scopes, None}


def test_exact_rules_know_no_equivalents() -> None:
    assert named("v1beta1", "v1", BETA, equivalent=False) is None


def test_events_of_both_groups_are_the_same_objects() -> None:
    rule = Rule.read({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]})
    event = attributes(
        {"metadata": {"name": "e"}}, group="events.k8s.io", version="v1", resource="events", kind="Event"
    )
    found = by_rules([rule], True, initializer(), event)
    assert found is not None
    assert [str(part.group) + "/" + part.version for part in found] == ["/v1", "/v1"]


def test_an_object_has_the_version_under_which_a_rule_names_it() -> None:
    kind = GroupVersionKind("x.io", "v1", "Thing")
    same = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}}
    assert in_version(same, kind) is same
    for other in ({**same, "apiVersion": "x.io/v2"}, {**same, "kind": "Other"}):
        assert in_version(other, kind) == same
    assert in_version(None, kind) is None and in_version(same, GroupVersionKind("", "", "")) is same


RULE: Object = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}


@pytest.mark.parametrize(
    ("rule", "subresource", "namespace", "matches"),
    [
        ({}, "", "n", True), ({}, "scale", "n", False), ({"resources": ["deployments/scale"]}, "scale", "n", True),
        ({"resources": ["deployments/scale"]}, "", "n", False), ({"resources": ["deployments/*"]}, "", "n", True),
        ({"resources": ["deployments/*"]}, "scale", "n", True), ({"resources": ["*"]}, "", "n", True),
        ({"resources": ["*"]}, "scale", "n", False), ({"resources": ["*/scale"]}, "scale", "n", True),
        ({"resources": ["*/*"]}, "scale", "n", True), ({"resources": ["pods", "deployments"]}, "", "n", True),
        ({"resources": ["pods"]}, "", "n", False), ({"resources": []}, "", "n", False),
        ({"operations": ["*"]}, "", "n", True), ({"operations": ["CREATE"]}, "", "n", False),
        ({"operations": ["CREATE", "UPDATE"]}, "", "n", True), ({"apiGroups": ["*"]}, "", "n", True),
        ({"apiGroups": [""]}, "", "n", False), ({"apiVersions": ["*"]}, "", "n", True), ({"apiVersions": ["v2"]}, "", "n", False),
        ({"scope": "*"}, "", "n", True), ({"scope": "*"}, "", "", True), ({"scope": "Namespaced"}, "", "n", True),
        ({"scope": "Namespaced"}, "", "", False), ({"scope": "Cluster"}, "", "n", False), ({"scope": "Cluster"}, "", "", True),
    ],
)  # fmt: skip
def test_what_a_rule_is_for(rule: Object, subresource: str, namespace: str, matches: bool) -> None:
    asked = attributes(
        {"metadata": {"name": "d"}}, operation="UPDATE", group="apps", resource="deployments", kind="Deployment",
        subresource=subresource, namespace=namespace,
    )  # fmt: skip
    assert rule_matches(Rule.read({**RULE, **rule}), asked, asked.resource) is matches


def test_a_namespace_is_of_the_cluster_though_a_request_for_one_has_a_namespace() -> None:
    asked = attributes({"metadata": {"name": "n"}}, resource="namespaces", kind="Namespace", namespace="n")
    rule = {**RULE, "apiGroups": [""], "operations": ["*"], "resources": ["namespaces"]}
    found = [
        rule_matches(Rule.read({**rule, "scope": scope}), asked, asked.resource) for scope in ("Cluster", "Namespaced")
    ]
    assert found == [True, False]


def test_a_webhook_without_values_has_those_of_the_api() -> None:
    hook = Hook.read({"name": "h", "clientConfig": {"url": "u"}}, "c", "i")
    assert (hook.rules, hook.review_versions, hook.conditions, hook.timeout, hook.side_effects) == ((), (), (), 10, "")
    assert (hook.equivalent, hook.ignore_failures, hook.reinvoke, hook.static) == (True, False, False, False)
    assert hook.namespaces.matches({}) and hook.objects.matches({"a": "b"})
    given = {
        "name": "h", "clientConfig": {}, "matchPolicy": "Exact", "failurePolicy": "Ignore", "timeoutSeconds": 7,
        "sideEffects": "None", "reinvocationPolicy": "IfNeeded", "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "m", "expression": "true"}], "objectSelector": {"matchLabels": {"a": "b"}},
    }  # fmt: skip
    hook = Hook.read(given, "c", "i")
    assert (hook.equivalent, hook.ignore_failures, hook.timeout, hook.reinvoke) == (False, True, 7, True)
    assert hook.side_effects == "None"
    assert (hook.review_versions, hook.conditions) == (("v1",), (("m", "true"),))
    assert [hook.objects.matches(labels) for labels in ({}, {"a": "b"})] == [False, True]


def test_webhooks_come_by_the_names_of_their_configurations_those_of_files_first() -> None:
    def configuration(name: str, *hooks: str) -> Object:
        return {"metadata": {"name": name}, "webhooks": [{"name": hook, "clientConfig": {}} for hook in hooks]}

    client = FakeClient()
    client.put("g", "r", configuration("b", "x", "y", "x"), configuration("a", "z"))
    found = read_hooks(client.resource("g", "r").lister, [configuration("m", "f")])
    assert [(hook.uid, hook.configuration, hook.static) for hook in found] == [
        ("manifest/m/f/0", "m", True), ("a/z/0", "a", False), ("b/x/0", "b", False), ("b/y/0", "b", False), ("b/x/1", "b", False),
    ]  # fmt: skip


@pytest.mark.parametrize(("group", "free"), [("admissionregistration.k8s.io", True), ("example.com", False)])
def test_configurations_are_not_subject_to_webhooks(group: str, free: bool) -> None:
    for kind in ("ValidatingWebhookConfiguration", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        assert exempt(attributes({}, group=group, kind=kind)) is free
    assert not exempt(attributes({}, group=group, kind="Other"))


def test_a_review_of_a_subresource_in_another_version() -> None:
    hook = Hook.read({"name": "h", "clientConfig": {}, "admissionReviewVersions": ["v9", "v1beta1", "v1"]}, "c", "i")
    kind, resource = (
        GroupVersionKind("apps", "v1beta1", "Deployment"),
        GroupVersionResource("apps", "v1beta1", "deployments"),
    )
    asked = attributes(
        {"metadata": {"name": "d"}}, operation="UPDATE", group="apps", resource="deployments", kind="Deployment",
        subresource="status", options={"kind": "UpdateOptions"}, user=UserInfo("u"), dry_run=True,
    )  # fmt: skip
    uid, version, review = make_review(asked, Invocation(hook, kind, resource), {"a": "b"})
    assert (version, review["apiVersion"], review["kind"]) == ("v1beta1", "admission.k8s.io/v1beta1", "AdmissionReview")
    assert review["request"] == {
        "uid": uid, "kind": {"group": "apps", "version": "v1beta1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1beta1", "resource": "deployments"}, "subResource": "status",
        "requestKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"}, "requestSubResource": "status",
        "name": "d", "namespace": "n", "operation": "UPDATE", "userInfo": {"username": "u"}, "object": {"a": "b"},
        "oldObject": None, "dryRun": True, "options": {"kind": "UpdateOptions"},
    }  # fmt: skip
    generated = attributes({"metadata": {"generateName": "d"}}, namespace="", options={})
    request = make_review(generated, Invocation(hook, kind, resource), None)[2]["request"]
    assert {"name", "namespace", "subResource", "requestSubResource"}.isdisjoint(request)
    assert request["options"] is None
    with pytest.raises(BadReview, match="does not accept known AdmissionReview versions"):
        make_review(asked, Invocation(Hook.read({"name": "h", "clientConfig": {}}, "c", "i"), kind, resource), None)


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (None, " without explanation", 400), ({}, " without explanation", 400), ({"reason": "R"}, ": R", 400),
        ({"reason": "R", "message": "m"}, ": m", 400), ({"code": 399}, " without explanation", 400),
        ({"code": 401}, " without explanation", 401), ({"code": 999}, " without explanation", 999),
        ({"code": 1000}, " without explanation", 500),
    ],
)  # fmt: skip
def test_how_a_refusal_is_answered(status: Object | None, text: str, code: int) -> None:
    error = rejection("h", status)
    assert (error.message, error.code) == (f'admission webhook "h" denied the request{text}', code)
    assert error.reason == ((status or {}).get("reason") or "")


class Custom:
    """A row of a custom resource with two versions, of which v1 is the one of the registry."""

    kind = "Thing"

    def __init__(self) -> None:
        self.strategy = self
        self.defaulted: list[Object] = []

    def default_changed(self, obj: Object) -> None:
        self.defaulted.append(obj)

    def other_versions(self) -> Any:
        return {
            "x.io/v2": (
                None,
                lambda obj: {**obj, "apiVersion": "x.io/v2"},
                lambda obj: {**obj, "apiVersion": "x.io/v1"},
            )
        }


@pytest.mark.parametrize(
    ("kind", "version", "there", "back", "changed"),
    [
        ("Thing", "v2", "x.io/v2", "x.io/v1", True), ("Thing", "v1", "x.io/v1", "x.io/v1", True),
        ("Other", "v2", "x.io/v1", "x.io/v1", False),
    ],
)  # fmt: skip
def test_a_custom_resource_goes_to_another_version_and_back(
    kind: str, version: str, there: str, back: str, changed: bool
) -> None:
    """What comes back has its defaults, and its unknown fields are still to be dropped."""
    row, asked = Custom(), attributes({"metadata": {"name": "a"}}, group="x.io", kind="Thing", resource="things")
    asked.custom_resource = row  # type: ignore[assignment]
    obj = {"apiVersion": "x.io/v1", "kind": "Thing"}
    shown = in_version(obj, GroupVersionKind("x.io", version, kind), asked)
    assert shown is not None and shown["apiVersion"] == there
    kept = to_storage(shown, GroupVersionKind("x.io", version, kind), obj, asked)
    assert (kept["apiVersion"], row.defaulted, asked.unpruned) == (back, [kept] if changed else [], changed)


def test_an_object_of_an_unknown_kind_keeps_the_version_that_is_stored() -> None:
    kind, stored = GroupVersionKind("x.io", "v2", "Thing"), {"apiVersion": "x.io/v1", "kind": "Thing"}
    assert in_version(stored, kind) == {"apiVersion": "x.io/v2", "kind": "Thing"}
    assert to_storage({"apiVersion": "x.io/v2", "kind": "Thing", "a": 1}, kind, stored) == {**stored, "a": 1}
    assert in_version(None, kind) is None and in_version(stored, GroupVersionKind("", "", "")) is stored
    old, new = (GroupVersionKind("resource.k8s.io", version, "ResourceClaim") for version in ("v1beta1", "v1"))
    spec = {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}
    claim = to_storage({"metadata": {"name": "c"}, "spec": spec}, old, {"apiVersion": str(new.group_version)})
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "c"
    shown = in_version(claim, old)
    assert shown is not None and shown["spec"]["devices"]["requests"][0]["deviceClassName"] == "c"
