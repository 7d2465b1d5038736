"""Node selectors of pods, volumes, slices and claims (upstream: ``core/validation`` ValidateNodeSelector)."""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
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
    for i, term in enumerate(terms):
        validate_node_selector_term(term, here.index(i), errors, allow_invalid_values=allow_invalid_values)


def validate_node_selector_term(
    term: Object, path: Path, errors: Errors, *, allow_invalid_values: bool = False
) -> None:
    for i, requirement in enumerate(steps(term.get("matchExpressions") or ())):
        here = path.child("matchExpressions").index(i)
        validate_requirement(requirement, here, errors, compares=True, allow_invalid_values=allow_invalid_values)
    for i, requirement in enumerate(steps(term.get("matchFields") or ())):
        _node_fields(requirement, path.child("matchFields").index(i), errors)


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
    terms = (selector or {}).get("nodeSelectorTerms") or ()
    return any(
        is_label_value(value)
        for term in terms
        for requirement in steps(term.get("matchExpressions") or ())
        for value in steps(requirement.get("values") or ())
    )
