"""Validation of a version's whole schema: its root, its structure, its rules and their total cost, its defaults.

Defaults must be valid values themselves.  Upstream: apiextensions ``validation/validation.go``
(validateCustomResourceDefinitionValidation), ``schema/defaulting/validation.go``.
"""

from __future__ import annotations

from kapi.machinery.field import FieldError, Path, forbidden, invalid
from kapi.machinery.go_json import sorted_fields
from kapi.machinery.golang import aggregate
from kapi.machinery.tree import Object, Tree, copy
from kapi.resources.apiextensions.embedded import metadata_errors
from kapi.resources.apiextensions.internal import schema_of
from kapi.resources.apiextensions.rule_costs import MAX_SCHEMA_COST, CostContext, TotalCost, cost_text
from kapi.resources.apiextensions.schema_rules import SchemaValidator, Strictness
from kapi.resources.shared.internal import internal
from kapi.schema.structural.coercion import coerce
from kapi.schema.structural.correlation import ABSENT
from kapi.schema.structural.pruning import prune, root
from kapi.schema.structural.rules import Budget, validator
from kapi.schema.structural.structure import Schema, conversion_error, embedded, structural_errors
from kapi.schema.structural.values import value_errors

_META = ("metadata", "apiVersion", "kind")
_ROOT_FIELDS = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems "
    "MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations"
)
_ALLOWED_AT_ROOT = frozenset(
    "description format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems "
    "uniqueItems multipleOf required items properties externalDocs example x-kubernetes-preserve-unknown-fields "
    "x-kubernetes-validations".split()
)
#: the order in which the Go type has its fields
_GO_FIELDS = (
    "id $schema $ref description type nullable format title default maximum exclusiveMaximum minimum exclusiveMinimum "
    "maxLength minLength pattern maxItems minItems uniqueItems multipleOf enum maxProperties minProperties required items "
    "allOf oneOf anyOf not properties additionalProperties patternProperties dependencies additionalItems definitions "
    "externalDocs example x-kubernetes-preserve-unknown-fields x-kubernetes-embedded-resource x-kubernetes-int-or-string "
    "x-kubernetes-list-map-keys x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-validations"
).split()


def default_errors(path: Path, schema: Schema, require_pruned: bool) -> list[FieldError]:
    """Errors of every default of a whole object's schema."""
    errors: list[FieldError] = []
    whole = root(schema)
    _walk(path, whole, whole, (), False, require_pruned, errors)
    return errors


def _walk(
    path: Path,
    schema: Schema,
    top: Schema,
    steps: tuple[str | int, ...],
    inside_meta: bool,
    require_pruned: bool,
    errors: list[FieldError],
) -> None:
    if embedded(schema):
        inside_meta, top, steps = False, schema, ()
    value = schema.get("default")
    if value is not None:
        at = path.child("default")
        if inside_meta:
            _in_metadata(at, value, schema, top, steps, errors)
        else:
            _plain(at, value, schema, require_pruned, errors)
    items = schema.get("items")
    if isinstance(items, dict):
        _walk(path.child("items"), items, top, (*steps, 0), inside_meta, require_pruned, errors)
    for name, prop in (schema.get("properties") or {}).items():
        below = inside_meta or (embedded(schema) and name in _META)
        _walk(path.child("properties").key(name), prop, top, (*steps, name), below, require_pruned, errors)


def _in_metadata(
    at: Path, value: object, schema: Schema, top: Schema, steps: tuple[str | int, ...], errors: list[FieldError]
) -> None:
    obj: Tree = copy(value)
    for step in reversed(steps):
        obj = [obj] if step == 0 else {step: obj}
    if not isinstance(obj, dict):
        return
    obj.setdefault("kind", "Validation")
    obj.setdefault("apiVersion", "validation/v1")
    problem = coerce(Path(""), obj, root(top), drop=False)
    if problem is not None:
        errors.append(invalid(at, sorted_fields(value), f"must result in valid metadata: {problem}"))
        return
    problems = metadata_errors(Path(""), obj, top, is_root=True)
    if problems:
        shown = aggregate(map(str, problems))
        errors.append(invalid(at, sorted_fields(value), f"must result in valid metadata: {shown}"))
        return
    errors.extend(value_errors(value, schema, at, either=False) or _rule_errors(at, value, schema))


def _plain(at: Path, value: object, schema: Schema, require_pruned: bool, errors: list[FieldError]) -> None:
    if require_pruned:
        pruned = copy(value)
        prune(pruned, schema, embedded(schema))
        if pruned != value:
            errors.append(invalid(at, sorted_fields(value), "must not have unknown fields"))
    shaped = copy(value)
    problem = coerce(at, shaped, schema, drop=False)
    if problem is not None:
        errors.append(problem)
        return
    problems = metadata_errors(at, shaped, schema, is_root=embedded(schema))
    errors.extend(problems or value_errors(value, schema, at, either=False) or _rule_errors(at, value, schema))


def _rule_errors(at: Path, value: object, schema: Schema) -> list[FieldError]:
    rules = validator(schema, embedded(schema))
    if rules is None:
        return []
    return rules.validate(at, value, value, Budget()) or rules.validate(at, value, ABSENT, Budget())


def validate_schema(
    holder: Object | None, status_enabled: bool, strictness: Strictness, path: Path, errors: list[FieldError]
) -> None:
    """Appends the errors of the schema in ``holder`` (at ``path``).

    ``status_enabled``: there is a status subresource, so the root may have few other keywords.
    """
    schema = schema_of(holder)
    if schema is None:
        return
    at = path.child("openAPIV3Schema")
    found: list[FieldError] = []
    if status_enabled:
        _root_fields(schema, path, found)
    if schema.get("nullable"):
        found.append(forbidden(path.child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"))
    context: CostContext | None = None
    unreadable = ""
    if strictness.structural:
        unreadable = conversion_error(schema)
        if not unreadable:
            problems = structural_errors(at, schema) or default_errors(at, schema, strictness.pruned_defaults)
            found.extend(problems)
            if not problems:
                context = CostContext(schema, TotalCost(), is_root=True)
    found.extend(SchemaValidator(strictness).validate(at, schema, context))
    if not found and unreadable:
        found.append(invalid(at, "", unreadable))
    if context is not None and context.total.total > MAX_SCHEMA_COST:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found.extend(forbidden(where, text) for _, where in context.total.expensive)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(forbidden(at, cost_text(name, context.total.total, MAX_SCHEMA_COST)))
    errors.extend(found)


def _root_fields(schema: Object, path: Path, errors: list[FieldError]) -> None:
    for name in _GO_FIELDS:
        value = schema.get(name)
        if name == "type":
            if value and value != "object":
                text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
                errors.append(invalid(path.child("openAPIV3Schema.type"), value, text))
                return
        elif value not in (None, "", False, [], {}) and name not in _ALLOWED_AT_ROOT:
            text = f"only [{_ROOT_FIELDS}] fields are allowed at the root of the schema if the status subresource is enabled"
            errors.append(invalid(path.child("openAPIV3Schema"), internal("JSONSchemaProps", schema), text))
            return
