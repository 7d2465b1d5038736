"""Admission policies and their bindings, validating and mutating: defaults and validation.

Upstream: ``pkg/apis/admissionregistration/validation``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from kapi.cel.environment import Environment
from kapi.cel.types import BOOL, NULL, STRING, CelType, list_of
from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import FieldError, Path, invalid, required
from kapi.machinery.jsonpath import JSONPathError, read_template
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import (
    JSON_PATCH,
    OBJECT,
    CompileError,
    Composition,
    compile_expression,
)
from kapi.resources.admissionregistration.rules import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    default_match,
    validate_conditions,
    validate_match,
    validate_param_kind,
    validate_param_ref,
)
from kapi.resources.admissionregistration.webhooks import ConfigurationStrategy
from kapi.resources.definition import Resource, StrategyContext, TableColumns, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_conditions as validate_status_conditions
from kapi.resources.shared.metadata import validate_label_name
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.rules import Errors, distinct, need, not_supported, present, report, supported
from kapi.resources.shared.strategies import StatusOnlyStrategy

_SPEC = Path("spec")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION_EXPRESSION = 5 * 1024  # bytes
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while".split()
)


class _Guarded(ConfigurationStrategy):
    """Common parts of policies and bindings.

    Reports that the author may not read the parameters' kind only when there is no other error.
    """

    generation_parts = ("spec",)

    def validate(self, obj: Object, ctx: StrategyContext) -> Errors:
        return super().validate(obj, ctx) or list(ctx.guard_errors)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        return super().validate_update(obj, old, ctx) or list(ctx.guard_errors)


class _Policy(_Guarded):
    """Common parts of both kinds of policies."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        default_match(spec.get("matchConstraints"))

    def _common(self, spec: Object, old: Object | None, errors: Errors) -> Composition:
        """The common checks up to the variables, which it returns."""
        policy, kind = spec.get("failurePolicy"), spec.get("paramKind")
        if present(policy, _SPEC, errors, "failurePolicy"):
            supported(policy, FAILURE_POLICIES, _SPEC, errors, "failurePolicy")
        if kind is not None:
            validate_param_kind(kind, _SPEC.child("paramKind"), errors)
        match = spec.get("matchConstraints")
        if present(match, _SPEC, errors, "matchConstraints"):
            validate_match(match, _SPEC.child("matchConstraints"), errors)
            need(match.get("resourceRules"), _SPEC, errors, "matchConstraints", "resourceRules")
            self._operations(match, errors)
        before = (old or {}).get("spec") or {}
        same = old is not None and all(before.get(part) == spec.get(part) for part in ("paramKind", "matchConditions"))
        if not same:
            path = _SPEC.child("matchConditions")
            validate_conditions(spec.get("matchConditions") or [], path, errors, params=kind is not None)
        return self._variables(spec, errors)

    def _operations(self, match: Object, errors: Errors) -> None:
        """Checks operations that only some kinds of policies allow."""

    patches = False

    def _variables(self, spec: Object, errors: Errors) -> Composition:
        composition = Composition(
            params=spec.get("paramKind") is not None,
            patches=self.patches,
            empty=not self.patches and not spec.get("variables"),
        )
        for variable, here in each(_SPEC.child("variables"), spec):
            path, name = here, variable.get("name") or ""
            if need(name.strip(), path, errors, "name", detail="name is not specified") and (
                not _IDENTIFIER.match(name) or name in _RESERVED
            ):
                errors.append(invalid(path.child("name"), name, "must be a valid CEL identifier"))
            expression = variable.get("expression") or ""
            if not expression.strip():
                errors.append(required(path.child("expression"), "expression is not specified"))
                continue
            try:
                composition.add(name, expression)
            except CompileError as error:
                errors.append(error.at(path.child("expression"), expression))
        return composition


def _check_expression(text: str, env: Environment, wanted: tuple[CelType, ...], path: Path, errors: Errors) -> None:
    try:
        compile_expression(text, env, wanted)
    except CompileError as error:
        errors.append(error.at(path, text))


class ValidatingPolicyStrategy(_Policy):
    reset_fields = ("status",)
    empty_status: ClassVar[Object | None] = {}

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        composition = self._common(spec, old, errors)
        validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
        if not validations and not annotations:
            why = "validations or auditAnnotations must contain at least one item"
            errors.append(required(_SPEC.child("validations"), why))
            errors.append(required(_SPEC.child("auditAnnotations"), why))
            return
        for i, validation in enumerate(validations):
            self._validation(validation, composition, _SPEC.child("validations").index(i), errors)
        path = _SPEC.child("auditAnnotations")
        if len(annotations) > _MAX_ANNOTATIONS:
            errors.append(invalid(path, annotations, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"))
        seen: set[str] = set()
        for annotation, here in each_of(path, annotations):
            self._annotation(obj, annotation, composition.environment, here, errors)
            distinct(annotation.get("key") or "", seen, here, errors, "key")

    def _validation(self, validation: Object, composition: Composition, path: Path, errors: Errors) -> None:
        expression = validation.get("expression") or ""
        if need(expression.strip(), path, errors, "expression", detail="expression is not specified"):
            _check_expression(expression, composition.environment, (BOOL,), path.child("expression"), errors)
        text = validation.get("messageExpression") or ""
        if text and not text.strip():
            errors.append(invalid(path.child("messageExpression"), text, "must be non-empty if specified"))
        elif text:
            _check_expression(text, composition.bare(), (STRING,), path.child("messageExpression"), errors)
        message = validation.get("message") or ""
        if message and not message.strip():
            errors.append(invalid(path.child("message"), message, "must be non-empty if specified"))
        elif re.search(r"[\n\r]", message.strip()):
            errors.append(invalid(path.child("message"), message, "must not contain line breaks"))
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(path.child("reason"), reason, _REASONS))

    def _annotation(self, obj: Object, annotation: Object, env: Environment, path: Path, errors: Errors) -> None:
        key, name = annotation.get("key") or "", obj["metadata"].get("name") or ""
        if name:
            validate_label_name(f"{name}/{key}", path.child("key"), errors)
        else:
            errors.append(invalid(path.child("key"), key, "requires metadata.name be non-empty"))
        given = annotation.get("valueExpression") or ""
        text, here = given.strip(), path.child("valueExpression")
        if not text:
            errors.append(required(here, "valueExpression is not specified"))
        elif len(text.encode()) > _MAX_ANNOTATION_EXPRESSION:
            errors.append(required(here, f"must not exceed {_MAX_ANNOTATION_EXPRESSION} bytes in length"))
        else:
            try:
                compile_expression(text, env, (STRING, NULL))
            except CompileError as error:
                errors.append(error.at(here, given))


class ValidatingPolicyStatusStrategy(StatusOnlyStrategy):
    validates_metadata = False

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status, path = obj.get("status") or {}, Path("status")
        warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or ()
        for i, warning in enumerate(warnings):
            here = path.child("typeChecking", "expressionWarnings").index(i)
            need(warning.get("warning"), here, errors, "warning")
            reference = (warning.get("fieldRef") or "").strip()
            if need(reference, here, errors, "fieldRef"):
                errors.extend(_path_errors(reference, here.child("fieldRef")))
        validate_status_conditions(status.get("conditions") or [], path.child("conditions"), errors)


def _path_errors(reference: str, path: Path) -> Iterator[FieldError]:
    try:
        read_template(f"{{{reference}}}", allow_missing=False)
    except JSONPathError as error:
        yield invalid(path, reference, f"invalid JSONPath: {error}")


class MutatingPolicyStrategy(_Policy):
    patches = True

    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        if not spec.get("reinvocationPolicy"):
            spec.pop("reinvocationPolicy", None)

    def _operations(self, match: Object, errors: Errors) -> None:
        _mutating_operations(match, _SPEC.child("matchConstraints"), errors)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        env = self._common(spec, old, errors).environment
        mutations = spec.get("mutations") or []
        need(mutations, _SPEC, errors, "mutations", detail="mutations must contain at least one item")
        for i, mutation in enumerate(mutations):
            self._mutation(mutation, env, _SPEC.child("mutations").index(i), errors)
        policy = spec.get("reinvocationPolicy") or ""
        if need(policy, _SPEC, errors, "reinvocationPolicy"):
            supported(policy, REINVOCATION_POLICIES, _SPEC, errors, "reinvocationPolicy")

    def _mutation(self, mutation: Object, env: Environment, path: Path, errors: Errors) -> None:
        kind = mutation.get("patchType") or ""
        if not kind:
            errors.append(required(path.child("patchType")))
            return
        if kind not in _PATCH_TYPES:
            errors.append(not_supported(path.child("patchType"), kind, _PATCH_TYPES))
            return
        own, other = ("jsonPatch", "applyConfiguration") if kind == "JSONPatch" else ("applyConfiguration", "jsonPatch")
        given = mutation.get(own)
        if given is None:
            errors.append(required(path.child(own), f"must be specified when patchType is {kind}"))
        else:
            here, text = path.child(own, "expression"), (given.get("expression") or "").strip()
            if need(text, here, errors):
                wanted = list_of(JSON_PATCH) if own == "jsonPatch" else OBJECT
                _check_expression(text, env, (wanted,), here, errors)
        if mutation.get(other) is not None:
            errors.append(
                invalid(path.child(other), "{" + other + "}", f"must not be specified when patchType is {kind}")
            )


def _mutating_operations(match: Object, path: Path, errors: Errors) -> None:
    """Mutating policies cannot match deletions, which have no object to change."""
    for rule in elements(match, "resourceRules"):
        for operation in elements(rule, "operations"):
            supported(operation, _MUTATING_OPERATIONS, path, errors, "resourceRules", "operations")


class BindingStrategy(_Guarded):
    """Bindings of both kinds of policies; bindings of validating policies have ``actions``."""

    def __init__(self, *, actions: bool) -> None:
        self.actions = actions

    def default(self, obj: Object) -> None:
        default_match((obj.get("spec") or {}).get("matchResources"))

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        name = spec.get("policyName") or ""
        if need(name, _SPEC, errors, "policyName"):
            report(subdomain_name(name), name, _SPEC, errors, "policyName")
        validate_param_ref(spec.get("paramRef"), _SPEC.child("paramRef"), errors)
        validate_match(spec.get("matchResources"), _SPEC.child("matchResources"), errors)
        if self.actions:
            _validation_actions(spec.get("validationActions") or [], _SPEC.child("validationActions"), errors)
        else:
            _mutating_operations(spec.get("matchResources") or {}, _SPEC.child("matchResources"), errors)


def _validation_actions(actions: list[str], path: Path, errors: Errors) -> None:
    seen: set[str] = set()
    for action, here in each_of(path, actions):
        supported(action, _ACTIONS, here, errors)
        distinct(action, seen, here, errors)
    if {"Deny", "Warn"} <= seen:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
            "and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, why))
    need(seen, path, errors, detail="at least one validation action is required")


def policy_table(part: str, name: str, description: str) -> TableColumns:
    """The table of a policy, with the number of its rules, which are in the field ``part`` of the spec."""

    def param_kind(obj: Object, now: float) -> str:
        found = (obj.get("spec") or {}).get("paramKind")
        return printing.UNSET if found is None else f"{found.get('apiVersion', '')}/{found.get('kind', '')}"

    return printing.table(
        printing.NAME,
        printing.column(name, lambda obj, now: len((obj.get("spec") or {}).get(part) or ()), description, "integer"),
        printing.column(
            "ParamKind", param_kind, "ParamKind specifies the kind of resources used to parameterize this policy"
        ),
        printing.AGE,
    )


def _param_ref(obj: Object, now: float) -> str:
    found = (obj.get("spec") or {}).get("paramRef")
    if found is None:
        return printing.UNSET
    if found.get("name"):
        namespace = found.get("namespace")
        return f"{namespace}/{found['name']}" if namespace else f"*/{found['name']}"
    if found.get("selector") is not None:
        return printing.go_label_selector(found["selector"])
    return printing.UNSET


BINDING_TABLE = printing.table(
    printing.NAME,
    printing.column(
        "PolicyName",
        printing.of_spec("policyName"),
        "PolicyName indicates the policy definition which the policy binding binded to",
    ),
    printing.column("ParamRef", _param_ref, "ParamRef indicates the param resource which sets the configuration param"),
    printing.AGE,
)

VALIDATING = Resource(
    *type_meta("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    categories=("api-extensions",),
    strategy=ValidatingPolicyStrategy(),
    status=ValidatingPolicyStatusStrategy,
    table=policy_table(
        "validations",
        "Validations",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
)

VALIDATING_BINDING = Resource(
    *type_meta("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    categories=("api-extensions",),
    strategy=BindingStrategy(actions=True),
    table=BINDING_TABLE,
)

MUTATING = Resource(
    *type_meta("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"),
    categories=("api-extensions",),
    strategy=MutatingPolicyStrategy(),
    table=policy_table(
        "mutations", "Mutations", "Mutation indicates the number of mutations rules defined in this configuration"
    ),
)

MUTATING_BINDING = Resource(
    *type_meta("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding"),
    categories=("api-extensions",),
    strategy=BindingStrategy(actions=False),
    table=BINDING_TABLE,
)

#: plural of policies -> plural of their bindings
BINDINGS = {VALIDATING.plural: VALIDATING_BINDING.plural, MUTATING.plural: MUTATING_BINDING.plural}
