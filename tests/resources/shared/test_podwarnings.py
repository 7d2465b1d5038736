"""Warnings about pod specs that are valid but probably mistakes: each with its text, in upstream's order."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.machinery.warnings import MAX_CHARACTERS
from kapi.resources.shared.podwarnings import app_armor_field, claim_spec_warnings, pod_warnings

NO_POD = "a null labelSelector results in matching no pod"
FRACTION = 'fractional byte value "4m" is invalid, must be an integer'
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def warnings(spec: Object, annotations: Object | None = None, *, template: bool = False) -> list[str]:
    path = Path("spec").child("template") if template else Path("")
    return pod_warnings(spec, {"annotations": annotations or {}}, path, template=template)


def of_containers(*containers: Object, **spec: Any) -> list[str]:
    return warnings({"containers": list(containers), **spec})


def short(found: list[str], prefix: str) -> list[str]:
    return [text.removeprefix(prefix) for text in found]


def test_nothing_to_say_of_an_ordinary_pod() -> None:
    amounts = {"cpu": "100m", "memory": "4M", "ephemeral-storage": "4G"}
    container = {
        "name": "c", "env": [{"name": "a"}, {"name": "b"}], "resources": {"limits": amounts, "requests": amounts},
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }  # fmt: skip
    spec = {
        "nodeSelector": {"a": "b"}, "overhead": amounts, "containers": [container], "terminationGracePeriodSeconds": 0,
        "hostAliases": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
        "topologySpreadConstraints": [{"topologyKey": "a", "labelSelector": {}}],
        "dnsConfig": {"nameservers": ["10.0.0.1"]},
    }  # fmt: skip
    assert warnings(spec, {"a": "b"}) == []
    assert warnings(spec, template=True) == []


# -- deprecated parts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("photonPersistentDisk", "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"),
        ("gitRepo", "gitRepo: deprecated in v1.11, and disabled by default in v1.33+"),
        ("scaleIO", "scaleIO: deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "flocker: deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "storageOS: deprecated in v1.22, non-functional in v1.25+"),
        ("quobyte", "quobyte: deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs: deprecated in v1.25, non-functional in v1.26+"),
        ("cephfs", "cephfs: deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "rbd: deprecated in v1.28, non-functional in v1.31+"),
    ],
)
def test_volumes_whose_drivers_are_gone(kind: str, text: str) -> None:
    spec = {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", kind: {}}]}
    assert warnings(spec) == [f"spec.volumes[1].{text}"]
    assert warnings(spec, template=True) == [f"spec.template.spec.volumes[1].{text}"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("scheduler.alpha.kubernetes.io/critical-pod", 'non-functional in v1.16+; use the "priorityClassName" field'),
        ("security.alpha.kubernetes.io/sysctls", 'non-functional in v1.11+; use the "sysctls" field'),
        ("security.alpha.kubernetes.io/unsafe-sysctls", 'non-functional in v1.11+; use the "sysctls" field'),
        ("seccomp.security.alpha.kubernetes.io/pod", 'non-functional in v1.27+; use the "seccompProfile" field'),
    ],
)
def test_annotations_that_became_fields(key: str, text: str) -> None:
    assert warnings({}, {key: "x"}) == [f"metadata.annotations[{key}]: {text} instead"]


def test_seccomp_annotations_beside_the_field() -> None:
    key = "container.seccomp.security.alpha.kubernetes.io/c"
    context = {"seccompProfile": {"type": "RuntimeDefault"}}
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "x", key: "x"}
    text = f'metadata.annotations[{key}]: non-functional in v1.27+; use the "seccompProfile" field instead'
    spec: Object = {"containers": [{"name": "c"}], "securityContext": context}
    assert warnings(spec, annotations) == [text]
    spec["containers"] = [{"name": "c", "securityContext": context}]
    assert warnings(spec, annotations) == []
    assert warnings({"initContainers": [{"name": "c"}], "securityContext": context}, annotations) == [text]


@pytest.mark.parametrize(
    ("annotation", "profile"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/a/b", {"type": "Localhost", "localhostProfile": "a/b"}),
        ("localhost/", None),
        ("", None),
        ("docker/default", None),
    ],
)
def test_app_armor_annotations_of_templates(annotation: str, profile: Object | None) -> None:
    assert app_armor_field(annotation) == profile
    key = "container.apparmor.security.beta.kubernetes.io/c"
    text = f'spec.template.metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    spec: Object = {"containers": [{"name": "c"}]}
    assert warnings(spec, {key: annotation}) == []
    assert warnings(spec, {key: annotation}, template=True) == [text]
    spec["securityContext"] = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "other"}}
    assert warnings(spec, {key: annotation}, template=True) == [text]
    if profile is not None:
        spec["securityContext"] = {"appArmorProfile": profile}
        assert warnings(spec, {key: annotation}, template=True) == []
    spec["containers"] = [{"name": "c", "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}]
    assert warnings(spec, {key: annotation}, template=True) == []


def test_deprecated_node_labels() -> None:
    key, other = "beta.kubernetes.io/arch", "node-role.kubernetes.io/master"
    use, role = (
        'deprecated since v1.14; use "kubernetes.io/arch" instead',
        'use "node-role.kubernetes.io/control-plane"',
    )
    assert warnings({"nodeSelector": {key: "a", "b": "c"}}) == [f"spec.nodeSelector[{key}]: {use}"]
    terms = [{}, {"matchExpressions": [{"key": "a"}, {"key": key}]}]
    affinity = {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: [{"preference": term} for term in terms]}
    constraints = [{"topologyKey": topology, "labelSelector": {}} for topology in ("a", other)]
    found = warnings({"affinity": {"nodeAffinity": affinity}, "topologySpreadConstraints": constraints})
    assert short(found, "spec.affinity.nodeAffinity.") == [
        f"{REQUIRED}.nodeSelectorTerms[1].matchExpressions[1].key: {key} is {use}",
        f"{PREFERRED}[1].preference.matchExpressions[1].key: {key} is {use}",
        f"spec.topologySpreadConstraints[1].topologyKey: {other} is {role} instead",
    ]


def test_values_of_node_labels_are_checked_where_nodes_are_only_preferred() -> None:
    """Required terms are refused for such a value; preferred ones were always accepted, so upstream only warns."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "-", "c d"]}]}]
    assert warnings({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}) == []
    found = warnings({"affinity": {"nodeAffinity": {PREFERRED: [{"preference": term} for term in terms]}}})
    place = f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values"
    assert [text.partition(", a valid label")[0] for text in found] == [
        f"{place}[1]: - is invalid",
        f"{place}[2]: c d is invalid",
    ]


# -- parts that do not do what they seem to ---------------------------------------------------------------------------


def test_selectors_of_no_pod() -> None:
    constraints = [{"topologyKey": "a", "labelSelector": {}}, {"topologyKey": "b"}]
    assert warnings({"topologySpreadConstraints": constraints}) == [
        f"spec.topologySpreadConstraints[1].labelSelector: {NO_POD}"
    ]
    terms = [{"labelSelector": {}}, {}]
    affinity = {REQUIRED: terms, PREFERRED: [{"podAffinityTerm": term} for term in terms]}
    assert short(warnings({"affinity": {"podAffinity": affinity, "podAntiAffinity": affinity}}), "spec.affinity.") == [
        f"podAffinity.{REQUIRED}[1].labelSelector: {NO_POD}",
        f"podAffinity.{PREFERRED}[1].podAffinityTerm.labelSelector: {NO_POD}",
        f"podAntiAffinity.{REQUIRED}[1].labelSelector: {NO_POD}",
        f"podAntiAffinity.{PREFERRED}[1].podAffinityTerm.labelSelector: {NO_POD}",
    ]


def test_repeated_names() -> None:
    assert warnings({"hostAliases": [{"ip": "1.1.1.1"}] * 3}) == [
        'spec.hostAliases[1].ip: duplicate ip "1.1.1.1"', 'spec.hostAliases[2].ip: duplicate ip "1.1.1.1"',
    ]  # fmt: skip
    assert warnings({"imagePullSecrets": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}) == [
        'spec.imagePullSecrets[2].name: duplicate name "a"'
    ]
    assert warnings({"imagePullSecrets": [{}, {"name": ""}]}) == [
        'spec.imagePullSecrets[1].name: duplicate name ""',
        'spec.imagePullSecrets[0].name: invalid empty name ""',
        'spec.imagePullSecrets[1].name: invalid empty name ""',
    ]


def test_fractions_of_bytes() -> None:
    amounts = {"cpu": "4m", "memory": "4m", "ephemeral-storage": "4m"}
    container = {"resources": {"requests": amounts, "limits": amounts}}
    of_one = [
        f"resources.{part}[{name}]: {FRACTION}"
        for name in ("memory", "ephemeral-storage")
        for part in ("limits", "requests")
    ]
    found = warnings({"overhead": amounts, "initContainers": [container], "containers": [{}, container]})
    assert short(found, "spec.") == [
        f"overhead[memory]: {FRACTION}", f"overhead[ephemeral-storage]: {FRACTION}",
        *(f"initContainers[0].{text}" for text in of_one), *(f"containers[1].{text}" for text in of_one),
    ]  # fmt: skip


def test_fractions_of_bytes_of_claims() -> None:
    spec = {"resources": {"requests": {"storage": "4m"}, "limits": {"storage": "4m"}}}
    wanted = [f"resources.requests[storage]: {FRACTION}", f"resources.limits[storage]: {FRACTION}"]
    assert short(claim_spec_warnings(spec, Path("spec")), "spec.") == wanted
    assert claim_spec_warnings({"resources": {"requests": {"storage": "200Mi"}}}, Path("spec")) == []
    assert claim_spec_warnings({}, Path("spec")) == []
    volumes = [{"name": "a", "ephemeral": {}}, {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    place = "spec.volumes[1].ephemeral.volumeClaimTemplate.spec."
    assert short(warnings({"volumes": volumes}), place) == wanted


def test_variables_defined_twice() -> None:
    def hidden(*second: Object) -> list[int]:
        found = of_containers({"env": [{"name": "a", "value": "x"}, *second]})
        text = 'hides previous definition of "a", which may be dropped when using apply'
        assert [line.partition(": ")[2] for line in found] == [text] * len(found)
        return [int(line[line.index("env[") + 4 : line.index("]: ")]) for line in found]

    for variable in ({"value": "x"}, {"value": ""}, {}, {"value": "$(a)"}, {"valueFrom": {}}, {"value": "$(b)"}):
        assert hidden({"name": "a", **variable}) == [1]
    assert hidden({"name": "a", "value": "$(a):y"}) == []
    assert hidden({"name": "b"}, {"name": "a"}, {"name": "a", "value": "$(a) $(a)"}) == [2]
    assert of_containers({"env": [{"name": "a"}]}, {"env": [{"name": "a"}]}) == []


def test_negative_grace_period() -> None:
    text = "must be >= 0; negative values are invalid and will be treated as 1"
    assert warnings({"terminationGracePeriodSeconds": -1}) == [f"spec.terminationGracePeriodSeconds: {text}"]


def test_addresses_not_in_their_usual_form() -> None:
    spec = {"dnsConfig": {"nameservers": ["1.2.3.4", "010.1.1.1"]}, "hostAliases": [{"ip": "::0001"}]}
    assert warnings(spec) == [
        'spec.dnsConfig.nameservers[1]: non-standard IP address "010.1.1.1" is invalid: use "10.1.1.1"',
        'spec.hostAliases[0].ip: IPv6 address "::0001" should be in RFC 5952 canonical format ("::1")',
    ]


# -- ports -------------------------------------------------------------------------------------------------------------


def port(host: int = 0, ip: str = "", number: int = 80, protocol: str = "UDP", name: str = "") -> Object:
    return {"containerPort": number, "protocol": protocol, "hostPort": host, "hostIP": ip, "name": name}


def of_ports(*lists: list[Object]) -> list[str]:
    found = of_containers(*({"ports": ports} for ports in lists))
    return [text.replace("spec.containers", "").replace(".ports", "") for text in found]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (port(), port(number=81)),
        (port(), port(protocol="TCP")),
        (port(80), port(81)),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2")),
        (port(80, "10.0.0.1"), port(81)),
    ],
)
def test_ports_beside_each_other(first: Object, second: Object) -> None:
    assert of_ports([first, second]) == of_ports([first], [second]) == []


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (port(), port(), "duplicate"),
        (port(80), port(80), "duplicate"),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), "duplicate"),
        (port(80), port(), "overlapping"),
        (port(), port(80, "10.0.0.1"), "overlapping"),
        (port(80, "10.0.0.1"), port(80), "dangerously ambiguous"),
        (port(80), port(80, "10.0.0.1"), "dangerously ambiguous"),
    ],
)
def test_ports_in_each_others_way(first: Object, second: Object, kind: str) -> None:
    assert of_ports([first, second]) == [f"[0][1]: {kind} port definition with [0][0]"]
    assert of_ports([first], [second]) == [f"[1][0]: {kind} port definition with [0][0]"]


def test_each_pair_of_ports_once_in_order() -> None:
    assert of_ports([port(80), port(80, number=180), port(80)], [port(80), port(80)]) == [
        "[0][2]: duplicate port definition with [0][0]",
        "[1][0]: duplicate port definition with [0][0]",
        "[1][0]: duplicate port definition with [0][2]",
        "[1][1]: duplicate port definition with [0][0]",
        "[1][1]: duplicate port definition with [0][2]",
        "[1][1]: duplicate port definition with [1][0]",
    ]
    assert of_ports([port(80, "10.0.0.1"), port(80), port(80, "10.0.0.2"), port()]) == [
        "[0][1]: dangerously ambiguous port definition with [0][0]",
        "[0][2]: dangerously ambiguous port definition with [0][1]",
        "[0][3]: overlapping port definition with [0][0]",
        "[0][3]: overlapping port definition with [0][1]",
        "[0][3]: overlapping port definition with [0][2]",
    ]


def test_a_host_address_without_a_host_port() -> None:
    shown = "{Name:n HostPort:0 ContainerPort:80 Protocol:UDP HostIP:10.0.0.1}"
    assert of_ports([port(ip="10.0.0.1", name="n")]) == [f"[0][0]: hostIP set without hostPort: {shown}"]


def test_one_name_for_two_ports() -> None:
    text = 'duplicate port name "n" with [0][0], services and probes that select ports by name will use [0][0]'
    assert of_ports([port(name="n"), port(name="m", number=81)], [port(name="n", number=82)]) == [f"[1][0]: {text}"]


def test_many_pairs_of_ports_fill_only_one_answer() -> None:
    found = of_ports([port()] * 400)
    assert len(found) < 1000
    assert MAX_CHARACTERS < sum(len(text) for text in of_containers({"ports": [port()] * 400})) < 2 * MAX_CHARACTERS


# -- files of volumes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "key", "shown"),
    [
        ("configMap", "name", 'ConfigMap "m"'),
        ("secret", "secretName", 'Secret "m"'),
        ("downwardAPI", "", "DownwardAPI"),
    ],
)
def test_overlapping_paths_of_one_source(kind: str, key: str, shown: str) -> None:
    def overlaps(*paths: str) -> list[str]:
        source: Object = {"items": [{"path": path} for path in paths], **({key: "m"} if key else {})}
        return short(warnings({"volumes": [{"name": "v", kind: source}]}), f'volume "v" ({shown}): overlapping paths: ')

    assert overlaps("a", "b", "a.b", "c/a", "c/b", "") == []
    assert overlaps("a", "a") == ['"a" with "a"']
    assert overlaps("a", "a/b") == ['"a/b" with "a"']
    assert overlaps("a/b", "a") == ['"a" with "a/b"']
    assert overlaps("a/b", "c/d", "a") == ['"a" with "a/b"']
    assert overlaps("a/b/", "a/b") == ['"a/b" with "a/b"']
    assert overlaps("a1/b", "a/b", "a2/b", "a1/c") == []
    assert overlaps("a", "a/b", "a/b/c") == ['"a/b" with "a"', '"a/b/c" with "a"', '"a/b/c" with "a/b"']


def test_overlapping_paths_of_projected_sources() -> None:
    def overlaps(*sources: Object) -> list[str]:
        volume = {"name": "v", "projected": {"sources": list(sources)}}
        return short(warnings({"volumes": [volume]}), 'volume "v" (Projected)')

    token = {"serviceAccountToken": {"path": "a"}}
    for source, shown in (
        ({"configMap": {"name": "m", "items": [{"path": "a"}]}}, 'ConfigMap "m"'),
        ({"secret": {"name": "m", "items": [{"path": "a"}]}}, 'Secret "m"'),
        ({"downwardAPI": {"items": [{"path": "a"}]}}, "DownwardAPI"),
        ({"clusterTrustBundle": {"name": "m", "path": "a"}}, 'ClusterTrustBundle "m"'),
        ({"clusterTrustBundle": {"signerName": "example.com/s", "path": "a"}}, 'ClusterTrustBundle "example.com/s"'),
        ({"podCertificate": {"keyPath": "a"}}, "PodCertificate key"),
        ({"podCertificate": {"certificateChainPath": "a"}}, "PodCertificate chain"),
        ({"podCertificate": {"credentialBundlePath": "a"}}, "PodCertificate credential bundle"),
    ):
        assert overlaps(source) == []
        assert overlaps(source, token) == [f': overlapping paths: "a" (ServiceAccountToken) with "a" ({shown})']
    assert overlaps({"configMap": {"name": "m"}}, {"serviceAccountToken": {"path": "a/b"}}, token) == [
        ': overlapping paths: "a" (ServiceAccountToken) with "a/b" (ServiceAccountToken)'
    ]
    assert overlaps(token, {}) == [" has no sources provided"]


def test_many_overlapping_paths_fill_only_one_answer() -> None:
    items = [{"path": f"a/{n}" if n else "a"} for n in range(300)]
    items += [{"path": f"a/{n}/b"} for n in range(300)]
    found = warnings({"volumes": [{"name": "v", "configMap": {"name": "m", "items": items}}]})
    assert MAX_CHARACTERS < sum(len(text) for text in found) < 8 * MAX_CHARACTERS
