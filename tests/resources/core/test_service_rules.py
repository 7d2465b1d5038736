"""What a Service may say: each rule with its text."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.core.services import RESOURCE
from kapi.resources.core.services.allocation import plan_addresses
from kapi.resources.core.services.families import (
    decide_families,
    families_on_read,
    keep_allocated,
    normalize_cluster_ips,
)
from tests.resources.strategy_kit import CTX, changes, made, problems, short

PORT = {"port": 80, "protocol": "TCP", "targetPort": 80}
NUMBER = "must be between 1 and 65535, inclusive"
ONLY = "may only be used when `type` is 'LoadBalancer'"
LOCAL = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"


def of_spec(annotations: dict[str, str] | None = None, **spec: Any) -> list[str]:
    """The rules for what is left after the defaults and before any allocation."""
    found = problems(RESOURCE, metadata={"annotations": annotations or {}}, spec={"ports": [PORT], **spec})
    return short(found, "spec.")


def of_ports(*ports: Object, **spec: Any) -> list[str]:
    return [text.removeprefix("ports") for text in of_spec(ports=[{**PORT, **port} for port in ports], **spec)]


@pytest.mark.parametrize(
    ("port", "texts"),
    [
        ({"port": 65535}, []),
        ({"port": 0}, [f".port: Invalid value: 0: {NUMBER}"]),
        ({"port": 65536}, [f".port: Invalid value: 65536: {NUMBER}"]),
        ({"targetPort": 65536}, [f".targetPort: Invalid value: 65536: {NUMBER}"]),
        ({"targetPort": "http"}, []),
        ({"targetPort": "1"}, ['.targetPort: Invalid value: "1": must contain at least one letter (a-z)']),
        ({"protocol": "SCTP"}, []),
        ({"protocol": "X"}, ['.protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"']),
        ({"name": "a.b"}, ['.name: Invalid value: "a.b": must not contain dots']),
        ({"appProtocol": "a.b/c"}, []),
        ({"nodePort": 30000}, [".nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
    ],
)  # fmt: skip
def test_port(port: Object, texts: list[str]) -> None:
    assert of_ports(port) == [f"[0]{text}" for text in texts]


def test_application_protocol_is_a_qualified_name() -> None:
    assert of_ports({"appProtocol": "a b"}) == ['[0].appProtocol: Invalid value: "a b": <name part>']


def test_ports_beside_each_other() -> None:
    named = {"name": "a"}, {"name": "b", "port": 81}
    assert of_ports(*named) == []
    assert of_ports({}, named[1]) == ["[0].name: Required value"]
    assert of_ports(named[0], {"name": "a", "port": 81}) == ['[1].name: Duplicate value: "a"']
    (found,) = of_ports(named[0], {"name": "b"})
    assert found == (
        '[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
    )
    assert of_ports(named[0], {"name": "b", "protocol": "UDP"}) == []
    node = [{**each, "nodePort": 30000} for each in named]
    assert of_ports(*node, type="NodePort") == ["[1].nodePort: Duplicate value: 30000"]
    assert of_ports(node[0], {**node[1], "protocol": "UDP"}, type="NodePort") == []


AFFINITY = "sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value"
SECONDS = "must be greater than 0 and less than 86400"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"ports": []}, ["ports: Required value"]),
        ({"ports": [], "clusterIP": "None", "clusterIPs": ["None"]}, []),
        ({"ports": [], "type": "ExternalName", "externalName": "a.b."}, []),
        ({"type": "X"}, ['type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
                         '"NodePort"']),
        ({"type": "ExternalName"}, ["externalName: Required value"]),
        ({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"]},
         ['clusterIPs[0]: Invalid value: "None": may not be set to \'None\' for NodePort services']),
        ({"type": "ExternalName", "externalName": "a", "ipFamilies": ["IPv4"]},
         ["ipFamilies: Forbidden: may not be set for ExternalName services"]),
        ({"type": "ExternalName", "externalName": "a", "ipFamilyPolicy": "SingleStack"},
         ["ipFamilyPolicy: Forbidden: may not be set for ExternalName services"]),
        ({"sessionAffinity": "X"}, ['sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None"']),
        ({"sessionAffinity": "ClientIP"}, []),
        ({"sessionAffinity": "None", "sessionAffinityConfig": {}}, []),  # which is dropped
        ({"clusterIP": "1.2.3.4"}, ["clusterIPs: Required value"]),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86400}}}, []),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}},
         [f"{AFFINITY}: 86401: {SECONDS}"]),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}},
         [f"{AFFINITY}: 0: {SECONDS}"]),
        ({"externalIPs": ["1.2.3.4"]}, []),
        ({"externalIPs": ["1.2.3"]},
         ['externalIPs[0]: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
        ({"externalIPs": ["127.0.0.1"]},
         ['externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)']),
        ({"externalIPs": ["0.0.0.0"]}, ['externalIPs[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)']),
        ({"externalIPs": ["169.254.0.1"]},
         ['externalIPs[0]: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)']),
        ({"externalTrafficPolicy": "Local"},
         ['externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services']),
        ({"type": "NodePort", "externalTrafficPolicy": "X"},
         ['externalTrafficPolicy: Unsupported value: "X": supported values: "Cluster", "Local"']),
        ({"externalTrafficPolicy": "Local", "externalIPs": ["1.2.3.4"]}, []),
        ({"internalTrafficPolicy": "X"}, ['internalTrafficPolicy: Unsupported value: "X": supported values: "Cluster", "Local"']),
        ({"healthCheckNodePort": 30000}, [f"healthCheckNodePort: Invalid value: 30000: {LOCAL}"]),
        ({"trafficDistribution": "PreferSameNode"}, []),
        ({"trafficDistribution": "X"},
         ['trafficDistribution: Unsupported value: "X": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"']),
        ({"allocateLoadBalancerNodePorts": True}, [f"allocateLoadBalancerNodePorts: Forbidden: {ONLY}"]),
        ({"loadBalancerClass": "a/b"}, [f"loadBalancerClass: Forbidden: {ONLY}"]),
        ({"loadBalancerClass": "a/b", "type": "LoadBalancer"}, []),
        ({"loadBalancerClass": "-", "type": "LoadBalancer"}, ['loadBalancerClass: Invalid value: "-": <name part>']),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, ["healthCheckNodePort: Required value"]),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 65536},
         [f"healthCheckNodePort: Invalid value: 65536: {NUMBER}"]),
        ({"loadBalancerSourceRanges": ["1.2.3.0/24"]}, [f"LoadBalancerSourceRanges: Forbidden: {ONLY}"]),
        ({"loadBalancerSourceRanges": [" 1.2.3.0/24 "], "type": "LoadBalancer"}, []),
        ({"loadBalancerSourceRanges": ["1.2"], "type": "LoadBalancer"},
         ['LoadBalancerSourceRanges[0]: Invalid value: "1.2": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
        ({"ipFamilyPolicy": "X"},
         ['ipFamilyPolicy: Unsupported value: "X": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"']),
        ({"ipFamilies": ["X"]}, ['ipFamilies[0]: Unsupported value: "X": supported values: "IPv4", "IPv6"']),
        ({"ipFamilies": ["IPv4", "IPv4"]}, ['ipFamilies[1]: Duplicate value: "IPv4"']),
        ({"ipFamilies": ["IPv6"], "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]},
         ['clusterIPs[0]: Invalid value: "1.2.3.4": expected an IPv6 value as indicated by `ipFamilies[0]`']),
        ({"ipFamilies": ["IPv4"], "clusterIP": "2001:db8::1", "clusterIPs": ["2001:db8::1"]},
         ['clusterIPs[0]: Invalid value: "2001:db8::1": expected an IPv4 value as indicated by `ipFamilies[0]`']),
        ({"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4", "2001:db8::1"]}, []),
        ({"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.5"]},
         ['clusterIPs: Invalid value: ["1.2.3.5"]: first value must match `clusterIP`']),
        ({"clusterIPs": ["1.2.3.4"]},
         ['clusterIPs: Invalid value: ["1.2.3.4"]: must be empty when `clusterIP` is not specified']),
        ({"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4", "1.2.3.5"]},
         ['clusterIPs: Invalid value: ["1.2.3.4","1.2.3.5"]: may specify no more than one IP for each IP family']),
        ({"clusterIP": "None", "clusterIPs": ["None", "1.2.3.4"]},
         ['clusterIPs: Invalid value: ["None","1.2.3.4"]: \'None\' must be the first and only value']),
        ({"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4", "2001:db8::1", "2001:db8::2"]},
         ['clusterIPs: Invalid value: ["1.2.3.4","2001:db8::1","2001:db8::2"]: may only hold up to 2 values']),
    ],
)  # fmt: skip
def test_spec(spec: Object, texts: list[str]) -> None:
    assert of_spec(**spec) == texts


MODE, HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"


@pytest.mark.parametrize(
    ("annotations", "kind", "texts"),
    [
        ({MODE: "Auto", HINTS: "Auto"}, "ClusterIP", []),
        ({MODE: "Auto", HINTS: "Off"}, "ClusterIP",
         [f'metadata.annotations[{MODE}]: Invalid value: "Auto": must match annotations[{HINTS}] when both are specified']),
        ({RANGES: "1.2.3.0/24, 4.0.0.0/8"}, "LoadBalancer", []),
        ({RANGES: "1.2.3.0/24"}, "ClusterIP", [f"metadata.annotations[{RANGES}]: Forbidden: {ONLY}"]),
        ({RANGES: "1.2.3.0/24,x"}, "LoadBalancer",
         [f'metadata.annotations[{RANGES}]: Invalid value: "x": '
          'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
    ],
)  # fmt: skip
def test_annotations(annotations: dict[str, str], kind: str, texts: list[str]) -> None:
    assert of_spec(annotations, type=kind) == texts


IP = "may not change once set"
BALANCER: Object = {
    "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
    "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
}  # fmt: skip
BOTH: Object = {
    "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "PreferDualStack",
}  # fmt: skip
HEADLESS: Object = {
    "clusterIP": "None",
    "clusterIPs": ["None"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
FIRST: Object = {**BOTH, "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}


@pytest.mark.parametrize(
    ("before", "part", "texts"),
    [
        (BOTH, {}, []),
        (BOTH, FIRST, []),
        (FIRST, BOTH, []),
        (FIRST, {**BOTH, "clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.0.0.1"], "ipFamilies": ["IPv6", "IPv4"]},
         [f'clusterIPs[0]: Invalid value: ["fd00::1","10.0.0.1"]: {IP}',
          f'ipFamilies[0]: Invalid value: ["fd00::1","10.0.0.1"]: {IP}']),
        (BOTH, {**FIRST, "ipFamilyPolicy": "PreferDualStack"},
         ["ipFamilyPolicy: Invalid value: \"PreferDualStack\": "
          f"must be set to 'SingleStack' when releasing the secondary {what}" for what in ("clusterIP", "ipFamily")]),
        (BOTH, {"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2", "fd00::1"]},
         [f'clusterIPs[0]: Invalid value: ["10.0.0.2","fd00::1"]: {IP}']),
        (BOTH, {**FIRST, "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]},
         [f'clusterIPs[0]: Invalid value: ["10.0.0.2"]: {IP}']),
        (BOTH, {"clusterIP": "", "clusterIPs": []},
         ["clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"]),
        (BOTH, {"ipFamilies": ["IPv6", "IPv4"]},
         [f'ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: {IP}'] * 2),
        (BOTH, {"clusterIP": "", "clusterIPs": [], "ipFamilies": []},
         ["ipFamilies[0]: Invalid value: []: primary ipFamily can not be unset"]),
        (BOTH, {"ipFamilies": ["IPv6"]},
         [f'ipFamilies[0]: Invalid value: ["10.0.0.1","fd00::1"]: {IP}']),
        ({"type": "ClusterIP"}, {"loadBalancerClass": "a/b"}, [f"loadBalancerClass: Forbidden: {ONLY}"] * 2),
        (BALANCER, {"loadBalancerClass": "a/b"}, [f'loadBalancerClass: Invalid value: "a/b": {IP}']),
        (BALANCER, {"healthCheckNodePort": 30002}, ["healthCheckNodePort: Forbidden: field is immutable"]),
        (BALANCER, {"healthCheckNodePort": 0}, ["healthCheckNodePort: Forbidden: field is immutable"]),
        (BALANCER, {"healthCheckNodePort": 30001}, []),
        ({**BALANCER, "healthCheckNodePort": 0}, {"healthCheckNodePort": 0}, ["healthCheckNodePort: Required value"]),
        ({**BALANCER, "healthCheckNodePort": 0}, {"healthCheckNodePort": 30001},
         ["healthCheckNodePort: Forbidden: field is immutable"]),
        (BALANCER, {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 0}, []),
        (BALANCER, {"type": "NodePort", "healthCheckNodePort": 0}, []),
        # what is headless has no families that are fixed
        (HEADLESS, {"ipFamilies": ["IPv6"]}, []),
        (HEADLESS, {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack"}, []),
        (HEADLESS, {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv6"]},
         [f'clusterIPs[0]: Invalid value: ["10.0.0.1"]: {IP}']),
        (FIRST, {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"]},
         [f'clusterIPs[0]: Invalid value: ["None"]: {IP}']),
    ],
)  # fmt: skip
def test_what_a_change_may_not_do(before: Object, part: Object, texts: list[str]) -> None:
    old = made(RESOURCE, spec={"ports": [PORT], **before})
    found = short(changes(RESOURCE, old, spec={**old["spec"], **part}), "spec.")
    assert [text for text in texts if found.count(text) < texts.count(text)] == []
    assert bool(found) == bool(texts)


INGRESS = "loadBalancer.ingress"


@pytest.mark.parametrize(
    ("kind", "ingress", "texts"),
    [
        ("LoadBalancer", {"ip": "1.2.3.4", "ipMode": "Proxy"}, []),
        ("LoadBalancer", {"hostname": "a.b"}, []),
        ("ClusterIP", {"hostname": "a.b"}, [": Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]),
        ("LoadBalancer", {"ip": "1.2.3.4"}, ["[0].ipMode: Required value: must be specified when `ip` is set"]),
        ("LoadBalancer", {"ipMode": "VIP"}, ["[0].ipMode: Forbidden: may not be specified when `ip` is not set"]),
        ("LoadBalancer", {"ip": "1.2.3.4", "ipMode": "X"},
         ['[0].ipMode: Unsupported value: "X": supported values: "Proxy", "VIP"']),
        ("LoadBalancer", {"hostname": "A"}, ['[0].hostname: Invalid value: "A": <subdomain>']),
        ("LoadBalancer", {"hostname": "1.2.3.4"},
         ['[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address']),
    ],
)  # fmt: skip
def test_the_status_of_a_load_balancer(kind: str, ingress: Object, texts: list[str]) -> None:
    old = made(RESOURCE, spec={"ports": [PORT], "type": kind})
    found = changes(RESOURCE, old, subresource="status", status={"loadBalancer": {"ingress": [ingress]}})
    assert short(found, f"status.{INGRESS}") == texts


@pytest.mark.parametrize(
    ("name", "texts"),
    [("a.b.", []), ("", ["externalName: Required value"]), ("A", ['externalName: Invalid value: "A": <subdomain>'])],
)
def test_the_name_that_a_service_stands_for(name: str, texts: list[str]) -> None:
    assert short(of_spec(type="ExternalName", externalName=name)) == texts


ONE, TWO = ("IPv4",), ("IPv4", "IPv6")


@pytest.mark.parametrize(
    ("spec", "configured", "texts"),
    [
        ({}, ONE, []),
        ({"ipFamilyPolicy": "RequireDualStack"}, TWO, []),
        ({"ipFamilyPolicy": "RequireDualStack"}, ONE,
         ['ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services']),
        ({"ipFamilies": ["IPv6"]}, ONE, ['ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster']),
        ({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}, ONE,
         ['clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster']),
        ({"ipFamilies": ["IPv4", "IPv6"]}, TWO,
         ["ipFamilyPolicy: Invalid value: \"SingleStack\": "
          "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"]),
        ({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}, TWO,
         ["ipFamilyPolicy: Invalid value: \"SingleStack\": "
          "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"]),
    ],
)  # fmt: skip
def test_families_of_a_new_service(spec: Object, configured: tuple[str, ...], texts: list[str]) -> None:
    new = made(RESOURCE, spec={"ports": [PORT], **spec})
    assert short([str(error) for error in decide_families(new, None, configured, CTX)], "spec.") == texts


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (FIRST, []),
        ({"ipFamilyPolicy": "SingleStack"}, []),  # then the second ones go
        ({"clusterIPs": ["10.0.0.1"]},
         ["ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' to release the secondary cluster IP"]),
        ({"ipFamilies": ["IPv4"]},
         ["ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' to release the secondary IP family"]),
        ({"clusterIP": "", "clusterIPs": []}, []), ({"ipFamilies": []}, []),
    ],
)  # fmt: skip
def test_families_of_a_changed_service(change: Object, texts: list[str]) -> None:
    old = made(RESOURCE, spec={"ports": [PORT], **BOTH})
    new = made(RESOURCE, spec={"ports": [PORT], **BOTH, **change})
    assert short([str(error) for error in decide_families(new, old, TWO, CTX)], "spec.") == texts


ADDRESS: Object = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}
FAMILY: Object = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
BALANCER: Object = {
    "type": "LoadBalancer", "loadBalancerClass": "a.io/b", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
    "allocateLoadBalancerNodePorts": True,
}  # fmt: skip


def port_of_node(number: int) -> Object:
    return {"ports": [{"port": 80, "nodePort": number}]}


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ({**ADDRESS, **FAMILY}, {"type": "ExternalName"}, {*ADDRESS, *FAMILY}),
        ({**ADDRESS, **FAMILY}, {"type": "NodePort"}, set()),
        ({**ADDRESS, **FAMILY}, {"type": "ExternalName", "clusterIP": "10.0.0.2"}, {*FAMILY}),
        ({**ADDRESS, **FAMILY}, {"type": "ExternalName", "clusterIPs": ["10.0.0.2"]}, {*FAMILY}),
        ({**ADDRESS, **FAMILY}, {"type": "ExternalName", "ipFamilies": ["IPv6"]}, {*ADDRESS, "ipFamilyPolicy"}),
        ({**ADDRESS, **FAMILY}, {"type": "ExternalName", "ipFamilyPolicy": "PreferDualStack"}, {*ADDRESS, "ipFamilies"}),
        ({"type": "ExternalName", **ADDRESS, **FAMILY}, {}, set()),
        ({"type": "NodePort", **port_of_node(30000)}, {"type": "ClusterIP"}, {"nodePort"}),
        ({"type": "NodePort", **port_of_node(30000)}, {"type": "ClusterIP", **port_of_node(30009)}, set()),
        ({"type": "NodePort", **port_of_node(30000)}, {"type": "LoadBalancer"}, set()),
        (BALANCER, {"type": "ClusterIP"}, {*BALANCER} - {"type"}),
        (BALANCER, {"type": "ClusterIP", "loadBalancerClass": "a.io/c"}, {*BALANCER} - {"type", "loadBalancerClass"}),
        (BALANCER, {"type": "ClusterIP", "healthCheckNodePort": 30002}, {*BALANCER} - {"type", "healthCheckNodePort"}),
        (BALANCER, {"type": "ClusterIP", "externalTrafficPolicy": "Cluster"},
         {*BALANCER} - {"type", "externalTrafficPolicy"}),
        (BALANCER, {"type": "ClusterIP", "allocateLoadBalancerNodePorts": False},
         {*BALANCER} - {"type", "allocateLoadBalancerNodePorts"}),
        (BALANCER, {"type": "NodePort"}, {"loadBalancerClass", "allocateLoadBalancerNodePorts", "healthCheckNodePort"}),
        (BALANCER, {"type": "LoadBalancer"}, set()),
    ],
)  # fmt: skip
def test_a_field_of_the_former_type_goes_unless_the_client_has_changed_it(
    before: Object, after: Object, gone: set[str]
) -> None:
    """As TestDropTypeDependentFields of upstream's ``pkg/registry/core/service``."""
    old = {"metadata": {"name": "a"}, "spec": {"type": "ClusterIP", "ports": [{"port": 80}], **before}}
    new = {"metadata": {"name": "a"}, "spec": {**copy.deepcopy(old["spec"]), **after}}
    fields = {*new["spec"], *new["spec"]["ports"][0]}
    RESOURCE.strategy.prepare_for_update(new, old, CTX)
    assert fields - {*new["spec"], *new["spec"]["ports"][0]} == gone


A, B, V6, W6 = "10.0.0.10", "10.0.0.11", "2000::1", "3000::1"


@pytest.mark.parametrize(
    ("old", "given", "wanted"),
    [
        (None, (A, []), [A]), (None, ("", [A]), [A]), (None, (A, [A]), [A]), (None, (A, [A, V6]), [A, V6]),
        ((A, [A]), (A, [A]), [A]), ((A, [A]), (B, [B]), [B]), ((A, [A, V6]), (B, [B, W6]), [B, W6]),
        ((A, [A]), (A, [A, V6]), [A, V6]), ((A, [A, V6]), (A, [A]), [A]), ((A, [A]), ("", [A]), []),
        ((A, [A]), (A, []), [A]), ((A, [A, V6]), (A, []), [A, V6]), ((A, [A]), ("", []), []), ((A, [A]), ("", [B]), [B]),
        ((A, [A, V6]), (B, []), []), (("None", ["None"]), (A, ["None"]), [A]), ((A, [A]), ("None", [A]), ["None"]),
        ((A, [A, V6]), ("None", [B, V6]), [B, V6]), (("", []), (A, []), [A]),
    ],
)  # fmt: skip
def test_an_address_that_only_one_of_two_fields_has(
    old: tuple[str, list[str]] | None, given: tuple[str, list[str]], wanted: list[str]
) -> None:
    """As TestNormalizeClusterIPs of upstream's ``pkg/registry/core/service/storage``."""

    def service(address: str, addresses: list[str]) -> Object:
        return {"spec": {"clusterIP": address, **({"clusterIPs": addresses} if addresses else {})}}

    new = service(*given)
    normalize_cluster_ips(new, None if old is None else service(*old))
    assert (new["spec"]["clusterIP"], new["spec"].get("clusterIPs") or []) == (given[0], wanted)


NODE: Object = {"type": "NodePort", "clusterIP": A, "clusterIPs": [A]}
HEALTHY: Object = {**NODE, "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009}


def ports_of(**numbers: int | None) -> Object:
    return {
        "ports": [
            {"name": name, **({} if number is None else {"nodePort": number})} for name, number in numbers.items()
        ]
    }


@pytest.mark.parametrize(
    ("before", "given", "kept"),
    [
        ({"clusterIP": A, "clusterIPs": [A, V6]}, {}, {"clusterIP": A, "clusterIPs": [A, V6]}),
        ({"clusterIP": A, "clusterIPs": [A]}, {"clusterIP": B, "clusterIPs": [B]}, {"clusterIP": B, "clusterIPs": [B]}),
        ({"clusterIP": A, "clusterIPs": [A]}, {"type": "ExternalName"}, {"type": "ExternalName"}),
        ({"type": "ExternalName", "clusterIP": A, "clusterIPs": [A]}, {"type": "ClusterIP"}, {"type": "ClusterIP"}),
        ({}, {}, {}),
        # ports by their names, but for those that another port has now
        ({**NODE, **ports_of(a=1, b=2)}, {**NODE, **ports_of(b=None, c=None, a=5)}, {**NODE, **ports_of(b=2, c=None, a=5)}),
        ({**NODE, **ports_of(a=1, b=2)}, {**NODE, **ports_of(a=2, b=None)}, {**NODE, **ports_of(a=2, b=None)}),
        ({**NODE, **ports_of(a=None)}, {**NODE, **ports_of(a=None)}, {**NODE, **ports_of(a=None)}),
        ({**NODE, **ports_of(a=1)}, {"type": "ClusterIP", "clusterIP": A, "clusterIPs": [A], **ports_of(a=None)},
         {"type": "ClusterIP", "clusterIP": A, "clusterIPs": [A], **ports_of(a=None)}),
        ({"clusterIP": A, "clusterIPs": [A], **ports_of(a=1)}, {**NODE, **ports_of(a=None)}, {**NODE, **ports_of(a=None)}),
        # the port of health checks
        (HEALTHY, {**HEALTHY, "healthCheckNodePort": 0}, HEALTHY),
        (HEALTHY, {**HEALTHY, "healthCheckNodePort": 30008}, {**HEALTHY, "healthCheckNodePort": 30008}),
        (HEALTHY, NODE, NODE),
        (NODE, {**HEALTHY, "healthCheckNodePort": 0}, {**HEALTHY, "healthCheckNodePort": 0}),
        ({**HEALTHY, "healthCheckNodePort": 0}, {**HEALTHY, "healthCheckNodePort": 0}, {**HEALTHY, "healthCheckNodePort": 0}),
    ],
)  # fmt: skip
def test_what_was_allocated_is_kept_when_an_update_lacks_it(before: Object, given: Object, kept: Object) -> None:
    new = {"spec": copy.deepcopy(given)}
    keep_allocated(new, {"spec": before})
    assert new == {"spec": kept}


def with_families(*names: str) -> Object:
    return {"ipFamilyPolicy": "SingleStack" if len(names) == 1 else "RequireDualStack", "ipFamilies": [*names]}


@pytest.mark.parametrize(
    ("spec", "primary", "added"),
    [
        ({"clusterIP": A}, "IPv6", {"clusterIPs": [A], **with_families("IPv4")}),
        ({"clusterIP": V6}, "IPv4", {"clusterIPs": [V6], **with_families("IPv6")}),
        ({"clusterIP": A, "clusterIPs": [A, V6]}, "IPv4", with_families("IPv4", "IPv6")),
        ({"clusterIP": "None", "selector": {"a": "b"}}, "IPv6", {"clusterIPs": ["None"], **with_families("IPv6")}),
        ({"clusterIP": "None"}, "IPv6", {"clusterIPs": ["None"], **with_families("IPv6", "IPv4")}),
        ({"clusterIP": "None"}, "IPv4", {"clusterIPs": ["None"], **with_families("IPv4", "IPv6")}),
        ({"clusterIP": A, "ipFamilies": ["IPv6"]}, "IPv4", {"clusterIPs": [A]}),
        ({"type": "ExternalName", "internalTrafficPolicy": "Cluster"}, "IPv4", {"internalTrafficPolicy": None}),
        ({}, "IPv4", {}),
    ],
)  # fmt: skip
def test_a_service_that_was_stored_without_families_is_read_with_them(
    spec: Object, primary: str, added: Object
) -> None:
    service = {"spec": dict(spec)}
    families_on_read(service, primary)
    assert service["spec"] == {key: value for key, value in {**spec, **added}.items() if value is not None}


def stacked(*ips: str, **spec: Any) -> Object:
    names = ["IPv6" if ":" in ip else "IPv4" for ip in ips]
    return {"spec": {"clusterIP": ips[0] if ips else "", "clusterIPs": [*ips], "ipFamilies": names, **spec}}


@pytest.mark.parametrize(
    ("old", "new", "allocate", "release"),
    [
        (None, stacked(A, V6), {"IPv4": A, "IPv6": V6}, {}),
        (None, stacked(A, ipFamilies=["IPv4", "IPv6"]), {"IPv4": A, "IPv6": ""}, {}),
        (None, stacked(ipFamilies=["IPv6"]), {"IPv6": ""}, {}),
        (None, stacked("None"), {}, {}),
        (None, stacked(type="ExternalName", ipFamilies=["IPv4"]), {}, {}),
        (stacked(type="ExternalName"), stacked(A), {"IPv4": A}, {}),
        (stacked(type="ExternalName"), stacked(type="ExternalName"), {}, {}),
        (stacked(A, V6), stacked(A, V6, type="ExternalName"), {}, {"IPv4": A, "IPv6": V6}),
        (stacked("None"), stacked("None", type="ExternalName"), {}, {}),
        (stacked("None"), stacked("None", ipFamilies=["IPv4", "IPv6"]), {}, {}),
        (stacked(A), stacked(A, V6), {"IPv6": V6}, {}),
        (stacked(A), stacked(A, ipFamilies=["IPv4", "IPv6"]), {"IPv6": ""}, {}),
        (stacked(A, V6), stacked(A), {}, {"IPv6": V6}),
        (stacked(A, V6, clusterIPs=[A]), stacked(A), {}, {}),
        (stacked(A, V6), stacked(A, V6), {}, {}),
        (stacked(A), stacked(A), {}, {}),
    ],
)  # fmt: skip
def test_addresses_to_allocate_and_to_release(
    old: Object | None, new: Object, allocate: Object, release: Object
) -> None:
    assert plan_addresses(new, old) == (allocate, release)


def test_an_address_of_a_load_balancer_is_virtual_unless_it_says_otherwise() -> None:
    ingress = [{"ip": A}, {"ip": B, "ipMode": "Proxy"}, {"hostname": "a.example"}]
    service = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": copy.deepcopy(ingress)}}}
    RESOURCE.strategy.default(service)
    found = [each.get("ipMode") for each in service["status"]["loadBalancer"]["ingress"]]
    assert found == ["VIP", "Proxy", None]
