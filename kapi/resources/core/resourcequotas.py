"""ResourceQuota (v1).

Upstream: ``pkg/apis/core/validation``: ValidateResourceQuota; ``pkg/registry/core/resourcequota``."""

from __future__ import annotations

from functools import cache, partial
from typing import ClassVar

from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path, invalid, repeat, required
from kapi.machinery.quantities import compare
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE
from kapi.resources.shared.resource_names import (
    check_quota_resource_name,
    check_resource_quantity,
    is_standard_quota_resource,
    round_resource_list,
)
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC, _STATUS = Path("spec"), Path("status")
_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_EXISTS_ONLY = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_SCOPES = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_POD_COMPUTE = {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
_CONFLICTS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _covers(scope: str, resource: str) -> bool:
    """Whether a scope can restrict a resource; unknown scopes are reported elsewhere."""
    if scope in _POD_SCOPES:
        return resource in _POD_COMPUTE
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in ("persistentvolumeclaims", "requests.storage")
    return True


def _amounts(amounts: Object | None, path: Path, errors: Errors) -> None:
    for name, value in entries(amounts):
        here = path.key(name)
        errors += check_quota_resource_name(name, here)
        errors += check_resource_quantity(name, value, here)


def _uncovered(scope: str, hard: list[str]) -> int:
    return 0 if scope not in _SCOPES else sum(not _covers(scope, name) for name in elements(hard))


def _standard(spec: Object) -> list[str]:
    return [name for name in elements(spec, "hard") if is_standard_quota_resource(name)]


def _scopes(spec: Object, errors: Errors) -> None:
    scopes, path = spec.get("scopes") or [], _SPEC.child("scopes")
    uncovered = cache(partial(_uncovered, hard=_standard(spec)))
    for scope in elements(scopes):
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        repeat(errors, invalid(path, scopes, "unsupported scope applied to resource"), uncovered(scope))
    _conflicts(scopes, path, scopes, errors)


def _conflicts(scopes: list[str], path: Path, shown: list[str] | None, errors: Errors) -> None:
    present = {scope for scope in elements(scopes) if scope in _SCOPES}
    for pair in _CONFLICTS:
        if present.issuperset(pair):
            errors.append(invalid(path, shown, "conflicting scopes"))


def _scope_selector(spec: Object, errors: Errors) -> None:
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    path = _SPEC.child("scopeSelector", "matchExpressions")
    uncovered = cache(partial(_uncovered, hard=_standard(spec)))
    terms = selector.get("matchExpressions") or []
    shown = internal("ScopeSelector", selector)
    for term in elements(terms):
        scope, operator, values = term.get("scopeName", ""), term.get("operator", ""), term.get("values") or []
        if scope not in _SCOPES:
            errors.append(invalid(path.child("scopeName"), scope, "unsupported scope"))
        repeat(errors, invalid(path, shown, "unsupported scope applied to resource"), uncovered(scope))
        if scope in _EXISTS_ONLY and operator != "Exists":
            errors.append(invalid(path.child("operator"), operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(path.child("values"), detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(path.child("values"), values, detail))
        else:
            errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    _conflicts([term.get("scopeName", "") for term in terms], path, spec.get("scopes"), errors)


class ResourceQuotaStrategy(PlainStrategy):
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        round_resource_list((obj.get("spec") or {}).get("hard"))
        status = obj.get("status") or {}
        round_resource_list(status.get("hard"))
        round_resource_list(status.get("used"))

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        _amounts(spec.get("hard"), _SPEC.child("hard"), errors)
        _scopes(spec, errors)
        _scope_selector(spec, errors)
        scopes = spec.get("scopes")
        if old is not None and set(scopes or ()) != set((old.get("spec") or {}).get("scopes") or ()):
            errors.append(invalid(_SPEC.child("scopes"), scopes, IMMUTABLE))

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        hard = (obj.get("spec") or {}).get("hard") or {}
        warnings: list[str] = []
        for resource in ("cpu", "memory", "storage", "ephemeral-storage"):
            request, limit = f"requests.{resource}", f"limits.{resource}"
            if request not in hard and resource in ("cpu", "memory"):
                request = resource
            if request in hard and limit in hard and compare(hard[request], hard[limit]) > 0:
                warnings.append(
                    f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
                )
        return warnings


class ResourceQuotaStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status = obj.get("status") or {}
        _amounts(status.get("hard"), _STATUS.child("hard"), errors)
        _amounts(status.get("used"), _STATUS.child("used"), errors)


def _used(obj: Object, limits: bool) -> str:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{hard[name]}"
        for name in elements(ordered(hard))
        if name.startswith("limits.") is limits
    )


RESOURCE = Resource(
    *type_meta("v1", "ResourceQuota"),
    short_names=("quota",),
    strategy=ResourceQuotaStrategy(),
    status=ResourceQuotaStatusStrategy,
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.column(
            "Request",
            lambda obj, now: _used(obj, limits=False),
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        printing.column(
            "Limit",
            lambda obj, now: _used(obj, limits=True),
            "Limits control the maximum amount of cpu/memory that a container may use independent of "
            "contention on the node.",
        ),
        printing.AGE,
    ),
)
