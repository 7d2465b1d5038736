"""The audit policy: the level of detail that is recorded for a request.

Upstream: apiserver ``audit/policy``; audit.k8s.io/v1 Policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kapi.machinery.field import FieldError, invalid, not_supported, required
from kapi.machinery.field import Path as FieldPath
from kapi.machinery.golang import aggregate
from kapi.machinery.names import dns_subdomain
from kapi.machinery.shape import shape_errors
from kapi.machinery.tree import Object
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo

NONE, METADATA, REQUEST, REQUEST_RESPONSE = range(4)
LEVELS = {"None": NONE, "Metadata": METADATA, "Request": REQUEST, "RequestResponse": REQUEST_RESPONSE}
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")

_SHAPE: Object = {
    "kind": str, "apiVersion": str, "metadata": {str: object}, "omitStages": [str], "omitManagedFields": bool,
    "rules": [
        {
            "level": str, "users": [str], "userGroups": [str], "verbs": [str], "namespaces": [str],
            "resources": [{"group": str, "resources": [str], "resourceNames": [str]}],
            "nonResourceURLs": [str], "omitStages": [str], "omitManagedFields": bool,
        }
    ],
}  # fmt: skip


class PolicyError(ValueError):
    """An invalid policy; ``str(error)`` says why."""


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """The policy's decision about one request."""

    level: int
    level_name: str
    omit_stages: frozenset[str]
    omit_managed_fields: bool


@dataclass(frozen=True, slots=True)
class GroupResources:
    """``resources`` may be ``pods``, ``pods/log``, ``*``, ``*/scale`` or ``pods/*``; without any, all resources of the group."""

    group: str
    resources: frozenset[str]
    names: frozenset[str]

    def matches(self, info: RequestInfo) -> bool:
        if self.group not in (info.group, "*"):
            return False
        if not self.resources:
            return True
        if self.names and info.name not in self.names:
            return False
        resource, subresource = info.resource, info.subresource
        if "*" in self.resources or f"{resource}/*" in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources


@dataclass(frozen=True, slots=True)
class Rule:
    config: AuditConfig
    users: frozenset[str]
    groups: frozenset[str]
    verbs: frozenset[str]
    namespaces: frozenset[str]
    resources: tuple[GroupResources, ...]
    urls: tuple[str, ...]

    def matches(self, info: RequestInfo, user: UserInfo | None) -> bool:
        if self.users and (user is None or user.name not in self.users):
            return False
        if self.groups and (user is None or self.groups.isdisjoint(user.groups)):
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if not info.is_resource or (self.namespaces and info.namespace not in self.namespaces):
                return False
            return not self.resources or any(item.matches(info) for item in self.resources)
        if self.urls:
            return not info.is_resource and any(_path_matches(info.path, url) for url in self.urls)
        return True


def _path_matches(path: str, pattern: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


class Policy:
    """The first matching rule decides; a request without a matching rule is not recorded."""

    def __init__(self, rules: tuple[Rule, ...], otherwise: AuditConfig) -> None:
        self.rules = rules
        self.otherwise = otherwise

    def evaluate(self, info: RequestInfo, user: UserInfo | None) -> AuditConfig:
        for rule in self.rules:
            if rule.matches(info, user):
                return rule.config
        return self.otherwise


def load_policy(path: str) -> tuple[Policy, list[str]]:
    """The policy of a file, and warnings about ignored fields.  Raises PolicyError."""
    from kapi.codecs import yaml_reading  # imported only when it is used

    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise PolicyError(f"loading audit policy file: {error.strerror}: {path}") from None
    try:
        tree, warnings = yaml_reading.loads(text, math.inf)  # the file is read only at the start
    except ValueError as error:
        raise PolicyError(f"loading audit policy file: failed decoding: {error}") from None
    policy, more = read_policy(tree)
    return policy, warnings + more


def read_policy(tree: object) -> tuple[Policy, list[str]]:
    """The policy of a decoded document, and warnings about unknown fields, which are ignored.  Raises PolicyError."""
    if not isinstance(tree, dict) or tree.get("kind") != "Policy" or tree.get("apiVersion") != "audit.k8s.io/v1":
        kind = f"{tree.get('apiVersion')}, Kind={tree.get('kind')}" if isinstance(tree, dict) else "nothing"
        raise PolicyError(f"unknown group version field {kind} in policy")
    wrong, warnings = shape_errors(tree, _SHAPE)
    if wrong:
        raise PolicyError(aggregate(wrong))
    rules = tree.get("rules") or []
    errors = _check_stages(tree.get("omitStages") or [], FieldPath("omitStages"))
    for index, rule in enumerate(rules):
        errors += _check_rule(rule, FieldPath("rules").index(index))
    if errors:
        raise PolicyError(aggregate(map(str, errors)))
    if not rules:
        raise PolicyError("loaded illegal policy with 0 rules")
    stages = frozenset(tree.get("omitStages") or ())
    omit = bool(tree.get("omitManagedFields"))
    otherwise = AuditConfig(NONE, "None", stages, omit)
    return Policy(tuple(_read_rule(rule, stages, omit) for rule in rules), otherwise), warnings


def _read_rule(rule: Object, stages: frozenset[str], omit: bool) -> Rule:
    own = rule.get("omitManagedFields")
    config = AuditConfig(
        LEVELS[rule["level"]],
        rule["level"],
        stages | frozenset(rule.get("omitStages") or ()),
        omit if own is None else bool(own),
    )

    def strings(source: Object, name: str) -> frozenset[str]:
        return frozenset(source.get(name) or ())

    resources = tuple(
        GroupResources(item.get("group") or "", strings(item, "resources"), strings(item, "resourceNames"))
        for item in rule.get("resources") or ()
    )
    return Rule(
        config,
        strings(rule, "users"),
        strings(rule, "userGroups"),
        strings(rule, "verbs"),
        strings(rule, "namespaces"),
        resources,
        tuple(rule.get("nonResourceURLs") or ()),
    )


def _check_rule(rule: Object, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    level = rule.get("level")
    if not level:
        errors.append(required(path.child("level"), ""))
    elif level not in LEVELS:
        errors.append(not_supported(path.child("level"), level, list(LEVELS)))
    urls = rule.get("nonResourceURLs") or []
    errors += _check_urls(urls, path.child("nonResourceURLs"))
    resources = rule.get("resources") or []
    errors += _check_resources(resources, path.child("resources"))
    errors += _check_stages(rule.get("omitStages") or [], path.child("omitStages"))
    if urls and (resources or rule.get("namespaces")):
        why = "rules cannot apply to both regular resources and non-resource URLs"
        errors.append(invalid(path.child("nonResourceURLs"), urls, why))
    return errors


def _check_urls(urls: Iterable[str], path: FieldPath) -> list[FieldError]:
    errors = []
    for index, url in enumerate(urls):
        if url == "*":
            continue
        if not url.startswith("/"):
            errors.append(invalid(path.index(index), url, "non-resource URL rules must begin with a '/' character"))
        if "*" in url[:-1]:
            why = "non-resource URL wildcards '*' must be the final character of the rule"
            errors.append(invalid(path.index(index), url, why))
    return errors


def _check_resources(resources: list[Object], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in resources:
        group = item.get("group") or ""
        if group and group != "*":
            problems = dns_subdomain(group)
            if problems:
                errors.append(invalid(path.child("group"), group, ",".join(problems)))
        if item.get("resourceNames") and not item.get("resources"):
            why = "using resourceNames requires at least one resource"
            errors.append(invalid(path.child("resourceNames"), item["resourceNames"], why))
    return errors


def _check_stages(stages: list[str], path: FieldPath) -> list[FieldError]:
    why = "allowed stages are " + ",".join(STAGES)
    return [invalid(path.index(index), stage, why) for index, stage in enumerate(stages) if stage not in STAGES]
