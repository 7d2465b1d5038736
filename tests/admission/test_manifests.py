"""Webhook configurations and policies from files of the server."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from twisted.internet import reactor

from kapi.admission.manifests import FIELD, GATE, manifests_of
from kapi.admission.metrics import Meter
from kapi.admission.policy.validating import ValidatingAdmissionPolicy
from kapi.admission.webhook.validating import ValidatingAdmissionWebhook
from kapi.machinery.feature_gates import resolve
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration import policies, webhooks
from kapi.resources.definition import StrategyContext
from tests.admission.fakes import FakeClient, attributes, finish, initializer
from tests.admission.test_policies import GROUP, RULES, config_map
from tests.admission.webhook_case import WebhookTestCase, respond

FEATURES = resolve({GATE: True})
ROWS = (policies.VALIDATING, policies.VALIDATING_BINDING)
API = "admissionregistration.k8s.io/v1"
NAME = "p.static.k8s.io"
HOOKS = {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}


def policy(name: str = NAME, expression: str = "false", **spec: Any) -> Object:
    rules = {"matchConstraints": RULES, "validations": [{"expression": expression, "message": f"by {name}"}]}
    return {
        "apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {**rules, **spec},
    }  # fmt: skip


def binding(name: str = "b.static.k8s.io", to: str = NAME, **spec: Any) -> Object:
    return {
        "apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": to, "validationActions": ["Deny"], **spec},
    }  # fmt: skip


class Files:
    """A directory of manifests, and the plugin that reads it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.client = FakeClient()
        self.client.put("", "namespaces", {"metadata": {"name": "n"}})
        self.registry = CollectorRegistry()
        self.initializer = initializer(self.client, features=FEATURES, meter=Meter(self.registry))

    def write(self, *objects: Object, name: str = "a.yaml") -> None:
        (self.directory / name).write_text("---\n".join(yaml.safe_dump(obj) for obj in objects))

    def plugin(self) -> ValidatingAdmissionPolicy:
        return ValidatingAdmissionPolicy(self.initializer, {FIELD: str(self.directory)})

    def reloads(self, status: str) -> float:
        name = "apiserver_manifest_admission_config_controller_automatic_reloads_total"
        families = (family for family in self.registry.collect() if f"{family.name}_total" == name)
        samples = (sample for family in families for sample in family.samples)
        return sum(sample.value for sample in samples if sample.labels["status"] == status)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def refusal(plugin: ValidatingAdmissionPolicy, obj: Object, **request: Any) -> str:
    try:
        finish(plugin.validate(attributes(obj, **{"resource": "configmaps", "kind": "ConfigMap", **request})))
    except StatusError as error:
        return error.message
    return ""


def test_a_policy_in_a_file_refuses_without_an_object_in_the_api(files: Files) -> None:
    files.write(policy(), binding())
    assert f"by {NAME}" in refusal(files.plugin(), config_map())


def test_lists_json_and_other_files(files: Files) -> None:
    files.write({"apiVersion": "v1", "kind": "List", "items": [policy()]})
    files.write(binding(), name="b.JSON")
    files.write({"kind": "Nothing"}, name="notes.txt")
    (files.directory / "below.yaml").mkdir()
    assert f"by {NAME}" in refusal(files.plugin(), config_map())


def test_configurations_are_seen_by_files_alone(files: Files) -> None:
    files.write(policy(matchConstraints=HOOKS), binding())
    mine = {**policy("mine", matchConstraints=HOOKS), "metadata": {"name": "mine", "resourceVersion": "1"}}
    files.client.put(GROUP, "validatingadmissionpolicies", mine)
    to_mine = {"metadata": {"name": "b"}, "spec": {"policyName": "mine", "validationActions": ["Deny"]}}
    files.client.put(GROUP, "validatingadmissionpolicybindings", to_mine)
    plugin = files.plugin()
    policies_in_api = {
        "group": GROUP, "version": "v1", "resource": "validatingadmissionpolicies", "kind": "ValidatingAdmissionPolicy",
        "namespace": "",
    }  # fmt: skip
    said = refusal(plugin, {"metadata": {"name": "new"}}, **policies_in_api)
    assert f"by {NAME}" in said and "by mine" not in said
    reviews = {"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "kind": "SubjectAccessReview"}
    assert refusal(plugin, {"metadata": {"name": ""}}, version="v1", namespace="", **reviews) == ""


def test_a_binding_in_the_api_does_not_bind_a_policy_of_a_file(files: Files) -> None:
    files.write(policy())
    foreign = {"metadata": {"name": "b"}, "spec": {"policyName": NAME, "validationActions": ["Deny"]}}
    files.client.put(GROUP, "validatingadmissionpolicybindings", foreign)
    assert refusal(files.plugin(), config_map()) == ""


def test_changed_files_are_taken_up_and_wrong_ones_change_nothing(files: Files) -> None:
    files.write(policy(), binding())
    plugin = files.plugin()
    assert (files.reloads("success"), files.reloads("failure")) == (1, 0)
    plugin.reload()
    assert files.reloads("success") == 1, "nothing has changed"
    files.write(policy(expression="not an expression"), binding())
    plugin.reload()
    assert f"by {NAME}" in refusal(plugin, config_map())
    assert (files.reloads("success"), files.reloads("failure")) == (1, 1)
    files.write(policy(expression="true"), binding())
    plugin.reload()
    assert refusal(plugin, config_map()) == ""
    (files.directory / "a.yaml").unlink()
    plugin.reload()
    assert refusal(plugin, config_map()) == ""
    assert (files.reloads("success"), files.reloads("failure")) == (3, 1)
    files.write(policy(), binding())
    plugin.reload()
    shutil.rmtree(files.directory)
    plugin.reload()
    assert f"by {NAME}" in refusal(plugin, config_map())
    assert (files.reloads("success"), files.reloads("failure")) == (4, 2)


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([policy(""), binding()], 'resource in file "{path}" must have a name'),
        ([policy("p")], '"p" in file "{path}" must have a name ending with ".static.k8s.io"'),
        ([policy(), policy()], f'duplicate name "{NAME}" found in file "{{path}}"'),
        ([policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"})], "spec.paramKind is not supported"),
        ([policy(), binding(to="p")], 'spec.policyName "p" must end with ".static.k8s.io"'),
        ([binding()], f'binding "b.static.k8s.io" references policy "{NAME}" which does not exist'),
        ([policy(validations=[])], "validations or auditAnnotations must contain at least one item"),
        ([policy(more=1)], 'unknown field "spec.more"'),
        (
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}}],
            "unsupported resource type v1, Kind=Con",
        ),
        (
            [policy(), binding(paramRef={"name": "x", "parameterNotFoundAction": "Deny"})],
            "spec.paramRef is not supported",
        ),
        (["x"], "couldn't get version/kind"),
        ([{"apiVersion": "v1", "kind": "List", "items": ["x"]}], "error loading {path}: Object 'Kind' is missing"),
    ],
)
def test_files_that_cannot_be_used_end_the_start(files: Files, objects: list[Object], text: str) -> None:
    files.write(*objects)
    with pytest.raises(ValueError) as caught:
        files.plugin()
    assert text.format(path=files.directory / "a.yaml") in str(caught.value)


@pytest.mark.parametrize(
    ("directory", "on", "text"),
    [
        (
            "/",
            False,
            f"staticManifestsDir: Forbidden: staticManifestsDir requires the {GATE} feature gate to be enabled",
        ),
        ("relative", True, 'staticManifestsDir: Invalid value: "relative": must be an absolute file path'),
        ("/no/such", True, 'Invalid value: "/no/such": unable to read: stat /no/such: no such file or directory'),
        (__file__, True, "must be a directory"),
    ],
)
def test_directories_that_cannot_be_used(directory: str, on: bool, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        manifests_of("P", initializer(features=resolve({GATE: on})), {FIELD: directory}, ROWS)
    assert text in str(caught.value)


@pytest.mark.parametrize("row", [*ROWS, webhooks.VALIDATING, webhooks.MUTATING], ids=lambda row: row.kind)
def test_the_api_makes_no_object_with_a_name_of_files(row: Any) -> None:
    obj = {"metadata": {"name": NAME}, "spec": {}}

    def said(on: bool) -> list[str]:
        context = StrategyContext("", NAME, features=resolve({GATE: on}))
        return [str(error) for error in row.strategy.validate(obj, context) if "static" in str(error)]

    assert said(False) == []
    (text,) = said(True)
    assert text.startswith(f'metadata.name: Invalid value: "{NAME}": names ending with ".static.k8s.io" are reserved')


class ManifestWebhooks(WebhookTestCase):
    def configuration(self, **client: Any) -> Object:
        hook = self.hook(lambda review: respond(review, allowed=False))
        hook["clientConfig"] = {**hook["clientConfig"], **client}
        hook["rules"] = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
        name = {"name": "w.static.k8s.io"}
        return {"apiVersion": API, "kind": "ValidatingWebhookConfiguration", "metadata": name, "webhooks": [hook]}

    def plugin(self, configuration: Object) -> ValidatingAdmissionWebhook:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        directory = Path(made.name)
        (directory / "w.yaml").write_text(yaml.safe_dump(configuration))
        client = FakeClient()
        client.put("", "namespaces", {"metadata": {"name": "default"}})
        plugin = ValidatingAdmissionWebhook(
            initializer(client, features=FEATURES, reactor=reactor), {FIELD: str(directory)}
        )
        self.plugins.append(plugin)
        return plugin

    async def test_a_webhook_in_a_file_sees_configurations_too(self) -> None:
        plugin = self.plugin(self.configuration())
        of_configurations = {
            "group": GROUP, "version": "v1", "resource": "mutatingwebhookconfigurations",
            "kind": "MutatingWebhookConfiguration", "namespace": "",
        }  # fmt: skip
        for request in (self.attributes(), attributes({"metadata": {"name": "m"}}, **of_configurations)):
            with self.assertRaisesRegex(StatusError, 'admission webhook "h0.example.com" denied the request'):
                waiting = plugin.validate(request)
                assert waiting is not None
                await waiting

    def test_a_webhook_needs_an_address(self) -> None:
        service = {"namespace": "ns", "name": "s"}
        for client, text in (
            ({"service": service, "url": None}, "clientConfig.service is not supported for static manifests"),
            ({"url": None}, "exactly one of url or service is required"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                self.plugin(self.configuration(**client))
