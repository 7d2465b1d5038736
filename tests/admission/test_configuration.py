"""The file of --admission-control-config-file, and PodSecurity configured by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kapi.admission.configuration import load_configurations
from kapi.admission.podsecurity import plugin as podsecurity
from kapi.admission.quota.plugin import ResourceQuota
from kapi.machinery.status import Forbidden
from kapi.machinery.tree import Object
from tests.admission.fakes import FakeClient, attributes, finish, initializer, pod

_FILE = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: restricted, enforce-version: latest}
    exemptions: {namespaces: [free]}
- name: EventRateLimit
  path: limits.yaml
"""
_LIMITS = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"


def test_plugins_have_their_configuration_there_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text(_LIMITS + "limits: [{type: Server, qps: 1, burst: 2}]\n")
    (tmp_path / "admission.yaml").write_text(_FILE)
    found = load_configurations(str(tmp_path / "admission.yaml"))
    assert found["EventRateLimit"]["limits"][0]["burst"] == 2
    assert found["PodSecurity"]["defaults"]["enforce"] == "restricted"
    assert load_configurations("") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "want a mapping"),
        ("x", "want a mapping"),
        ("kind: Pod", 'no kind "Pod" is registered for version "": want AdmissionConfiguration'),
        ("a: [", "not YAML"),
        ("[" * 100_000, "not YAML"),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: X",
            'no kind "X" is registered for version "apiserver.config.k8s.io/v1": want ',
        ),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"f\.yaml: {why}"):
        load_configurations(str(path))


def _file_of(tmp_path: Path, plugin: str, configuration: Object, version: str = "apiserver.config.k8s.io/v1") -> str:
    entry = {"name": plugin, "configuration": configuration}
    document = {"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": [entry]}
    (tmp_path / "admission.yaml").write_text(json.dumps(document))
    return str(tmp_path / "admission.yaml")


@pytest.mark.parametrize(
    ("plugin", "api_version", "kind"),
    [
        ("ResourceQuota", "apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("ResourceQuota", "resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("ResourceQuota", "resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
        ("ValidatingAdmissionWebhook", "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"),
        ("ValidatingAdmissionPolicy", "apiserver.config.k8s.io/v1", "ValidatingAdmissionPolicyConfiguration"),
        ("MutatingAdmissionPolicy", "apiserver.config.k8s.io/v1", "MutatingAdmissionPolicyConfiguration"),
        ("MutatingAdmissionWebhook", "apiserver.config.k8s.io/v1alpha1", "WebhookAdmission"),
        ("PodSecurity", "pod-security.admission.config.k8s.io/v1beta1", "PodSecurityConfiguration"),
        ("PodSecurity", "pod-security.admission.config.k8s.io/v1alpha1", "PodSecurityConfiguration"),
        ("PodTolerationRestriction", "podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration"),
    ],
)
def test_every_version_that_upstream_reads_is_read(tmp_path: Path, plugin: str, api_version: str, kind: str) -> None:
    given = {"apiVersion": api_version, "kind": kind}
    for version in ("apiserver.k8s.io/v1alpha1", "apiserver.config.k8s.io/v1"):
        assert load_configurations(_file_of(tmp_path, plugin, given, version)) == {plugin: given}
    for other in ({**given, "kind": "Other"}, {**given, "apiVersion": "v1"}, {}):
        with pytest.raises(ValueError, match=f"{plugin}: no kind .* is registered for version .*: want .*{kind}"):
            load_configurations(_file_of(tmp_path, plugin, other))


@pytest.mark.parametrize(
    ("field", "plugin"), [("imagePolicy", "ImagePolicyWebhook"), ("podNodeSelectorPluginConfig", "PodNodeSelector")]
)
def test_a_file_of_one_plugin_needs_no_kind(tmp_path: Path, field: str, plugin: str) -> None:
    path = tmp_path / "alone.yaml"
    path.write_text(f"{field}: {{a: b}}\n")
    assert load_configurations(str(path)) == {plugin: {field: {"a": "b"}}}


def test_of_two_entries_the_first_is_used_and_unknown_fields_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
    path.write_text(head + "- {name: X, configuration: {size: 1}}\n- {name: X, configuration: {size: 2}}\n")
    assert load_configurations(str(path)) == {"X": {"size": 1}}
    path.write_text(head + "- {name: X, configuration: {size: 1}, path: missing.yaml}\n- {name: Z}\n")
    assert load_configurations(str(path)) == {"X": {"size": 1}}
    path.write_text(head + "- {name: X, configurations: {}}\n")
    for entry in ("- {configuration: {}}", '- {name: "", path: x}', "- null"):
        path.write_text(head + entry)
        with pytest.raises(ValueError, match=r"f\.yaml: plugins: want a list of entries with a name"):
            load_configurations(str(path))
    path.write_text(head + "- {name: X, path: missing.yaml}\n")
    with pytest.raises(
        ValueError, match=r"unable to read admission control configuration from .*missing\.yaml: No such file"
    ):
        load_configurations(str(path))
    path.write_text(head + "- {name: X, configurations: {}}\n")
    with pytest.raises(ValueError, match=r'unknown field "plugins\[0\]\.configurations"'):
        load_configurations(str(path))


def test_defaults_and_exemptions_of_pod_security(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text(_LIMITS + "limits: []\n")
    (tmp_path / "admission.yaml").write_text(_FILE)
    configuration: Any = load_configurations(str(tmp_path / "admission.yaml"))["PodSecurity"]
    client = FakeClient()
    client.put("", "namespaces", {"metadata": {"name": "n"}}, {"metadata": {"name": "free"}})
    plugin = podsecurity.PodSecurity(initializer(client), configuration)
    with pytest.raises(Forbidden) as caught:
        finish(plugin.validate(attributes(pod())))
    assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in caught.value.message
    finish(plugin.validate(attributes(pod(), namespace="free")))


_SECURITY: Object = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
_QUOTA: Object = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}
_WEBHOOKS: Object = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration"}
_POLICIES: Object = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ValidatingAdmissionPolicyConfiguration"}


@pytest.mark.parametrize(
    ("plugin", "configuration", "why"),
    [
        ("PodSecurity", {**_SECURITY, "exemptions": {"namespaces": "free"}}, "exemptions.namespaces: must be a list"),
        ("PodSecurity", {**_SECURITY, "exemptions": {"namespace": []}}, 'unknown field "exemptions.namespace"'),
        ("PodSecurity", {**_SECURITY, "defaults": {"enforce": 1}}, "defaults.enforce: must be a string"),
        ("PodSecurity", {**_SECURITY, "default": {}}, 'unknown field "default"'),
        ("ResourceQuota", {**_QUOTA, "limited": []}, 'unknown field "limited"'),
        (
            "ResourceQuota",
            {**_QUOTA, "limitedResources": [{"resource": "pods", "matchScopes": [{"scope": "x"}]}]},
            'unknown field "limitedResources[0].matchScopes[0].scope"',
        ),
        ("MutatingAdmissionWebhook", {**_WEBHOOKS, "kubeconfigFile": "/x"}, 'unknown field "kubeconfigFile"'),
        ("ValidatingAdmissionPolicy", {**_POLICIES, "kubeConfigFile": "/x"}, 'unknown field "kubeConfigFile"'),
    ],
)
def test_configurations_of_plugins_are_read_strictly(
    tmp_path: Path, plugin: str, configuration: Object, why: str
) -> None:
    with pytest.raises(ValueError) as caught:
        load_configurations(_file_of(tmp_path, plugin, configuration))
    assert str(caught.value) == f"{tmp_path / 'admission.yaml'}: {plugin}: strict decoding error: {why}"


@pytest.mark.parametrize(
    ("plugin", "configuration", "why"),
    [
        ("EventRateLimit", {"limits": [{"type": "Server", "qps": "5"}]}, "limits[0].qps: must be an integer"),
        ("EventRateLimit", {"limits": [{"type": "Server", "burst": True}]}, "limits[0].burst: must be an integer"),
        ("ImagePolicyWebhook", {"imagePolicy": {"defaultAllow": "false"}}, "imagePolicy.defaultAllow: must be a bool"),
        ("PodNodeSelector", {"podNodeSelectorPluginConfig": ["a=b"]}, "podNodeSelectorPluginConfig: must be an object"),
        (
            "PodNodeSelector",
            {"podNodeSelectorPluginConfig": {"n": 1}},
            "podNodeSelectorPluginConfig.n: must be a string",
        ),
        ("PodTolerationRestriction", {"default": {"key": "a"}}, "default: must be a list"),
    ],
)
def test_values_have_the_types_that_plugins_expect(
    tmp_path: Path, plugin: str, configuration: Object, why: str
) -> None:
    kinds = {"EventRateLimit": "eventratelimit", "PodTolerationRestriction": "podtolerationrestriction"}
    head: Object = {}
    if plugin in kinds:
        head = {"apiVersion": f"{kinds[plugin]}.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    with pytest.raises(ValueError) as caught:
        load_configurations(_file_of(tmp_path, plugin, {**head, **configuration}))
    assert str(caught.value).endswith(f": {plugin}: strict decoding error: {why}")
    further = {**head, "further": 1}  # these plugins ignore what they do not know
    assert load_configurations(_file_of(tmp_path, plugin, further)) == {plugin: further}
    if not head:
        path = tmp_path / "alone.yaml"
        path.write_text(json.dumps(configuration))
        with pytest.raises(ValueError, match=f"alone.yaml: {plugin}: strict decoding error: "):
            load_configurations(str(path))


def test_a_key_that_is_there_twice_is_an_error_in_either_file(tmp_path: Path) -> None:
    path, other = tmp_path / "f.yaml", tmp_path / "security.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: PodSecurity"
    other.write_text(
        f"apiVersion: {_SECURITY['apiVersion']}\nkind: PodSecurityConfiguration\ndefaults: {{}}\ndefaults: {{}}\n"
    )
    for text, where in (
        (f"{head}, path: security.yaml}}]\n", f"{path}: PodSecurity: "),
        (f"{head}, configuration: {{defaults: {{}}, defaults: {{}}}}}}]\n", f"{path}: "),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match='key "defaults" already set in map') as caught:
            load_configurations(str(path))
        assert str(caught.value).startswith(where + "strict decoding error: ")


def test_what_pod_security_and_quotas_cannot_use_is_refused_with_all_reasons() -> None:
    wrong = {
        "defaults": {"enforce": "basic", "audit-version": "1.30"},
        "exemptions": {"usernames": ["", "a", "a"], "namespaces": ["N"], "runtimeClasses": ["a", "a"]},
    }
    with pytest.raises(ValueError) as caught:
        podsecurity.PodSecurity(initializer(FakeClient()), wrong)
    text = str(caught.value)
    namespace = text.partition('exemptions.namespaces[0]: Invalid value: "N": ')[2].partition(", exemptions.")[0]
    assert text == (
        '[defaults.enforce: Invalid value: "basic": must be one of privileged, baseline, restricted, '
        'defaults.audit-version: Invalid value: "1.30": must be "latest" or "v1.x", '
        f'exemptions.namespaces[0]: Invalid value: "N": {namespace}, '
        'exemptions.runtimeClasses[1]: Duplicate value: "a", '
        'exemptions.usernames[0]: Invalid value: "": username must not be empty, '
        'exemptions.usernames[2]: Duplicate value: "a"]'
    )
    assert namespace.startswith("a lowercase RFC 1123 label must consist of")
    with pytest.raises(ValueError, match=r"^limitedResources\[0\]\.resource: Required value$"):
        ResourceQuota(initializer(FakeClient()), {"limitedResources": [{"apiGroup": "apps"}]})
