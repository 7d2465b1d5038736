"""Reads webhook configurations, and finds the webhooks that are called for a request.

These depend on rules, scope, equivalent versions, selectors and conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes
from kapi.admission.source import Source
from kapi.admission.versions import equivalents
from kapi.machinery.checkpoint import engage
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kapi.machinery.selectors import EVERYTHING, LabelSelector, from_label_selector
from kapi.machinery.status import not_found
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import CompileError, Expression
from kapi.resources.definition import Lister


class Rule(msgspec.Struct, frozen=True):
    """One rule: its operations and resources."""

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
    uid: str  # unique among all webhooks
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
    static: bool = False  # from a file of the server
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


def read_hooks(lister: Lister, static: Sequence[Object] = ()) -> tuple[Hook, ...]:
    """The webhooks of all configurations of one kind, ordered by configuration and place in it; first those of files."""
    engage()
    hooks: list[Hook] = []
    for configurations, is_static in ((static, True), (lister.list(), False)):
        for configuration in sorted(configurations, key=lambda c: str(c["metadata"]["name"])):
            name = configuration["metadata"]["name"]
            prefix = f"manifest/{name}" if is_static else name
            count: dict[str, int] = {}
            for webhook in elements(configuration, "webhooks"):
                index = count[webhook["name"]] = count.get(webhook["name"], -1) + 1
                hook = Hook.read(webhook, name, f"{prefix}/{webhook['name']}/{index}")
                hook.static = is_static
                hooks.append(hook)
    return tuple(hooks)


_CONFIGURATIONS = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)


class Invocation(msgspec.Struct):
    """A hook and the version in which it receives the request."""

    hook: Hook
    kind: GroupVersionKind
    resource: GroupVersionResource


def exempt(attributes: Attributes) -> bool:
    """Configurations of webhooks and policies are never subject to them: a bad one could not be repaired."""
    return attributes.kind.group == "admissionregistration.k8s.io" and attributes.kind.kind in _CONFIGURATIONS


def rule_matches(rule: Rule, attributes: Attributes, resource: GroupVersionResource) -> bool:
    if rule.scope != "*":
        cluster = not attributes.namespace or resource == ("", "v1", "namespaces")
        if cluster != (rule.scope == "Cluster"):
            return False
    if attributes.operation not in rule.operations and "*" not in rule.operations:
        return False
    if resource.group not in rule.groups and "*" not in rule.groups:
        return False
    if resource.version not in rule.versions and "*" not in rule.versions:
        return False
    return any(
        name in ("*", resource.resource) and subresource in ("*", attributes.subresource)
        for name, subresource in rule.resources
    )


def by_rules(
    rules: Iterable[Rule], equivalent: bool, initializer: Initializer, attributes: Attributes
) -> tuple[GroupVersionKind, GroupVersionResource] | None:
    """The kind and resource under which the rules name a request; other versions only with matchPolicy Equivalent."""
    rules = tuple(rules)
    if any(rule_matches(rule, attributes, attributes.resource) for rule in rules):
        return attributes.kind, attributes.resource
    if equivalent:
        others = equivalents(attributes, initializer.serves)
        for rule in rules:
            for resource, kind in others:
                if rule_matches(rule, attributes, resource):
                    if attributes.subresource and kind.kind != attributes.kind.kind:
                        return attributes.kind, resource  # the subresource has its own kind
                    return kind, resource
    return None


class Selecting(Protocol):
    """The selectors of a webhook, policy or binding, for labels of namespaces and objects."""

    namespaces: LabelSelector
    objects: LabelSelector


def object_matches(hook: Selecting, attributes: Attributes) -> bool:
    """Whether the labels of the new or of the old object match."""
    if hook.objects.empty:
        return True
    return any(
        obj is not None and hook.objects.matches((obj.get("metadata") or {}).get("labels") or {})
        for obj in (attributes.obj, attributes.old)
    )


async def namespace_labels(initializer: Initializer, attributes: Attributes) -> dict[str, str]:
    """The labels of the request's namespace, or of the namespace it writes.  Raises NotFound."""
    writes = attributes.operation in (CREATE, UPDATE)
    if attributes.resource.resource == "namespaces" and not attributes.subresource and writes:
        return ((attributes.obj or {}).get("metadata") or {}).get("labels") or {}
    name = attributes.namespace or attributes.name
    namespace = await initializer.live("", "namespaces", name)
    if namespace is None:
        raise not_found(GroupResource("", "namespaces"), name)
    return namespace["metadata"].get("labels") or {}


async def namespace_matches(hook: Selecting, initializer: Initializer, attributes: Attributes) -> bool:
    if hook.namespaces.empty or not attributes.namespace and attributes.resource.resource != "namespaces":
        return True
    return bool(hook.namespaces.matches(await namespace_labels(initializer, attributes)))


def matching_rules(
    source: Source[tuple[Hook, ...]], hooks: tuple[Hook, ...], initializer: Initializer, attributes: Attributes
) -> tuple[tuple[int, Invocation], ...]:
    """The hooks whose rules match a request, with their index."""

    def find(hooks: tuple[Hook, ...]) -> tuple[tuple[int, Invocation], ...]:
        named = (
            (i, hook, by_rules(hook.rules, hook.equivalent, initializer, attributes))
            for i, hook in enumerate(elements(hooks))
        )
        return tuple((i, Invocation(hook, *as_)) for i, hook, as_ in named if as_ is not None)

    return source.cached(attributes, find, hooks) if hooks else ()


async def selected(invocation: Invocation, initializer: Initializer, attributes: Attributes) -> bool:
    """Whether the selectors of a hook whose rules match the request match it, too."""
    hook = invocation.hook
    if not object_matches(hook, attributes):
        return False
    return hook.namespaces.empty or await namespace_matches(hook, initializer, attributes)
