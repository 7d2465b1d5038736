"""Which checks a level of a version has, and what they find in a pod."""

from __future__ import annotations

from dataclasses import dataclass

from kapi.admission.podsecurity.check import Check, Rule
from kapi.admission.podsecurity.checks import CHECKS
from kapi.admission.podsecurity.levels import BASELINE, LATEST, PRIVILEGED, RESTRICTED, LevelVersion
from kapi.machinery.tree import Object

#: The newest version in which any check changed: later ones are the same.
NEWEST = max(check.versions[-1][0] for check in CHECKS)


_MAX_CACHED = 500  # levels and versions
_rules: dict[LevelVersion, tuple[Rule, ...]] = {}


def rules(level: LevelVersion) -> tuple[Rule, ...]:
    """The rules of a level as of a version: baseline checks by name, then restricted ones by name."""
    found = _rules.get(level)
    if found is None:
        minor = NEWEST if level.minor == LATEST else min(level.minor, NEWEST)
        active: dict[str, tuple[Check, Rule]] = {}
        for check in CHECKS:
            rule = next((rule for since, rule in reversed(check.versions) if since <= minor), None)
            if rule is not None and (check.level == BASELINE or level.level == RESTRICTED):
                active[check.name] = (check, rule)
        overridden = {check.overrides for check, _ in active.values() if check.overrides}
        kept = [pair for name, pair in active.items() if name not in overridden]
        kept.sort(key=lambda pair: (pair[0].level != BASELINE, pair[0].name))
        found = () if level.level == PRIVILEGED else tuple(rule for _, rule in kept)
        if len(_rules) < _MAX_CACHED:
            _rules[level] = found
    return found


@dataclass(frozen=True, slots=True)
class Result:
    """What is forbidden about a pod at a level."""

    findings: tuple[tuple[str, str], ...]

    @property
    def allowed(self) -> bool:
        return not self.findings

    @property
    def reasons(self) -> str:
        return ", ".join(reason for reason, _ in self.findings)

    @property
    def details(self) -> str:
        return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in self.findings)


def evaluate(level: LevelVersion, metadata: Object, spec: Object) -> Result:
    findings = (rule(metadata, spec) for rule in rules(level))
    return Result(tuple(finding for finding in findings if finding is not None))
