"""Does one set of rules grant all that another grants?  (upstream: component-helpers ``auth/rbac/validation``)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kapi.authorization.rbac.policy import PolicyRule


def _single_rules(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The rule as rules with one verb, one group, one resource and at most one name each."""
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                if rule.names:
                    for name in rule.names:
                        yield PolicyRule((verb,), (group,), (resource,), (name,))
                else:
                    yield PolicyRule((verb,), (group,), (resource,))
    for url in rule.urls:
        for verb in rule.verbs:
            yield PolicyRule((verb,), urls=(url,))


def _has_all(held: Sequence[str], wanted: Sequence[str]) -> bool:
    return "*" in held or all(each in held for each in wanted)


def _resource_covered(held: Sequence[str], resource: str) -> bool:
    if resource in held or "*" in held:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in held


def _url_covered(held: Iterable[str], url: str) -> bool:
    return any(url == known or (known.endswith("*") and url.startswith(known.rstrip("*"))) for known in held)


def _covers(held: PolicyRule, wanted: PolicyRule) -> bool:
    if not _has_all(held.verbs, wanted.verbs):
        return False
    if wanted.urls:
        return all(_url_covered(held.urls, url) for url in wanted.urls)
    if not _has_all(held.groups, wanted.groups):
        return False
    if not all(_resource_covered(held.resources, resource) for resource in wanted.resources):
        return False
    if not held.names:
        return True
    return bool(wanted.names) and all(name in held.names for name in wanted.names)


def missing_rules(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The single rules of ``wanted`` that no rule of ``held`` covers, in order."""
    return [
        single for rule in wanted for single in _single_rules(rule) if not any(_covers(known, single) for known in held)
    ]


def compacted(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Single rules for the same resource (and name) joined into one with several verbs."""
    out: list[PolicyRule] = []
    joined: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for rule in rules:
        if len(rule.names) > 1 or rule.urls or len(rule.groups) != 1 or len(rule.resources) != 1:
            out.append(rule)
            continue
        joined.setdefault((rule.groups[0], rule.resources[0], rule.names), []).extend(rule.verbs)
    out.extend(PolicyRule(verbs, (group,), (resource,), names) for (group, resource, names), verbs in joined.items())
    return out
