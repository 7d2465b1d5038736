"""Roles, ClusterRoles and their bindings (rbac.authorization.k8s.io/v1): defaults, validation, tables.

A guard checks escalation (``kapi/registry/guards.py``).
Upstream: ``pkg/apis/rbac/validation``, ``pkg/apis/rbac/v1/defaults.go``.
"""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, TableColumns, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.internal import internal
from kapi.resources.shared.names import is_path_segment_name, path_segment_name, subdomain_name
from kapi.resources.shared.rules import Errors, check, need, not_supported, supported
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.selectors import is_convertible, validate_label_selector
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

GROUP = "rbac.authorization.k8s.io"
_KINDS = ("ServiceAccount", "User", "Group")
_REFERENCE = Path("roleRef")
_SELECTORS = Path("aggregationRule").child("clusterRoleSelectors")


def validate_policy_rule(rule: Object, path: Path, errors: Errors, *, namespaced: bool) -> None:
    """Checks a rule, which may have resources or URLs, not both."""
    need(rule.get("verbs"), path, errors, "verbs", detail="verbs must contain at least one value")
    urls = rule.get("nonResourceURLs") or []
    if urls:
        here = path.child("nonResourceURLs")
        if namespaced:
            errors.append(invalid(here, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            errors.append(invalid(here, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return
    need(rule.get("apiGroups"), path, errors, "apiGroups", detail="resource rules must supply at least one api group")
    need(rule.get("resources"), path, errors, "resources", detail="resource rules must supply at least one resource")


def default_subjects(subjects: list[Object]) -> None:
    for subject in elements(subjects):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def validate_subject(subject: Object, path: Path, errors: Errors, *, namespaced: bool) -> None:
    name, kind, group = subject.get("name") or "", subject.get("kind", ""), subject.get("apiGroup") or ""
    need(name, path, errors, "name")
    if kind == "ServiceAccount":
        if name:
            check(subdomain_name)(name, path.child("name"), errors, None)
        if group:
            errors.append(not_supported(path.child("apiGroup"), group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(path.child("namespace")))
    elif kind in ("User", "Group"):
        supported(group, (GROUP,), path, errors, "apiGroup")
    else:
        errors.append(not_supported(path.child("kind"), kind, _KINDS))


def subject_names(subjects: list[Object], kind: str) -> list[str]:
    """The names of the subjects of a kind, as tables show them."""
    found = [subject for subject in subjects if subject.get("kind") == kind]
    if kind == "ServiceAccount":
        return [f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in found]
    return [subject.get("name", "") for subject in found]


class RoleStrategy(PlainStrategy):
    name_rule = staticmethod(path_segment_name)
    allow_create_on_update = True
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        for rule, here in each_of(Path("rules"), obj.get("rules")):
            validate_policy_rule(rule, here, errors, namespaced=self.namespaced)


ROLE = Resource(*type_meta("rbac.authorization.k8s.io/v1", "Role"), strategy=RoleStrategy())


class RoleBindingStrategy(PlainStrategy):
    name_rule = staticmethod(path_segment_name)
    allow_create_on_update = True
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)
    kinds: ClassVar[tuple[str, ...]] = ("Role", "ClusterRole")

    def default(self, obj: Object) -> None:
        reference = obj.setdefault("roleRef", {})
        reference["apiGroup"] = reference.get("apiGroup") or GROUP
        default_subjects(obj.get("subjects") or [])

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        reference = obj.get("roleRef") or {}
        group, kind = reference.get("apiGroup", ""), reference.get("kind", "")
        supported(group, (GROUP,), _REFERENCE, errors, "apiGroup")
        supported(kind, self.kinds, _REFERENCE, errors, "kind")
        require("name", then=check(is_path_segment_name))(reference, _REFERENCE, errors, ctx)
        for subject, here in each_of(Path("subjects"), obj.get("subjects")):
            validate_subject(subject, here, errors, namespaced=self.namespaced)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        reference, before = obj.get("roleRef") or {}, old.get("roleRef") or {}
        names = ("apiGroup", "kind", "name")
        if any(reference.get(name, "") != before.get(name, "") for name in names):
            errors.append(invalid(_REFERENCE, internal("RoleRef", reference), "cannot change roleRef"))


def role(obj: Object, now: float) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def named(kind: str) -> printing.Reader:
    """The cell with the subjects of a kind."""
    return lambda obj, now: ", ".join(subject_names(obj.get("subjects") or [], kind))


def _binding_table(role_text: str, kind: str) -> TableColumns:
    """``kind``: the binding's kind, as texts name it."""
    return printing.table(
        printing.NAME,
        printing.column("Role", role, role_text),
        printing.AGE,
        printing.column("Users", named("User"), f"Users in the {kind}", priority=1),
        printing.column("Groups", named("Group"), f"Groups in the {kind}", priority=1),
        printing.column("ServiceAccounts", named("ServiceAccount"), f"ServiceAccounts in the {kind}", priority=1),
    )


ROLE_BINDING = Resource(
    *type_meta("rbac.authorization.k8s.io/v1", "RoleBinding"),
    strategy=RoleBindingStrategy(),
    table=_binding_table(
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. "
        "If the RoleRef cannot be resolved, the Authorizer must return an error.",
        "roleBinding",
    ),
)


def _selectors(role: Object | None) -> list[Object]:
    return ((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors") or []


class ClusterRoleStrategy(RoleStrategy):
    namespaced = False

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        super().check(obj, old, errors, ctx)
        if obj.get("aggregationRule") is None:
            return
        if not _selectors(obj):
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required(_SELECTORS, detail))
        before: Errors = []
        for selector in _selectors(old):
            validate_label_selector(selector, Path(), before)
        for i, selector in enumerate(_selectors(obj)):
            path = _SELECTORS.index(i)
            validate_label_selector(selector, path, errors, allow_invalid_values=bool(before))
            if not is_convertible(selector):
                # upstream shows the selector that could not be made
                errors.append(invalid(path, None, "invalid label selector."))


CLUSTER_ROLE = Resource(*type_meta("rbac.authorization.k8s.io/v1", "ClusterRole"), strategy=ClusterRoleStrategy())


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    namespaced = False
    kinds = ("ClusterRole",)


CLUSTER_ROLE_BINDING = Resource(
    *type_meta("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    strategy=ClusterRoleBindingStrategy(),
    table=_binding_table(
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be "
        "resolved, the Authorizer must return an error.",
        "clusterRoleBinding",
    ),
)
