"""The authorizer interface (upstream: apiserver ``pkg/authorization/authorizer``), and the rules that reviews list."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from kapi.machinery.selectors import SelectorError, parse_fields, parse_labels
from kapi.request.user import UserInfo


class Decision(enum.Enum):
    ALLOW = "allow"
    DENY = "forbid"
    NO_OPINION = "no opinion"


class Verdict(NamedTuple):
    """A decision, its reason, and an evaluation error, which only the review APIs and the log show."""

    decision: Decision
    reason: str = ""
    error: str = ""


class Attributes(msgspec.Struct):
    """A request to authorize: ``user`` does ``verb`` on the resource or path."""

    user: UserInfo
    verb: str
    is_resource: bool = True
    path: str = ""  # the path of a non-resource request
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_requirements: tuple[tuple[str, str, str], ...] = ()  # (field, operator, value) when parsed from a selector
    label_requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    fields_ignored: bool = False  # of a review: a part of the field selector cannot be read, and is ignored
    labels_ignored: bool = False

    def read_selectors(self, fields: str | None, labels: str | None) -> None:
        """Sets the requirements of selectors.  One that cannot be read is ignored."""
        with suppress(SelectorError):
            self.field_requirements = field_terms(fields or "")
        with suppress(SelectorError):
            self.label_requirements = label_terms(labels or "")


def field_terms(selector: str) -> tuple[tuple[str, str, str], ...]:
    """The requirements of a field selector.  Raises SelectorError."""
    return tuple((term.key, term.operator, term.value) for term in parse_fields(selector).requirements)


def label_terms(selector: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The requirements of a label selector.  Raises SelectorError."""
    return tuple((term.key, term.operator, tuple(sorted(term.values))) for term in parse_labels(selector).requirements)


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]: ...


async def decided(authorizer: Authorizer, attributes: Attributes) -> Verdict:
    """The authorizer's verdict."""
    verdict = authorizer.authorize(attributes)
    return verdict if isinstance(verdict, Verdict) else await verdict


class ResourceRule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class NonResourceRule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...]
    urls: tuple[str, ...] = ()


class RuleSet(msgspec.Struct):
    """Rules of one or all authorizers.  ``incomplete``: there may be more rules, which cannot be listed."""

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
