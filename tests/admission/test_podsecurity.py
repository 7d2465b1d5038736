"""Pod Security: every control of every version that changed it, exemptions, templates, and namespaces that get stricter."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kapi.admission.interface import UPDATE, Attributes, Plugin
from kapi.admission.metrics import Meter
from kapi.admission.podsecurity import plugin as podsecurity
from kapi.admission.podsecurity.checks import CHECKS
from kapi.admission.podsecurity.evaluation import evaluate
from kapi.admission.podsecurity.levels import LATEST, LevelVersion
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.admission.fakes import FakeClient, attributes, finish, initializer, pod

PREFIX = "pod-security.kubernetes.io/"
GOOD_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "c", **context: Any) -> Object:
    return {"name": name, "image": "i", "securityContext": context}


def good(**context: Any) -> Object:
    """A container that restricted allows, but for what is given."""
    return container(**{**GOOD_CONTEXT, **context})


def one(holder: Object, **spec: Any) -> Object:
    return {"containers": [holder], **spec}


#: (level, minor version, metadata, spec, what is said about it, "" when it is allowed)
CONTROLS: list[tuple[str, int, Object, Object, str]] = [
    (
        "baseline",
        0,
        {},
        one(container(privileged=True)),
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    (
        "baseline",
        0,
        {},
        {"initContainers": [container("a", privileged=True)], "ephemeralContainers": [container("b", privileged=True)]},
        'privileged (containers "a", "b" must not set securityContext.privileged=true)',
    ),
    (
        "baseline",
        0,
        {},
        one(container(), hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (
        "baseline",
        0,
        {},
        one(container(), volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        'hostPath volumes (volume "v")',
    ),
    (
        "baseline",
        0,
        {},
        one({**container(), "ports": [{"hostPort": 80}, {"hostPort": 8080}]}),
        'hostPort (container "c" uses hostPorts 80, 8080)',
    ),
    ("baseline", 0, {}, one({**container(), "ports": [{"hostPort": 0}]}), ""),
    ("baseline", 33, {}, one({**container(), "livenessProbe": {"httpGet": {"host": "h"}}}), ""),
    (
        "baseline",
        34,
        {},
        one({**container(), "livenessProbe": {"httpGet": {"host": "h"}}}),
        'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
    ),
    (
        "baseline",
        34,
        {},
        one({**container(), "lifecycle": {"preStop": {"tcpSocket": {"host": "h"}}}}),
        'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
    ),
    (
        "baseline",
        0,
        {},
        one(container(capabilities={"add": ["NET_ADMIN", "CHOWN"]})),
        'non-default capabilities (container "c" must not include "NET_ADMIN" in securityContext.capabilities.add)',
    ),
    (
        "baseline",
        0,
        {},
        one(container(procMount="Unmasked")),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        "baseline",
        34,
        {},
        one(container(procMount="Unmasked"), hostUsers=False),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    ("baseline", 35, {}, one(container(procMount="Unmasked"), hostUsers=False), ""),
    (
        "restricted",
        35,
        {},
        one(good(procMount="Unmasked"), hostUsers=False),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        "baseline",
        0,
        {},
        one(container(seLinuxOptions={"type": "spc_t", "user": "u", "role": "r"})),
        'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)',  # noqa: E501
    ),
    (
        "baseline",
        30,
        {},
        one(container(seLinuxOptions={"type": "container_engine_t"})),
        'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "container_engine_t")',
    ),
    ("baseline", 31, {}, one(container(seLinuxOptions={"type": "container_engine_t"})), ""),
    (
        "baseline",
        18,
        {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}},
        one(container()),
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")',
    ),
    ("baseline", 19, {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}, one(container()), ""),
    (
        "baseline",
        19,
        {},
        one(
            container(seccompProfile={"type": "Unconfined"}), securityContext={"seccompProfile": {"type": "Unconfined"}}
        ),
        'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        "baseline",
        26,
        {},
        one(container(), securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}),
        "forbidden sysctls (net.ipv4.ip_local_reserved_ports)",
    ),
    (
        "baseline",
        27,
        {},
        one(container(), securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}),
        "",
    ),
    (
        "baseline",
        28,
        {},
        one(container(), securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}),
        "forbidden sysctls (net.ipv4.tcp_fin_timeout)",
    ),
    ("baseline", 29, {}, one(container(), securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}), ""),
    (
        "baseline",
        31,
        {},
        one(container(), securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}),
        "forbidden sysctls (net.ipv4.tcp_rmem)",
    ),
    ("baseline", 32, {}, one(container(), securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), ""),
    (
        "baseline",
        32,
        {},
        one(container(), securityContext={"sysctls": [{"name": "kernel.msgmax"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        "baseline",
        0,
        {},
        one(container(windowsOptions={"hostProcess": True}), securityContext={"windowsOptions": {"hostProcess": True}}),
        'hostProcess (pod and container "c" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
    (
        "baseline",
        0,
        {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}},
        one(container()),
        'forbidden AppArmor profile (annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/c="unconfined"")',  # noqa: E501
    ),
    (
        "baseline",
        0,
        {},
        one(container(appArmorProfile={"type": "Unconfined"})),
        'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
    ),
    ("restricted", 7, {}, one(container(runAsNonRoot=True)), ""),
    (
        "restricted",
        8,
        {},
        one(container(runAsNonRoot=True)),
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    ("restricted", 21, {}, one(good(capabilities={})), ""),
    (
        "restricted",
        22,
        {},
        one(good(capabilities={"add": ["CHOWN"]})),
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; '
        'container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    ("restricted", 22, {}, one(good(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})), ""),
    (
        "restricted",
        0,
        {},
        one(good(), volumes=[{"name": "a", "nfs": {}}, {"name": "b", "hostPath": {}}, {"name": "c", "emptyDir": {}}]),
        'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")',
    ),
    (
        "restricted",
        0,
        {},
        one(good(runAsNonRoot=None)),
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
    ),
    ("restricted", 0, {}, one(good(runAsNonRoot=None), securityContext={"runAsNonRoot": True}), ""),
    (
        "restricted",
        0,
        {},
        one(good(runAsNonRoot=False)),
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    ("restricted", 35, {}, one(good(runAsNonRoot=None), hostUsers=False), ""),
    ("restricted", 22, {}, one(good(runAsUser=0)), ""),
    (
        "restricted",
        23,
        {},
        one(good(runAsUser=0), securityContext={"runAsUser": 0}),
        'runAsUser=0 (pod and container "c" must not set runAsUser=0)',
    ),
    ("restricted", 35, {}, one(good(runAsUser=0), hostUsers=False), ""),
    ("restricted", 18, {}, one(good(seccompProfile=None)), ""),
    (
        "restricted",
        19,
        {},
        one(good(seccompProfile=None)),
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ),
    (
        "restricted",
        24,
        {},
        one(container(runAsNonRoot=True), os={"name": "windows"}),
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ),
    ("restricted", 25, {}, one(container(runAsNonRoot=True), os={"name": "windows"}), ""),
]


@pytest.mark.parametrize(("level", "minor", "metadata", "spec", "said"), CONTROLS)
def test_controls(level: str, minor: int, metadata: Object, spec: Object, said: str) -> None:
    assert evaluate(LevelVersion(level, minor), metadata, spec).details == said


def test_each_control_is_tried_above() -> None:
    """A check that never says anything in the table would be missed."""
    for check in CHECKS:
        for _, rule in check.versions:
            assert any(rule(metadata, spec) for _, _, metadata, spec, _ in CONTROLS), check.name


def test_later_versions_and_latest_are_the_newest_known() -> None:
    spec = one(container(procMount="Unmasked"), hostUsers=False)
    assert evaluate(LevelVersion("baseline", LATEST), {}, spec).allowed
    assert evaluate(LevelVersion("baseline", 99), {}, spec).allowed


def test_privileged_forbids_nothing() -> None:
    assert evaluate(LevelVersion("privileged"), {}, one(container(privileged=True), hostPID=True)).allowed


# -- the plugin ----------------------------------------------------------------------------------------------------


class Cluster:
    def __init__(self, configuration: Object | None = None, **labels: str) -> None:
        self.client = FakeClient()
        named = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
        self.namespace = {"metadata": {"name": "n", "labels": named}}
        self.client.put("", "namespaces", self.namespace)
        self.meter = Meter(CollectorRegistry())
        self.plugin: Plugin = podsecurity.make(initializer(self.client, meter=self.meter), configuration)

    def ask(self, request: Attributes) -> Attributes:
        finish(self.plugin.validate(request))
        return request

    def refused(self, request: Attributes) -> str:
        with pytest.raises(StatusError) as caught:
            self.ask(request)
        assert caught.value.code in (403, 422, 500)
        return caught.value.message

    def relabel(self, **labels: str) -> Attributes:
        new = {"metadata": {"name": "n", "labels": {PREFIX + k.replace("_", "-"): v for k, v in labels.items()}}}
        request = attributes(new, self.namespace, operation=UPDATE, resource="namespaces", kind="Namespace")
        return self.ask(request)


BAD = pod(containers=[container(privileged=True)])
SAID = 'privileged (container "c" must not set securityContext.privileged=true)'


def test_what_enforce_refuses_is_told_and_recorded() -> None:
    cluster = Cluster(enforce="baseline", enforce_version="v1.30")
    request = attributes(BAD)
    assert cluster.refused(request) == f'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": {SAID}'
    assert request.annotations[PREFIX + "enforce-policy"] == "baseline:v1.30"
    assert request.warnings == []


def test_what_is_evaluated_exempted_and_misunderstood_is_counted() -> None:
    cluster = Cluster({"exemptions": {"usernames": ["free"]}}, enforce="baseline", enforce_version="v1.99", warn="x")
    cluster.refused(attributes(BAD))
    cluster.ask(attributes(pod(), pod(), subresource="resize", operation=UPDATE))  # not significant
    cluster.ask(attributes(BAD, user=UserInfo("free")))
    assert cluster.meter.pod_evaluations.rows == {("deny", "baseline", "future", "enforce", "create", "pod", ""): 1}
    assert cluster.meter.pod_exemptions.rows == {("create", "pod", ""): 1}
    assert cluster.meter.pod_errors.rows == {("false", "create", "pod", ""): 1}


def test_audit_and_warn_let_pass() -> None:
    request = Cluster(audit="baseline", warn="restricted").ask(attributes(BAD))
    assert request.annotations[PREFIX + "audit-violations"] == f'would violate PodSecurity "baseline:latest": {SAID}'
    assert request.warnings[0].startswith('would violate PodSecurity "restricted:latest": privileged')


def test_who_enforces_is_warned_of_the_same_by_templates() -> None:
    template = {"metadata": {}, "spec": BAD["spec"]}
    deployment = {"metadata": {"name": "d", "namespace": "n"}, "spec": {"template": template}}
    request = attributes(deployment, group="apps", resource="deployments", kind="Deployment")
    assert Cluster(enforce="baseline").ask(request).warnings == [f'would violate PodSecurity "baseline:latest": {SAID}']


@pytest.mark.parametrize(
    ("group", "resource", "path"),
    [
        ("", "replicationcontrollers", ("spec", "template")),
        ("", "podtemplates", ("template",)),
        ("apps", "replicasets", ("spec", "template")),
        ("apps", "statefulsets", ("spec", "template")),
        ("apps", "daemonsets", ("spec", "template")),
        ("batch", "jobs", ("spec", "template")),
        ("batch", "cronjobs", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_templates_of_all_controllers(group: str, resource: str, path: tuple[str, ...]) -> None:
    inner: Object = {"spec": BAD["spec"]}
    for key in reversed(path):
        inner = {key: inner}
    request = attributes({"metadata": {"name": "x", "namespace": "n"}, **inner}, group=group, resource=resource)
    assert Cluster(warn="baseline").ask(request).warnings


def test_other_resources_and_subresources_are_free() -> None:
    cluster = Cluster(enforce="restricted")
    for request in (
        attributes(BAD, subresource="status", operation=UPDATE),
        attributes(BAD, subresource="eviction"),
        attributes({"metadata": {"name": "s"}, "spec": BAD["spec"]}, resource="services", kind="Service"),
        attributes({"metadata": {"name": "d"}, "spec": {}}, group="apps", resource="deployments", subresource="scale"),
    ):
        assert cluster.ask(request).warnings == []


def test_updates_count_when_they_change_images_or_containers() -> None:
    cluster = Cluster(enforce="baseline")
    labelled = {**BAD, "metadata": {**BAD["metadata"], "labels": {"a": "b"}}}
    cluster.ask(attributes(labelled, BAD, operation=UPDATE))
    newer = pod(containers=[{**container(privileged=True), "image": "other"}])
    assert "violates" in cluster.refused(attributes(newer, BAD, operation=UPDATE))
    debugged = pod(containers=BAD["spec"]["containers"], ephemeralContainers=[container("e", privileged=True)])
    request = attributes(debugged, BAD, operation=UPDATE, subresource="ephemeralcontainers")
    assert '"c", "e"' in cluster.refused(request)


@pytest.mark.parametrize(
    ("exemptions", "which"),
    [
        ({"namespaces": ["n"]}, "namespace"),
        ({"usernames": ["someone"]}, "user"),
        ({"runtimeClasses": ["sandbox"]}, "runtimeClass"),
    ],
)
def test_exemptions(exemptions: Object, which: str) -> None:
    cluster = Cluster({"exemptions": exemptions}, enforce="restricted")
    exempt = pod(containers=[container(privileged=True)], runtimeClassName="sandbox")
    request = cluster.ask(attributes(exempt))
    assert request.annotations[PREFIX + "exempt"] == which
    stranger = attributes(BAD, user=UserInfo("other"))
    if which == "namespace":
        cluster.ask(stranger)
    else:
        cluster.refused(stranger)


def test_defaults_hold_where_labels_say_nothing() -> None:
    cluster = Cluster({"defaults": {"enforce": "baseline", "enforce-version": "v1.20"}})
    assert 'PodSecurity "baseline:v1.20"' in cluster.refused(attributes(BAD))


def test_a_label_nobody_understands_is_as_strict_as_can_be() -> None:
    cluster = Cluster(enforce="nonsense")
    request = attributes(BAD)
    assert 'violates PodSecurity "restricted:latest"' in cluster.refused(request)
    assert "Failed to parse policy: " in request.annotations[PREFIX + "error"]


@pytest.mark.parametrize("labels", [{"enforce": "x"}, {"warn_version": "1.2"}, {"audit_version": "v1.02"}])
def test_a_namespace_cannot_get_labels_nobody_understands(labels: dict[str, str]) -> None:
    cluster = Cluster()
    with pytest.raises(StatusError) as caught:
        cluster.relabel(**labels)
    assert caught.value.code == 422
    stuck = Cluster(**labels)
    assert stuck.relabel(**labels).warnings == []


def test_a_stricter_namespace_warns_of_its_pods() -> None:
    cluster = Cluster()
    owned = {"ownerReferences": [{"uid": "u", "controller": True}]}
    for name, holder in (("b", container(privileged=True)), ("a", container(privileged=True)), ("ok", container())):
        cluster.client.put("", "pods", pod(name, containers=[holder]))
    replica = pod("c", containers=[container(privileged=True)])
    replica["metadata"] |= owned
    cluster.client.put("", "pods", replica)
    assert cluster.relabel(enforce="baseline").warnings == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): privileged",
    ]
    assert cluster.relabel(audit="restricted", warn="restricted").warnings == []


def test_a_namespace_that_gets_more_lenient_is_not_looked_at() -> None:
    cluster = Cluster(enforce="restricted")
    cluster.client.put("", "pods", BAD)
    assert cluster.relabel(enforce="baseline").warnings == []
    assert cluster.relabel(enforce="privileged").warnings == []
    assert cluster.relabel(enforce="restricted", enforce_version="v1.20").warnings


def test_labels_of_an_exempt_namespace_are_of_no_use() -> None:
    cluster = Cluster({"exemptions": {"namespaces": ["n"]}})
    assert cluster.relabel(enforce="baseline", warn="restricted").warnings == [
        'namespace "n" is exempt from Pod Security, and the policy (enforce=baseline:latest, warn=restricted:latest) will be ignored'  # noqa: E501
    ]
