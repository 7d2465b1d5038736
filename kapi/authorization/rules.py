"""What a user may do, as SelfSubjectRulesReview lists it (upstream: apiserver ``authorizer.RuleResolver``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from kapi.request.user import UserInfo


class ResourceRule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class NonResourceRule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...]
    urls: tuple[str, ...] = ()


class RuleSet(msgspec.Struct):
    """Rules of one or all authorizers.  ``incomplete``: there may be others that cannot be listed."""

    resource_rules: list[ResourceRule] = msgspec.field(default_factory=list)
    non_resource_rules: list[NonResourceRule] = msgspec.field(default_factory=list)
    incomplete: bool = False
    errors: list[str] = msgspec.field(default_factory=list)


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
