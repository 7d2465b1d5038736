"""What the spec of a pod may say about itself: security, systems, names, scheduling.  Each rule has its text."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from kapi.resources.definition import StrategyContext
from kapi.resources.shared.poddefaults import default_pod, default_pod_template
from kapi.resources.shared.podtemplate import template_options, validate_pod_template
from tests.resources.strategy_kit import CTX, problems, short

PAGES = "hugepages-2Mi"
PRIVILEGED = replace(CTX, allow_privileged=True)
ID = "must be between 0 and 2147483647, inclusive"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def of_spec(ctx: StrategyContext = CTX, **parts: Any) -> list[str]:
    """The errors of a pod whose spec has these parts."""
    found = problems(RESOURCE, ctx, spec={"containers": [{"name": "c", "image": "i:1"}], **parts})
    return [text.removeprefix("spec.") for text in found]


def of_security(ctx: StrategyContext = CTX, **parts: Any) -> list[str]:
    return [text.removeprefix("securityContext.") for text in of_spec(ctx, securityContext=parts)]


def of_container_security(ctx: StrategyContext = CTX, **parts: Any) -> list[str]:
    found = of_spec(ctx, containers=[{"name": "c", "image": "i:1", "securityContext": parts}])
    return [text.removeprefix("containers[0].securityContext") for text in found]


# Of the pod and of a container
EITHER: list[tuple[Object, list[str]]] = [
    ({"runAsUser": 0}, []),
    ({"runAsUser": 2147483647, "runAsGroup": 2147483647}, []),
    ({"runAsUser": -1}, [f"runAsUser: Invalid value: -1: {ID}"]),
    ({"runAsUser": 2147483648}, [f"runAsUser: Invalid value: 2147483648: {ID}"]),
    ({"runAsGroup": -1}, [f"runAsGroup: Invalid value: -1: {ID}"]),
    ({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b"}}, []),
    ({"seccompProfile": {"type": ""}}, ["seccompProfile.type: Required value: type is required when seccompProfile is set"]),
    ({"seccompProfile": {"type": "X"}},
     ['seccompProfile.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"']),
    ({"seccompProfile": {"type": "Localhost"}},
     ["seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost"]),
    ({"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}},
     ['seccompProfile.localhostProfile: Invalid value: "/a": must be a relative path']),
    ({"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
     ['seccompProfile.localhostProfile: Invalid value: {"Type":"Unconfined","LocalhostProfile":"a"}: '
      "can only be set when seccomp type is Localhost"]),
    ({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}, []),
    ({"appArmorProfile": {"type": ""}}, ["appArmorProfile.type: Required value: type is required when appArmorProfile is set"]),
    ({"appArmorProfile": {"type": "X"}},
     ['appArmorProfile.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"']),
    ({"appArmorProfile": {"type": "Localhost"}},
     ["appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost"]),
    ({"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}},
     ['appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace']),
    ({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4095}}, []),
    ({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4096}},
     ["appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes"]),
    ({"appArmorProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}},
     ['appArmorProfile.localhostProfile: Invalid value: "a": can only be set when AppArmor type is Localhost']),
    ({"windowsOptions": {"gmsaCredentialSpecName": "a.b", "gmsaCredentialSpec": "s" * 65536}}, []),
    ({"windowsOptions": {"gmsaCredentialSpecName": "A"}},
     [f'windowsOptions.gmsaCredentialSpecName: Invalid value: "A": {SUBDOMAIN}']),
    ({"windowsOptions": {"gmsaCredentialSpec": ""}},
     ['windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string']),
]  # fmt: skip


@pytest.mark.parametrize(("context", "texts"), EITHER)
def test_security_of_a_pod(context: Object, texts: list[str]) -> None:
    assert of_security(**context) == texts


@pytest.mark.parametrize(("context", "texts"), EITHER)
def test_security_of_a_container(context: Object, texts: list[str]) -> None:
    assert of_container_security(**context) == [f".{text}" for text in texts]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("user", ""), ("domain\\user", ""), ("a.example.com\\user", ""), ("d" * 15 + "\\" + "u" * 104, ""),
        ("", "runAsUserName cannot be an empty string"),
        ("a\tb", "runAsUserName cannot contain control characters"),
        ("a\\b\\c", "runAsUserName cannot contain more than one backslash"),
        ("\\user", "runAsUserName's Domain doesn't match the NetBios nor the DNS format"),
        ("a b.www.example.com\\user", "runAsUserName's Domain doesn't match the NetBios nor the DNS format"),
        ("domain\\", "runAsUserName's User cannot be empty"),
        ("u" * 105, "runAsUserName's User length must not be longer than 104 characters"),
        (". .", "runAsUserName's User cannot contain only periods or spaces"),
        ("a@b", "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"),
        (".".join(["d" * 63] * 4) + "\\u", ""),  # 255 characters
        (".".join(["d" * 63] * 4) + ".d\\u", "runAsUserName's Domain length must be under 256 characters"),
    ],
)  # fmt: skip
def test_user_of_windows(name: str, text: str) -> None:
    found = of_security(windowsOptions={"runAsUserName": name})
    assert [each.rpartition('": ')[2] for each in found] == ([text] if text else [])


@pytest.mark.parametrize(
    ("context", "texts"),
    [
        ({"privileged": True}, [".privileged: Forbidden: disallowed by cluster policy"]),
        ({"procMount": "Default"}, []),
        ({"procMount": "X"}, ['.procMount: Unsupported value: "X": supported values: "Default", "Unmasked"']),
        ({"procMount": "Unmasked"}, ['.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`']),
        ({"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_NET_ADMIN"]}}, []),
        ({"allowPrivilegeEscalation": True, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}, []),
    ],
)  # fmt: skip
def test_security_only_of_a_container(context: Object, texts: list[str]) -> None:
    assert of_container_security(**context) == texts


def test_escalation_is_denied_to_what_has_it() -> None:
    text = "cannot set `allowPrivilegeEscalation` to false and "
    (found,) = of_container_security(PRIVILEGED, allowPrivilegeEscalation=False, privileged=True)
    assert found.endswith(f"{text}`privileged` to true")
    (found,) = of_container_security(allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]})
    assert found.endswith(f"{text}`capabilities.Add` CAP_SYS_ADMIN")
    assert of_container_security(PRIVILEGED, allowPrivilegeEscalation=True, privileged=True) == []


SYSCTL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SYSCTL = f"must have at most 253 characters and match regex ^({SYSCTL}[\\./])*{SYSCTL}$"


@pytest.mark.parametrize(
    ("context", "texts"),
    [
        ({"fsGroup": -1}, [f"fsGroup: Invalid value: -1: {ID}"]),
        ({"supplementalGroups": [1, -1]}, [f"supplementalGroups[1]: Invalid value: -1: {ID}"]),
        ({"fsGroupChangePolicy": "OnRootMismatch"}, []),
        ({"fsGroupChangePolicy": "X"},
         ['fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"']),
        ({"supplementalGroupsPolicy": "X"},
         ['supplementalGroupsPolicy: Unsupported value: "X": supported values: "Merge", "Strict"']),
        ({"seLinuxChangePolicy": "Recursive"}, []),
        ({"seLinuxChangePolicy": "X"}, ['seLinuxChangePolicy: Unsupported value: "X": supported values: "Recursive"']),
        ({"sysctls": [{"name": "net/ipv4.a_b", "value": "1"}]}, []),
        ({"sysctls": [{"name": "", "value": "1"}]}, ["sysctls[0].name: Required value"]),
        ({"sysctls": [{"name": "A", "value": "1"}]}, [f'sysctls[0].name: Invalid value: "A": {SYSCTL}']),
        ({"sysctls": [{"name": "a" * 253, "value": "1"}]}, []),
        ({"sysctls": [{"name": "a" * 254, "value": "1"}]}, [f'sysctls[0].name: Invalid value: "{"a" * 254}": {SYSCTL}']),
        ({"sysctls": [{"name": "a", "value": "1"}] * 2}, ['sysctls[1].name: Duplicate value: "a"']),
    ],
)  # fmt: skip
def test_security_only_of_a_pod(context: Object, texts: list[str]) -> None:
    assert of_security(**context) == texts


@pytest.mark.parametrize(
    ("namespace", "name", "refused"),
    [
        ("hostNetwork", "net.core.somaxconn", True), ("hostNetwork", "net/core/somaxconn", True),
        ("hostNetwork", "kernel.sem", False), ("hostIPC", "kernel.sem", True), ("hostIPC", "kernel.shmmax", True),
        ("hostIPC", "kernel.msgmax", True), ("hostIPC", "fs.mqueue.msg_max", True), ("hostIPC", "net.core.somaxconn", False),
        ("hostIPC", "kernel.semaphore", False),
    ],
)  # fmt: skip
def test_sysctls_of_a_namespace_shared_with_the_host(namespace: str, name: str, refused: bool) -> None:
    found = of_spec(**{namespace: True}, securityContext={"sysctls": [{"name": name, "value": "1"}]})
    text = f"may not be specified when '{namespace}' is true"
    assert found == ([f'securityContext.sysctls[0].name: Invalid value: "{name}": {text}'] if refused else [])


def test_processes_are_shared_with_the_pod_or_with_the_host() -> None:
    assert of_spec(shareProcessNamespace=True, hostPID=True) == [
        "securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"
    ]
    assert of_spec(shareProcessNamespace=True, hostPID=False) == of_spec(hostPID=True) == []


def host_process(own: list[bool | None], ctx: StrategyContext = PRIVILEGED, **parts: Any) -> list[str]:
    containers = [
        {"name": f"c{i}", "image": "i:1"}
        if each is None
        else {"name": f"c{i}", "image": "i:1", "securityContext": {"windowsOptions": {"hostProcess": each}}}
        for i, each in enumerate(own)
    ]
    return of_spec(ctx, containers=containers, **parts)


def test_processes_of_a_windows_host() -> None:
    whole = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    assert host_process([True, True], hostNetwork=True) == []
    assert host_process([None, True], hostNetwork=True, **whole) == []
    assert host_process([False]) == []
    assert host_process([False], hostNetwork=True, **whole) == [
        "containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: "
        "pod hostProcess value must be identical if both are specified, was true"
    ]
    assert [text.partition(": ")[2] for text in host_process([True, None], hostNetwork=True)] == [
        'Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers'
    ]
    assert host_process([True]) == [
        "hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"
    ]
    (found,) = host_process([True], CTX, hostNetwork=True)
    assert found.endswith("Forbidden: hostProcess containers are disallowed by cluster policy")


WINDOWS = {"os": {"name": "windows"}}


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"securityContext": {"seLinuxOptions": {}}}, "securityContext.seLinuxOptions"),
        ({"securityContext": {"fsGroup": 1}}, "securityContext.fsGroup"),
        ({"securityContext": {"runAsUser": 1}}, "securityContext.runAsUser"),
        ({"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, "securityContext.sysctls"),
        ({"securityContext": {"sysctls": []}}, ""),
        ({"hostUsers": True}, "hostUsers"),
        ({"hostPID": True}, "hostPID"),
        ({"hostPID": False, "hostIPC": False}, ""),
        ({"shareProcessNamespace": False}, "shareProcessNamespace"),
        ({"containers": [{"name": "c", "image": "i:1", "securityContext": {"runAsUser": 1}}]},
         "containers[0].securityContext.runAsUser"),
        ({"containers": [{"name": "c", "image": "i:1", "securityContext": {"capabilities": {}}}]},
         "containers[0].securityContext.capabilities"),
    ],
)  # fmt: skip
def test_what_windows_does_not_have(parts: Object, path: str) -> None:
    wanted = [f"{path}: Forbidden: cannot be set for a windows pod"] if path else []
    assert of_spec(**WINDOWS, **parts) == wanted
    assert of_spec(os={"name": "linux"}, **parts) == []


def test_what_linux_does_not_have() -> None:
    options = {"securityContext": {"windowsOptions": {}}}
    container = {"name": "c", "image": "i:1", **options}
    text = "Forbidden: windows options cannot be set for a linux pod"
    assert of_spec(os={"name": "linux"}, **options) == [f"securityContext.windowsOptions: {text}"]
    assert of_spec(os={"name": "linux"}, containers=[container]) == [
        f"containers[0].securityContext.windowsOptions: {text}"
    ]
    assert of_spec(**WINDOWS, **options, containers=[container]) == []


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"os": {"name": ""}}, ["os.name: Required value"]),
        ({"os": {"name": "plan9"}}, ['os: Unsupported value: "plan9": supported values: "linux", "windows"']),
        ({"preemptionPolicy": "X"},
         ['preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"']),
        ({"preemptionPolicy": ""}, ["preemptionPolicy: Required value"]),
        ({"dnsPolicy": "None"}, ["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
        ({"dnsPolicy": "None", "dnsConfig": {}},
         ["dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"]),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.2.3.4"] * 3}}, []),
        ({"dnsConfig": {"nameservers": ["::"] * 4}},
         ['dnsConfig.nameservers: Invalid value: ["::","::","::","::"]: must not have more than 3 nameservers']),
        ({"dnsConfig": {"nameservers": ["x"]}},
         ['dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
        ({"dnsConfig": {"searches": [".", "a_b.c.", *"abcdefghijklmnopqrstuvwxyz0123"]}}, []),
        ({"dnsConfig": {"options": [{"name": "a"}, {"value": "b"}]}},
         ["dnsConfig.options[1]: Required value: must not be empty"]),
        ({"readinessGates": [{"conditionType": "a/b"}]}, []),
        ({"readinessGates": [{"conditionType": "a b"}]},
         [f'readinessGates[0].conditionType: Invalid value: "a b": {QUALIFIED}']),
        ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, []),
        ({"schedulingGates": [{"name": "a b"}]}, [f'schedulingGates[0]: Invalid value: "a b": {QUALIFIED}']),
        ({"schedulingGates": [{"name": "a"}] * 2}, ['schedulingGates[1]: Duplicate value: "a"']),
        ({"hostUsers": False}, []),
        ({"hostUsers": False, "hostPID": True}, ["HostPID: Forbidden: when `hostUsers` is false"]),
        ({"hostUsers": False, "hostIPC": True}, ["HostIPC: Forbidden: when `hostUsers` is false"]),
        ({"hostUsers": False, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
          "containers": [{"name": "c", "image": "i:1", "volumeDevices": [{"name": "v", "devicePath": "/v"}]}]},
         ["containers[0].volumeDevices: Forbidden: when `hostUsers` is false"]),
        ({"hostUsers": False, "hostNetwork": True}, ["hostNetwork: Forbidden: when `hostUsers` is false"]),
        ({"hostnameOverride": "a.b"}, []),
        ({"hostnameOverride": "a" * 64}, []),
        ({"hostnameOverride": "a" * 65}, ["hostnameOverride: Too long: may not be more than 64 bytes"]),
        ({"hostnameOverride": "A"}, [f'hostnameOverride: Invalid value: "A": {SUBDOMAIN}']),
        ({"hostnameOverride": "a", "setHostnameAsFQDN": True},
         ["hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true"]),
        ({"hostnameOverride": "a", "hostNetwork": True},
         ["hostnameOverride: Forbidden: may not be specified when hostNetwork is true"]),
        ({"hostname": "a.b"}, ['hostname: Invalid value: "a.b": must not contain dots']),
        ({"subdomain": "A"}, [f'subdomain: Invalid value: "A": {LABEL}']),
        ({"serviceAccountName": "A"}, [f'serviceAccountName: Invalid value: "A": {SUBDOMAIN}']),
        ({"nodeName": "A"}, [f'nodeName: Invalid value: "A": {SUBDOMAIN}']),
        ({"priorityClassName": "A"}, [f'priorityClassName: Invalid value: "A": {SUBDOMAIN}']),
        ({"runtimeClassName": "A"}, [f'runtimeClassName: Invalid value: "A": {SUBDOMAIN}']),
        ({"activeDeadlineSeconds": 1}, []),
        ({"activeDeadlineSeconds": 0},
         ["activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"]),
        ({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a.b"]}]}, []),
        ({"hostAliases": [{"ip": "1.2.3", "hostnames": ["a.b"]}]},
         ['hostAliases[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
        ({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "A"]}]},
         [f'hostAliases[0].hostnames[1]: Invalid value: "A": {SUBDOMAIN}']),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "c"}]}, []),
        ({"resourceClaims": [{"name": "", "resourceClaimName": "c"}]}, ["resourceClaims[0].name: Required value"]),
        ({"resourceClaims": [{"name": "A", "resourceClaimName": "c"}]},
         [f'resourceClaims[0].name: Invalid value: "A": {LABEL}']),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}] * 2}, ['resourceClaims[1].name: Duplicate value: "a"']),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "C"}]},
         [f'resourceClaims[0].resourceClaimName: Invalid value: "C": {SUBDOMAIN}']),
    ],
)  # fmt: skip
def test_other_parts(parts: Object, texts: list[str]) -> None:
    assert of_spec(**parts) == texts


def test_a_claim_is_one_that_exists_or_is_made_from_a_template() -> None:
    (found,) = of_spec(resourceClaims=[{"name": "a"}])
    assert found.endswith("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    (found,) = of_spec(resourceClaims=[{"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "c"}])
    assert found.endswith("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")


def of_resources(pod: Object, *containers: Object) -> list[str]:
    of_containers = [{"name": f"c{i}", "image": "i:1", "resources": each} for i, each in enumerate(containers)]
    return of_spec(resources=pod, containers=of_containers)


@pytest.mark.parametrize(
    ("pod", "containers", "texts"),
    [
        ({"requests": {"cpu": "2"}}, [{"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}], []),
        ({"requests": {"cpu": "2"}}, [{"requests": {"cpu": "1"}}, {"requests": {"cpu": "1001m"}}],
         ['resources.requests[cpu]: Invalid value: "2": must be greater than or equal to aggregate container requests of 2001m']),
        ({"limits": {"cpu": "1"}}, [{"limits": {"cpu": "1"}}], []),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, [{"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}],
         ['resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1']),
        ({"limits": {"cpu": "1", PAGES: "2Mi"}},
         [{"limits": {"cpu": "1", PAGES: "4Mi"}, "requests": {"cpu": "1", PAGES: "4Mi"}}],
         [f'resources.requests[{PAGES}]: Invalid value: "2Mi": must be greater than or equal to aggregate container requests '
          "of 4Mi",
          f'resources.limits[{PAGES}]: Invalid value: "2Mi": must be greater than or equal to aggregate container limits of '
          "4Mi",
          f'resources.containers[0][{PAGES}].limits: Invalid value: "4Mi": must be less than or equal to pod limits of 2Mi']),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, [],
         ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1']),
        ({"limits": {"example.com/x": "1"}}, [],
         ['resources.limits[example.com/x]: Unsupported value: "example.com/x": supported values: "cpu", "hugepages-", '
          '"memory"']),
        ({"limits": {"a b": "1"}}, [], ['resources.limits[a b]: Invalid value: "a b": <name part>']),
    ],
)  # fmt: skip
def test_resources_of_pod_and_containers(pod: Object, containers: list[Object], texts: list[str]) -> None:
    assert short(of_resources(pod, *(containers or [{}]))) == texts


@pytest.mark.parametrize(
    ("pod", "container", "completed"),
    [
        # a limit for huge pages comes from the containers, unless the pod requests some
        ({"limits": {"cpu": "2"}}, {"limits": {PAGES: "4Mi", "example.com/x": "1"}},
         {"limits": {"cpu": "2", PAGES: "4Mi"}, "requests": {"cpu": "2", PAGES: "4Mi"}}),
        ({"requests": {"cpu": "2", PAGES: "6Mi"}}, {"limits": {PAGES: "4Mi"}}, {"requests": {"cpu": "2", PAGES: "6Mi"}}),
        ({"limits": {PAGES: "6Mi"}}, {"limits": {PAGES: "4Mi"}}, {"limits": {PAGES: "6Mi"}, "requests": {PAGES: "6Mi"}}),
        # requests are the sums of the containers where there are such, else the limits
        ({"limits": {"cpu": "2", "memory": "2"}}, {"requests": {"cpu": "1", "example.com/x": "1"}},
         {"limits": {"cpu": "2", "memory": "2"}, "requests": {"cpu": "1", "memory": "2"}}),
        ({"requests": {"cpu": "2"}}, {"requests": {"memory": "1"}}, {"requests": {"cpu": "2"}}),
        ({"limits": {}}, {"limits": {PAGES: "4Mi"}}, {"limits": {}}),
    ],
)  # fmt: skip
def test_resources_of_a_pod_are_completed_from_its_containers(
    pod: Object, container: Object, completed: Object
) -> None:
    obj: Object = {"spec": {"containers": [{"name": "c", "image": "i:1", "resources": container}], "resources": pod}}
    default_pod(obj)
    assert obj["spec"]["resources"] == completed


def test_resources_of_a_pod_on_windows_and_claims() -> None:
    limits = {"limits": {"cpu": "1"}}
    assert of_spec(**WINDOWS, resources=limits) == ["resources: Forbidden: may not be set for a windows pod"]
    assert of_spec(
        resources={**limits, "claims": [{"name": "a"}]}, resourceClaims=[{"name": "a", "resourceClaimName": "a"}]
    ) == ["resources.claims: Forbidden: claims may not be set for Resources at pod-level"]


def test_ports_on_the_network_of_the_host() -> None:
    """``hostPort`` is the same as ``containerPort``, where it is not given."""
    wrong, right = {"containerPort": 1, "hostPort": 2}, {"containerPort": 1, "hostPort": 1}
    container = {"name": "c", "image": "i:1", "ports": [right, wrong]}
    assert of_spec(containers=[container]) == []
    assert of_spec(hostNetwork=True, containers=[container]) == [
        "containers[0].ports[1].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"
    ]


def test_length_of_search_lists() -> None:
    names = ["a" * 63 + "." + "b" * 63 + f".{i:02}" for i in range(15)]  # of 130 characters
    assert of_spec(dnsConfig={"searches": ["a"] * 32}) == []
    (found,) = of_spec(dnsConfig={"searches": ["a"] * 33})
    assert found.endswith("must not have more than 32 search paths")
    assert of_spec(dnsConfig={"searches": [*names, "a" * 63 + "." + "c" * 19]}) == []  # 2,048 with the spaces
    (found,) = of_spec(dnsConfig={"searches": [*names, "a" * 63 + "." + "c" * 20]})
    assert found.endswith("must not have more than 2048 characters (including spaces) in the search list")
    (found,) = of_spec(dnsConfig={"searches": ["a", "B"]})
    assert found.startswith('dnsConfig.searches[1]: Invalid value: "B": a lowercase RFC 1123 subdomain')


def test_overhead_is_of_resources() -> None:
    assert of_spec(overhead={"cpu": "1"}) == []
    (found,) = of_spec(overhead={"cpu": "-1"})
    assert "must be greater than or equal to 0" in found


def test_searched_domains_are_names_of_hosts_before_the_rule_was_relaxed() -> None:
    strict = replace(CTX, features={"RelaxedDNSSearchValidation": False})
    assert of_spec(strict, dnsConfig={"searches": ["a.b.", "c"]}) == []
    for search, name in (("_sip._tcp.a", "_sip._tcp.a"), (".", "")):
        assert of_spec(dnsConfig={"searches": [search]}) == []
        (found,) = of_spec(strict, dnsConfig={"searches": ["a", search]})
        assert found == f'dnsConfig.searches[1]: Invalid value: "{name}": {SUBDOMAIN}'
        for before, kept in (([search, "a"], True), (["a"], False), ([], False)):  # what is stored may stay, or move
            options = template_options(strict, {"spec": {"dnsConfig": {"searches": before}}})
            errors: list[FieldError] = []
            validate_pod_template({"spec": {"dnsConfig": {"searches": [search]}}}, Path("t"), errors, options)
            assert ("t.spec.dnsConfig.searches[0]" not in {error.field for error in errors}) is kept, (search, before)


def test_static_pods_have_no_claims() -> None:
    found = problems(
        RESOURCE, metadata={"annotations": {"kubernetes.io/config.mirror": "m"}},
        spec={"containers": [{"name": "c", "image": "i:1"}], "resourceClaims": [{"name": "a", "resourceClaimName": "a"}]},
    )  # fmt: skip
    assert "[]: Forbidden: static pods do not support resource claims" in found


@pytest.mark.parametrize(
    ("group", "texts"),
    [
        ({"podGroupName": "g"}, []),
        ({"podGroupName": "G"}, ['podGroupName: Invalid value: "G": <subdomain>']),
        ({}, ["podGroupName: Invalid value: null: must specify one of: `podGroupName`"]),
    ],
)
def test_the_group_that_a_pod_is_scheduled_with(group: Object, texts: list[str]) -> None:
    found = of_spec(replace(CTX, features={"GenericWorkload": True}), schedulingGroup=group)
    assert short(found, "schedulingGroup.") == texts


def test_a_template_has_labels_and_no_containers_for_debugging() -> None:
    debugging = {"name": "d", "image": "i:1", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    template: Object = {
        "metadata": {"labels": {"a": "-"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], "ephemeralContainers": [debugging]},
    }
    default_pod_template(template)
    errors: list[FieldError] = []
    validate_pod_template(template, Path("t"), errors, template_options(CTX))
    assert short([str(error) for error in errors]) == [
        't.labels: Invalid value: "-": <label value>',
        "t.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
    ]


def spread(**parts: Any) -> Object:
    return {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", **parts}]
    }


TWICE: Object = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
IN_BOTH = 'Invalid value: "a": exists in both matchLabelKeys and labelSelector'


def token(path: str) -> Object:
    source = {"serviceAccountToken": {"path": path, "expirationSeconds": 600}}
    return {"volumes": [{"name": "v", "projected": {"sources": [source]}}]}


def near(value: str, part: str = "podAffinity", name: str = "labelSelector") -> Object:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": [value]}]}
    term: Object = {"topologyKey": "k", "labelSelector": {}, name: selector}
    if part == "nodeAffinity":
        return {"affinity": {part: {REQUIRED: {"nodeSelectorTerms": [selector]}}}}
    return {"affinity": {part: {REQUIRED: [term]}}}


def paged(amount: str) -> Object:
    amounts = {PAGES: amount, "memory": "1Gi"}
    return {"containers": [{"name": "c", "image": "i:1", "resources": {"limits": amounts, "requests": amounts}}]}


def tuned(name: str, **shared: bool) -> Object:
    return {**shared, "securityContext": {"sysctls": [{"name": name, "value": "1"}]}}


def starting(policy: str) -> Object:
    resize = [{"resourceName": "cpu", "restartPolicy": policy}]
    return {"initContainers": [{"name": "i", "image": "i:1", "resizePolicy": resize}]}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BAD_VALUE = 'matchExpressions[0].values[0]: Invalid value: "-": <label value>'
ODD_PAGES = f'[{PAGES}]: Invalid value: "3Mi": 3Mi is not positive integer multiple of {PAGES}'


@pytest.mark.parametrize(
    ("given", "other", "texts", "kept"),
    [
        (near("-", "nodeAffinity"), near("b", "nodeAffinity"),
         [f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].{BAD_VALUE}"], []),
        (near("-"), near("b"), [f"affinity.podAffinity.{REQUIRED}[0].labelSelector.{BAD_VALUE}"], []),
        (near("-", "podAntiAffinity"), near("b"), [f"affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.{BAD_VALUE}"], []),
        (near("-", name="namespaceSelector"), near("b"),
         [f"affinity.podAffinity.{REQUIRED}[0].namespaceSelector.{BAD_VALUE}"], []),
        (paged("3Mi"), paged("4Mi"), [f"containers[0].resources.{part}{ODD_PAGES}" for part in ("limits", "requests")], []),
        ({"overhead": {PAGES: "3Mi", "memory": "1"}}, {"overhead": {PAGES: "4Mi", "memory": "1"}},
         [f"overhead.limits{ODD_PAGES}"], []),
        (tuned("net.a", hostNetwork=True), tuned("net.a"),
         ["securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true"], []),
        (tuned("kernel.sem", hostIPC=True), tuned("net.a", hostIPC=True),
         ["securityContext.sysctls[0].name: Invalid value: \"kernel.sem\": may not be specified when 'hostIPC' is true"], []),
        (starting("RestartContainer"), starting("NotRequired"),
         ["initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": "
          "must not be set to 'RestartContainer' for non-sidecar initContainers"], []),
        (
            spread(labelSelector={"matchLabels": {"a": "-"}}),
            spread(labelSelector={"matchLabels": {"a": "b"}}),
            ['topologySpreadConstraints[0].labelSelector.matchLabels: Invalid value: "-": <label value>'],
            [],
        ),
        (
            spread(matchLabelKeys=["a"], labelSelector=TWICE),
            spread(matchLabelKeys=["a"], labelSelector={}),
            [f"topologySpreadConstraints[0][0]: {IN_BOTH}"],
            [f"topologySpreadConstraints[0].matchLabelKeys[0]: {IN_BOTH}"],
        ),
        (token("/t"), token("t"), ['volumes[0].projected.path: Invalid value: "/t": must be a relative path'], []),
    ],
)  # fmt: skip
def test_what_a_stored_template_has_may_stay(given: Object, other: Object, texts: list[str], kept: list[str]) -> None:
    """Or it is checked by a former rule, with another path."""
    template: Object = {"spec": {"containers": [{"name": "c", "image": "i:1"}], **given}}
    default_pod_template(template)
    for stored, wanted in ((None, texts), ({"spec": other}, texts), ({"spec": given}, kept)):
        errors: list[FieldError] = []
        validate_pod_template(template, Path("t"), errors, template_options(CTX, stored))
        assert short([str(error) for error in errors], "t.spec.") == wanted, stored


@pytest.mark.parametrize(
    ("search", "text"),
    [("a_b", 'dnsConfig.searches[0]: Invalid value: "a_b": <subdomain>'),
     (".", 'dnsConfig.searches[0]: Invalid value: "": <subdomain>')],
)  # fmt: skip
def test_a_stored_search_may_stay_when_the_gate_is_off(search: str, text: str) -> None:
    ctx = replace(CTX, features={"RelaxedDNSSearchValidation": False})
    template: Object = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "dnsConfig": {"searches": [search]}}}
    default_pod_template(template)
    for stored, wanted in ((None, [text]), ("b", [text]), (search, [])):
        old = None if stored is None else {"spec": {"dnsConfig": {"searches": [stored]}}}
        errors: list[FieldError] = []
        validate_pod_template(template, Path("t"), errors, template_options(ctx, old))
        assert short([str(error) for error in errors], "t.spec.") == wanted, stored


def test_keys_that_were_merged_into_a_stored_selector_may_stay_when_the_gate_is_off() -> None:
    given = spread(matchLabelKeys=["a"], labelSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]})
    template: Object = {"spec": {"containers": [{"name": "c", "image": "i:1"}], **given}}
    default_pod_template(template)
    ctx = replace(CTX, features={"MatchLabelKeysInPodTopologySpreadSelectorMerge": False})
    for stored, wanted in (
        (None, [f"topologySpreadConstraints[0].matchLabelKeys[0]: {IN_BOTH}"]),
        ({"spec": given}, []),
    ):
        errors: list[FieldError] = []
        validate_pod_template(template, Path("t"), errors, template_options(ctx, stored))
        assert short([str(error) for error in errors], "t.spec.") == wanted
