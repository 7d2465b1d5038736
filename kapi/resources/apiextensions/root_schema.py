"""Validation of a version's whole schema: its root, its structure, its rules and their total cost
(upstream: apiextensions ``validation/validation.go`` validateCustomResourceDefinitionValidation)."""

from __future__ import annotations

from kapi.machinery.field import FieldError, Path, forbidden, invalid
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.defaults_check import default_errors
from kapi.resources.apiextensions.internal import schema_of
from kapi.resources.apiextensions.rule_costs import MAX_SCHEMA_COST, CostContext, TotalCost, cost_text
from kapi.resources.apiextensions.schema_rules import SchemaValidator, Strictness
from kapi.schema.structural.structure import conversion_error, structural_errors

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


def validate_schema(
    holder: Object | None,
    status_enabled: bool,
    strictness: Strictness,
    path: Path,
    errors: list[FieldError],
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
            errors.append(invalid(path.child("openAPIV3Schema"), schema, text))
            return
