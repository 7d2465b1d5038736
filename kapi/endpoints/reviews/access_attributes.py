"""Makes the authorizer's attributes from a review's spec (upstream: ``pkg/registry/authorization/util``)."""

from __future__ import annotations

from kapi.authorization.interface import Attributes
from kapi.machinery.golang import aggregate
from kapi.machinery.selectors import SelectorError, label_requirement, parse_fields, parse_labels
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo

_LABEL_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def attributes_from(spec: Object, user: UserInfo) -> Attributes:
    """The attributes for a SubjectAccessReview's spec and ``user``."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        paths = spec.get("nonResourceAttributes") or {}
        return Attributes(user, paths.get("verb", ""), is_resource=False, path=paths.get("path", ""))
    attributes = Attributes(
        user=user,
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        version=resource.get("version") or "*",
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )
    _read_labels(resource.get("labelSelector") or {}, attributes)
    _read_fields(resource.get("fieldSelector") or {}, attributes)
    return attributes


def _read_labels(selector: Object, attributes: Attributes) -> None:
    terms: list[tuple[str, str, tuple[str, ...]]] = []
    errors: list[str] = []
    raw = selector.get("rawSelector")
    if raw:
        try:
            terms = [(t.key, t.operator, tuple(sorted(t.values))) for t in parse_labels(raw).requirements]
        except SelectorError as error:
            errors.append(str(error))
    for term in selector.get("requirements") or ():
        operator = _LABEL_OPERATORS.get(term.get("operator", ""))
        if operator is None:
            errors.append(f'"{term.get("operator", "")}" is not a valid label selector operator')
            continue
        try:
            values = frozenset(term.get("values") or ())
            requirement = label_requirement(term.get("key", ""), operator, values)
        except SelectorError as error:
            errors.append(str(error))
            continue
        terms.append((requirement.key, operator, tuple(sorted(values))))
    attributes.label_requirements = tuple(terms)
    attributes.label_selector_error = aggregate(errors)


def _read_fields(selector: Object, attributes: Attributes) -> None:
    terms: list[tuple[str, str, str]] = []
    errors: list[str] = []
    raw = selector.get("rawSelector")
    if raw:
        try:
            terms = [(term.key, term.operator, term.value) for term in parse_fields(raw).requirements]
        except SelectorError as error:
            errors.append(str(error))
    for term in selector.get("requirements") or ():
        operator, values = term.get("operator", ""), term.get("values") or []
        if len(values) > 1:
            errors.append("fieldSelectors do not yet support multiple values")
        elif operator in ("In", "NotIn"):
            if len(values) != 1:
                errors.append(f"fieldSelectors {'in' if operator == 'In' else 'not in'} must have one value")
            else:
                terms.append((term.get("key", ""), "=" if operator == "In" else "!=", values[0]))
        elif operator in ("Exists", "DoesNotExist"):
            errors.append(f"fieldSelectors do not yet support {operator}")
        else:
            errors.append(f'"{operator}" is not a valid field selector operator')
    attributes.field_requirements = tuple(terms)
    attributes.field_selector_error = aggregate(errors)


def evaluation_error(error: str, attributes: Attributes) -> str:
    """The evaluationError of a review's status: the authorizer's error, and which selectors were ignored."""
    texts = [error] if error else []
    for name, problem, kept in (
        ("fieldSelector", attributes.field_selector_error, attributes.field_requirements),
        ("labelSelector", attributes.label_selector_error, attributes.label_requirements),
    ):
        if problem:
            partly = "partially ignored" if kept else "ignored"
            texts.append(f"spec.resourceAttributes.{name} {partly} due to parse error")
    return "; ".join(texts)
