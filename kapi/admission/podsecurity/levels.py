"""Levels and versions, the policy of a namespace's labels, the checks, and the texts of their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.tree import Object

Finding = tuple[str, str] | None
#: the forbidden values of a pod's spec or of a container
Find = Callable[[Object], Collection[str]]
Rule = Callable[[Object, Object], Finding]
Parsed = TypeVar("Parsed")
#: of a policy, in the order in which a configuration is checked
MODES = ("enforce", "warn", "audit")
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
_RANK = {PRIVILEGED: 0, BASELINE: 1, RESTRICTED: 2}
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)\Z")
LATEST = -1  # the minor version that stands for the newest policy
PREFIX = "pod-security.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Check:
    """``versions``: minor version -> the rule from then on.  ``overrides`` names the baseline check it replaces."""

    name: str
    level: str
    versions: tuple[tuple[int, Rule], ...]
    overrides: str = ""


def containers_of(spec: Object) -> list[Object]:
    return [one for field in ("initContainers", "containers", "ephemeralContainers") for one in spec.get(field) or ()]


def context_of(holder: Object) -> Object:
    return holder.get("securityContext") or {}


def plural(one: str, many: str, items: Collection[str]) -> str:
    return one if len(items) == 1 else many


def quoted(items: Collection[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def named(containers: list[str]) -> str:
    return f"{plural('container', 'containers', containers)} {quoted(containers)}"


def offenders(holders: Iterable[Object], bad: Find) -> tuple[list[str], list[str]]:
    """The names of the holders in which ``bad`` finds values, and these values, sorted."""
    names: list[str] = []
    found: list[str] = []
    for holder in holders:
        if values := bad(holder):
            names.append(holder.get("name", ""))
            found += values
    return names, sorted(set(found)) if found else found


def setters_of(spec: Object, bad: Find) -> tuple[str, list[str]]:
    """The pod and containers in which ``bad`` finds values, in words ("" without any), and these values, sorted."""
    names, found = offenders(containers_of(spec), bad)
    of_pod = bad(spec)
    if not of_pod:
        return named(names) if names else "", found
    return " and ".join(["pod", named(names)] if names else ["pod"]), sorted({*found, *of_pod})


def not_on_windows(rule: Rule) -> Rule:
    def checked(metadata: Object, spec: Object) -> Finding:
        return None if (spec.get("os") or {}).get("name") == "windows" else rule(metadata, spec)

    return checked


def not_in_user_namespace(rule: Rule) -> Rule:
    def checked(metadata: Object, spec: Object) -> Finding:
        return None if spec.get("hostUsers") is False else rule(metadata, spec)

    return checked


@dataclass(frozen=True, slots=True)
class LevelVersion:
    """A level as of a minor version of Kubernetes 1."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    @property
    def rank(self) -> int:
        return _RANK[self.level]

    def equivalent(self, other: LevelVersion) -> bool:
        return self == other or self.level == other.level == PRIVILEGED


@dataclass(frozen=True, slots=True)
class Policy:
    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def privileged(self) -> bool:
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED

    def equivalent(self, other: Policy) -> bool:
        return (
            self.enforce.equivalent(other.enforce)
            and self.audit.equivalent(other.audit)
            and self.warn.equivalent(other.warn)
        )


def parse_level(text: str) -> str:
    """Raises ValueError."""
    if text not in _RANK:
        raise ValueError("must be one of privileged, baseline, restricted")
    return text


def parse_version(text: str) -> int:
    """The minor version of ``v1.30``, or LATEST.  Raises ValueError."""
    if text == "latest":
        return LATEST
    found = _VERSION.match(text)
    if found is None:
        raise ValueError('must be "latest" or "v1.x"')
    return int(found[1])


def parsed(parse: Callable[[str], Parsed], text: str, path: Path, errors: list[FieldError], fallback: Parsed) -> Parsed:
    """What ``parse`` reads; ``fallback``, and an error, for an invalid text."""
    try:
        return parse(text)
    except ValueError as error:
        errors.append(invalid(path, text, str(error)))
        return fallback


def policy_of(labels: Mapping[str, str] | None, defaults: Policy) -> tuple[Policy, list[FieldError]]:
    """The policy of a namespace, and the errors of its labels.

    An invalid level means restricted for enforce, and privileged for audit and warn; an invalid version means the latest.
    """
    errors: list[FieldError] = []
    if not labels or not any(key.startswith(PREFIX) for key in labels):
        return defaults, errors
    path = Path("metadata").child("labels")
    modes = {"enforce": defaults.enforce, "audit": defaults.audit, "warn": defaults.warn}
    for mode, fallback in (("enforce", RESTRICTED), ("audit", PRIVILEGED), ("warn", PRIVILEGED)):
        text = labels.get(PREFIX + mode)
        if text is not None:
            level = parsed(parse_level, text, path.key(PREFIX + mode), errors, fallback)
            modes[mode] = replace(modes[mode], level=level)
        text = labels.get(f"{PREFIX}{mode}-version")
        if text is not None:
            minor = parsed(parse_version, text, path.key(f"{PREFIX}{mode}-version"), errors, LATEST)
            modes[mode] = replace(modes[mode], minor=minor)
    # without a label for warnings, the enforced level gives warnings
    if (
        PREFIX + "warn" not in labels
        and labels.get(PREFIX + "enforce") in _RANK
        and modes["enforce"].rank > modes["warn"].rank
    ):
        minor = modes["warn"].minor if PREFIX + "warn-version" in labels else modes["enforce"].minor
        modes["warn"] = LevelVersion(modes["enforce"].level, minor)
    return Policy(modes["enforce"], modes["audit"], modes["warn"]), errors
