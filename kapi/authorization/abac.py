"""ABAC: ``--authorization-policy-file``, one JSON object a line (upstream: ``pkg/auth/authorizer/abac``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import orjson

from kapi.authorization.interface import Attributes, Decision, NonResourceRule, ResourceRule, RuleSet, Verdict
from kapi.machinery.tree import Object
from kapi.request.user import ALL_AUTHENTICATED, UserInfo

_READING = frozenset({"get", "list", "watch"})
_READ_ONLY_VERBS = ("get", "list", "watch")


class Policy(NamedTuple):
    """One line.  ``*`` matches anything, except in ``user`` and ``group``; an empty field matches nothing."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""

    def applies_to(self, user: UserInfo) -> bool:
        if not self.user and not self.group:
            return False
        return self.user in ("", user.name) and (not self.group or self.group in user.groups)

    def allows(self, attributes: Attributes) -> bool:
        if not self.applies_to(attributes.user):
            return False
        if self.readonly and attributes.verb not in _READING:
            return False
        if not attributes.is_resource:
            return _path_matches(self.path, attributes.path)
        return (
            self.namespace in ("*", attributes.namespace)
            and self.resource in ("*", attributes.resource)
            and self.api_group in ("*", attributes.group)
        )


def _path_matches(pattern: str, path: str) -> bool:
    if pattern == "*":
        return True
    if pattern.endswith("*"):
        return path.startswith(pattern.rstrip("*"))
    return pattern == path


class ABACAuthorizer:
    """Allows a request that a line allows; otherwise has no opinion."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self.policies = tuple(policies)

    def authorize(self, attributes: Attributes) -> Verdict:
        if any(policy.allows(attributes) for policy in self.policies):
            return Verdict(Decision.ALLOW)
        return Verdict(Decision.NO_OPINION, "No policy matched.")

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        rules = RuleSet()
        for policy in self.policies:
            if not policy.applies_to(user):
                continue
            verbs = _READ_ONLY_VERBS if policy.readonly else ("*",)
            if policy.resource and policy.namespace in ("*", namespace):
                rules.resource_rules.append(ResourceRule(verbs, (policy.api_group,), (policy.resource,)))
            if policy.path:
                rules.non_resource_rules.append(NonResourceRule(verbs, (policy.path,)))
        return rules


def parse_policies(text: str) -> list[Policy]:
    """The policies of a file; blank lines and comments are skipped.  Raises ValueError with the line's number."""
    policies = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            policies.append(_parse(orjson.loads(line)))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"error reading policy file, line {number}: {error}") from None
    return policies


def _parse(tree: Object) -> Policy:
    if "kind" not in tree and "apiVersion" not in tree:
        return _parse_v0(tree)
    if tree.get("kind") != "Policy" or tree.get("apiVersion") not in (
        "abac.authorization.kubernetes.io/v1beta1",
        "abac.authorization.kubernetes.io/v0",
    ):
        raise ValueError(f"no kind {tree.get('kind')!r} is registered for version {tree.get('apiVersion')!r}")
    if tree["apiVersion"].endswith("v0"):
        return _parse_v0(tree)
    spec = tree.get("spec") or {}
    user, group = _subject(spec.get("user", ""), spec.get("group", ""))
    return Policy(
        user,
        group,
        bool(spec.get("readonly")),
        spec.get("apiGroup", ""),
        spec.get("resource", ""),
        spec.get("namespace", ""),
        spec.get("nonResourcePath", ""),
    )


def _subject(user: str, group: str) -> tuple[str, str]:
    """The user or group of a policy, in which "*" stands for all authenticated users."""
    return ("", ALL_AUTHENTICATED) if "*" in (user, group) else (user, group)


def _parse_v0(tree: Object) -> Policy:
    """Reads the unversioned form, in which a missing field matches everything."""
    user, group = _subject(tree.get("user", ""), tree.get("group", ""))
    if not user and not group:
        group = ALL_AUTHENTICATED
    resource, namespace = tree.get("resource", ""), tree.get("namespace", "")
    path = "" if resource or namespace else "*"
    return Policy(user, group, bool(tree.get("readonly")), "*", resource or "*", namespace or "*", path)
