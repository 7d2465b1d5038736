"""PodGroupWorkloadExists: a PodGroup names a template that is there."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.catalogue import make_plugins
from kapi.machinery.status import Forbidden
from tests.admission.fakes import FakeClient, attributes, finish, initializer

GROUP = "scheduling.k8s.io"


def judged(features: dict[str, bool], workload: str = "w", template: str = "t", late: bool = False) -> None:
    """``late``: the cache does not have the Workload yet."""
    client = FakeClient()
    if late:
        client.resource(GROUP, "workloads").cached = {}
    stored = {"metadata": {"name": "w", "namespace": "n"}, "spec": {"podGroupTemplates": [{"name": "t"}]}}
    client.put(GROUP, "workloads", stored)
    reference = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
    group: dict[str, Any] = {"metadata": {"name": "g"}, "spec": {"podGroupTemplateRef": reference}}
    [plugin] = make_plugins(["PodGroupWorkloadExists"], initializer(client, features=features), {})
    asked = attributes(group, resource="podgroups", group=GROUP, version="v1alpha2", kind="PodGroup")
    finish(plugin.validate(asked))


@pytest.mark.parametrize("late", [False, True])
def test_a_template_that_is_there(late: bool) -> None:
    judged({"GenericWorkload": True}, late=late)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("workload", "template", "text"),
    [
        ("x", "t", 'PodGroup rejected: Workload "x" not found'),
        ("w", "x", 'PodGroup rejected: PodGroupTemplate "x" not found in Workload "w"'),
    ],
)
def test_one_that_is_not(workload: str, template: str, text: str, late: bool) -> None:
    with pytest.raises(Forbidden) as refused:
        judged({"GenericWorkload": True}, workload, template, late)
    assert refused.value.message.endswith(text)
    judged({}, workload, template, late)  # without the gate nobody looks
