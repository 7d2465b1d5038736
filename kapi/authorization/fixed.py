"""Authorizers without policy: AlwaysAllow, AlwaysDeny, privileged groups, paths.

Upstream: apiserver ``authorization/authorizerfactory`` and ``authorization/path``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapi.authorization.interface import Attributes, Decision, NonResourceRule, ResourceRule, RuleSet, Verdict
from kapi.machinery.each import elements
from kapi.request.user import SYSTEM_MASTERS, UserInfo

_ALLOW = Verdict(Decision.ALLOW)
_NO_OPINION = Verdict(Decision.NO_OPINION)
_READS = ("get", "head")


class AlwaysAllow:
    def authorize(self, attributes: Attributes) -> Verdict:
        return _ALLOW

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        return RuleSet([ResourceRule(("*",), ("*",), ("*",))], [NonResourceRule(("*",), ("*",))])


class AlwaysDeny:
    """Has no opinion on any request; without an opinion of another authorizer the request is refused."""

    def authorize(self, attributes: Attributes) -> Verdict:
        return Verdict(Decision.NO_OPINION, "Everything is forbidden.")

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        return RuleSet()


class PrivilegedGroups:
    """Allows everything to the members of some groups, so that no policy can lock out the last administrator."""

    def __init__(self, groups: Iterable[str] = (SYSTEM_MASTERS,)) -> None:
        self.groups = frozenset(groups)

    def authorize(self, attributes: Attributes) -> Verdict:
        return _NO_OPINION if self.groups.isdisjoint(elements(attributes.user.groups)) else _ALLOW


class PublicPaths:
    """Paths that every client may read, authenticated or not."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(paths)

    def authorize(self, attributes: Attributes) -> Verdict:
        if attributes.is_resource or attributes.verb not in _READS or attributes.path not in self.paths:
            return _NO_OPINION
        return _ALLOW
