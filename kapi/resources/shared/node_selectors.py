"""Node selectors of pods, volumes, slices and claims (upstream: ``core/validation`` ValidateNodeSelector)."""

from __future__ import annotations

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.shared.names import is_label_value, subdomain_name
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.selectors import validate_requirement


def validate_node_selector(selector: Object, path: Path, errors: Errors, *, allow_invalid_values: bool = False) -> None:
    """``allow_invalid_values`` is for a selector whose stored version has such values."""
    terms = selector.get("nodeSelectorTerms") or []
    here = path.child("nodeSelectorTerms")
    if not terms:
        errors.append(required(here, "must have at least one node selector term"))
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
