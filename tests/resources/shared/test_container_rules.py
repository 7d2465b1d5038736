"""What a container may say: each rule refuses one thing, in upstream's words, and lets the value next to it pass."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from kapi.resources.definition import StrategyContext
from tests.resources.strategy_kit import CTX, problems, short

VOLUMES = [
    {"name": "empty", "emptyDir": {}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
    {"name": "other", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}},
    }}}},
]  # fmt: skip
HERE = "spec.containers[0]"


PRIVILEGED = replace(CTX, allow_privileged=True)
SIGNALS = replace(CTX, features={"ContainerStopSignals": True})


def of_container(ctx: StrategyContext = CTX, **parts: Any) -> list[str]:
    """The errors of a pod with volumes, with a container that has these parts."""
    found = problems(RESOURCE, ctx, spec={"volumes": VOLUMES, "containers": [{"name": "c", "image": "i:1", **parts}]})
    return [text.removeprefix(f"{HERE}.") for text in found]


def of_source(**source: Any) -> list[str]:
    return [text.removeprefix("env[0].valueFrom") for text in of_container(env=[{"name": "A", "valueFrom": source}])]


NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NOT_SUPPORTED_FIELD = (
    '"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", '
    '"status.hostIPs", "status.podIP", "status.podIPs"'
)
_AMOUNTS = [f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")]
RESOURCES = ", ".join(f'"{name}"' for name in _AMOUNTS)
SIZES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("", [".fieldPath: Required value"]),
        ("metadata.name", []),
        ("metadata.labels['a']", []),
        ("metadata.annotations['A']", []),
        ("metadata.annotations['-A']", [f': Invalid value: "-a": {NAME_PART}']),
        ("metadata.labels['-A']", [f': Invalid value: "-A": {NAME_PART}']),
        ("metadata.labels['a b']", [f': Invalid value: "a b": {NAME_PART}']),
        ("spec.nodeName['a']", ['.fieldPath: Invalid value: "spec.nodeName[\'a\']": error converting fieldPath: '
                                "field label does not support subscript: spec.nodeName['a']"]),
        ("spec.host", []),
        ("spec.x", ['.fieldPath: Invalid value: "spec.x": error converting fieldPath: field label not supported: spec.x']),
        ("metadata.labels", [f'.fieldPath: Unsupported value: "metadata.labels": supported values: {NOT_SUPPORTED_FIELD}']),
        ("status.phase", [f'.fieldPath: Unsupported value: "status.phase": supported values: {NOT_SUPPORTED_FIELD}']),
        ("['a']", ['.fieldPath: Invalid value: "[\'a\']": error converting fieldPath: field label not supported: [\'a\']']),
    ],
)  # fmt: skip
def test_field_of_the_pod_in_a_variable(path: str, texts: list[str]) -> None:
    assert of_source(fieldRef={"apiVersion": "v1", "fieldPath": path}) == [f".fieldRef{text}" for text in texts]


def test_version_of_the_pod_in_a_variable() -> None:
    assert of_source(fieldRef={"apiVersion": "v2", "fieldPath": "metadata.name"}) == [
        '.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2'
    ]


@pytest.mark.parametrize(
    ("resource", "divisor", "texts"),
    [
        ("", None, [".resource: Required value"]),
        ("limits.pods", None, [f'.resource: Unsupported value: "limits.pods": supported values: {RESOURCES}']),
        ("requests.hugepages-2Mi", "1Mi", []),
        ("limits.cpu", "1m", []),
        ("limits.cpu", "1", []),
        ("limits.cpu", "0", []),
        ("limits.cpu", "2", ['.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1 are supported with the cpu '
                             "resource"]),
        ("limits.memory", "1Ei", []),
        ("limits.memory", "1m", ['.divisor: Invalid value: "limits.memory": only divisor\'s values '
                                 f"{SIZES} are supported with the memory resource"]),
        ("requests.ephemeral-storage", "2", ['.divisor: Invalid value: "requests.ephemeral-storage": only divisor\'s values '
                                             f"{SIZES} are supported with the local ephemeral storage resource"]),
        ("limits.hugepages-2Mi", "2", ['.divisor: Invalid value: "limits.hugepages-2Mi": only divisor\'s values '
                                       f"{SIZES} are supported with the hugepages resource"]),
    ],
)  # fmt: skip
def test_amount_of_the_container_in_a_variable(resource: str, divisor: str | None, texts: list[str]) -> None:
    ref = {"resource": resource} if divisor is None else {"resource": resource, "divisor": divisor}
    assert of_source(resourceFieldRef=ref) == [f".resourceFieldRef{text}" for text in texts]


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
ENV_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"


@pytest.mark.parametrize("kind", ["configMapKeyRef", "secretKeyRef"])
@pytest.mark.parametrize(
    ("ref", "texts"),
    [
        ({"name": "n", "key": "k"}, []),
        ({"name": "n", "key": ""}, [".key: Required value"]),
        ({"name": "n", "key": "a b"}, [f'.key: Invalid value: "a b": {KEY}']),
        ({"name": "N", "key": "k"}, [f'.name: Invalid value: "N": {SUBDOMAIN}']),
    ],
)
def test_key_in_a_variable(kind: str, ref: Object, texts: list[str]) -> None:
    assert of_source(**{kind: ref}) == [f".{kind}{text}" for text in texts]


@pytest.mark.parametrize(
    ("ref", "texts"),
    [
        ({}, []),
        ({"optional": True}, []),
        ({"key": ""}, [".key: Required value"]),
        ({"key": "a=b"}, [f'.key: Invalid value: "a=b": {ENV_NAME}']),
        ({"volumeName": ""}, [".volumeName: Required value", '.volumeName: Not found: ""']),
        ({"volumeName": "x"}, ['.volumeName: Not found: "x"']),
        ({"volumeName": "A"}, ['.volumeName: Invalid value: "A": <label>', '.volumeName: Not found: "A"']),
        ({"volumeName": "claim"}, ['.volumeName: Invalid value: "claim": referenced volume must be of type emptyDir']),
        ({"path": ""}, [".path: Required value"]),
        ({"path": "a/../b"}, [".path: Invalid value: \"a/../b\": must not contain '..'"]),
    ],
)
def test_file_in_a_variable(ref: Object, texts: list[str]) -> None:
    found = of_source(fileKeyRef={"key": "k", "volumeName": "empty", "path": "p", **ref})
    assert short(found, ".fileKeyRef") == texts


@pytest.mark.parametrize(
    ("variable", "texts"),
    [
        ({"name": "A.b-c d"}, []),
        ({"name": ""}, ["name: Required value"]),
        ({"name": "a=b"}, [f'name: Invalid value: "a=b": {ENV_NAME}']),
        ({"name": "A", "valueFrom": {}}, ['valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
                                          "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"]),
        ({"name": "A", "value": "v", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
         ['valueFrom: Invalid value: "": may not be specified when `value` is not empty']),
        ({"name": "A", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}, "configMapKeyRef": {"name": "n", "key": "k"}}},
         ['valueFrom: Invalid value: "": may not have more than one field specified at a time']),
    ],
)  # fmt: skip
def test_variable(variable: Object, texts: list[str]) -> None:
    assert of_container(env=[variable]) == [f"env[0].{text}" for text in texts]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ({"prefix": "P_", "secretRef": {"name": "n"}}, []),
        ({"prefix": "=", "secretRef": {"name": "n"}}, [f'[0].prefix: Invalid value: "=": {ENV_NAME}']),
        ({"secretRef": {"name": ""}}, ["[0].secretRef.name: Required value"]),
        ({"configMapRef": {"name": "N"}}, [f'[0].configMapRef.name: Invalid value: "N": {SUBDOMAIN}']),
        ({}, [': Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
        ({"secretRef": {"name": "n"}, "configMapRef": {"name": "n"}},
         [': Invalid value: "": may not have more than one field specified at a time']),
    ],
)  # fmt: skip
def test_variables_of_an_object(source: Object, texts: list[str]) -> None:
    assert of_container(envFrom=[source]) == [f"envFrom{text}" for text in texts]


@pytest.mark.parametrize(
    ("ports", "texts"),
    [
        ([{"containerPort": 1}, {"containerPort": 65535, "hostPort": 65535}], []),
        ([{"containerPort": 0}], ["[0].containerPort: Required value"]),
        ([{"containerPort": -1}], ["[0].containerPort: Invalid value: -1: must be between 1 and 65535, inclusive"]),
        ([{"containerPort": 65536}], ["[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        ([{"containerPort": 1, "hostPort": 65536}],
         ["[0].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        ([{"containerPort": 1, "protocol": "X"}],
         ['[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"']),
        ([{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}], ['[1].name: Duplicate value: "a"']),
        ([{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "b"}], []),
        ([{"containerPort": 1, "name": "1"}],
         ['[0].name: Invalid value: "1": must contain at least one letter (a-z)']),
        ([{"containerPort": 1, "hostPort": 7}, {"containerPort": 2, "hostPort": 7}],
         ['[1].hostPort: Duplicate value: "TCP//7"']),
        ([{"containerPort": 1, "hostPort": 7}, {"containerPort": 2, "hostPort": 7, "protocol": "UDP"}], []),
    ],
)  # fmt: skip
def test_ports(ports: list[Object], texts: list[str]) -> None:
    assert of_container(ports=ports) == [f"ports{text}" for text in texts]


@pytest.mark.parametrize(
    ("mounts", "texts"),
    [
        ([{"name": "empty", "mountPath": "/a"}, {"name": "empty", "mountPath": "/b"}], []),
        ([{"name": "", "mountPath": "/a"}], ["[0].name: Required value", '[0].name: Not found: ""']),
        ([{"name": "x", "mountPath": "/a"}], ['[0].name: Not found: "x"']),
        ([{"name": "empty", "mountPath": ""}], ["[0].mountPath: Required value"]),
        ([{"name": "empty", "mountPath": "/a"}] * 2, ['[1].mountPath: Invalid value: "/a": must be unique']),
        ([{"name": "empty", "mountPath": "/a", "subPath": "b/c"}], []),
        ([{"name": "empty", "mountPath": "/a", "subPath": "/b"}], ['.subPath: Invalid value: "/b": must be a relative path']),
        ([{"name": "empty", "mountPath": "/a", "subPathExpr": "../b"}],
         [".subPathExpr: Invalid value: \"../b\": must not contain '..'"]),
        ([{"name": "empty", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"}],
         ['[0].subPathExpr: Invalid value: "c": subPathExpr and subPath are mutually exclusive']),
        ([{"name": "empty", "mountPath": "/a", "mountPropagation": "HostToContainer"}], []),
        ([{"name": "empty", "mountPath": "/a", "mountPropagation": "X"}],
         ['.mountPropagation: Unsupported value: "X": supported values: "Bidirectional", "HostToContainer", "None"']),
        ([{"name": "empty", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
         [".mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"]),
        ([{"name": "empty", "mountPath": "/a", "recursiveReadOnly": "Disabled"}], []),
        ([{"name": "empty", "mountPath": "/a", "recursiveReadOnly": "Enabled", "readOnly": True,
           "mountPropagation": "None"}], []),
        ([{"name": "empty", "mountPath": "/a", "recursiveReadOnly": "X"}],
         ['.recursiveReadOnly: Unsupported value: "X": supported values: "Disabled", "Enabled", "IfPossible"']),
        ([{"name": "empty", "mountPath": "/a", "recursiveReadOnly": "IfPossible"}],
         [".recursiveReadOnly: Forbidden: may only be specified when readOnly is true"]),
        ([{"name": "empty", "mountPath": "/a", "recursiveReadOnly": "Enabled", "readOnly": True,
           "mountPropagation": "HostToContainer"}],
         [".recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified"]),
    ],
)  # fmt: skip
def test_mounts(mounts: list[Object], texts: list[str]) -> None:
    assert of_container(volumeMounts=mounts) == [f"volumeMounts{text}" for text in texts]


def test_bidirectional_mount_of_a_privileged_container() -> None:
    mounts = [{"name": "empty", "mountPath": "/a", "mountPropagation": "Bidirectional"}]
    assert of_container(PRIVILEGED, volumeMounts=mounts, securityContext={"privileged": True}) == []


@pytest.mark.parametrize(
    ("devices", "texts"),
    [
        ([{"name": "claim", "devicePath": "/a"}, {"name": "other", "devicePath": "/b"}], []),
        ([{"name": "", "devicePath": "/a"}], ["[0].name: Required value", '[0].name: Not found: ""']),
        ([{"name": "claim", "devicePath": "/a"}, {"name": "claim", "devicePath": "/b"}],
         ['[1].name: Invalid value: "claim": must be unique']),
        ([{"name": "x", "devicePath": "/a"}], ['[0].name: Not found: "x"']),
        ([{"name": "empty", "devicePath": "/a"}], ['[0].name: Invalid value: "empty": can only use volume source type of '
                                                   "PersistentVolumeClaim or Ephemeral for block mode"]),
        ([{"name": "claim", "devicePath": ""}], ["[0].devicePath: Required value"]),
        ([{"name": "claim", "devicePath": "/a"}, {"name": "other", "devicePath": "/a"}],
         ['[1].devicePath: Invalid value: "/a": must be unique']),
        ([{"name": "claim", "devicePath": "/a/../b"}],
         ["[0].devicePath: Invalid value: \"/a/../b\": can not contain backsteps ('..')"]),
    ],
)  # fmt: skip
def test_devices(devices: list[Object], texts: list[str]) -> None:
    assert of_container(volumeDevices=devices) == [f"volumeDevices{text}" for text in texts]


def test_a_volume_is_mounted_or_a_device() -> None:
    device, mount = {"name": "claim", "devicePath": "/a"}, {"name": "claim", "mountPath": "/b"}
    assert of_container(volumeDevices=[device], volumeMounts=[mount]) == [
        'volumeMounts[0].name: Invalid value: "claim": must not already exist in volumeDevices',
        'volumeDevices[0].name: Invalid value: "claim": must not already exist in volumeMounts',
    ]
    assert of_container(volumeDevices=[device], volumeMounts=[{"name": "empty", "mountPath": "/a"}]) == [
        'volumeMounts[0].mountPath: Invalid value: "/a": must not already exist as a path in volumeDevices',
        'volumeDevices[0].devicePath: Invalid value: "/a": must not already exist as a path in volumeMounts',
    ]
    assert of_container(volumeDevices=[device], volumeMounts=[{"name": "empty", "mountPath": "/b"}]) == []


PORT = ": must be between 1 and 65535, inclusive"
HTTP = {"path": "/", "port": 1}
SIGNALS_ON_WINDOWS = '"SIGKILL", "SIGTERM"'


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe", "startupProbe"])
@pytest.mark.parametrize(
    ("probe", "texts"),
    [
        ({}, [": Required value: must specify a handler type"]),
        ({"exec": {"command": ["a"]}}, []),
        ({"exec": {"command": []}}, [".exec.command: Required value"]),
        ({"httpGet": HTTP}, []),
        ({"httpGet": {"port": 1, "path": ""}}, []),
        ({"httpGet": {**HTTP, "port": 0}}, [f".httpGet.port: Invalid value: 0{PORT}"]),
        ({"httpGet": {**HTTP, "port": 65535}}, []),
        ({"httpGet": {**HTTP, "port": 65536}}, [f".httpGet.port: Invalid value: 65536{PORT}"]),
        ({"httpGet": {**HTTP, "port": "http"}}, []),
        ({"httpGet": {**HTTP, "port": "1"}},
         ['.httpGet.port: Invalid value: "1": must contain at least one letter (a-z)']),
        ({"httpGet": {**HTTP, "scheme": "ftp"}},
         ['.httpGet.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS"']),
        ({"httpGet": {**HTTP, "httpHeaders": [{"name": "X-A", "value": "v"}]}}, []),
        ({"httpGet": {**HTTP, "httpHeaders": [{"name": "a b", "value": "v"}]}},
         ['.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or \'-\' '
          "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"]),
        ({"tcpSocket": {"port": 0}}, [f".tcpSocket.port: Invalid value: 0{PORT}"]),
        ({"grpc": {"port": 65536}}, [f".grpc.port: Invalid value: 65536{PORT}"]),
        ({"grpc": {"port": 1}, "httpGet": HTTP}, [".grpc: Forbidden: may not specify more than 1 handler type"]),
        ({"httpGet": HTTP, "initialDelaySeconds": -1},
         [".initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"httpGet": HTTP, "timeoutSeconds": -1}, [".timeoutSeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"httpGet": HTTP, "periodSeconds": -1}, [".periodSeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"httpGet": HTTP, "failureThreshold": -1},
         [".failureThreshold: Invalid value: -1: must be greater than or equal to 0"]),
    ],
)  # fmt: skip
def test_probes(kind: str, probe: Object, texts: list[str]) -> None:
    assert of_container(**{kind: probe}) == [f"{kind}{text}" for text in texts]


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"readinessProbe": {"httpGet": HTTP, "successThreshold": 2}}, []),
        ({"readinessProbe": {"httpGet": HTTP, "successThreshold": -1}},
         ["readinessProbe.successThreshold: Invalid value: -1: must be greater than or equal to 0"]),
        ({"livenessProbe": {"httpGet": HTTP, "successThreshold": 2}},
         ["livenessProbe.successThreshold: Invalid value: 2: must be 1"]),
        ({"startupProbe": {"httpGet": HTTP, "successThreshold": 2}},
         ["startupProbe.successThreshold: Invalid value: 2: must be 1"]),
        ({"livenessProbe": {"httpGet": HTTP, "terminationGracePeriodSeconds": 1}}, []),
        ({"livenessProbe": {"httpGet": HTTP, "terminationGracePeriodSeconds": 0}},
         ["livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"]),
        ({"readinessProbe": {"httpGet": HTTP, "terminationGracePeriodSeconds": 1}},
         ["readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes"]),
        ({"lifecycle": {"preStop": {}}}, ["lifecycle.preStop: Required value: must specify a handler type"]),
        ({"lifecycle": {"postStart": {"exec": {}}}}, ["lifecycle.postStart.exec.command: Required value"]),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 30}}}}, []),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}, []),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": -1}}}},
         ["lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than terminationGracePeriodSeconds (30)"]),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
         ["lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"]),
    ],
)  # fmt: skip
def test_probes_and_hooks_by_kind(parts: Object, texts: list[str]) -> None:
    assert of_container(**parts) == texts


def test_a_hook_that_does_not_say_how_long_it_sleeps_does_not_sleep() -> None:
    container = {"name": "c", "image": "i:1", "lifecycle": {"preStop": {"sleep": {}}}}
    assert problems(RESOURCE, spec={"terminationGracePeriodSeconds": 0, "containers": [container]}) == []


def test_signal_without_a_system() -> None:
    assert of_container(SIGNALS, lifecycle={"stopSignal": "SIGTERM"}) == [
        "lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"
    ]


def test_signals_of_real_time_have_numbers() -> None:
    found = [f"SIGRTM{end}{number}" for end in ("IN+", "AX-") for number in range(18)]
    known = [name for name in found if not problems(RESOURCE, SIGNALS, spec={"os": {"name": "linux"}, "containers": [
        {"name": "c", "image": "i:1", "lifecycle": {"stopSignal": name}}]})]  # fmt: skip
    assert known == [f"SIGRTMIN+{n}" for n in range(1, 16)] + [f"SIGRTMAX-{n}" for n in range(1, 15)]


@pytest.mark.parametrize(
    ("system", "signal", "known"),
    [("linux", "SIGRTMAX-14", None), ("windows", "SIGTERM", None), ("windows", "SIGHUP", SIGNALS_ON_WINDOWS)],
)
def test_signal_of_a_system(system: str, signal: str, known: str | None) -> None:
    container = {"name": "c", "image": "i:1", "lifecycle": {"stopSignal": signal}}
    assert problems(RESOURCE, SIGNALS, spec={"os": {"name": system}, "containers": [container]}) == (
        []
        if known is None
        else [f'{HERE}.lifecycle.stopSignal: Unsupported value: "{signal}": supported values: {known}']
    )


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"name": ""}, ["name: Required value"]),
        ({"image": ""}, ["image: Required value"]),
        ({"imagePullPolicy": "X"},
         ['imagePullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"']),
        ({"terminationMessagePolicy": "FallbackToLogsOnError"}, []),
        ({"terminationMessagePolicy": "X"},
         ['terminationMessagePolicy: Unsupported value: "X": supported values: "File", "FallbackToLogsOnError"']),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"},
                           {"resourceName": "memory", "restartPolicy": "RestartContainer"}]}, []),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
         ['resizePolicy[1]: Duplicate value: "cpu"']),
        ({"resizePolicy": [{"resourceName": "pods", "restartPolicy": "NotRequired"}]},
         ['resizePolicy: Unsupported value: "pods": supported values: "cpu", "memory"']),
        ({"resizePolicy": [{"resourceName": "", "restartPolicy": "NotRequired"}]}, ["resizePolicy: Required value"]),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": ""}]}, ["resizePolicy: Required value"]),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "X"}]},
         ['resizePolicy: Unsupported value: "X": supported values: "NotRequired", "RestartContainer"']),
    ],
)  # fmt: skip
def test_other_parts(parts: Object, texts: list[str]) -> None:
    assert of_container(**parts) == texts


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("example.com/gpu", []),
        (
            "a b",
            ['Invalid value: "a b": <name part>', 'Invalid value: "a b": must be a standard resource for containers'],
        ),
        (
            "x",
            [
                'Invalid value: "x": must be a standard resource type or fully qualified',
                'Invalid value: "x": must be a standard resource for containers',
            ],
        ),
    ],
)
def test_names_of_resources(name: str, texts: list[str]) -> None:
    found = of_container(resources={"limits": {name: "1"}, "requests": {name: "1"}})
    assert short(found) == [f"resources.{part}[{name}]: {text}" for part in ("limits", "requests") for text in texts]


def test_resizing_where_nothing_restarts() -> None:
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1", "resizePolicy": [policy]}]}
    assert problems(RESOURCE, spec=spec) == [
        f"{HERE}.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'"
    ]


RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE] * 20}, []),
        ({"restartPolicyRules": [RULE]},
         ["restartPolicy: Required value: must specify restartPolicy when restart rules are used"]),
        ({"restartPolicy": "X"}, ['restartPolicy: Unsupported value: "X": supported values: "Always", "Never", "OnFailure"']),
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE] * 21},
         ["restartPolicyRules: Too many: 21: must have at most 20 items"]),
        ({"restartPolicy": "Never", "restartPolicyRules": [{**RULE, "action": "X"}]},
         ['restartPolicyRules[0].action: Unsupported value: "X": supported values: "Restart", "RestartAllContainers"']),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]},
         ["restartPolicyRules[0].exitCodes: Required value: must be specified"]),
        ({"restartPolicy": "Never", "restartPolicyRules": [{**RULE, "exitCodes": {"operator": "X", "values": [1]}}]},
         ['restartPolicyRules[0].exitCodes.operator: Unsupported value: "X": supported values: "In", "NotIn"']),
        ({"restartPolicy": "Never", "restartPolicyRules": [{**RULE, "exitCodes": {"operator": "NotIn", "values": [1] * 255}}]},
         []),
        ({"restartPolicy": "Never", "restartPolicyRules": [{**RULE, "exitCodes": {"operator": "In", "values": [1] * 256}}]},
         ["restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"]),
    ],
)  # fmt: skip
def test_restart_rules(parts: Object, texts: list[str]) -> None:
    assert of_container(**parts) == texts
