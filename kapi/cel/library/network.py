"""IP addresses and networks (upstream: apiserver ``cel/library/ip.go``, ``cidr.go``)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from kapi.cel import types
from kapi.cel.errors import EvaluationError
from kapi.cel.functions import converter, declarer, readable
from kapi.cel.types import CelType, Value
from kapi.cel.values import Opaque, no_overload
from kapi.machinery.golang import quote
from kapi.machinery.netip import Address, Network, address_problem

IP = CelType("opaque", "net.IP")
CIDR = CelType("opaque", "net.CIDR")


@dataclass(frozen=True, slots=True)
class IPValue(Opaque):
    """An address."""

    cel_type = IP
    address: Address

    def cel_size(self) -> int:
        return 4 if self.address.version == 4 else 16

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDRValue(Opaque):
    """A CIDR prefix; the address may have host bits."""

    cel_type = CIDR
    address: Address
    length: int

    def network(self) -> Network:
        return ipaddress.ip_network((self.address, self.length), strict=False)

    def cel_size(self) -> int:
        return -(-self.length // 8)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


_PREFIX = "network address parse error during conversion from string: "
_BITS = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII).fullmatch


def parse_ip(text: str) -> Address:
    """An IP address.  Raises ValueError with upstream's text."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(
            f"IP Address {quote(text)} parse error during conversion from string: {address_problem(text)}"
        ) from None
    if "%" in text:
        raise ValueError(f"IP address {quote(text)} with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


def parse_cidr(text: str) -> CIDRValue:
    """A CIDR prefix.  Raises ValueError with upstream's text."""
    address_text, slash, bits = text.rpartition("/")
    problem = "" if slash else "no '/'"
    if not problem:
        try:
            address = ipaddress.ip_address(address_text)
        except ValueError:
            problem = address_problem(address_text)
    if not problem:
        if "%" in address_text:
            problem = "IPv6 zones cannot be present in a prefix"
        elif not _BITS(bits):
            problem = f"bad bits after slash: {quote(bits)}"
        elif len(bits) > 3 or int(bits) > address.max_prefixlen:
            problem = "prefix length out of range"
    if problem:
        raise ValueError(f"{_PREFIX}netip.ParsePrefix({quote(text)}): {problem}")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDRValue(address, int(bits))


_ip = converter(lambda text: IPValue(parse_ip(text)))
_cidr = converter(parse_cidr, _PREFIX + "{error}")


def _link_local_multicast(value: IPValue) -> bool:
    address = value.address
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and (int(address) >> 112) & 0xF == 2


def _link_local_unicast(value: IPValue) -> bool:
    address = value.address
    return address in ipaddress.ip_network("169.254.0.0/16" if address.version == 4 else "fe80::/10")


def _global_unicast(value: IPValue) -> bool:
    address = value.address
    if address.version == 4 and str(address) == "255.255.255.255":
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or _link_local_unicast(value))


def _contains_ip(cidr: CIDRValue, value: Value) -> bool:
    try:
        address = value.address if isinstance(value, IPValue) else _ip(value).address
    except EvaluationError:  # upstream's error is about the network, whatever is wrong with the address
        raise no_overload() from None
    return address.version == cidr.address.version and address in cidr.network()


def _contains_cidr(cidr: CIDRValue, value: Value) -> bool:
    other = value if isinstance(value, CIDRValue) else _cidr(value)
    if other.address.version != cidr.address.version or other.length < cidr.length:
        return False
    return other.address in cidr.network()


def _masked(cidr: CIDRValue) -> CIDRValue:
    return CIDRValue(cidr.network().network_address, cidr.length)


d = declarer(IP=IP, CIDR=CIDR)

NETWORK = [
    d("ip", "string_to_ip", "(string) IP", _ip),
    d("family", "ip_family", "IP.() int", lambda a: a.address.version),
    d("ip.isCanonical", "ip_is_canonical", "(string) bool", lambda a: str(_ip(a)) == a),
    d("isUnspecified", "ip_is_unspecified", "IP.() bool", lambda a: a.address.is_unspecified),
    d("isLoopback", "ip_is_loopback", "IP.() bool", lambda a: a.address.is_loopback),
    d("isLinkLocalMulticast", "ip_is_link_local_multicast", "IP.() bool", _link_local_multicast),
    d("isLinkLocalUnicast", "ip_is_link_local_unicast", "IP.() bool", _link_local_unicast),
    d("isGlobalUnicast", "ip_is_global_unicast", "IP.() bool", _global_unicast),
    d("isIP", "is_ip", "(string) bool", readable(parse_ip)),
    d("string", "ip_to_string", "(IP) string", str),
    d("cidr", "string_to_cidr", "(string) CIDR", _cidr),
    d("containsIP", "cidr_contains_ip_string", "CIDR.(string) bool", _contains_ip),
    d("containsIP", "cidr_contains_ip_ip", "CIDR.(IP) bool", _contains_ip),
    d("containsCIDR", "cidr_contains_cidr_string", "CIDR.(string) bool", _contains_cidr),
    d("containsCIDR", "cidr_contains_cidr", "CIDR.(CIDR) bool", _contains_cidr),
    d("ip", "cidr_ip", "CIDR.() IP", lambda a: IPValue(a.address)),
    d("prefixLength", "cidr_prefix_length", "CIDR.() int", lambda a: a.length),
    d("masked", "cidr_masked", "CIDR.() CIDR", _masked),
    d("isCIDR", "is_cidr", "(string) bool", readable(parse_cidr)),
    d("string", "cidr_to_string", "(CIDR) string", str),
]
NETWORK_CONSTANTS: dict[str, tuple[CelType, Value]] = {
    "net.IP": (types.type_of(IP), IP),
    "net.CIDR": (types.type_of(CIDR), CIDR),
}
