"""Node selectors of volumes, slices and claims (upstream: core ``ValidateNodeSelector``)."""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import is_label_value, subdomain_name
from kapi.resources.shared.rules import Errors


def validate_node_selector(selector: Object, path: Path, errors: Errors, *, allow_invalid_values: bool = False) -> None:
    """Appends what is wrong with a NodeSelector; ``allow_invalid_values`` is for what was stored with such values."""
    terms, here = selector.get("nodeSelectorTerms") or [], path.child("nodeSelectorTerms")
    if not terms:
        errors.append(required(here, "must have at least one node selector term"))
    for i, term in enumerate(terms):
        validate_node_selector_term(term, here.index(i), errors, allow_invalid_values=allow_invalid_values)


def validate_node_selector_term(
    term: Object, path: Path, errors: Errors, *, allow_invalid_values: bool = False
) -> None:
    for i, expression in enumerate(steps(term.get("matchExpressions") or [])):
        _expression(expression, path.child("matchExpressions").index(i), allow_invalid_values, errors)
    for i, field in enumerate(steps(term.get("matchFields") or [])):
        _field(field, path.child("matchFields").index(i), errors)


def _expression(expression: Object, path: Path, lax: bool, errors: Errors) -> None:
    operator, values, here = expression.get("operator", ""), expression.get("values") or [], path.child("values")
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(here, "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden(here, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(required(here, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    validate_label_name(expression.get("key", ""), path.child("key"), errors)
    for i, value in enumerate([] if lax else values):
        errors += [invalid(here.index(i), value, problem) for problem in is_label_value(value)]


def _field(field: Object, path: Path, errors: Errors) -> None:
    operator, values, key = field.get("operator", ""), field.get("values") or [], field.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(path.child("values"), detail))
    if key != "metadata.name":
        errors.append(invalid(path.child("key"), key, "not a valid field selector key"))
        return
    for i, value in enumerate(values):
        errors += [invalid(path.child("values").index(i), value, problem) for problem in subdomain_name(value)]
