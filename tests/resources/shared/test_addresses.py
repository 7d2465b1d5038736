"""Addresses and CIDRs in fields that are older than strict parsing: with the gate StrictIPCIDRValidation and without it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.apps.deployments import RESOURCE as DEPLOYMENT
from kapi.resources.core import endpoints, nodes, pods, services
from kapi.resources.definition import Resource
from kapi.resources.discovery import ENDPOINT_SLICE as SLICE
from kapi.resources.networking import ingresses, networkpolicies, servicecidrs
from kapi.resources.shared.addresses import cidr_warnings, parse_network
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import CTX, made

OFF = msgspec.structs.replace(CTX, features={"StrictIPCIDRValidation": False})
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
ZEROS, MAPPED = "must not have leading 0s", "must not be an IPv4-mapped IPv6 address"
CIDR_ZEROS, BITS = "must not have leading 0s in IP or prefix length", "must not have bits set beyond the prefix length"
CIDR_MAPPED = "must not have an IPv4-mapped IPv6 address"
NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def refusals(row: Resource, subresource: str, on: bool, parts: Object) -> list[str]:
    """What a create is refused for, or an update of a subresource of an object without addresses."""
    ctx = CTX if on else OFF
    if not subresource:
        obj = made(row, **parts)
        return [str(error) for error in row.strategy.validate(obj, ctx)]
    found = row.subresource(subresource)
    assert found is not None and found.strategy is not None
    old = made(row, **{**parts, "status": {}})
    old["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    new = {**tree.copy(old), "status": tree.copy(parts["status"])}
    found.strategy.prepare_for_update(new, old, ctx)
    return [str(error) for error in found.strategy.validate_update(new, old, ctx)]


def service(**spec: Any) -> Object:
    return {"spec": {"ports": [{"port": 80}], **spec}}


def template(**spec: Any) -> Object:
    labels = {"a": "b"}
    pod = {"metadata": {"labels": labels}, "spec": {**CONTAINERS, **spec}}
    return {"spec": {"selector": {"matchLabels": labels}, "template": pod}}


def policy(**block: Any) -> Object:
    return {"spec": {"ingress": [{"from": [{"ipBlock": block}]}]}}


def test_the_length_of_a_mapped_network_counts_from_that_of_ipv6() -> None:
    assert parse_network("::ffff:1.2.3.4/96") == (IPv4Address("1.2.3.4"), IPv4Network("0.0.0.0/0"))
    assert parse_network("::ffff:1.2.3.4/128") == (IPv4Address("1.2.3.4"), IPv4Network("1.2.3.4/32"))
    assert parse_network("::ffff:1.2.3.4/95") == (
        IPv6Address("::ffff:1.2.3.4"), IPv6Network("::fffe:0:0/95"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cidr", "warned"),
    [("0.0.0.0/0", False), ("::/0", False), ("10.0.0.0/8", False), ("10.0.0.0/08", True), ("10.0.0.0/00", True)],
)
def test_the_length_zero_has_no_leading_zeros(cidr: str, warned: bool) -> None:
    assert bool(cidr_warnings(Path("p"), cidr)) == warned


def balancer(ip: str) -> Object:
    return {"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"}]}}


#: row, subresource, object, the error while the gate is on
FIELDS: list[tuple[Resource, str, Object, str]] = [
    (services.RESOURCE, "", service(clusterIP="10.0.0.011", clusterIPs=["10.0.0.011"]), f"spec.clusterIPs[0]: {ZEROS}"),
    (services.RESOURCE, "", service(externalIPs=["::ffff:1.2.3.4"]), f"spec.externalIPs[0]: {MAPPED}"),
    (
        services.RESOURCE, "", service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/08"]),
        f"spec.LoadBalancerSourceRanges[0]: {CIDR_ZEROS}",
    ),
    (
        services.RESOURCE, "",
        {
            "metadata": {"annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.1/8"}},
            **service(type="LoadBalancer"),
        },
        f"metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: {BITS}",
    ),
    (
        services.RESOURCE, "status", {**service(type="LoadBalancer"), "status": balancer("010.0.0.1")},
        f"status.loadBalancer.ingress[0].ip: {ZEROS}",
    ),
    (nodes.RESOURCE, "", {"spec": {"podCIDRs": ["010.0.0.0/8"]}}, f"spec.podCIDRs[0]: {CIDR_ZEROS}"),
    (pods.RESOURCE, "", {"spec": {**CONTAINERS, "hostAliases": [{"ip": "127.0.0.01"}]}}, f"spec.hostAliases[0].ip: {ZEROS}"),
    (
        DEPLOYMENT, "", template(dnsPolicy="None", dnsConfig={"nameservers": ["010.0.0.1"]}),
        f"spec.template.spec.dnsConfig.nameservers[0]: {ZEROS}",
    ),
    (
        pods.RESOURCE, "status",
        {"spec": CONTAINERS, "status": {"podIP": "10.244.0.05", "podIPs": [{"ip": "10.244.0.05"}]}},
        f"status.podIPs[0]: {ZEROS}",
    ),
    (
        pods.RESOURCE, "status",
        {"spec": CONTAINERS, "status": {"hostIP": "10.244.0.05", "hostIPs": [{"ip": "10.244.0.05"}]}},
        f"status.hostIPs[0]: {ZEROS}",
    ),
    (endpoints.RESOURCE, "", {"subsets": [{"addresses": [{"ip": "192.168.3.011"}]}]}, f"subsets[0].addresses[0].ip: {ZEROS}"),
    (
        SLICE, "", {"addressType": "IPv4", "endpoints": [{"addresses": ["10.244.0.011"]}]},
        f"endpoints[0].addresses[0]: {ZEROS}",
    ),
    (
        ingresses.RESOURCE, "status",
        {"spec": {"defaultBackend": {"resource": {"kind": "K", "name": "n"}}}, "status": balancer("010.0.0.1")},
        f"status.loadBalancer.ingress[0].ip: {ZEROS}",
    ),
    (networkpolicies.RESOURCE, "", policy(cidr="10.0.0.1/8"), f"spec.ingress[0].from[0].ipBlock.cidr: {BITS}"),
    (
        networkpolicies.RESOURCE, "", policy(cidr="10.0.0.0/8", **{"except": ["::ffff:10.0.0.0/112"]}),
        f"spec.ingress[0].from[0].ipBlock.except[0]: {CIDR_MAPPED}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "subresource", "parts", "text"), FIELDS, ids=[text.partition(": ")[0] for *_, text in FIELDS]
)
def test_legacy_forms_are_accepted_while_the_gate_is_off(
    row: Resource, subresource: str, parts: Object, text: str
) -> None:
    field, _, detail = text.partition(": ")
    [found] = refusals(row, subresource, True, parts)
    assert (found.partition(": ")[0], found.endswith(f": {detail}")) == (field, True)
    assert refusals(row, subresource, False, parts) == []


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(
    ("row", "parts", "text"),
    [
        (services.RESOURCE, service(externalIPs=["10.0.0"]), f'spec.externalIPs[0]: Invalid value: "10.0.0": {NO_IP}'),
        (
            networkpolicies.RESOURCE, policy(cidr="10.0.0.0/33"),
            f'spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.0.0.0/33": {NO_CIDR}',
        ),
        # newer fields have been strict since they exist
        (
            servicecidrs.IP_ADDRESS,
            {"metadata": {"name": "010.0.0.1"}, "spec": {"parentRef": {"resource": "services", "name": "s"}}},
            f'metadata.name: Invalid value: "010.0.0.1": {ZEROS}',
        ),
        (servicecidrs.SERVICE_CIDR, {"spec": {"cidrs": ["10.0.0.1/8"]}}, f'spec.cidrs[0]: Invalid value: "10.0.0.1/8": {BITS}'),
        (
            SLICE, {"addressType": "IPv6", "endpoints": [{"addresses": ["FE::1"]}]},
            'endpoints[0].addresses[0]: Invalid value: "FE::1": must be in canonical form ("fe::1")',
        ),
    ],
)  # fmt: skip
def test_other_texts_are_refused_whatever_the_gate(row: Resource, parts: Object, text: str, on: bool) -> None:
    assert refusals(row, "", on, parts) == [text]


def test_an_address_in_a_legacy_form_must_be_fit_for_its_field_all_the_same() -> None:
    assert refusals(services.RESOURCE, "", False, service(externalIPs=["127.0.0.01"])) == [
        'spec.externalIPs[0]: Invalid value: "127.0.0.01": may not be in the loopback range (127.0.0.0/8, ::1/128)'
    ]
    ips = ["10.0.0.1", "::ffff:10.0.0.2"]
    spec = {
        "clusterIP": ips[0],
        "clusterIPs": ips,
        "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack",
    }
    assert refusals(services.RESOURCE, "", False, service(**spec)) == [
        'spec.clusterIPs: Invalid value: ["10.0.0.1","::ffff:10.0.0.2"]: may specify no more than one IP for each IP family',
        'spec.clusterIPs[1]: Invalid value: "::ffff:10.0.0.2": expected an IPv6 value as indicated by `ipFamilies[1]`',
    ]


def test_who_sends_a_legacy_form_is_warned() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.environment.features = {**api.environment.features, "StrictIPCIDRValidation": False}
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    answer = api.ask("POST", policies, {"metadata": {"name": "a"}, **policy(cidr="010.0.0.1/8")})
    assert (answer.code, answer.json["spec"]["ingress"][0]["from"][0]["ipBlock"]["cidr"]) == (201, "010.0.0.1/8")
    path = "spec.ingress[0].from[0].ipBlock.cidr"
    assert answer.responseHeaders.getRawHeaders("Warning") == [
        f'299 - "{path}: CIDR value \\"010.0.0.1/8\\" is ambiguous in this context '
        '(should be \\"10.0.0.0/8\\" or \\"10.0.0.1/32\\"?)"',
        f'299 - "{path}: non-standard CIDR value \\"010.0.0.1/8\\" is invalid: use \\"10.0.0.0/8\\""',
    ]
