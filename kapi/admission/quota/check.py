"""Whether a request fits a namespace's quotas, and what they have used then.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.admission.interface import CREATE, UPDATE, Attributes, denied
from kapi.admission.quota import lists
from kapi.admission.quota.evaluators import Evaluator
from kapi.admission.quota.lists import Amounts
from kapi.admission.quota.scopes import Requirement, requirements_of
from kapi.machinery import golang
from kapi.machinery.sorting import ordered
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object

#: what a configuration limits even without a quota: {"apiGroup", "resource", "matchContains", "matchScopes"}
Limited = Object


def hard(quota: Object) -> Amounts:
    return (quota.get("status") or {}).get("hard") or {}


def used(quota: Object) -> Amounts:
    return (quota.get("status") or {}).get("used") or {}


def check(
    quotas: Sequence[Object], attributes: Attributes, evaluator: Evaluator, limited: Sequence[Limited], now: float
) -> list[Object]:
    """The quotas with the request's usage added; those that do not change are the same objects.

    Raises Forbidden when a quota is exceeded, unknown or missing.
    """
    quotas = list(quotas)
    obj = attributes.obj
    if obj is None or not evaluator.handles(attributes):
        return quotas
    limited_scopes = [found for entry in limited for found in evaluator.matching(entry.get("matchScopes") or (), obj)]
    limited_names = _limited_names(attributes, evaluator, limited, obj, now)

    interesting: list[int] = []
    restricted: set[str] = set()
    covered_scopes: set[str] = set()
    for i, quota in enumerate(quotas):
        requirements = requirements_of(quota)
        matched = evaluator.matching(requirements, obj)
        covered_scopes.update(requirement["scopeName"] for requirement in matched)
        names = evaluator.concerns(hard(quota))
        if not names or len(matched) != len(requirements):
            continue
        lacking = evaluator.missing(names, obj)
        if lacking:
            raise denied(attributes, f"failed quota: {quota['metadata']['name']}: {lacking}")
        if any(name not in used(quota) for name in names):
            shown = ",".join(ordered(names))
            raise denied(attributes, f"status unknown for quota: {quota['metadata']['name']}, resources: {shown}")
        interesting.append(i)
        restricted.update(names)

    usage = evaluator.usage(obj, now)
    below_zero = lists.negative(usage)
    if below_zero:
        raise denied(attributes, f"quota usage is negative for resource(s): {','.join(below_zero)}")
    deltas, uncovered = _deltas(quotas, interesting, attributes, evaluator, usage, now)
    if interesting and not deltas or not interesting and not uncovered:
        return quotas
    lacking_names = ordered(limited_names - restricted)
    if lacking_names:
        raise denied(attributes, f"insufficient quota to consume: {','.join(lacking_names)}")
    lacking_scopes = [scope for scope in limited_scopes if scope.get("scopeName") not in covered_scopes]
    if lacking_scopes:
        raise StatusError(f"insufficient quota to match these scopes: {_show_scopes(lacking_scopes)}")
    for i, delta in deltas.items():
        quotas[i] = _charged(quotas[i], delta, attributes)
    return quotas


def _limited_names(
    attributes: Attributes, evaluator: Evaluator, limited: Sequence[Limited], obj: Object, now: float
) -> set[str]:
    group_resource = attributes.resource.group_resource
    entries = [
        entry
        for entry in limited
        if (entry.get("apiGroup") or "", entry.get("resource") or "") == tuple(group_resource)
    ]
    if not entries:
        return set()
    charge = lists.without_zeros(evaluator.usage(obj, now))
    return {
        name for entry in entries for name in charge if any(part in name for part in entry.get("matchContains") or ())
    }


def _deltas(
    quotas: Sequence[Object],
    interesting: Sequence[int],
    attributes: Attributes,
    evaluator: Evaluator,
    usage: Amounts,
    now: float,
) -> tuple[dict[int, Amounts], Amounts]:
    """What each interesting quota is charged, and what would be charged if there is none."""
    deltas = {i: usage for i in interesting}
    uncovered: Amounts = {} if interesting or attributes.operation != CREATE else usage
    if attributes.operation == UPDATE:
        old = attributes.old
        if old is None:
            raise denied(attributes, "unable to get previous usage since prior version of object was not found")
        if old["metadata"].get("resourceVersion"):
            more = lists.growth(usage, evaluator.usage(old, now))
            uncovered = {} if interesting else more
            for i in interesting:
                requirements = requirements_of(quotas[i])
                if len(evaluator.matching(requirements, old)) == len(requirements):
                    deltas[i] = more
        elif not interesting:
            uncovered = usage
    trimmed = {i: lists.without_zeros(delta) for i, delta in deltas.items()}
    return {i: delta for i, delta in trimmed.items() if delta}, lists.without_zeros(uncovered)


def _charged(quota: Object, delta: Amounts, attributes: Attributes) -> Object:
    """The quota with a request added to what is used.  Raises Forbidden when that is too much."""
    limits, before = hard(quota), used(quota)
    requested = lists.mask(delta, limits)
    after = lists.add(before, requested)
    if attributes.subresource != "status":
        exceeded = lists.exceeding(lists.mask(after, requested), limits)
        if exceeded:
            raise denied(
                attributes,
                f"exceeded quota: {quota['metadata']['name']}, requested: {lists.show(lists.mask(requested, exceeded))}, "
                f"used: {lists.show(lists.mask(before, exceeded))}, limited: {lists.show(lists.mask(limits, exceeded))}",
            )
    return {**quota, "status": {**(quota.get("status") or {}), "used": after}}


def _show_scopes(scopes: Sequence[Requirement]) -> str:
    return (
        "["
        + " ".join(
            "{"
            + f"{scope.get('scopeName')} {scope.get('operator')} {golang.value_text(scope.get('values') or [])}"
            + "}"
            for scope in scopes
        )
        + "]"
    )
