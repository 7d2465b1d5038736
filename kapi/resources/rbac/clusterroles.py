"""ClusterRole (rbac.authorization.k8s.io/v1).  Escalation is checked by a guard (``kapi/registry/escalation.py``).

Upstream: ``pkg/apis/rbac/validation``."""

from __future__ import annotations

from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.rbac.roles import RoleStrategy
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.selectors import is_convertible, validate_label_selector

_SELECTORS = Path("aggregationRule").child("clusterRoleSelectors")


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


RESOURCE = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    kind="ClusterRole",
    plural="clusterroles",
    namespaced=False,
    storage_version_hash="bYE5ZWDrJ44=",
    strategy=ClusterRoleStrategy(),
)
