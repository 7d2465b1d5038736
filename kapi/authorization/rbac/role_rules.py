"""The rules of one role, matched with single requests (upstream: ``pkg/registry/rbac/validation/rule.go``).

Upstream walks them for each request.  Here the rules of a large role are indexed when the role is read, so that a request of a
user with a role of 3 MB costs no more than others.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.authorization.interface import Attributes
from kapi.authorization.rbac.covers import HeldRules
from kapi.authorization.rbac.policy import PolicyRule, any_allows, rules_of
from kapi.machinery.tree import Object

_MAX_UNINDEXED_RULES = 64


class RoleRules:
    """``rules`` are in the order of the role."""

    __slots__ = ("rules", "_index")

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = rules
        self._index = HeldRules(rules) if len(rules) > _MAX_UNINDEXED_RULES else None
        if self._index is not None:
            self._index.prepare()

    @classmethod
    def of(cls, role: Object) -> RoleRules:
        """The rules of a Role or ClusterRole."""
        return cls(rules_of(role))

    @property
    def large(self) -> bool:
        return self._index is not None

    def parts(self) -> list[object]:
        """The objects that take most of its memory, so that they can be freed in steps."""
        return [*self.rules, *(() if self._index is None else self._index.parts())]

    def allows(self, attributes: Attributes) -> bool:
        return any_allows(self.rules, attributes) if self._index is None else self._index.allows(attributes)
