"""Namespaces, Secrets, ConfigMaps, LimitRanges, quotas, accounts, Nodes, Endpoints: the rules that bite."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.field import Path
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.core import configmaps, endpoints, limitranges, namespaces, nodes, resourcequotas, secrets
from kapi.resources.definition import Resource
from kapi.resources.scheduling import priorityclasses
from kapi.resources.shared.replicas import validate_collisions
from tests.certificates import self_signed
from tests.resources.shared.test_container_rules import KEY
from tests.resources.strategy_kit import CTX, changes, made, problems, short


def test_a_namespace_is_active_labelled_and_finalized_by_kubernetes() -> None:
    obj = made(namespaces.RESOURCE)
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    assert (obj["spec"], obj["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_a_namespace_terminates_and_waits_for_its_finalizers() -> None:
    strategy, obj = namespaces.RESOURCE.strategy, made(namespaces.RESOURCE)
    assert strategy.begin_deletion(obj, {"propagationPolicy": "Orphan"}, CTX)
    assert (obj["status"]["phase"], obj["metadata"]["deletionTimestamp"]) == ("Terminating", CTX.now)
    assert obj["metadata"]["finalizers"] == ["orphan"]
    assert strategy.begin_deletion(obj, {}, CTX)
    obj["spec"]["finalizers"] = []
    assert not strategy.begin_deletion(obj, {}, CTX)


def test_the_phase_follows_the_deletion() -> None:
    status = namespaces.RESOURCE.subresource("status")
    assert status is not None and status.strategy is not None
    old = made(namespaces.RESOURCE)
    old["metadata"].update(uid="u", resourceVersion="1")
    new = {**tree.copy(old), "status": {"phase": "Terminating"}}
    found = [str(error) for error in status.strategy.validate_update(new, old, CTX)]
    assert found == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


def test_string_data_is_encoded_and_wins() -> None:
    old = base64.b64encode(b"old").decode()
    obj = made(secrets.RESOURCE, data={"k": old}, stringData={"k": "new"})
    assert obj["data"] == {"k": base64.b64encode(b"new").decode()}
    assert obj["type"] == "Opaque" and "stringData" not in obj


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"data": {"a b": ""}}, 'data[a b]: Invalid value: "a b"'),
        ({"type": "kubernetes.io/service-account-token"}, "metadata.annotations[kubernetes.io/service-account.name]: "),
        ({"type": "kubernetes.io/dockerconfigjson"}, "data[.dockerconfigjson]: Required value"),
        (
            {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30x"}},
            "data[.dockerconfigjson]: ",
        ),
        ({"type": "kubernetes.io/basic-auth"}, "data[username]: Required value"),
        ({"type": "kubernetes.io/ssh-auth"}, "data[ssh-privatekey]: Required value"),
        ({"type": "kubernetes.io/tls"}, "data[tls.crt]: Required value"),
    ],
)
def test_secrets_hold_what_their_type_says(parts: Object, text: str) -> None:
    found = problems(secrets.RESOURCE, **parts)
    assert found and found[0].startswith(text), found


def test_the_type_of_a_secret_and_immutable_data_stay() -> None:
    old = made(secrets.RESOURCE, data={"k": "dg=="}, immutable=True)
    assert changes(secrets.RESOURCE, old, type="other") == ['type: Invalid value: "other": field is immutable']
    assert changes(secrets.RESOURCE, old, data={"k": "eg=="}) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
    assert changes(secrets.RESOURCE, old, immutable=False) == [
        "immutable: Forbidden: field is immutable when `immutable` is set"
    ]


def test_a_user_of_basic_authentication_has_a_name_or_a_password() -> None:
    row, kind = secrets.RESOURCE, "kubernetes.io/basic-auth"
    assert problems(row, type=kind) == ["data[username]: Required value", "data[password]: Required value"]
    assert problems(row, type=kind, data={"password": ""}) == problems(row, type=kind, data={"username": ""}) == []


@pytest.mark.parametrize(
    ("row", "part"),
    [(configmaps.RESOURCE, "data"), (configmaps.RESOURCE, "binaryData"), (secrets.RESOURCE, "data")],
)
def test_keys(row: Resource, part: str) -> None:
    texts = [f'{part}[a b]: Invalid value: "a b": {KEY}']
    assert problems(row, **{part: {"a b": ""}}) == changes(row, made(row), **{part: {"a b": ""}}) == texts


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (["orphan", "foregroundDeletion", "a.b/c"], []),
        (["x"], ['Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified']),
        (["a/-"], ['Invalid value: "a/-": <name part>']),
    ],
)
def test_what_a_namespace_waits_for(names: list[str], texts: list[str]) -> None:
    row = namespaces.RESOURCE
    assert short(problems(row, spec={"finalizers": names}), "spec.finalizers: ") == texts
    old = made(row, spec={"finalizers": names})
    found = changes(row, old, metadata={**old["metadata"], "uid": "u", "resourceVersion": "1"})
    assert short(found, "spec.finalizers: ") == texts  # which it keeps
    found = changes(row, made(row), subresource="finalize", spec={"finalizers": names})
    assert short(found, f"spec.finalizers[{len(names) - 1}]: ") == texts


def test_a_namespace_that_goes_terminates() -> None:
    old = made(namespaces.RESOURCE, metadata={"deletionTimestamp": CTX.now})
    wanted = "status.Phase: Invalid value: \"{}\": may only be 'Terminating' if `deletionTimestamp` is not empty"
    for phase, texts in (("Terminating", []), ("Active", [wanted.format("Active")])):
        assert changes(namespaces.RESOURCE, old, subresource="status", status={"phase": phase}) == texts


def test_a_key_is_in_one_of_the_two_maps_and_maps_have_an_end() -> None:
    both = {"data": {"k": "v"}, "binaryData": {"k": "dg=="}}
    assert problems(configmaps.RESOURCE, **both) == [
        'data[k]: Invalid value: "k": duplicate of key present in binaryData'
    ]
    assert problems(configmaps.RESOURCE, data={"k": "x" * ((1 << 20) + 1)}) == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]
    assert problems(configmaps.RESOURCE, data={"k": "x" * (1 << 20)}) == []


def test_limits_default_from_each_other_and_must_be_ordered() -> None:
    spec = {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}
    item = made(limitranges.RESOURCE, spec=spec)["spec"]["limits"][0]
    assert (item["default"], item["defaultRequest"]) == ({"cpu": "2"}, {"cpu": "2"})
    found = problems(limitranges.RESOURCE, spec={"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]})
    assert found == ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1']


def test_quota_scopes_must_fit_each_other() -> None:
    spec = {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}
    assert any("conflicting scopes" in problem for problem in problems(resourcequotas.RESOURCE, spec=spec))
    assert any(
        "unsupported scope applied to resource" in p
        for p in problems(resourcequotas.RESOURCE, spec={"hard": {"services": "1"}, "scopes": ["BestEffort"]})
    )


def test_a_nodes_provider_stays() -> None:
    old = made(nodes.RESOURCE, spec={"providerID": "x://1"})
    found = changes(nodes.RESOURCE, old, spec={"providerID": "x://2"})
    assert found == ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid']


def test_endpoints_take_no_loopback_address() -> None:
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 1, "protocol": "TCP"}]}]
    found = problems(endpoints.RESOURCE, subsets=subsets)
    assert found == [
        'subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'
    ]


@pytest.mark.parametrize(
    ("port", "good"), [(None, False), (0, False), (1, True), (65535, True), (65536, False), (-1, False)]
)
def test_ports_of_endpoints(port: int | None, good: bool) -> None:
    given = {"protocol": "TCP"} if port is None else {"port": port, "protocol": "TCP"}
    found = problems(endpoints.RESOURCE, subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [given]}])
    text = f"subsets[0].ports[0].port: Invalid value: {port or 0}: must be between 1 and 65535, inclusive"
    assert found == ([] if good else [text])


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, None, None),
        (0, None, None),
        (1, None, 0),
        (1, 0, 0),
        (1, 1, None),
        (1, 2, None),
        (2, 1, 1),
        (None, 1, None),
    ],
)
def test_collisions_are_not_forgotten(before: int | None, after: int | None, shown: int | None) -> None:
    errors: list[Any] = []
    validate_collisions({"collisionCount": after}, {"collisionCount": before}, Path("s"), errors)
    text = f"s.collisionCount: Invalid value: {shown}: cannot be decremented"
    assert [str(error) for error in errors] == ([] if shown is None else [text])


def test_system_priority_classes_are_kept() -> None:
    strategy = priorityclasses.RESOURCE.strategy
    with pytest.raises(StatusError, match="this is a system priority class and cannot be deleted"):
        strategy.admit_delete({"metadata": {"name": "system-node-critical"}}, CTX)
    strategy.admit_delete({"metadata": {"name": "mine"}}, CTX)
    found = problems(priorityclasses.RESOURCE, value=2_000_000_000)
    assert found == ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]


TAINTS, AVOIDED = "scheduler.alpha.kubernetes.io/taints", "scheduler.alpha.kubernetes.io/preferAvoidPods"


@pytest.mark.parametrize(
    ("annotation", "value", "texts"),
    [
        (TAINTS, '[{"key":"a","effect":"NoSchedule"}]', []),
        (
            TAINTS,
            '[{"key":"a","effect":"Never"}]',
            [
                f'metadata.annotations.{TAINTS}[0].effect: Unsupported value: "Never": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
            ],
        ),
        (
            TAINTS,
            "{}",
            [
                f'metadata.annotations: Invalid value: "{TAINTS}": '
                "json: cannot unmarshal object into Go value of type []core.Taint"
            ],
        ),
        (
            TAINTS,
            '[{"key":1}]',
            [
                f'metadata.annotations: Invalid value: "{TAINTS}": '
                "json: cannot unmarshal number into Go struct field Taint.Key of type string"
            ],
        ),
        (
            AVOIDED,
            "x",
            [
                f'metadata.annotations.AvoidPods: Invalid value: "{AVOIDED}": '
                "invalid character 'x' looking for beginning of value"
            ],
        ),
        (
            AVOIDED,
            '{"preferAvoidPods":[{"podSignature":{}},{"podSignature":{"podController":{"controller":false}}}]}',
            [
                f"metadata.annotations.{AVOIDED}[0].PodSignature: Required value",
                f"metadata.annotations.{AVOIDED}[1].PodSignature.PodController.Controller: Invalid value: false: "
                "must point to a controller",
            ],
        ),
    ],
)
def test_annotations_of_nodes_hold_json(annotation: str, value: str, texts: list[str]) -> None:
    assert problems(nodes.RESOURCE, metadata={"annotations": {annotation: value}}) == texts
    old = made(nodes.RESOURCE, metadata={"annotations": {annotation: value}})
    assert changes(nodes.RESOURCE, old, subresource="status", status={}) == texts


def test_the_ranges_of_a_node_are_read_together() -> None:
    cidrs = ["10.0.0.0/24", "x"]
    assert problems(nodes.RESOURCE, spec={"podCIDR": "10.0.0.0/24", "podCIDRs": cidrs}) == [
        'spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with "
        "error:invalid CIDR[1]: <nil> (invalid CIDR address: x)",
        'spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: may specify no more than one CIDR for each IP family',
    ]


TAINT: Object = {"key": "k", "effect": "NoSchedule"}
FEATURE = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"spec": {"taints": [TAINT, {**TAINT, "effect": "NoExecute", "value": "v"}]}}, []),
        ({"spec": {"taints": [{**TAINT, "key": "-"}]}}, ['metadata.taints[0].key: Invalid value: "-": <name part>']),
        ({"spec": {"taints": [{**TAINT, "value": "-"}]}}, ['metadata.taints[0].value: Invalid value: "-": <label value>']),
        ({"spec": {"taints": [{**TAINT, "effect": ""}]}}, ["metadata.taints[0].effect: Required value"]),
        ({"spec": {"taints": [{**TAINT, "effect": "X"}]}},
         ['metadata.taints[0].effect: Unsupported value: "X": '
          'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"']),
        ({"spec": {"taints": [TAINT, {**TAINT, "value": "v"}]}},
         ['metadata.taints[1]: Duplicate value: {"Key":"k","Value":"v","Effect":"NoSchedule","TimeAdded":null}: '
          "taints must be unique by key and effect pair"]),
        ({"status": {"capacity": {"cpu": "-1"}, "allocatable": {}}},
         ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0']),
        ({"status": {"capacity": {}, "allocatable": {"a.b/c": "1500m"}}},
         ['status.allocatable.a.b/c: Invalid value: "1500m": must be an integer']),
        ({"status": {"nodeInfo": {"swap": {"capacity": 1}}}}, []),
        ({"status": {"nodeInfo": {"swap": {"capacity": 0}}}},
         ["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"]),
        ({"status": {"declaredFeatures": ["A" * 253, "B/c"]}}, []),
        ({"status": {"declaredFeatures": ["A" * 254]}},
         [f'status.declaredFeatures[0]: Invalid value: "{"A" * 254}": invalid feature name "{"A" * 254}": '
          "must be no more than 253 characters"]),
        ({"status": {"declaredFeatures": ["a"]}},
         [f'status.declaredFeatures[0]: Invalid value: "a": invalid feature name "a": {FEATURE}']),
        ({"status": {"declaredFeatures": ["A", "A"]}}, ['status.declaredFeatures[1]: Duplicate value: "A"']),
        ({"status": {"declaredFeatures": ["B", "A"]}},
         ['status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically']),
        ({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}, []),
        ({"spec": {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}},
         ['spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: '
          "may specify no more than one CIDR for each IP family"]),
    ],
)  # fmt: skip
def test_the_rules_of_a_node(parts: Object, texts: list[str]) -> None:
    assert short(problems(nodes.RESOURCE, **parts)) == texts


CONFIG_MAP: Object = {"namespace": "n", "name": "c", "kubeletConfigKey": "k"}
IDENTITY: Object = {"uid": "u", "resourceVersion": "1"}


@pytest.mark.parametrize(
    ("subresource", "parts", "texts"),
    [
        ("", {"spec": {"configSource": {"configMap": CONFIG_MAP}}}, []),
        ("", {"spec": {"configSource": {}}},
         ['spec.configSource: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be non-nil']),
        ("", {"spec": {"configSource": {"configMap": {**CONFIG_MAP, **IDENTITY}}}},
         ["spec.configSource.configMap.uid: Forbidden: uid must not be set in spec",
          "spec.configSource.configMap.resourceVersion: Forbidden: resourceVersion must not be set in spec"]),
        ("", {"spec": {"configSource": {"configMap": {"namespace": "A", "name": "A", "kubeletConfigKey": ""}}}},
         ['spec.configSource.configMap.namespace: Invalid value: "A": <label>',
          'spec.configSource.configMap.name: Invalid value: "A": <subdomain>',
          "spec.configSource.configMap.kubeletConfigKey: Required value"]),
        ("", {"spec": {"configSource": {"configMap": CONFIG_MAP}, "externalID": "x"}},
         ["spec.externalID: Forbidden: may not be updated"]),
        ("status", {"status": {"config": {"active": {"configMap": {**CONFIG_MAP, **IDENTITY}}}}}, []),
        ("status", {"status": {"config": {"assigned": {"configMap": CONFIG_MAP}, "lastKnownGood": {}}}},
         ["status.config.assigned.configMap.uid: Required value",
          "status.config.assigned.configMap.resourceVersion: Required value",
          'status.config.lastKnownGood: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be non-nil']),
        ("status", {"status": {"addresses": [{"type": "Hostname", "address": "a"}] * 2}},
         ['status.addresses[1]: Duplicate value: {"Type":"Hostname","Address":"a"}']),
        ("status", {"status": {"capacity": {"cpu": "-1"}}},
         ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0']),
        ("status", {"status": {"declaredFeatures": ["a"]}},
         [f'status.declaredFeatures[0]: Invalid value: "a": invalid feature name "a": {FEATURE}']),
    ],
)  # fmt: skip
def test_what_a_change_of_a_node_may_not_be(subresource: str, parts: Object, texts: list[str]) -> None:
    """What it has of the removed dynamic configuration it may keep."""
    old: Object = {
        **made(nodes.RESOURCE),
        "spec": {"configSource": {"configMap": CONFIG_MAP}},
        "status": {"config": {}},
    }
    assert short(changes(nodes.RESOURCE, old, subresource=subresource, **parts)) == texts


def test_the_ranges_of_a_nodes_pods_stay() -> None:
    old = made(nodes.RESOURCE, spec={"podCIDRs": ["10.0.0.0/24", "fd00::/64"]})
    fixed = 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
    for cidrs, count in (
        ([], 1),
        (["10.0.0.0/24"], 1),
        (["10.1.0.0/24", "fd00::/64"], 1),
        (["10.1.0.0/24", "fd01::/64"], 2),
    ):
        assert changes(nodes.RESOURCE, old, spec={"podCIDRs": cidrs}) == [fixed] * count


def test_the_first_private_key_of_a_file_is_that_of_the_certificate() -> None:
    (certificate, own), (_, other) = self_signed("a"), self_signed("b")
    assert secrets.key_pair_error(certificate, own + other) == ""
    assert secrets.key_pair_error(certificate, other + own) == "tls: private key does not match public key"


def pem(*kinds: str) -> bytes:
    return "".join(f"-----BEGIN {kind}-----\nYQ==\n-----END {kind}-----\n" for kind in kinds).encode()


NO_CERTIFICATE = (
    'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following'
)
NO_KEY = 'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the following'


@pytest.mark.parametrize(
    ("certificate", "key", "text"),
    [
        ([], [], "tls: failed to find any PEM data in certificate input"),
        (["RSA PRIVATE KEY"], [], "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
         "PEM inputs may have been switched"),
        (["X"], [], f"{NO_CERTIFICATE} types: [X]"),
        (["PRIVATE KEY", "PRIVATE KEY"], [], f"{NO_CERTIFICATE} types: [PRIVATE KEY PRIVATE KEY]"),
        (["X", "CERTIFICATE"], [], "tls: failed to find any PEM data in key input"),
        (["CERTIFICATE"], ["CERTIFICATE"], "tls: found a certificate rather than a key in the PEM for the private key"),
        (["CERTIFICATE"], ["CERTIFICATE", "X"], f"{NO_KEY} types: [CERTIFICATE X]"),
        (["CERTIFICATE"], ["X"], f"{NO_KEY} types: [X]"),
        (["CERTIFICATE"], ["MYPRIVATE KEY"], f"{NO_KEY} types: [MYPRIVATE KEY]"),
        (["CERTIFICATE"], ["X", "EC PRIVATE KEY"], "x509: malformed certificate"),
    ],
)  # fmt: skip
def test_what_is_missing_from_a_certificate_and_its_key(certificate: list[str], key: list[str], text: str) -> None:
    assert secrets.key_pair_error(pem(*certificate), pem(*key)) == text


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [({"type": "a/b"}, {"type": ""}, "a/b"), ({"type": "a/b"}, {"type": "a/c"}, "a/c"), ({}, {"type": ""}, "")],
)
def test_a_secret_without_a_type_keeps_the_one_it_has(before: Object, after: Object, kept: str) -> None:
    secrets.RESOURCE.strategy.prepare_for_update(new := {"metadata": {}, **after}, {"metadata": {}, **before}, CTX)
    assert new["type"] == kept


def test_a_value_of_a_secret_that_is_null_is_empty() -> None:
    assert made(secrets.RESOURCE, data={"a": None, "b": "Yg=="})["data"] == {"a": "", "b": "Yg=="}


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        ({}, ["orphan", "x"], ["orphan", "x"]),
        ({"propagationPolicy": "Background"}, ["orphan", "foregroundDeletion", "x"], ["x"]),
        ({"propagationPolicy": "Background"}, ["orphan"], None),
        ({"propagationPolicy": "Orphan"}, ["x", "foregroundDeletion"], ["x", "orphan"]),
        ({"propagationPolicy": "Orphan"}, ["orphan", "x"], ["orphan", "x"]),
        ({"propagationPolicy": "Foreground"}, ["orphan"], ["foregroundDeletion"]),
        ({"orphanDependents": True}, None, ["orphan"]),
        ({"orphanDependents": False}, ["orphan"], ["foregroundDeletion"]),
        ({"orphanDependents": True, "propagationPolicy": "Foreground"}, None, ["orphan"]),
    ],
)
def test_the_finalizers_of_a_namespace_that_is_deleted(
    options: Object, before: list[str] | None, after: list[str] | None
) -> None:
    obj = made(namespaces.RESOURCE, metadata={"finalizers": before} if before else {})
    assert namespaces.RESOURCE.strategy.begin_deletion(obj, options, CTX)
    assert obj["metadata"].get("finalizers") == after
    assert (obj["metadata"]["deletionTimestamp"], obj["status"]["phase"]) == (CTX.now, "Terminating")
