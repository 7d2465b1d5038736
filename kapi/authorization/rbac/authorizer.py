"""The RBAC authorizer (upstream: ``plugin/pkg/auth/authorizer/rbac``).

A decision is a pure function of the index and the attributes, so recent decisions are cached until any role or
binding changes; the cache is bounded.
"""

from __future__ import annotations

from kapi.authorization.interface import Attributes, Decision, NonResourceRule, ResourceRule, RuleSet, Verdict
from kapi.authorization.rbac.index import PolicyIndex, RoleMissing
from kapi.authorization.rbac.policy import PolicyRule
from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate
from kapi.request.user import UserInfo

_CACHE_SIZE = 8192
_MAX_CACHED_LENGTH = 512  # characters from the client; the decision of a longer request is not cached
_MAX_CACHED_GROUPS = 256  # decisions of users with more groups are not cached
_NO_OPINION = Verdict(Decision.NO_OPINION)


class RBACAuthorizer:
    def __init__(self, index: PolicyIndex) -> None:
        self.index = index
        self._generation = index.generation
        self._recent: dict[tuple[object, ...], Verdict] = {}

    def authorize(self, attributes: Attributes) -> Verdict:
        if (
            len(attributes.name) + len(attributes.namespace) + len(attributes.resource) + len(attributes.path)
            > _MAX_CACHED_LENGTH
            or len(attributes.user.groups) > _MAX_CACHED_GROUPS
        ):
            return self._decide(attributes)
        recent = self._recent
        if self._generation != self.index.generation or len(recent) >= _CACHE_SIZE:
            recent.clear()
            self._generation = self.index.generation
        user = attributes.user
        if attributes.is_resource:
            key: tuple[object, ...] = (
                user.name,
                user.groups,
                attributes.verb,
                attributes.group,
                attributes.resource,
                attributes.subresource,
                attributes.namespace,
                attributes.name,
            )
        else:
            key = (user.name, user.groups, attributes.verb, attributes.path)
        verdict = recent.get(key)
        if verdict is None:
            verdict = self._decide(attributes)
            if self._generation == self.index.generation:  # otherwise a role or binding has changed meanwhile
                recent[key] = verdict
        return verdict

    def _decide(self, attributes: Attributes) -> Verdict:
        errors: list[str] = []
        namespace = attributes.namespace if attributes.is_resource else ""
        for grant, scope in elements(self.index.grants_for(attributes.user, namespace)):
            try:
                role = self.index.role_rules(grant.binding.role_kind, grant.binding.role_name, scope)
            except RoleMissing as error:
                errors.append(str(error))
                continue
            if role.allows(attributes):
                return Verdict(Decision.ALLOW, f"RBAC: allowed by {grant.source}")
        if errors:
            return Verdict(Decision.NO_OPINION, f"RBAC: {aggregate(errors)}")
        return _NO_OPINION

    def held_rules(self, user: UserInfo, namespace: str) -> tuple[list[PolicyRule], list[RoleMissing]]:
        """Every rule that applies to the user in the namespace ("": only cluster-wide ones), and the missing roles."""
        rules: list[PolicyRule] = []
        errors: list[RoleMissing] = []
        for grant, scope in elements(self.index.grants_for(user, namespace)):
            try:
                binding = grant.binding
                rules.extend(self.index.role_rules(binding.role_kind, binding.role_name, scope).rules)
            except RoleMissing as error:
                errors.append(error)
        return rules, errors

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        rules, errors = self.held_rules(user, namespace)
        return RuleSet(
            [
                ResourceRule(rule.verbs, rule.groups, rule.resources, rule.names)
                for rule in elements(rules)
                if rule.resources
            ],
            [NonResourceRule(rule.verbs, rule.urls) for rule in elements(rules) if rule.urls],
            False,
            [aggregate(str(error) for error in errors)] if errors else [],
        )
