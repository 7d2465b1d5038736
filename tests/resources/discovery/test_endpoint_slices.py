"""EndpointSlices and Endpoints: addresses, ports, hints, generations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery.tree import Object
from kapi.resources import discovery
from kapi.resources.core import endpoints
from kapi.resources.discovery import ENDPOINT_SLICE
from tests.resources.strategy_kit import CTX, changes, made, problems, short

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def slice_of(*addresses: str, kind: str = "IPv4", **endpoint: Any) -> Object:
    return {"addressType": kind, "endpoints": [{"addresses": list(addresses), **endpoint}]}


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        (slice_of("10.0.0.1"), []),
        ({}, ["addressType: Required value"]),
        ({"addressType": "IP"}, ['addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"']),
        (slice_of(), ["endpoints[0].addresses: Required value: must contain at least 1 address"]),
        (slice_of(*["10.0.0.1"] * 101), ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]),
        (
            slice_of("fd00::1"),
            ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'],
        ),
        (
            slice_of("10.0.0.1", kind="IPv6"),
            ['endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address'],
        ),
        (
            slice_of("FD00::1", kind="IPv6"),
            ['endpoints[0].addresses[0]: Invalid value: "FD00::1": must be in canonical form ("fd00::1")'],
        ),
        (
            slice_of("127.0.0.1"),
            [
                'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": '
                "may not be in the loopback range (127.0.0.0/8, ::1/128)"
            ],
        ),
        (
            slice_of("localhost", kind="FQDN"),
            [
                'endpoints[0].addresses[0]: Invalid value: "localhost": '
                "should be a domain with at least two segments separated by dots"
            ],
        ),
        (slice_of("a.b.", kind="FQDN"), []),
        (slice_of("10.0.0.1", hostname="A"), [f'endpoints[0].hostname: Invalid value: "A": {LABEL}']),
        (
            slice_of("10.0.0.1", hints={"forZones": [{"name": "z"}, {"name": "z"}]}),
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "z"'],
        ),
        (
            slice_of("10.0.0.1", hints={"forNodes": [{"name": str(i)} for i in range(9)]}),
            ["endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items"],
        ),
    ],
)
def test_endpoints_of_a_slice(parts: Object, texts: list[str]) -> None:
    assert problems(ENDPOINT_SLICE, **parts) == texts


@pytest.mark.parametrize(
    ("ports", "texts"),
    [
        ([{}], []),
        ([{}, {}], ['ports[1].name: Duplicate value: ""']),
        ([{"name": "A"}], ['ports[0].name: Invalid value: "A": <label>']),
        ([{"protocol": "X"}], ['ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"']),
        ([{"appProtocol": "-"}], ['ports[0].appProtocol: Invalid value: "-": <name part>']),
        ([{"protocol": ""}], ['ports[0].protocol: Unsupported value: "": supported values: "SCTP", "TCP", "UDP"']),
    ],
)
def test_ports_of_a_slice(ports: list[Object], texts: list[str]) -> None:
    assert short(problems(ENDPOINT_SLICE, addressType="IPv4", ports=ports)) == texts


def test_ports_have_defaults() -> None:
    assert made(ENDPOINT_SLICE, ports=[{}])["ports"] == [{"name": "", "protocol": "TCP"}]


def test_the_type_of_addresses_is_fixed() -> None:
    old = made(ENDPOINT_SLICE, addressType="IPv4")
    assert changes(ENDPOINT_SLICE, old, addressType="IPv6") == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


def test_bad_endpoints_may_stay_as_they_are() -> None:
    old = made(ENDPOINT_SLICE, **slice_of("127.0.0.1"))
    assert changes(ENDPOINT_SLICE, old, ports=[{"name": "", "protocol": "TCP"}]) == []
    assert changes(ENDPOINT_SLICE, old, endpoints=[{"addresses": ["127.0.0.2"]}]) != []


def test_labels_and_content_raise_the_generation_and_annotations_do_not() -> None:
    old = made(ENDPOINT_SLICE, **slice_of("10.0.0.1"))
    for part, raised in (("labels", 2), ("annotations", 1)):
        new = {**old, "metadata": {**old["metadata"], part: {"a": "b"}}}
        ENDPOINT_SLICE.strategy.prepare_for_update(new, old, CTX)
        assert new["metadata"]["generation"] == raised


def test_warnings_are_not_for_the_controllers() -> None:
    obj = made(ENDPOINT_SLICE, **slice_of("a.b", kind="FQDN"))
    assert ENDPOINT_SLICE.strategy.warnings_on_create(obj, CTX) == ["spec.addressType: FQDN endpoints are deprecated"]
    obj = made(discovery.ENDPOINT_SLICE, **slice_of("010.0.0.1"))
    text = 'endpoints[0].addresses[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"'
    assert ENDPOINT_SLICE.strategy.warnings_on_update(obj, obj, CTX) == [text]
    obj["metadata"]["labels"] = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    assert ENDPOINT_SLICE.strategy.warnings_on_update(obj, obj, CTX) == []


@pytest.mark.parametrize(
    ("subset", "texts"),
    [
        ({}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
        (
            {"addresses": [{"ip": "x"}]},
            [
                'subsets[0].addresses[0].ip: Invalid value: "x": '
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address',
            ],
        ),
        (
            {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}, {"port": 0, "name": "b"}]},
            [
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            {"addresses": [{"ip": "10.0.0.1", "hostname": "A", "nodeName": "B"}]},
            [
                'subsets[0].addresses[0].hostname: Invalid value: "A": <label>',
                'subsets[0].addresses[0].nodeName: Invalid value: "B": <subdomain>',
            ],
        ),
        (
            {
                "addresses": [{"ip": "10.0.0.1"}],
                "ports": [{"port": 1, "name": "A", "protocol": "X", "appProtocol": "-"}],
            },
            [
                'subsets[0].ports[0].name: Invalid value: "A": <label>',
                'subsets[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
                'subsets[0].ports[0].appProtocol: Invalid value: "-": <name part>',
            ],
        ),
        (
            {"notReadyAddresses": [{"ip": "224.0.0.1"}]},
            [
                'subsets[0].notReadyAddresses[0].ip: Invalid value: "224.0.0.1": '
                "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
            ],
        ),
    ],
)
def test_subsets_of_endpoints(subset: Object, texts: list[str]) -> None:
    assert short(problems(endpoints.RESOURCE, subsets=[subset])) == texts


@pytest.mark.parametrize(
    ("address", "texts"),
    [
        ("a.b.", []),
        ("", [": Required value"]),
        ("A.b", [': Invalid value: "A.b": <subdomain>']),
        ("a", [': Invalid value: "a": should be a domain with at least two segments separated by dots']),
        (f"{'a' * 64}.b", [f': Invalid value: "{"a" * 64}": must be no more than 63 characters']),
    ],
)
def test_addresses_that_are_names(address: str, texts: list[str]) -> None:
    found = short(problems(ENDPOINT_SLICE, **slice_of(address, kind="FQDN")), "endpoints[0].addresses[0]")
    assert found == texts


@pytest.mark.parametrize(
    ("endpoint", "texts"),
    [
        ({"nodeName": "A"}, ['.nodeName: Invalid value: "A": <subdomain>']),
        ({"hints": {"forZones": [{"name": "-"}]}}, ['.hints.forZones[0].name: Invalid value: "-": <label value>']),
        ({"hints": {"forNodes": [{"name": "A"}]}}, ['.hints.forNodes[0].name: Invalid value: "A": <subdomain>']),
    ],
)  # fmt: skip
def test_what_else_an_endpoint_says(endpoint: Object, texts: list[str]) -> None:
    found = problems(ENDPOINT_SLICE, **slice_of("10.0.0.1", **endpoint))
    assert short(found, "endpoints[0]") == texts


def test_nodes_of_hints_are_dropped_without_the_gate_unless_the_slice_has_some() -> None:
    zones = {"forZones": [{"name": "z"}]}
    both = {**zones, "forNodes": [{"name": "n"}]}
    strategy = ENDPOINT_SLICE.strategy

    def stored(old: Object | None, on: bool) -> Object:
        obj = made(ENDPOINT_SLICE, **slice_of("10.0.0.1", hints=dict(both)))
        ctx = msgspec.structs.replace(CTX, features={"PreferSameTrafficDistribution": on})
        if old is None:
            strategy.prepare_for_create(obj, ctx)
        else:
            strategy.prepare_for_update(obj, old, ctx)
        hints: Object = obj["endpoints"][0]["hints"]
        return hints

    without, with_nodes = (made(ENDPOINT_SLICE, **slice_of("10.0.0.1", hints=hints)) for hints in (zones, both))
    assert [stored(old, False) for old in (None, without, with_nodes)] == [zones, zones, both]
    assert [stored(old, True) for old in (None, without, with_nodes)] == [both, both, both]
