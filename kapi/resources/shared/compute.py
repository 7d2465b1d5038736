"""Requests, limits and claims of compute resources, and the quality-of-service class of a pod.

Upstream: ``core/validation`` (ValidateResourceRequirements), ``core/helper/qos``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kapi.machinery import field, quantities
from kapi.machinery.each import elements, entries
from kapi.machinery.field import ErrorType, FieldError, Path
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.names import is_dns1123_label
from kapi.resources.shared.resource_names import (
    HUGE_PAGES,
    container_resource_name_texts,
    is_huge_page,
    is_overcommit_allowed,
    resource_name_texts,
    validate_quantity,
)
from kapi.resources.shared.rules import Errors, not_supported, report

POD_LEVEL = ("cpu", "memory")
NameRule = Callable[[str, Path, Errors], None]
_COUNTED = ("cpu", "memory")


def is_pod_level(name: str) -> bool:
    return name in POD_LEVEL or is_huge_page(name)


def validate_container_resource_name(name: str, path: Path, errors: Errors) -> None:
    report(container_resource_name_texts(name), name, path, errors)


def validate_pod_resource_name(name: str, path: Path, errors: Errors) -> None:
    texts = resource_name_texts(name)
    report(texts, name, path, errors)
    if not texts and not is_pod_level(name):
        errors.append(not_supported(path, name, ("cpu", "hugepages-", "memory")))


def _divisible(name: str, quantity: str) -> bool:
    try:
        page = quantities.parse(name.removeprefix(HUGE_PAGES)).value
    except ValueError:
        return False
    if page <= 0 or page.denominator != 1:
        return False
    return quantities.ceiling(quantity) % page == 0


def uses_indivisible_huge_pages(resources: Mapping[str, Tree] | None) -> bool:
    for part in ("limits", "requests"):
        for name, quantity in entries(resources, part):
            if is_huge_page(name) and not _divisible(name, quantity):
                return True
    return False


def validate_resources(
    resources: Mapping[str, Tree],
    path: Path,
    errors: Errors,
    *,
    name_rule: NameRule = validate_container_resource_name,
    claim_names: Collection[str] = (),
    allow_indivisible: bool = False,
) -> None:
    """Checks limits, requests against limits, huge pages and claims; entries in the order of their names."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for name in elements(ordered(limits)):
        _validate_entry(name, limits[name], path, "limits", errors, name_rule, allow_indivisible, None)
    for name in elements(ordered(requests)):
        _validate_entry(name, requests[name], path, "requests", errors, name_rule, allow_indivisible, limits)
    if not any(name in entry for entry in (limits, requests) for name in POD_LEVEL) and any(
        is_huge_page(name) for entry in (limits, requests) for name in elements(entry)
    ):
        errors.append(field.forbidden(path, "HugePages require cpu or memory"))
    claims = resources.get("claims")
    if claims:
        _validate_claims(claims, path.child("claims"), errors, claim_names)


def _validate_entry(
    name: str,
    quantity: str,
    path: Path,
    part: str,
    errors: Errors,
    name_rule: NameRule,
    allow_indivisible: bool,
    limits: Mapping[str, str] | None,
) -> None:
    here = Path(f"[{name}]", Path(f".{part}", path))
    name_rule(name, here, errors)
    validate_quantity(name, quantity, here, errors)
    if limits is not None:
        limit = limits.get(name)
        if limit is not None:
            order = quantities.compare(quantity, limit)
            if order != 0 and not is_overcommit_allowed(name):
                errors.append(field.invalid(path.child(part), quantity, f"must be equal to {name} limit of {limit}"))
            elif order > 0:
                text = f"must be less than or equal to {name} limit of {limit}"
                errors.append(field.invalid(path.child(part), quantity, text))
        elif not is_overcommit_allowed(name):
            errors.append(field.required(path.child("limits"), "Limit must be set for non overcommitable resources"))
    if is_huge_page(name) and not allow_indivisible and not _divisible(name, quantity):
        errors.append(field.invalid(here, quantity, f"{quantity} is not positive integer multiple of {name}"))


def _validate_claims(claims: list[Object], path: Path, errors: Errors, known: Collection[str]) -> None:
    seen: set[str] = set()
    uses: dict[str, int] = {}  # by claim
    for i, claim in enumerate(claims):
        here, name, request = path.index(i), claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(field.required(here))
            continue
        if name in seen:
            errors.append(field.duplicate(here, name))
        else:
            key = name
            if request:
                report(is_dns1123_label(request), request, here, errors, "request")
                key = f"{name}/{request}"
            if key in seen:
                errors.append(field.duplicate(here, key))
            elif not request:
                field.repeat(errors, field.duplicate(here, name), uses.get(name, 0))
            if key not in seen:
                seen.add(key)
                claim_name = key.partition("/")[0]
                uses[claim_name] = uses.get(claim_name, 0) + 1
        if name not in known:
            text = "must be one of the names in pod.spec.resourceClaims"
            text += ": " + ", ".join(sorted(known)) if known else " which is empty"
            errors.append(FieldError(ErrorType.NOT_FOUND, here, name, text))


def _add(total: dict[str, str], amounts: Mapping[str, str] | None) -> set[str]:
    """Adds the positive amounts that count; returns their names."""
    names = set()
    for name in _COUNTED:
        quantity = (amounts or {}).get(name)
        if quantity is not None and quantities.sign(quantity) > 0:
            names.add(name)
            total[name] = quantities.add(total[name], quantity) if name in total else quantity
    return names


def qos_class(spec: Object, pod_level: bool = True) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    guaranteed = True
    own = spec.get("resources") if pod_level else None
    if own is not None:
        _add(requests, own.get("requests"))
        if own.get("limits"):
            guaranteed = len(_add(limits, own["limits"])) == len(_COUNTED)
    else:
        for part in ("containers", "initContainers"):
            for container in elements(spec, part):
                resources = container.get("resources")
                if not resources:
                    guaranteed = False
                    continue
                _add(requests, resources.get("requests"))
                if len(_add(limits, resources.get("limits"))) < len(_COUNTED):
                    guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and len(requests) == len(limits):
        equal = (name in limits and quantities.compare(limits[name], amount) == 0 for name, amount in requests.items())
        if all(equal):
            return "Guaranteed"
    return "Burstable"
