"""IP addresses, parsed as in Go, with Go's error texts (upstream: ``net`` ParseIP, ``net/netip`` ParseAddr)."""

from __future__ import annotations

import ipaddress
from string import hexdigits

from kapi.machinery.golang import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_GROUPS = 8


def parse_ip(text: str) -> Address | None:
    """An address without leading zeros and without a zone; IPv4-mapped IPv6 stays IPv6."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


class _Problem(Exception):
    def __init__(self, text: str, at: str = "") -> None:
        super().__init__(text + (f" (at {quote(at)})" if at else ""))


def address_problem(text: str) -> str:
    """ParseAddr's error for an invalid address; "unable to parse IP" for a valid one."""
    problem = "unable to parse IP"
    first = next((char for char in text if char in ".:%"), "")
    try:
        if first == ".":
            _check_v4(text)
        elif first == ":":
            _check_v6(text)
        elif first == "%":
            problem = "missing IPv6 address"
    except _Problem as found:
        problem = str(found)
    return f"ParseAddr({quote(text)}): {problem}"


def _check_v4(text: str) -> None:
    """Raises _Problem for the first one, from left to right."""
    value, digits, dots = 0, 0, 0
    for at, char in enumerate(text):
        if char in "0123456789":
            if digits and not value:
                raise _Problem("IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise _Problem("IPv4 field has value >255")
        elif char != ".":
            raise _Problem("unexpected character", text[at:])
        elif not digits or at == len(text) - 1:
            raise _Problem("IPv4 field must have at least one digit", text[at:])
        elif dots == 3:
            raise _Problem("IPv4 address too long")
        else:
            value, digits, dots = 0, 0, dots + 1
    if dots < 3:
        raise _Problem("IPv4 address too short")


def _check_v6(text: str) -> None:
    """Raises _Problem for the first one, from left to right."""
    rest, mark, zone = text.partition("%")
    if mark and not zone:
        raise _Problem("zone must be a non-empty string")
    shortened = rest.startswith("::")
    if shortened:
        rest = rest[2:]
        if not rest:
            return
    groups = 0
    while groups < _GROUPS:
        size = len(rest) - len(rest.lstrip(hexdigits))
        if size > 4:
            raise _Problem("each group must have 4 or less digits", rest)
        if not size:
            raise _Problem("each colon-separated field must have at least one digit", rest)
        if rest[size : size + 1] == ".":
            if not shortened and groups != _GROUPS - 2:
                raise _Problem("embedded IPv4 address must replace the final 2 fields of the address", rest)
            if groups > _GROUPS - 2:
                raise _Problem("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            _check_v4(rest)
            groups, rest = groups + 2, ""
            break
        groups, rest = groups + 1, rest[size:]
        if not rest:
            break
        if rest[0] != ":":
            raise _Problem("unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _Problem("colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if shortened:
                raise _Problem("multiple :: in address", rest)
            shortened, rest = True, rest[1:]
            if not rest:
                break
    if rest:
        raise _Problem("trailing garbage after address", rest)
    if groups < _GROUPS and not shortened:
        raise _Problem("address string too short")
    if groups == _GROUPS and shortened:
        raise _Problem("the :: must expand to at least one field of zeros")
