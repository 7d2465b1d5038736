"""The rules of one role, asked for one request at a time (upstream: ``pkg/registry/rbac/validation/rule.go``).

Upstream walks them for each request.  Here those of a large role are asked through an index that is made when the role is taken
up, so that a request of whoever has a role of 3 MB costs no more than others.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.authorization.interface import Attributes
from kapi.authorization.rbac.covers import HeldRules
from kapi.authorization.rbac.policy import PolicyRule, any_allows, rules_of
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.tree import Object

_MAX_UNINDEXED_RULES = 64  # rules that are not indexed
_PARTS_PER_CHECKPOINT = 500  # parts of a role between two checkpoints


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
        """Those of a Role or ClusterRole."""
        return cls(rules_of(role))

    @property
    def large(self) -> bool:
        return self._index is not None

    def parts(self) -> list[object]:
        """What most of its memory is in, for ``free``."""
        return [*self.rules, *(() if self._index is None else self._index.parts())]

    def allows(self, attributes: Attributes) -> bool:
        return any_allows(self.rules, attributes) if self._index is None else self._index.allows(attributes)


def free(parts: list[object]) -> None:
    """Frees a few at a time: freeing a role of 60,000 rules in one piece would hold up all requests."""
    while parts:
        del parts[-_PARTS_PER_CHECKPOINT:]
        checkpoint()
