"""What a user may do, as SelfSubjectRulesReview lists it (upstream: apiserver ``authorizer.RuleResolver``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kapi.request.user import UserInfo


@dataclass(frozen=True, slots=True)
class ResourceRule:
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NonResourceRule:
    verbs: tuple[str, ...]
    urls: tuple[str, ...] = ()


@dataclass(slots=True)
class RuleSet:
    """Rules of one or all authorizers.  ``incomplete``: there may be more than can be listed."""

    resource_rules: list[ResourceRule] = field(default_factory=list)
    non_resource_rules: list[NonResourceRule] = field(default_factory=list)
    incomplete: bool = False
    errors: list[str] = field(default_factory=list)


@runtime_checkable
class RuleResolver(Protocol):
    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet: ...


def merged(resolvers: Sequence[RuleResolver], user: UserInfo, namespace: str) -> RuleSet:
    """The rules of several authorizers, in their order."""
    total = RuleSet()
    for resolver in resolvers:
        rules = resolver.rules_for(user, namespace)
        total.resource_rules += rules.resource_rules
        total.non_resource_rules += rules.non_resource_rules
        total.incomplete = total.incomplete or rules.incomplete
        total.errors += rules.errors
    return total
