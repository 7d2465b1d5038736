"""String formats of schemas (upstream: kube-openapi ``validation/strfmt``, apiextensions ``validation/formats.go``)."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable

from kapi.cel.functions import readable
from kapi.cel.library.formats import is_date, is_moment
from kapi.cel.library.urls import parse as parse_url
from kapi.cel.times import Duration
from kapi.machinery.golang import base64_bytes
from kapi.machinery.mail import is_address
from kapi.machinery.names import dns_label, dns_subdomain
from kapi.machinery.netip import Address, parse_ip

_HEX = "[0-9a-f]"


def _regex(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


_url = readable(parse_url)
_HOST = re.compile(
    r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})?|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}"
)


def _in_ascii(char: str) -> str:
    """A character of the same class for ``_HOST``: letters of all scripts count as letters, symbols as digits."""
    kind = unicodedata.category(char)[0]
    return "0" if kind == "S" else "a" if kind == "L" else char


def _hostname(text: str) -> bool:
    data = text.encode("utf-8", "replace")  # the lengths are of bytes
    if len(data) > 255 or any(len(label) > 63 for label in data.split(b".")):
        return False
    return _HOST.fullmatch("".join(map(_in_ascii, text))) is not None


_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9])")


def _address(text: str) -> Address | None:
    """An address without a zone; an IPv4 address may have leading zeros, which do not make it octal."""
    head, colon, last = text.rpartition(":")
    if "." in last:
        text = head + colon + _LEADING_ZEROS.sub("", last)
    return parse_ip(text)


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    parsed = _address(address)
    if not slash or parsed is None or re.fullmatch(r"[0-9]{1,9}", length) is None:
        return False
    return int(length) <= parsed.max_prefixlen


_MAC = re.compile(
    r"(?i)[0-9a-f]{2}(?:([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?)"
    r"|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?:\.[0-9a-f]{4}(?:(?:\.[0-9a-f]{4}){6})?)?"
)


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    total = sum((index + 1) * (10 if char == "X" else int(char)) for index, char in enumerate(digits))
    return total % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(char) * (3 if index % 2 else 1) for index, char in enumerate(digits)) % 10 == 0


_CARD = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
    r"|6[27][0-9]{14})"
)


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for index, char in enumerate(reversed(digits)):
        number = int(char) * (2 if index % 2 else 1)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def _byte(text: str) -> bool:
    if not text or "\r" in text or "\n" in text:  # which Go's decoder skips
        return False
    try:
        base64_bytes(text)
    except ValueError:
        return False
    return True


_SCALA = re.compile(r"(?<![0-9])(([0-9]+)\s*([A-Za-zµ]+))")
_SCALA_UNITS = frozenset(
    "ns nano nanos nanosecond nanoseconds us µs μs micro micros microsecond microseconds ms milli millis millisecond "
    "milliseconds s sec secs second seconds m min mins minute minutes h hr hour hours d day days w wk week weeks".split()
)


def _duration(text: str) -> bool:
    try:
        Duration.parse(text)
    except ValueError:
        found = _SCALA.findall(text)
        return bool(found) and all(unit.lower() in _SCALA_UNITS for _, _, unit in found)
    return True


def _uuid(version: str) -> Callable[[str], bool]:
    third = f"{version}{_HEX}{{3}}" if version else f"{_HEX}{{4}}"
    fourth = "[89ab]" + _HEX + "{3}" if version in ("4", "5") else _HEX + "{4}"
    return _regex(f"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}")


_RGB_NUMBER = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*"

CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _regex("[0-9a-fA-F]{24}"),
    "uri": _url,
    "email": is_address,
    "hostname": _hostname,
    "ipv4": lambda text: "." in text and _address(text) is not None,
    "ipv6": lambda text: isinstance(parse_ip(text), ipaddress.IPv6Address),
    "cidr": _cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _regex(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "hexcolor": _regex("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _regex(rf"rgb\({_RGB_NUMBER},{_RGB_NUMBER},{_RGB_NUMBER}\)"),
    "byte": _byte,
    "password": lambda text: True,
    "quantity": lambda text: True,  # known to definitions only
    "date": is_date,
    "duration": _duration,
    "datetime": is_moment,
    "k8sshortname": lambda text: not dns_label(text),
    "k8slongname": lambda text: not dns_subdomain(text),
}


def valid(format: str, text: str) -> bool:
    """Whether the text has the format; any text has an unknown format."""
    check = CHECKS.get(format.replace("-", ""))
    return check is None or check(text)


def recognized(format: str, type_: str) -> bool:
    """Whether the format is known for the type."""
    if type_ in ("", "string"):
        return format.replace("-", "") in CHECKS
    if type_ == "integer":
        return format in ("int32", "int64")
    if type_ == "number":
        return format in ("float", "double")
    return False
