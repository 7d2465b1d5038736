"""Policy rules, prepared for matching (upstream: ``pkg/apis/rbac/v1/evaluation_helpers.go``)."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.authorization.interface import Attributes
from kapi.machinery.each import elements
from kapi.machinery.memo import cached_function
from kapi.machinery.tree import Object

_MAX_SHARED = 1024  # shared lists
_MAX_SHARED_VALUES = 16  # values in one shared list
_MAX_SHARED_LENGTH = 512  # characters of all values in one shared list
_MAX_SCANNED_VALUES = 8  # values of a list that has no set: a set takes 216 bytes and is not faster
Values = tuple[str, ...] | frozenset[str]


def _values(values: tuple[str, ...]) -> tuple[tuple[str, ...], Values]:
    """The values in order, and for matching.  Equal lists are shared: of the 936 lists in the default rules, 179 are distinct."""
    if len(values) <= _MAX_SHARED_VALUES and sum(map(len, values)) <= _MAX_SHARED_LENGTH:
        return _shared(values)
    return values, _searched(values)


@cached_function(_MAX_SHARED)
def _shared(values: tuple[str, ...]) -> tuple[tuple[str, ...], Values]:
    return values, _searched(values)


def _searched(values: tuple[str, ...]) -> Values:
    return values if len(values) <= _MAX_SCANNED_VALUES else frozenset(elements(values))


class PolicyRule:
    """One rule of a role.  The lists keep their order for messages and reviews; for matching, long lists are sets."""

    __slots__ = (
        "verbs",
        "groups",
        "resources",
        "names",
        "urls",
        "_verbs",
        "_groups",
        "_resources",
        "_names",
        "_urls",
        "_url_prefixes",
    )

    def __init__(
        self,
        verbs: Iterable[str],
        groups: Iterable[str] = (),
        resources: Iterable[str] = (),
        names: Iterable[str] = (),
        urls: Iterable[str] = (),
    ) -> None:
        self.verbs, verb_set = _values(tuple(verbs))
        self.groups, group_set = _values(tuple(groups))
        self.resources, resource_set = _values(tuple(resources))
        self.names, self.urls = tuple(names), tuple(urls)
        self._verbs = None if "*" in verb_set else verb_set
        self._groups = None if "*" in group_set else group_set
        self._resources = None if "*" in resource_set else resource_set
        self._names = _searched(self.names) if self.names else None
        self._urls = _searched(self.urls)
        self._url_prefixes = tuple(url.rstrip("*") for url in elements(self.urls) if url.endswith("*"))

    @classmethod
    def of(cls, rule: Object) -> PolicyRule:
        return cls(
            rule.get("verbs") or (),
            rule.get("apiGroups") or (),
            rule.get("resources") or (),
            rule.get("resourceNames") or (),
            rule.get("nonResourceURLs") or (),
        )

    def allows(self, attributes: Attributes) -> bool:
        if self._verbs is not None and attributes.verb not in self._verbs:
            return False
        if not attributes.is_resource:
            path = attributes.path
            return path in self._urls or (bool(self._url_prefixes) and path.startswith(self._url_prefixes))
        if self._groups is not None and attributes.group not in self._groups:
            return False
        resources = self._resources
        if resources is not None:
            subresource = attributes.subresource
            if subresource:
                if f"{attributes.resource}/{subresource}" not in resources and f"*/{subresource}" not in resources:
                    return False
            elif attributes.resource not in resources:
                return False
        return self._names is None or attributes.name in self._names

    def compact(self) -> str:
        """The form of upstream's messages: ``{APIGroups:[""], Resources:["pods"], Verbs:["get"]}``."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted_list(values)}" for name, values in parts if values) + "}"


def quoted_list(values: Iterable[str]) -> str:
    """Go's ``%q`` of a list of strings."""
    from kapi.machinery.golang import quote

    return "[" + " ".join(quote(value) for value in values) + "]"


def rules_of(role: Object) -> tuple[PolicyRule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(PolicyRule.of(rule) for rule in elements(role, "rules"))


def any_allows(rules: Iterable[PolicyRule], attributes: Attributes) -> bool:
    return any(rule.allows(attributes) for rule in rules)
