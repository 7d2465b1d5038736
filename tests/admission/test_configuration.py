"""The file of --admission-control-config-file, and PodSecurity configured by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kapi.admission.configuration import load_configurations
from kapi.admission.podsecurity import plugin as podsecurity
from kapi.machinery.status import Forbidden
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


def test_plugins_have_their_configuration_there_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("limits: [{type: Server, qps: 1, burst: 2}]\n")
    (tmp_path / "admission.yaml").write_text(_FILE)
    found = load_configurations(str(tmp_path / "admission.yaml"))
    assert found["EventRateLimit"]["limits"][0]["burst"] == 2
    assert found["PodSecurity"]["defaults"]["enforce"] == "restricted"
    assert load_configurations("") == {}


@pytest.mark.parametrize("text", ["[]", "kind: Pod", "a: [", "apiVersion: apiserver.config.k8s.io/v1\nkind: X"])
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"f\.yaml"):
        load_configurations(str(path))


def test_defaults_and_exemptions_of_pod_security(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("limits: []\n")
    (tmp_path / "admission.yaml").write_text(_FILE)
    configuration: Any = load_configurations(str(tmp_path / "admission.yaml"))["PodSecurity"]
    client = FakeClient()
    client.put("", "namespaces", {"metadata": {"name": "n"}}, {"metadata": {"name": "free"}})
    plugin = podsecurity.PodSecurity(initializer(client), configuration)
    with pytest.raises(Forbidden) as caught:
        finish(plugin.validate(attributes(pod())))
    assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in caught.value.message
    finish(plugin.validate(attributes(pod(), namespace="free")))
