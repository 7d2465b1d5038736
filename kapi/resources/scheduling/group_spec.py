"""The spec of a PodGroup, also in a Workload's template (KEP-4671, KEP-5729, KEP-5710).

Upstream: the rules in ``staging/src/k8s.io/api/scheduling/v1alpha2/types.go``, apimachinery ``pkg/api/validate``.
Values that an update does not change are not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import NIL, Path, duplicate, forbidden, invalid, required, too_many
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.features import gate
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import is_dns1123_label, is_dns1123_subdomain
from kapi.resources.shared.rules import Errors, not_supported, same

MAX_CLAIMS = 4
_MAX_TOPOLOGY_CONSTRAINTS = 1
_MAX_PRIORITY = 1_000_000_000
_MODES = ("Pod", "PodGroup")
_IMMUTABLE = "field is immutable"
_TOPOLOGY_GATE = "TopologyAwareWorkloadScheduling"
_CLAIMS_GATE = "DRAWorkloadResourceClaims"
_PREEMPTION_GATE = "WorkloadAwarePreemption"
_GATED = {
    "schedulingConstraints": _TOPOLOGY_GATE,
    "resourceClaims": _CLAIMS_GATE,
    "disruptionMode": _PREEMPTION_GATE,
    "priorityClassName": _PREEMPTION_GATE,
    "priority": _PREEMPTION_GATE,
}
Rule = Callable[[Tree, Path, Errors], None]


def drop_disabled(specs: Collection[Object], old: Collection[Object], ctx: object) -> None:
    """Drops fields whose feature gate is off, unless they are stored already."""
    for field, name in _GATED.items():
        if gate(ctx, name) or any(spec.get(field) not in (None, "", []) for spec in elements(old)):
            continue
        for spec in elements(specs):
            spec.pop(field, None)


def check_fixed(new: Tree, old: Tree, path: Path, errors: Errors) -> bool:
    """Appends an error when the field has changed.  Returns whether it is unchanged."""
    if same(new, old):
        return True
    errors.append(invalid(path, NIL, _IMMUTABLE))
    return False


def check_group(spec: Object, old: Object | None, path: Path, errors: Errors, ctx: object) -> None:
    """The rules for a group's spec; with ``old``, the stored one, no field may change."""

    def check(field: str, rule: Rule) -> None:
        value, here = spec.get(field), path.child(field)
        before = None if old is None else old.get(field)
        if old is not None and same(value, before):
            return
        name = _GATED.get(field)
        if name is not None and name != _CLAIMS_GATE and not gate(ctx, name):
            if value not in (None, "", []):
                errors.append(forbidden(here, ""))
        elif old is not None:
            check_fixed(value, before, here, errors)
        elif value not in (None, "", []) or field == "schedulingPolicy":
            rule(value, here, errors)

    check("schedulingPolicy", _check_policy)
    check("schedulingConstraints", _check_constraints)
    check("resourceClaims", _check_claims)
    check("disruptionMode", _check_mode)
    check("priorityClassName", check_long_name)
    check("priority", _check_priority)


def check_union(obj: Object, names: tuple[str, ...], path: Path, errors: Errors) -> None:
    """Exactly one of these fields must be set."""
    given = [name for name in names if obj.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in names)
    if not given:
        errors.append(invalid(path, "", f"must specify one of: {listed}"))
    elif len(given) > 1:
        errors.append(invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}"))


def check_short_name(name: str, path: Path, errors: Errors) -> None:
    errors += [invalid(path, name, text) for text in is_dns1123_label(name)]


def check_long_name(name: str, path: Path, errors: Errors) -> None:
    errors += [invalid(path, name, text) for text in is_dns1123_subdomain(name)]


def check_required(obj: Object, field: str, rule: Rule, path: Path, errors: Errors) -> None:
    """The field must be set, and fulfil the rule."""
    value, here = obj.get(field), path.child(field)
    if value in (None, "", 0):
        errors.append(required(here))
    else:
        rule(value, here, errors)


def check_names(items: list[Object], path: Path, errors: Errors) -> None:
    """The items of a list must have different names."""
    seen: set[str] = set()
    for item, here in each_of(path, items):
        name = item.get("name", "")
        if name in seen:
            errors.append(duplicate(here, item))
        seen.add(name)


def _check_policy(policy: Object | None, path: Path, errors: Errors) -> None:
    policy = policy or {}
    check_union(policy, ("basic", "gang"), path, errors)
    if policy.get("gang") is not None:
        check_required(policy["gang"], "minCount", _check_count, path.child("gang"), errors)


def _check_count(count: int, path: Path, errors: Errors) -> None:
    if count < 1:
        errors.append(invalid(path, count, "must be greater than or equal to 1"))


def _check_constraints(constraints: Object, path: Path, errors: Errors) -> None:
    topology, here = constraints.get("topology") or [], path.child("topology")
    if len(topology) > _MAX_TOPOLOGY_CONSTRAINTS:
        errors.append(too_many(here, len(topology), _MAX_TOPOLOGY_CONSTRAINTS))
        return
    for i, item in enumerate(topology):
        check_required(item, "key", validate_label_name, here.index(i), errors)


def _check_claims(claims: list[Object], path: Path, errors: Errors) -> None:
    if len(claims) > MAX_CLAIMS:
        errors.append(too_many(path, len(claims), MAX_CLAIMS))
        return
    check_names(claims, path, errors)
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for i, claim in enumerate(claims):
        here = path.index(i)
        check_union(claim, sources, here, errors)
        check_required(claim, "name", check_short_name, here, errors)
        for source in sources:
            if claim.get(source) is not None:
                check_long_name(claim[source], here.child(source), errors)


def _check_mode(mode: str, path: Path, errors: Errors) -> None:
    if mode not in _MODES:
        errors.append(not_supported(path, mode, _MODES))


def _check_priority(priority: int, path: Path, errors: Errors) -> None:
    if priority > _MAX_PRIORITY:
        errors.append(invalid(path, priority, f"must be less than or equal to {_MAX_PRIORITY}"))
