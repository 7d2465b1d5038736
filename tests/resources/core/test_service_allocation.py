"""Which addresses and ports a Service gets and gives back, and which numbers are tried first."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from kapi.resources.core.services import allocation
from kapi.resources.core.services.allocation import AddressPlan, plan_addresses

V4, V6 = "IPv4", "IPv6"


class First:
    """Chooses the first number of a range."""

    def randint(self, first: int, last: int) -> int:
        assert first <= last
        return first


class Middle:
    def randint(self, first: int, last: int) -> int:
        return (first + last) // 2


@pytest.mark.parametrize(
    ("size", "lower"),
    [
        (1, 0),
        (15, 0),
        (16, 0),
        (17, 16),
        (512, 16),
        (543, 16),
        (544, 17),
        (4095, 127),
        (4096, 128),
        (4128, 128),
        (9999, 128),
    ],
)
def test_node_ports_of_the_upper_part_are_tried_first(size: int, lower: int) -> None:
    low, high = 30000, 30000 + size - 1
    tried = list(allocation.port_candidates(low, high, First()))  # type: ignore[arg-type]
    assert tried == [*range(low + lower, high + 1), *range(low, low + lower)]
    around = list(allocation.port_candidates(low, high, Middle()))  # type: ignore[arg-type]
    assert sorted(around) == sorted(tried) and around[0] == (low + lower + high) // 2
    assert set(around[: size - lower]) == set(tried[: size - lower])


@pytest.mark.parametrize(
    ("network", "first", "count", "last"),
    [
        ("10.0.0.0/28", "10.0.0.1", 14, "10.0.0.14"),
        ("10.0.0.0/27", "10.0.0.17", 30, "10.0.0.16"),
        ("10.0.0.0/24", "10.0.0.17", 254, "10.0.0.16"),
        ("10.0.0.0/20", "10.0.1.0", 4094, "10.0.0.255"),
        ("10.0.0.0/19", "10.0.1.1", 8190, "10.0.1.0"),
        ("fd00::/124", "fd00::1", 15, "fd00::f"),
        ("fd00::/123", "fd00::11", 31, "fd00::10"),
        ("10.0.0.0/30", "10.0.0.1", 2, "10.0.0.2"),
    ],
)
def test_addresses_of_the_upper_part_are_tried_first(network: str, first: str, count: int, last: str) -> None:
    tried = list(allocation.address_candidates(ipaddress.ip_network(network), First()))  # type: ignore[arg-type]
    assert (tried[0], len(tried), len(set(tried)), tried[-1]) == (first, count, count, last)


@pytest.mark.parametrize(
    ("network", "address", "held"),
    [
        ("10.0.0.0/24", "10.0.0.0", False), ("10.0.0.0/24", "10.0.0.1", True), ("10.0.0.0/24", "10.0.0.254", True),
        ("10.0.0.0/24", "10.0.0.255", False), ("fd00::/120", "fd00::", False), ("fd00::/120", "fd00::1", True),
        ("fd00::/120", "fd00::ff", True), ("fd00::/120", "fd00::100", False), ("0.0.0.0/8", "::1", False),
    ],
)  # fmt: skip
def test_the_ends_of_a_range(network: str, address: str, held: bool) -> None:
    assert allocation.holds(ipaddress.ip_network(network), ipaddress.ip_address(address)) is held


def service(*ips: str, families: tuple[str, ...] = (V4,), type_: str = "ClusterIP", **spec: Any) -> Any:
    return {
        "spec": {
            "type": type_,
            "clusterIP": (ips or ("",))[0],
            "clusterIPs": list(ips),
            "ipFamilies": list(families),
            **spec,
        }
    }


BOTH = (V4, V6)
EXTERNAL = {"spec": {"type": "ExternalName"}}


@pytest.mark.parametrize(
    ("new", "old", "plan"),
    [
        (service(), None, AddressPlan({V4: ""}, {})),
        (service("10.0.0.9"), None, AddressPlan({V4: "10.0.0.9"}, {})),
        (service(families=BOTH), None, AddressPlan({V4: "", V6: ""}, {})),
        (service("10.0.0.9", families=BOTH), None, AddressPlan({V4: "10.0.0.9", V6: ""}, {})),
        (service("10.0.0.9", "fd00::9", families=BOTH), None, AddressPlan({V4: "10.0.0.9", V6: "fd00::9"}, {})),
        (service("None"), None, AddressPlan({}, {})),
        (EXTERNAL, None, AddressPlan({}, {})),
        (service(), EXTERNAL, AddressPlan({V4: ""}, {})),
        (EXTERNAL, EXTERNAL, AddressPlan({}, {})),
        (EXTERNAL, service("10.0.0.9", "fd00::9", families=BOTH), AddressPlan({}, {V4: "10.0.0.9", V6: "fd00::9"})),
        (EXTERNAL, service("None"), AddressPlan({}, {})),
        (service("10.0.0.9"), service("10.0.0.9"), AddressPlan({}, {})),
        (service("10.0.0.9", families=BOTH), service("10.0.0.9"), AddressPlan({V6: ""}, {})),
        (service("10.0.0.9", "fd00::9", families=BOTH), service("10.0.0.9"), AddressPlan({V6: "fd00::9"}, {})),
        (service("10.0.0.9"), service("10.0.0.9", "fd00::9", families=BOTH), AddressPlan({}, {V6: "fd00::9"})),
        (service("10.0.0.9"), service("10.0.0.9", families=BOTH), AddressPlan({}, {})),
        (service("None", families=BOTH), service("None"), AddressPlan({}, {})),
    ],
)  # fmt: skip
def test_what_a_write_takes_and_gives_back(new: Any, old: Any, plan: AddressPlan) -> None:
    assert plan_addresses(new, old) == plan


@pytest.mark.parametrize(
    ("stored", "owned"),
    [
        (service("10.0.0.9", "fd00::9"), {V4: "10.0.0.9", V6: "fd00::9"}), (service("None"), {}), (service(), {}),
        (service("10.0.0.9", type_="ExternalName"), {}), (service("10.0.0.9", type_="NodePort"), {V4: "10.0.0.9"}),
    ],
)  # fmt: skip
def test_the_addresses_of_a_stored_service(stored: Any, owned: Any) -> None:
    assert allocation.owned_addresses(stored) == owned


@pytest.mark.parametrize(
    ("before", "allocated", "after"),
    [
        (service(), {V4: "10.0.0.1"}, ["10.0.0.1"]),
        (service(families=BOTH), {V4: "10.0.0.1", V6: "fd00::1"}, ["10.0.0.1", "fd00::1"]),
        (service("10.0.0.1", families=BOTH), {V6: "fd00::1"}, ["10.0.0.1", "fd00::1"]),
        (service("10.0.0.1"), {}, ["10.0.0.1"]),
        (service("fd00::1", families=(V6, V4)), {V4: "10.0.0.1"}, ["fd00::1", "10.0.0.1"]),
    ],
)  # fmt: skip
def test_allocated_addresses_are_written(before: Any, allocated: Any, after: list[str]) -> None:
    allocation.write_addresses(before, allocated)
    assert (before["spec"]["clusterIPs"], before["spec"]["clusterIP"]) == (after, after[0])


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        ({}, []), ({"ports": [{"nodePort": 1}, {}, {"nodePort": 2}]}, [1, 2]),
        ({"ports": [{"nodePort": 1}], "healthCheckNodePort": 3}, [1, 3]), ({"healthCheckNodePort": 0}, []),
    ],
)  # fmt: skip
def test_the_ports_of_a_service(spec: Any, ports: list[int]) -> None:
    assert allocation.owned_node_ports({"spec": spec}) == ports


def test_the_node_port_that_is_asked_for() -> None:
    ports = [{"port": 1}, {"port": 2, "nodePort": 0}, {"port": 2, "nodePort": 5}, {"port": 3, "nodePort": 6}]
    assert [allocation.requested_port({"spec": {"ports": ports}}, number) for number in (1, 2, 3, 4)] == [0, 5, 6, 0]


@pytest.mark.parametrize("old", ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])
@pytest.mark.parametrize("new", ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])
def test_node_ports_are_given_back(new: str, old: str) -> None:
    wanted = old in ("NodePort", "LoadBalancer") and new in ("ClusterIP", "ExternalName")
    assert allocation.releases_node_ports(service(type_=new), service(type_=old)) is wanted
