"""Each control of the Pod Security Standards, by pods that pass and fail."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.podsecurity.checks import CHECKS
from kapi.admission.podsecurity.levels import LATEST, LevelVersion
from kapi.admission.podsecurity.plugin import evaluate
from kapi.machinery.tree import Object
from tests.admission.podsecurity_kit import container

GOOD_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


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
