"""Semantic versions (upstream: apiserver ``cel/library/semverlib.go``, semver.org 2.0.0)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kapi.cel.functions import converter, declarer, readable
from kapi.cel.types import CelType
from kapi.cel.values import Opaque
from kapi.machinery.golang import quote

SEMVER = CelType("opaque", "kubernetes.Semver")

_NUMBER = r"(0|[1-9][0-9]{0,19})"
_FORM = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    """A version without its build metadata, which does not count in comparisons."""

    cel_type = SEMVER
    major: int
    minor: int
    patch: int
    pre: tuple[str, ...]

    def order(self) -> tuple[object, ...]:
        """The sort key by precedence."""
        pre = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, pre)


def parse(text: str, normalize: bool = False) -> Semver:
    """A version.  Raises ValueError with upstream's text."""
    if normalize:
        text = text[1:] if text.startswith("v") else text
        core = re.match(r"[^-+]*", text)
        head = core.group(0) if core else ""
        parts = [part.lstrip("0") or ("0" if part else "") for part in head.split(".")]
        if len(parts) < 3:
            if len(head) != len(text):
                raise ValueError("Short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        text = ".".join(parts) + text[len(head) :]
    match = _FORM.fullmatch(text) if len(text) <= 1000 else None
    if match is None:
        raise ValueError(_complaint(text))
    pre = tuple(match.group(4).split(".")) if match.group(4) else ()
    for part in pre:
        if part.isdigit() and len(part) > 1 and part[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote(part)}")
    major, minor, patch = (int(match.group(i)) for i in (1, 2, 3))
    if max(major, minor, patch) >= 2**64:
        raise ValueError("value out of range")
    return Semver(major, minor, patch, pre)


def _complaint(text: str) -> str:
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    for word, part in zip(("major", "minor"), parts, strict=False):
        if not part.isdigit():
            return f'Invalid character(s) found in {word} number "{part}"'
        if len(part) > 1 and part[0] == "0":
            return f'{word.capitalize()} number must not contain leading zeroes "{part}"'
    patch = re.split(r"[-+]", parts[2], maxsplit=1)[0]
    if not patch.isdigit():
        return f'Invalid character(s) found in patch number "{patch}"'
    return f'Patch number must not contain leading zeroes "{patch}"'


def _compare(one: Semver, other: Semver) -> int:
    a, b = one.order(), other.order()
    return (a > b) - (a < b)


d = declarer(Semver=SEMVER)

SEMVERS = [
    d("semver", "string_to_semver", "(string) Semver", converter(parse)),
    d("semver", "string_bool_to_semver", "(string, bool) Semver", converter(parse)),
    d("isSemver", "is_semver_string", "(string) bool", readable(parse)),
    d("isSemver", "is_semver_string_bool", "(string, bool) bool", readable(parse)),
    d("isGreaterThan", "semver_is_greater_than", "Semver.(Semver) bool", lambda a, b: _compare(a, b) > 0),
    d("isLessThan", "semver_is_less_than", "Semver.(Semver) bool", lambda a, b: _compare(a, b) < 0),
    d("compareTo", "semver_compare_to", "Semver.(Semver) int", _compare),
    d("major", "semver_major", "Semver.() int", lambda a: a.major),
    d("minor", "semver_minor", "Semver.() int", lambda a: a.minor),
    d("patch", "semver_patch", "Semver.() int", lambda a: a.patch),
]
