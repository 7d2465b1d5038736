"""What webhooks answer, and what policies change, is processed in proportion to it, and holds the thread no longer."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kapi.admission.policy import mutating as policies
from kapi.admission.policy import validating as judging
from kapi.admission.webhook import mutating, validating
from kapi.machinery import warnings
from kapi.machinery.tree import Object
from tests.admission.fakes import FakeClient, FakeLister, attributes, finish, initializer
from tests.growth.counting import Text, effort, lines, steepest, stretches

ENTRIES = 400
LINES = 600  # that may run between two checkpoints
FACTOR = 6.0  # for four times as many entries
GROUP = "admissionregistration.k8s.io"
RULES = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
Work = Callable[[], None]


class Measured(Text):
    """To ask for its length is a line, too."""

    def __len__(self) -> int:
        return str.__len__(self)


class Answering:
    """The client of a webhook that answers every review so."""

    def __init__(self, response: Object) -> None:
        self.response = response

    async def post(self, config: Object, review: Object, *_: Any) -> Object:
        response = {"uid": review["request"]["uid"], "allowed": True, **self.response}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def role(count: int) -> Object:
    rules = [{"apiGroups": ["a.b"], "resources": [f"r{number}"], "verbs": ["get"]} for number in range(count)]
    metadata = {"name": "a", "namespace": "n", "labels": {"a": "b"}}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}


def asked(plugin: Any, obj: Object) -> Work:
    """One request about an object, whose configuration has been read."""

    def work() -> None:
        request = attributes(obj, group="rbac.authorization.k8s.io", resource="roles", kind="Role")
        finish(
            plugin.admit(request) if isinstance(plugin, mutating.MutatingAdmissionWebhook) else plugin.validate(request)
        )

    work()
    return work


def hook(plugin: Any, plural: str, response: Object) -> Any:
    client = FakeClient()
    webhook = {
        "name": "a.b.c", "clientConfig": {"url": "https://a"}, "rules": RULES, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    client.put(GROUP, plural, {"metadata": {"name": "a", "uid": "u"}, "webhooks": [webhook]})
    client.put("", "namespaces", {"metadata": {"name": "n"}})
    made = plugin(initializer(client), None)
    made.client = Answering(response)
    return made


def answered(**response: Any) -> Work:
    plugin = hook(validating.ValidatingAdmissionWebhook, "validatingwebhookconfigurations", response)
    return asked(plugin, role(1))


ANSWERS: dict[str, Callable[[int], Work]] = {
    "warnings": lambda count: answered(warnings=[Measured(chr(0x100 + number)) for number in range(count)]),
    "equal warnings": lambda count: answered(warnings=[Measured("a")] * count),
    "annotations": lambda count: answered(auditAnnotations={f"a{number}": "b" for number in range(count)}),
    "causes": lambda count: answered(status={"details": {"causes": [{"message": "m"}] * count}}),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_what_a_webhook_answers(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "MAX_CHARACTERS", 100 * ENTRIES)
    few, many = lines(ANSWERS[what](ENTRIES)), lines(ANSWERS[what](4 * ENTRIES))
    factor, where = steepest(few, many, 4 * ENTRIES)
    assert factor < FACTOR, where
    found = stretches(ANSWERS[what](4 * ENTRIES))
    assert found.longest < LINES, f"{found.longest} lines, {found.where}"


def test_no_more_warnings_are_read_than_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "MAX_CHARACTERS", 100)
    texts: list[str] = []
    warnings.add_all(texts, [chr(0x100 + number) for number in range(1000)])
    one_by_one: list[str] = []
    for number in range(1000):
        warnings.add(one_by_one, chr(0x100 + number))
    assert texts == one_by_one and len(texts) == 100
    warnings.add_all(one_by_one, ["more"])
    assert len(one_by_one) == 100


def patched_by_webhook(count: int) -> Work:
    patch = base64.b64encode(orjson.dumps([{"op": "add", "path": "/metadata/labels/c", "value": "d"}])).decode()
    response = {"patchType": "JSONPatch", "patch": patch}
    plugin = hook(mutating.MutatingAdmissionWebhook, "mutatingwebhookconfigurations", response)
    return asked(plugin, role(count))


def patched_by_policies(mutation: Object) -> Callable[[int], Work]:
    def make(count: int) -> Work:
        client = FakeClient()
        client.put("", "namespaces", {"metadata": {"name": "n"}})
        spec = {
            "matchConstraints": {"resourceRules": RULES},
            "reinvocationPolicy": "Never",
            "mutations": [mutation],
        }
        for name in "abc":
            client.put(GROUP, "mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
            bound = {"metadata": {"name": name}, "spec": {"policyName": name}}
            client.put(GROUP, "mutatingadmissionpolicybindings", bound)
        plugin = policies.MutatingAdmissionPolicy(initializer(client))
        obj = role(count)

        def work() -> None:
            request = attributes(obj, group="rbac.authorization.k8s.io", resource="roles", kind="Role")
            finish(plugin.admit(request))
            assert request.obj is not None and request.obj["metadata"]["labels"] == {"a": "b", "c": "d"}

        work()
        return work

    return make


JSON = "[JSONPatch{op: 'add', path: '/metadata/labels/c', value: 'd'}]"
APPLY = "Object{metadata: Object.metadata{labels: {'c': 'd'}}}"
CHANGES: dict[str, Callable[[int], Work]] = {
    "webhook": patched_by_webhook,
    "JSON patch": patched_by_policies({"patchType": "JSONPatch", "jsonPatch": {"expression": JSON}}),
    "apply": patched_by_policies({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": APPLY}}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_small_change_of_a_large_object_is_small_work(what: str) -> None:
    """Each of hundreds of policies may change a label: what it leaves is neither copied nor decoded again."""
    few, many = (effort(CHANGES[what](count)) for count in (ENTRIES, 4 * ENTRIES))
    assert many < few + ENTRIES, f"{few} lines, then {many}"


def judged_with_params(count: int) -> Work:
    """As many bindings as definitions, with parameters of the last definition's kind."""
    client = FakeClient()
    client.put("", "namespaces", {"metadata": {"name": "n"}})
    for number in range(count):
        names = {"kind": f"K{number}", "plural": f"r{number}"}
        spec = {"group": "g", "names": names, "scope": "Cluster", "versions": [{"name": "v1", "served": True}]}
        definition = {"metadata": {"name": f"r{number}.g"}, "spec": spec}
        client.put("apiextensions.k8s.io", "customresourcedefinitions", definition)
        reference = {"name": "a", "parameterNotFoundAction": "Allow"}
        bound = {"policyName": "p", "paramRef": reference, "validationActions": ["Deny"]}
        client.put(GROUP, "validatingadmissionpolicybindings", {"metadata": {"name": f"b{number}"}, "spec": bound})
    kind = {"apiVersion": "g/v1", "kind": f"K{count - 1}"}
    policy = {
        "matchConstraints": {"resourceRules": RULES},
        "paramKind": kind,
        "validations": [{"expression": "params.a"}],
    }
    client.put(GROUP, "validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": policy})
    return asked(judging.ValidatingAdmissionPolicy(initializer(client)), role(1))


def test_bindings_and_definitions_are_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLister, "changes", 0)  # a number, as that of a cache: to compare it is no work
    few, many = lines(judged_with_params(20)), lines(judged_with_params(80))
    factor, where = steepest(few, many, 80)
    assert factor < FACTOR, where


def test_the_parameters_of_a_binding_are_judged_in_steps() -> None:
    client = FakeClient()
    client.put("", "namespaces", {"metadata": {"name": "n"}})
    for number in range(ENTRIES):
        client.put("", "configmaps", {"metadata": {"name": f"m{number}", "namespace": "n", "labels": {"a": "b"}}})
    reference = {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}
    bound = {"policyName": "p", "paramRef": reference, "validationActions": ["Deny"]}
    client.put(GROUP, "validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})
    policy = {
        "matchConstraints": {"resourceRules": RULES},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.metadata.name != object.metadata.name"}],
    }
    client.put(GROUP, "validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": policy})
    work = asked(judging.ValidatingAdmissionPolicy(initializer(client)), role(1))
    work()  # what is imported and compiled with the first use is no work of this request
    found = stretches(work)
    assert found.longest < 2 * LINES, f"{found.longest} lines, {found.where}"
