"""Label selectors: validation and matching (upstream: ``apis/meta/v1/validation``, ``apis/meta/v1.LabelSelectorAsSelector``)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery import field
from kapi.machinery.each import each, elements, entries
from kapi.machinery.field import Path
from kapi.machinery.tree import Tree
from kapi.resources.shared.metadata import validate_label_name, validate_labels
from kapi.resources.shared.names import is_label_key, is_label_value
from kapi.resources.shared.rules import Errors

Selector = Mapping[str, Tree]


def validate_label_selector(
    selector: Selector | None, path: Path, errors: Errors, *, allow_invalid_values: bool = False
) -> None:
    if not selector:
        return
    labels = selector.get("matchLabels")
    if labels:
        validate_labels(labels, path.child("matchLabels"), errors)
    for term, here in each(path.child("matchExpressions"), selector):
        validate_requirement(term, here, errors, allow_invalid_values=allow_invalid_values)


def validate_requirement(
    term: Selector, path: Path, errors: Errors, *, compares: bool = False, allow_invalid_values: bool = False
) -> None:
    """One term: operator, key and values of labels.  ``compares``: labels of nodes may be greater or less than a number."""
    operator, values = term.get("operator", ""), term.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(field.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(field.forbidden(path.child("values"), text))
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(field.required(path.child("values"), text))
    else:
        errors.append(field.invalid(path.child("operator"), operator, "not a valid selector operator"))
    validate_label_name(term.get("key", ""), path.child("key"), errors)
    if not allow_invalid_values:
        for i, value in enumerate(values):
            for text in is_label_value(value):
                errors.append(field.invalid(path.child("values").index(i), value, text))


def has_invalid_values(selector: Selector | None) -> bool:
    """Whether a stored selector has values that were not checked when it was stored, and may stay."""
    terms = (selector or {}).get("matchExpressions") or ()
    return any(is_label_value(value) for term in terms for value in elements(term, "values"))


def is_convertible(selector: Selector) -> bool:
    """Whether a selector can be evaluated: known operators, right number of values, valid keys and values."""
    for key, value in entries(selector, "matchLabels"):
        if is_label_key(key) or is_label_value(value):
            return False
    for term in elements(selector, "matchExpressions"):
        operator, values = term.get("operator"), term.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                return False
        elif operator not in ("Exists", "DoesNotExist") or values:
            return False
        if is_label_key(term.get("key", "")) or any(is_label_value(value) for value in values):
            return False
    return True


def is_empty(selector: Selector | None) -> bool:
    """Whether a selector has no terms: it matches everything (or nothing, when it is absent)."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches; an absent selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in entries(selector, "matchLabels"):
        if labels.get(key) != value:
            return False
    for term in elements(selector, "matchExpressions"):
        key, operator, values = term.get("key", ""), term.get("operator"), term.get("values") or ()
        if operator == "In":
            ok = key in labels and labels[key] in values
        elif operator == "NotIn":
            ok = key not in labels or labels[key] not in values
        elif operator == "Exists":
            ok = key in labels
        else:
            ok = key not in labels
        if not ok:
            return False
    return True
