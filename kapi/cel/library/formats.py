"""Named string formats (upstream: apiserver ``cel/library/format.go``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from kapi.cel import types
from kapi.cel.functions import declarer
from kapi.cel.library import urls
from kapi.cel.types import CelType, Value
from kapi.cel.values import NONE, Opaque, Optional
from kapi.machinery import names

FORMAT = CelType("opaque", "kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True)
class Format(Opaque):
    """A format: its check, and the length of its pattern for the cost."""

    cel_type = FORMAT
    name: str
    check: Callable[[str], Sequence[str]]
    regex_size: int


def _prefix(check: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    return lambda text: check(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        urls.parse(text)
    except ValueError as error:
        return [f'parse "{text}": {error}']
    return []


def _pattern(pattern: str, complaint: str) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern)
    return _told(lambda text: compiled.fullmatch(text) is not None, complaint)


def _told(fits: Callable[[str], bool], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if fits(text) else [complaint]


def is_date(text: str) -> bool:
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        return False
    try:
        date.fromisoformat("2000" + text[4:] if text.startswith("0000") else text)  # a year for Go, and a leap year
    except ValueError:
        return False
    return True


_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def is_moment(text: str) -> bool:
    """Upstream looks neither at what follows a second T nor at the range of the offset."""
    day, *rest = text.lower().split("t")
    match = _CLOCK.fullmatch(rest[0]) if rest and is_date(day) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_UUID = r"(?i)[0-9A-F]{8}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{12}"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"

FORMATS_BY_NAME: dict[str, Format] = {
    "dns1123Label": Format("DNS1123Label", names.dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", names.dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", names.dns_1035_label, 30),
    "qualifiedName": Format("QualifiedName", names.qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(names.dns_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(names.dns_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(names.dns_1035_label), 30),
    "labelValue": Format("LabelValue", names.label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _pattern(_UUID, "does not match the UUID format"), 70),
    "byte": Format("byte", _pattern(_BASE64, "invalid base64"), 84),
    "date": Format("date", _told(is_date, "invalid date"), 71),
    "datetime": Format("datetime", _told(is_moment, "invalid datetime"), 71),
}


def _validate(format: Format, text: str) -> Optional:
    complaints = format.check(text)
    return Optional(list(complaints)) if complaints else NONE


def _named(name: str) -> Optional:
    found = FORMATS_BY_NAME.get(name)
    return NONE if found is None else Optional(found)


def _always(format: Format) -> Callable[[], Format]:
    return lambda: format


d = declarer(Format=FORMAT)

FORMATS = [
    d("validate", "format-validate", "Format.(string) optional(list(string))", _validate),
    d("format.named", "format-named", "(string) optional(Format)", _named),
    *(d(f"format.{name}", f"format.{name}", "() Format", _always(value)) for name, value in FORMATS_BY_NAME.items()),
]
FORMAT_CONSTANTS: dict[str, tuple[CelType, Value]] = {"kubernetes.NamedFormat": (types.type_of(FORMAT), FORMAT)}
