"""Rules and subjects of RBAC objects (upstream: ``pkg/apis/rbac/validation``, ``pkg/apis/rbac/v1/defaults.go``)."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.rules import Errors, check, not_supported

GROUP = "rbac.authorization.k8s.io"
_KINDS = ("ServiceAccount", "User", "Group")


def validate_policy_rule(rule: Object, path: Path, errors: Errors, *, namespaced: bool) -> None:
    """A rule is about resources or about URLs, not about both."""
    if not rule.get("verbs"):
        errors.append(required(path.child("verbs"), "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs") or []
    if urls:
        here = path.child("nonResourceURLs")
        if namespaced:
            errors.append(invalid(here, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(here, urls, detail))
        return
    if not rule.get("apiGroups"):
        errors.append(required(path.child("apiGroups"), "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(path.child("resources"), "resource rules must supply at least one resource"))


def default_subjects(subjects: list[Object]) -> None:
    for subject in elements(subjects):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def validate_subject(subject: Object, path: Path, errors: Errors, *, namespaced: bool) -> None:
    name, kind, group = subject.get("name") or "", subject.get("kind", ""), subject.get("apiGroup") or ""
    if not name:
        errors.append(required(path.child("name")))
    if kind == "ServiceAccount":
        if name:
            check(subdomain_name)(name, path.child("name"), errors, None)
        if group:
            errors.append(not_supported(path.child("apiGroup"), group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(path.child("namespace")))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(not_supported(path.child("apiGroup"), group, (GROUP,)))
    else:
        errors.append(not_supported(path.child("kind"), kind, _KINDS))


def subject_names(subjects: list[Object], kind: str) -> list[str]:
    """The names of the subjects of a kind, as tables show them."""
    found = [subject for subject in subjects if subject.get("kind") == kind]
    if kind == "ServiceAccount":
        return [f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in found]
    return [subject.get("name", "") for subject in found]
