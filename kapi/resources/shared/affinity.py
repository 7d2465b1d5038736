"""Rules for the placement of pods: node selectors (also of volumes, slices and claims), affinity, spreading, tolerations.

Upstream: ``core/validation`` (validateAffinity, ValidateNodeSelector).
"""

from __future__ import annotations

import re

from kapi.machinery import field
from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.golang import NumberError, parse_int
from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import is_label_value, label_name, subdomain_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.rules import Errors, need, not_supported, report, report_once, supported
from kapi.resources.shared.selectors import validate_label_selector, validate_requirement

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_INTEGER = re.compile(r"(0|-?[1-9][0-9]*)\Z").match


def validate_node_selector(selector: Object, path: Path, errors: Errors, *, allow_invalid_values: bool = False) -> None:
    """``allow_invalid_values`` is for a selector whose stored version has such values."""
    terms = selector.get("nodeSelectorTerms") or []
    here = path.child("nodeSelectorTerms")
    need(terms, here, errors, detail="must have at least one node selector term")
    for term, place in each_of(here, terms):
        validate_node_selector_term(term, place, errors, allow_invalid_values=allow_invalid_values)


def validate_node_selector_term(
    term: Object, path: Path, errors: Errors, *, allow_invalid_values: bool = False
) -> None:
    for requirement, here in each(path.child("matchExpressions"), term):
        validate_requirement(requirement, here, errors, compares=True, allow_invalid_values=allow_invalid_values)
    for requirement, place in each(path.child("matchFields"), term):
        _node_fields(requirement, place, errors)


def _node_fields(requirement: Object, path: Path, errors: Errors) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(path.child("values"), text))
    else:
        errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(path.child("key"), key, "not a valid field selector key"))
        return
    for i, value in enumerate(values):
        for text in subdomain_name(value):
            errors.append(invalid(path.child("values").index(i), value, text))


def has_invalid_node_values(selector: Object | None) -> bool:
    """Whether a stored selector has label values that were not checked when it was stored, and may stay."""
    return any(
        is_label_value(value)
        for term in elements(selector, "nodeSelectorTerms")
        for requirement in elements(term, "matchExpressions")
        for value in elements(requirement, "values")
    )


# -- nodes -----------------------------------------------------------------------------------------------------------


def _node_affinity(affinity: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    selector = affinity.get(REQUIRED)
    if selector is not None:
        validate_node_selector(
            selector, path.child(REQUIRED), errors, allow_invalid_values=ctx.allow_invalid_node_affinity_values
        )
    for term, here in each(path.child(PREFERRED), affinity):
        _weight(term, here, errors)
        validate_node_selector_term(
            term.get("preference") or {}, here.child("preference"), errors, allow_invalid_values=True
        )


def _weight(term: Object, path: Path, errors: Errors) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        errors.append(field.invalid(path.child("weight"), weight, "must be in the range 1-100"))


# -- other pods ------------------------------------------------------------------------------------------------------


def validate_term_selectors(term: Object, path: Path, errors: Errors, allow_invalid_values: bool) -> None:
    for name in ("labelSelector", "namespaceSelector"):
        validate_label_selector(term.get(name), path.child(name), errors, allow_invalid_values=allow_invalid_values)


def _pod_term(term: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    validate_term_selectors(term, path, errors, ctx.allow_invalid_selector_values)
    for name in elements(term, "namespaces"):
        report(label_name(name), name, path, errors, "namespace")
    validate_match_label_keys(term, path, errors)
    key = term.get("topologyKey", "")
    need(key, path, errors, "topologyKey", detail="can not be empty")
    validate_label_name(key, path.child("topologyKey"), errors)


def _pod_affinity(affinity: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    for term, place in each(path.child(REQUIRED), affinity):
        _pod_term(term, place, errors, ctx)
    for weighted, here in each(path.child(PREFERRED), affinity):
        _weight(weighted, here, errors)
        _pod_term(weighted.get("podAffinityTerm") or {}, here.child("podAffinityTerm"), errors, ctx)


def validate_affinity(affinity: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    node = affinity.get("nodeAffinity")
    if node is not None:
        _node_affinity(node, path.child("nodeAffinity"), errors, ctx)
    for name in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(name)
        if part is not None:
            _pod_affinity(part, path.child(name), errors, ctx)


def pod_terms(affinity: Object | None) -> list[Object]:
    """Every term of pod affinity and anti-affinity."""
    terms: list[Object] = []
    for name in ("podAffinity", "podAntiAffinity"):
        part = (affinity or {}).get(name) or {}
        terms += part.get(REQUIRED) or ()
        terms += [term.get("podAffinityTerm") or {} for term in elements(part, PREFERRED)]
    return terms


def validate_match_label_keys(term: Object, path: Path, errors: Errors, *, mismatch: bool = True) -> None:
    """matchLabelKeys and mismatchLabelKeys, whose pods' labels are merged into the selector."""
    selector = term.get("labelSelector")
    keys = term.get("matchLabelKeys") or []
    others = (term.get("mismatchLabelKeys") or []) if mismatch else []
    for name, names in (("matchLabelKeys", keys), ("mismatchLabelKeys", others)):
        if names and selector is None:
            errors.append(field.forbidden(path.child(name), "must not be specified when labelSelector is not set"))
        elif names:
            for i, key in enumerate(elements(names)):
                validate_label_name(key, path.child(name).index(i), errors)
    if selector is not None and keys:
        positions = {key: i for i, key in enumerate(elements(keys))}
        seen = set(elements(selector, "matchLabels"))
        for expression in elements(selector, "matchExpressions"):
            key = expression.get("key", "")
            if key in positions and key in seen:
                text = "exists in both matchLabelKeys and labelSelector"
                errors.append(field.invalid(path.index(positions[key]), key, text, "duplicatedLabelKeys"))
            seen.add(key)
    both = set(elements(keys)).intersection(elements(others)) if others else ()
    for key, here in each_of(path.child("matchLabelKeys"), keys if both else ()):
        if key in both:
            errors.append(field.invalid(here, key, "exists in both matchLabelKeys and mismatchLabelKeys"))


def validate_spread_keys(constraint: Object, path: Path, errors: Errors) -> None:
    """Checks matchLabelKeys of a spread constraint, as before the release in which they are merged."""
    keys = constraint.get("matchLabelKeys") or []
    if not keys:
        return
    selector = constraint.get("labelSelector")
    if selector is None:
        errors.append(field.forbidden(path, "must not be specified when labelSelector is not set"))
    selector = selector or {}
    taken = set(elements(selector, "matchLabels"))
    taken |= {expression.get("key", "") for expression in elements(selector, "matchExpressions")}
    for key, here in each_of(path, keys):
        validate_label_name(key, here, errors)
        if key in taken:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(field.invalid(here, key, text, "duplicatedLabelKeys"))


def validate_spread(constraints: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    last: dict[tuple[str, str], int] = {}
    for i, constraint in enumerate(elements(constraints)):
        last[constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")] = i
    for i, constraint in enumerate(elements(constraints)):
        here = path.index(i)
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.append(field.invalid(here.child("maxSkew"), skew, "must be greater than zero"))
        need(key, here, errors, "topologyKey", detail="can not be empty")
        supported(action, ("DoNotSchedule", "ScheduleAnyway"), here, errors, "whenUnsatisfiable")
        if last[key, action] > i:
            place = here.child("{topologyKey, whenUnsatisfiable}")
            errors.append(field.duplicate(place, f"{{{key}, {action}}}"))
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                errors.append(field.invalid(here.child("minDomains"), domains, "must be greater than zero"))
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                errors.append(field.invalid(here.child("minDomains"), domains, text))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in ("Honor", "Ignore"):
                errors.append(not_supported(here.child(name), policy, ("Honor", "Ignore")))
        if ctx.selector_merge and not ctx.old_violates_match_label_keys:
            validate_match_label_keys(constraint, here, errors, mismatch=False)
        elif ctx.selector_merge or not ctx.old_violates_match_label_keys:
            validate_spread_keys(constraint, here.child("matchLabelKeys"), errors)
        if not ctx.allow_invalid_spread_selectors:
            validate_label_selector(constraint.get("labelSelector"), here.child("labelSelector"), errors)


# -- taints ----------------------------------------------------------------------------------------------------------


def validate_effect(effect: str, path: Path, errors: Errors) -> None:
    supported(effect, EFFECTS, path, errors)


def validate_tolerations(tolerations: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    for i, toleration in enumerate(tolerations):
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            validate_label_name(key, path.index(i).child("key"), errors)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(field.invalid(path.index(i).child("operator"), operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(field.invalid(path.index(i).child("effect"), effect, text))
        if operator in ("", "Equal"):
            report_once(is_label_value(value), value, path.index(i), errors, "operator", between=";")
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                errors.append(field.invalid(path.index(i).child("operator"), value, text))
        elif operator in ("Lt", "Gt") and ctx.comparison_operators:
            _integer(value, path.index(i).child("value"), errors)
        else:
            known: tuple[str, ...] = ("Equal", "Exists")
            if operator in ("Lt", "Gt"):
                known = ("Equal", "Exists", "Lt", "Gt")
            errors.append(not_supported(path.index(i).child("operator"), operator, known))
        if effect:
            validate_effect(effect, path.index(i).child("effect"), errors)


def _integer(value: str, path: Path, errors: Errors) -> None:
    if not value:
        errors.append(field.invalid(path, value, "must be non-empty"))
    elif not _INTEGER(value):
        errors.append(field.invalid(path, value, "must be a valid decimal integer in canonical form"))
    try:
        parse_int(value)
    except NumberError as error:
        errors.append(field.invalid(path, value, f'strconv.ParseInt: parsing "{value}": {error}'))
