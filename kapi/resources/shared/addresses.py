"""Parsing and checks of IP addresses and CIDRs, and the addresses that may be endpoints or external IPs.

*Legacy* fields, which are older than KEP-4858 (1.33), also accept texts that strict parsing refuses, if they are stored already,
or if the gate ``StrictIPCIDRValidation`` is disabled.
"Sloppy" parsing, upstream's term, accepts leading zeros and IPv4-mapped IPv6 addresses.
Upstream: apimachinery ``util/validation/ip.go``, core ``ValidateEndpointIP``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.golang import NumberError, parse_uint, quote
from kapi.machinery.netip import Address, Network, parse_ip
from kapi.resources.shared.features import gate
from kapi.resources.shared.rules import Errors

_BAD_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_octets_re = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_ORIGIN = "format=endpoint-ip"
_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def _without_leading_zeros(text: str) -> str:
    """The dotted part with its octets in canonical form."""
    head, colon, dotted = text.rpartition(":")
    if not _octets_re.fullmatch(dotted):
        return text
    return head + colon + ".".join(octet.lstrip("0") or "0" for octet in dotted.split("."))


def parse(text: str) -> Address | None:
    """A sloppy address; an IPv4-mapped IPv6 address is its IPv4 address."""
    address = parse_ip(_without_leading_zeros(text))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def parse_network(text: str) -> tuple[Address, Network] | None:
    """A sloppy CIDR: its address and its masked network."""
    host, _, length = text.partition("/")
    try:
        bits = parse_uint(length)
    except NumberError:
        return None
    strict = parse_ip(_without_leading_zeros(host))
    if strict is None:
        return None
    if bits > strict.max_prefixlen:
        return None
    if isinstance(strict, ipaddress.IPv6Address) and strict.ipv4_mapped is not None and bits >= 96:
        address: Address = strict.ipv4_mapped
        return address, ipaddress.ip_network((address, bits - 96), strict=False)
    return strict, ipaddress.ip_network((strict, bits), strict=False)


def is_ipv6(text: str) -> bool:
    address = parse(text)
    return address is not None and address.version == 6


def family_of(text: str) -> str:
    """``IPv4``, ``IPv6`` or ``unknown``."""
    address = parse(text)
    return "unknown" if address is None else f"IPv{address.version}"


def _legacy_forms(ctx: object) -> bool:
    """Whether new objects may have leading zeros, IPv4-mapped IPv6 addresses, and CIDRs with bits beyond their prefix."""
    return not gate(ctx, "StrictIPCIDRValidation")


def check_ip_legacy(path: Path, text: str, ctx: object, accepted: Collection[str] = ()) -> list[FieldError]:
    """A legacy IP field: a valid address without leading zeros, not IPv4-mapped; texts in ``accepted`` (stored ones) may stay.

    ``ctx`` has the feature gates.
    """
    if text in accepted:
        return []
    if (errors := _ip_errors(path, text)) and _legacy_forms(ctx) and parse(text) is not None:
        return []
    return errors


def _ip_errors(path: Path, text: str) -> list[FieldError]:
    if parse(text) is None:
        return [invalid(path, text, _BAD_IP, "format=ip-sloppy")]
    strict = parse_ip(text)
    if strict is None:
        return [invalid(path, text, "must not have leading 0s", "format=ip-sloppy")]
    if isinstance(strict, ipaddress.IPv6Address) and strict.ipv4_mapped is not None:
        return [invalid(path, text, "must not be an IPv4-mapped IPv6 address", "format=ip-sloppy")]
    return []


def check_ip(path: Path, text: str) -> list[FieldError]:
    """An IP field that is not a legacy one: the address must also be in canonical form."""
    errors = _ip_errors(path, text)
    if errors:
        return errors
    canonical = str(parse(text))
    if text != canonical:
        return [invalid(path, text, f"must be in canonical form ({quote(canonical)})", "format=ip-strict")]
    return []


def check_cidr_legacy(path: Path, text: str, ctx: object, accepted: Collection[str] = ()) -> list[FieldError]:
    """A legacy CIDR field; texts in ``accepted`` (stored ones) may stay.  ``ctx`` has the feature gates."""
    if text in accepted:
        return []
    if (errors := _cidr_errors(path, text)) and _legacy_forms(ctx) and parse_network(text) is not None:
        return []
    return errors


def _cidr_errors(path: Path, text: str) -> list[FieldError]:
    parsed = parse_network(text)
    if parsed is None:
        return [invalid(path, text, _BAD_CIDR)]
    host, _, length = text.partition("/")
    strict = parse_ip(host)
    if strict is None or (len(length) > 1 and length[0] == "0"):
        return [invalid(path, text, "must not have leading 0s in IP or prefix length")]
    if isinstance(strict, ipaddress.IPv6Address) and strict.ipv4_mapped is not None:
        return [invalid(path, text, "must not have an IPv4-mapped IPv6 address")]
    if strict != parsed[1].network_address:
        return [invalid(path, text, "must not have bits set beyond the prefix length")]
    return []


def check_cidr(path: Path, text: str) -> list[FieldError]:
    """A CIDR field that is not a legacy one: it must also be in canonical form."""
    errors = _cidr_errors(path, text)
    if errors:
        return errors
    parsed = parse_network(text)
    canonical = str(parsed[1]) if parsed else text
    if text != canonical:
        return [invalid(path, text, f"must be in canonical form ({quote(canonical)})")]
    return []


def check_interface_address(path: Path, text: str) -> list[FieldError]:
    """An address with its prefix length, ``10.9.8.7/24``, in canonical form."""
    parsed = parse_network(text)
    if parsed is None:
        return [invalid(path, text, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")]
    address, network = parsed
    shown = getattr(address, "ipv4_mapped", None) or address  # Go prints a mapped address as IPv4
    canonical = f"{shown}/{network.prefixlen}"
    if text != canonical:
        return [invalid(path, text, f"must be in canonical form ({quote(canonical)})")]
    return []


def ip_warnings(path: Path, text: str) -> list[str]:
    """Warnings about an address that is not in its preferred form."""
    address = parse(text)
    if address is None:
        return []
    strict = parse_ip(text)
    mapped = isinstance(strict, ipaddress.IPv6Address) and strict.ipv4_mapped is not None
    if strict is None or mapped:
        return [f'{path}: non-standard IP address "{text}" is invalid: use "{address}"']
    if strict.version == 6 and str(strict) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{strict}")']
    return []


def cidr_warnings(path: Path, text: str) -> list[str]:
    parsed = parse_network(text)
    if parsed is None:
        return []
    address, network = parsed
    warnings: list[str] = []
    if address != network.network_address:
        single = f"{address}/{network.max_prefixlen}"
        warnings.append(
            f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{network}" or "{single}"?)'
        )
    host, _, length = text.partition("/")
    strict = parse_ip(host)
    mapped = isinstance(strict, ipaddress.IPv6Address) and strict.ipv4_mapped is not None
    if strict is None or mapped or (len(length) > 1 and length[0] == "0"):
        warnings.append(f'{path}: non-standard CIDR value "{text}" is invalid: use "{network}"')
    elif not warnings and strict.version == 6 and f"{strict}/{parse_uint(length)}" != text:
        warnings.append(
            f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{strict}/{parse_uint(length)}")'
        )
    return warnings


def validate_endpoint_ip(text: str, path: Path, errors: Errors) -> None:
    """Appends errors for unspecified, loopback and link-local addresses."""
    address = parse(text)
    if address is None:
        errors.append(invalid(path, text, "must be a valid IP address", "format=ip-sloppy"))
        return
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})", _ORIGIN))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)", _ORIGIN))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)", _ORIGIN))
    if any(address.version == network.version and address in network for network in _LINK_LOCAL_MULTICAST):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, text, detail, _ORIGIN))
