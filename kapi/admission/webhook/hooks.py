"""Webhook configurations as they are called."""

from __future__ import annotations

import msgspec

from kapi.machinery.checkpoint import engage
from kapi.machinery.each import elements
from kapi.machinery.selectors import EVERYTHING, LabelSelector, from_label_selector
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import CompileError, Expression
from kapi.resources.definition import Lister


class Rule(msgspec.Struct, frozen=True):
    """One rule: which operations on which resources."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # (resource, subresource); "*" matches all
    scope: str  # "*", "Namespaced" or "Cluster"

    @classmethod
    def read(cls, rule: Object) -> Rule:
        resources = []
        for text in rule.get("resources") or ():
            resource, _, subresource = text.partition("/")
            resources.append((resource, subresource))
        return cls(
            frozenset(rule.get("operations") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("apiVersions") or ()),
            tuple(resources),
            rule.get("scope") or "*",
        )


class Hook(msgspec.Struct, eq=False):
    """One webhook of a configuration."""

    name: str
    configuration: str
    uid: str  # unlike that of all others
    rules: tuple[Rule, ...]
    client: Object  # clientConfig
    namespaces: LabelSelector
    objects: LabelSelector
    equivalent: bool  # matchPolicy Equivalent
    ignore_failures: bool
    timeout: int  # seconds
    side_effects: str
    review_versions: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...]  # (name, expression)
    reinvoke: bool  # reinvocationPolicy IfNeeded
    compiled: list[Expression | CompileError] | None = None  # compiled conditions

    @classmethod
    def read(cls, webhook: Object, configuration: str, uid: str) -> Hook:
        def selector(name: str) -> LabelSelector:
            given = webhook.get(name)
            return EVERYTHING if not given else from_label_selector(given) or EVERYTHING

        return cls(
            name=webhook.get("name", ""),
            configuration=configuration,
            uid=uid,
            rules=tuple(Rule.read(rule) for rule in elements(webhook, "rules")),
            client=webhook.get("clientConfig") or {},
            namespaces=selector("namespaceSelector"),
            objects=selector("objectSelector"),
            equivalent=webhook.get("matchPolicy", "Equivalent") == "Equivalent",
            ignore_failures=webhook.get("failurePolicy") == "Ignore",
            timeout=int(webhook.get("timeoutSeconds") or 10),
            side_effects=webhook.get("sideEffects") or "",
            review_versions=tuple(webhook.get("admissionReviewVersions") or ()),
            conditions=tuple(
                (c.get("name", ""), c.get("expression", "")) for c in webhook.get("matchConditions") or ()
            ),
            reinvoke=webhook.get("reinvocationPolicy") == "IfNeeded",
        )


def read_hooks(lister: Lister) -> tuple[Hook, ...]:
    """Those of all configurations of one kind, by name of the configuration and place in it."""
    engage()
    hooks: list[Hook] = []
    for configuration in sorted(lister.list(), key=lambda c: str(c["metadata"]["name"])):
        name = configuration["metadata"]["name"]
        count: dict[str, int] = {}
        for webhook in elements(configuration, "webhooks"):
            index = count[webhook["name"]] = count.get(webhook["name"], -1) + 1
            hooks.append(Hook.read(webhook, name, f"{name}/{webhook['name']}/{index}"))
    return tuple(hooks)
