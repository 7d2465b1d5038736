"""Common parts of webhook configurations and admission policies: rules, match conditions, selectors, defaults.

Upstream: ``pkg/apis/admissionregistration/validation``, ``.../v1/defaults.go``.
"""

from __future__ import annotations

from kapi.machinery.each import each, elements
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import CompileError, compile_expression, environment
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import is_dns1035_label, is_dns1123_subdomain, is_path_segment_name
from kapi.resources.shared.rules import (
    MIXED_CASE,
    Errors,
    at_most,
    distinct,
    need,
    not_supported,
    present,
    report_once,
    supported,
)
from kapi.resources.shared.selectors import has_invalid_values, validate_label_selector

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_SCOPES = ("*", "Cluster", "Namespaced")
_MAX_CONDITIONS = 64


# -- defaults -----------------------------------------------------------------------------------------------------


def default_rules(rules: list[Object] | None) -> None:
    for rule in elements(rules):
        rule.setdefault("scope", "*")


def default_match(match: Object | None) -> None:
    """Match resources of policies and bindings."""
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    for selector in ("namespaceSelector", "objectSelector"):
        match.setdefault(selector, {})
    default_rules(match.get("resourceRules"))
    default_rules(match.get("excludeResourceRules"))


# -- rules --------------------------------------------------------------------------------------------------------


def validate_rule(rule: Object, path: Path, errors: Errors) -> None:
    """A rule with operations."""
    operations = rule.get("operations") or []
    need(operations, path, errors, "operations")
    if len(operations) > 1 and "*" in operations:
        errors.append(
            invalid(path.child("operations"), operations, "if '*' is present, must not specify other operations")
        )
    for i, operation in enumerate(operations):
        if operation not in OPERATIONS:
            errors.append(not_supported(path.child("operations").index(i), operation, OPERATIONS))
    for field, called in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        need(values, path, errors, field)
        if len(values) > 1 and "*" in values:
            errors.append(invalid(path.child(field), values, f"if '*' is present, must not specify other {called}"))
        if field == "apiVersions":
            errors.extend(required(path.child(field).index(i)) for i, value in enumerate(values) if not value)
    _resources(rule.get("resources") or [], path.child("resources"), errors)
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        errors.append(not_supported(path.child("scope"), scope, _SCOPES))


def _resources(resources: list[str], path: Path, errors: Errors) -> None:
    need(resources, path, errors)
    any_subresource: set[str] = set()
    any_resource: set[str] = set()
    plain = False
    for i, text in enumerate(resources):
        if not text:
            errors.append(required(path.index(i)))
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in any_subresource:
            errors.append(invalid(path.index(i), text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in any_resource:
            errors.append(invalid(path.index(i), text, f"if '*/{subresource}' is present, must not specify {text}"))
        if subresource == "*":
            any_subresource.add(resource)
        if resource == "*":
            any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        errors.append(
            invalid(path, resources, "if '*' is present, must not specify other resources without subresources")
        )


def validate_match(match: Object | None, path: Path, errors: Errors) -> None:
    """Match resources of a policy or binding."""
    if match is None:
        return
    policy = match.get("matchPolicy")
    if present(policy, path, errors, "matchPolicy"):
        supported(policy, MATCH_POLICIES, path, errors, "matchPolicy")
    for selector in ("namespaceSelector", "objectSelector"):
        if present(match.get(selector), path, errors, selector):
            validate_label_selector(match[selector], path.child(selector), errors)
    for field in ("resourceRules", "excludeResourceRules"):
        for rule, here in each(path.child(field), match):
            seen: set[str] = set()
            for name, place in each(here.child("resourceNames"), rule):
                errors.extend(invalid(place, name, text) for text in is_path_segment_name(name))
                distinct(name, seen, place, errors)
            validate_rule(rule, here, errors)


def validate_selectors(webhook: Object, path: Path, errors: Errors, allow_invalid_values: bool) -> None:
    for selector in ("namespaceSelector", "objectSelector"):
        given = webhook.get(selector)
        if given is not None:
            validate_label_selector(given, path.child(selector), errors, allow_invalid_values=allow_invalid_values)


def selectors_have_invalid_values(webhooks: list[Object]) -> bool:
    return any(
        has_invalid_values(webhook.get(selector))
        for webhook in elements(webhooks)
        for selector in ("namespaceSelector", "objectSelector")
    )


# -- conditions ---------------------------------------------------------------------------------------------------


def validate_conditions(conditions: list[Object], path: Path, errors: Errors, *, params: bool = False) -> None:
    """Match conditions; ``params``: whether their expressions may use parameters."""
    at_most(len(conditions), _MAX_CONDITIONS, path, errors)
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        here, expression = path.index(i), (condition.get("expression") or "").strip()
        if need(expression, here, errors, "expression"):
            try:
                compile_expression(expression, environment(params=params))
            except CompileError as error:
                errors.append(error.at(here.child("expression"), expression))
        name = condition.get("name") or ""
        if not name:
            errors.append(required(here.child("name")))
            continue
        validate_label_name(name, here.child("name"), errors)
        distinct(name, seen, here, errors, "name")


# -- references ---------------------------------------------------------------------------------------------------


def validate_param_kind(kind: Object, path: Path, errors: Errors) -> None:
    api_version = kind.get("apiVersion") or ""
    here = path.child("apiVersion")
    if not api_version:
        errors.append(required(here))
    elif api_version.count("/") > 1:
        errors.append(invalid(here, api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        group, slash, version = api_version.partition("/")
        if not slash:
            group, version = "", group
        if group:
            report_once(is_dns1123_subdomain(group), group, here, errors)
        if not version:
            errors.append(invalid(here, api_version, "version must be specified"))
        else:
            report_once(is_dns1035_label(version), version, here, errors)
    name = kind.get("kind") or ""
    if need(name, path, errors, "kind"):
        report_once(is_dns1035_label(name.lower()), name, path, errors, "kind", before=MIXED_CASE)


def validate_param_ref(reference: Object | None, path: Path, errors: Errors) -> None:
    if reference is None:
        return
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        errors.extend(invalid(path.child("name"), name, text) for text in is_path_segment_name(name))
        if selector is not None:
            errors.append(forbidden(path.child("name"), "name and selector are mutually exclusive"))
    if selector is not None:
        validate_label_selector(selector, path.child("selector"), errors)
        if name:
            errors.append(forbidden(path.child("selector"), "name and selector are mutually exclusive"))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction") or ""
    if need(action, path, errors, "parameterNotFoundAction") and action not in ("Allow", "Deny"):
        errors.append(not_supported(path.child("parameterNotFoundAction"), action, ("Deny", "Allow")))
