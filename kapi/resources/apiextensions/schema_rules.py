"""Validation of an ``openAPIV3Schema``, of the keys of its lists that are maps, and the cost of its rules.

Upstream: apiextensions ``validation/validation.go``, ``validation/cel_validation.go``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kapi.cel.sizes import MAX_UINT64
from kapi.machinery.each import each, elements, entries, popped
from kapi.machinery.field import ErrorType, FieldError, Path, forbidden, internal, invalid, not_supported, required
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, Tree
from kapi.resources.apiextensions.rule_costs import MAX_RULE_COST, CostContext, TotalCost, cost_text
from kapi.resources.shared.internal import internal as go_form
from kapi.schema.structural.celtypes import MAX_REQUEST_BYTES
from kapi.schema.structural.compiled_rules import Rule, compile_rules
from kapi.schema.structural.field_path import field_path
from kapi.schema.structural.structure import Schema, conversion_error, embedded, required_properties

TYPES = ("array", "boolean", "integer", "number", "object", "string")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META = frozenset(("metadata", "kind", "apiVersion"))


def map_key_errors(path: Path, schema: Schema) -> list[FieldError]:
    """Elements of sets and keyed lists must not be null; keys must be there."""
    items, kind = schema.get("items"), schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or kind not in ("set", "map"):
        return []
    errors: list[FieldError] = []
    if items.get("nullable"):
        errors.append(
            forbidden(path.child("items", "nullable"), f"cannot be nullable when x-kubernetes-list-type is {kind}")
        )
    if kind == "map":
        properties = items.get("properties") or {}
        needed = required_properties(items)
        for key in elements(schema, "x-kubernetes-list-map-keys"):
            prop = properties.get(key)
            if prop is None:
                continue
            at = path.child("items", "properties").key(key)
            if key not in needed and prop.get("default") is None:
                errors.append(
                    required(
                        at.child("default"),
                        "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                    )
                )
            if prop.get("nullable"):
                errors.append(
                    forbidden(
                        at.child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
                    )
                )
    return errors


@dataclass(slots=True)
class Strictness:
    """The kinds of errors that an update may keep, because the old object has them already."""

    valid_types: bool = True
    structural: bool = True
    pruned_defaults: bool = True
    atomic_sets: bool = True
    map_keys: bool = True
    check_cost: bool = True


@dataclass(frozen=True, slots=True)
class _Where:
    """The restrictions at a node of the schema."""

    defaults: str | None = None  # the reason why defaults are forbidden; None: they are allowed
    inside_meta: bool = False
    no_old_self: Path | None = None


class SchemaValidator:
    """Validates one schema; errors of the schema come before those of its rules."""

    def __init__(self, strictness: Strictness) -> None:
        self.strict = strictness
        self.errors: list[FieldError] = []
        self.rule_errors: list[FieldError] = []

    def validate(self, path: Path, schema: Schema, context: CostContext | None) -> list[FieldError]:
        self._walk(path, schema, _Where(), True, context)
        return self.errors + self.rule_errors

    def _walk(self, path: Path, schema: object, where: _Where, is_root: bool, context: CostContext | None) -> None:
        if not isinstance(schema, dict):
            return
        errors_before = len(self.errors)
        self._standard(path, schema, where)
        if schema.get("uniqueItems"):
            self.errors.append(
                forbidden(
                    path.child("uniqueItems"),
                    "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
                )
            )
        self._children(path, schema, where, is_root, context)
        self._extensions(path, schema)
        rules = schema.get("x-kubernetes-validations") or []
        if rules:
            self._rule_fields(path, schema, rules)
            if len(self.errors) == errors_before and context is not None:
                self._rules(path, schema, rules, where, context)

    def _standard(self, path: Path, schema: Schema, where: _Where) -> None:
        add, type_ = self.errors.append, schema.get("type") or ""
        if self.strict.valid_types and type_ and type_ not in TYPES:
            add(not_supported(path.child("type"), type_, TYPES))
        if schema.get("default") is not None and where.defaults is not None:
            add(forbidden(path.child("default"), f"must not be set {where.defaults}".rstrip()))
        if schema.get("id"):
            add(forbidden(path.child("id"), "id is not supported"))
        if schema.get("additionalItems") is not None:
            add(forbidden(path.child("additionalItems"), "additionalItems is not supported"))
        for name in ("patternProperties", "definitions"):
            if schema.get(name):
                add(forbidden(path.child(name), f"{name} is not supported"))
        if schema.get("dependencies") is not None:
            add(forbidden(path.child("dependencies"), "dependencies is not supported"))
        if schema.get("$ref") is not None:
            add(forbidden(path.child("$ref"), "$ref is not supported"))
        if type_ == "null":
            add(forbidden(path.child("type"), "type cannot be set to null, use nullable as an alternative"))
        if isinstance(schema.get("items"), list) and schema["items"]:
            add(forbidden(path.child("items"), "items must be a schema object and not an array"))
        if where.inside_meta and embedded(schema):
            add(forbidden(path.child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))

    def _children(self, path: Path, schema: Schema, where: _Where, is_root: bool, context: CostContext | None) -> None:
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        if extra is not None:
            if properties and (extra is False or isinstance(extra, dict)):
                self.errors.append(
                    forbidden(
                        path.child("additionalProperties"), "additionalProperties and properties are mutual exclusive"
                    )
                )
            below = where
            if where.inside_meta:
                below = replace(where, defaults="inside additionalProperties applying to object metadata")
            if isinstance(extra, dict):
                self._walk(
                    path.child("additionalProperties"),
                    extra,
                    below,
                    False,
                    context.child(extra, "additional") if context is not None else None,
                )
        map_type = schema.get("x-kubernetes-map-type")
        for name, prop in entries(properties):
            below = where
            if map_type not in (None, "granular", "atomic") and below.no_old_self is None:
                below = replace(below, no_old_self=path)
            if (is_root or embedded(schema)) and name in _META:
                below = replace(below, inside_meta=True)
                if is_root:
                    below = replace(below, defaults=f"in top-level {name}")
            self._walk(
                path.child("properties").key(name),
                prop,
                below,
                False,
                context.child(prop, "property", name) if context is not None and isinstance(prop, dict) else None,
            )
        self._walk(path.child("not"), schema.get("not"), where, False, None)
        for key in ("allOf", "oneOf", "anyOf"):
            for part, here in each(path.child(key), schema):
                self._walk(here, part, where, False, None)
        for name, part in entries(schema, "definitions"):
            self._walk(path.child("definitions").key(name), part, where, False, None)
        self._items(path, schema, where, context)
        for name, part in entries(schema, "dependencies"):
            self._walk(path.child("dependencies").key(name), part, where, False, None)

    def _items(self, path: Path, schema: Schema, where: _Where, context: CostContext | None) -> None:
        items = schema.get("items")
        if items is None:
            return
        below = where
        if schema.get("x-kubernetes-list-type") != "map" and below.no_old_self is None:
            below = replace(below, no_old_self=path)
        if isinstance(items, dict):
            self._walk(
                path.child("items"), items, below, False, context.child(items, "items") if context is not None else None
            )
        elif isinstance(items, list):
            for index, part in enumerate(items):
                self._walk(path.child("items").index(index), part, below, False, None)

    def _extensions(self, path: Path, schema: Schema) -> None:
        add = self.errors.append
        type_, list_type, map_type = (
            schema.get("type") or "",
            schema.get("x-kubernetes-list-type"),
            schema.get("x-kubernetes-map-type"),
        )
        if schema.get("x-kubernetes-preserve-unknown-fields") is False:
            add(invalid(path.child("x-kubernetes-preserve-unknown-fields"), False, "must be true or undefined"))
        if map_type is not None and type_ != "object":
            self._wrong_type(path, type_, "must be object if x-kubernetes-map-type is specified")
        if map_type is not None and map_type not in ("atomic", "granular"):
            add(_one_of(path.child("x-kubernetes-map-type"), map_type, "atomic", "granular"))
        items = schema.get("items") if isinstance(schema.get("items"), dict) else None
        if list_type is not None and type_ != "array":
            self._wrong_type(path, type_, "must be array if x-kubernetes-list-type is specified")
        elif self.strict.atomic_sets and list_type == "set" and items is not None:
            text = "must be atomic as item of a list with x-kubernetes-list-type=set"
            inner = items.get("x-kubernetes-list-type")
            if items.get("type") == "array" and inner not in (None, "atomic"):
                add(invalid(path.child("items").child("x-kubernetes-list-type"), inner, text))
            elif items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
                add(invalid(path.child("items").child("x-kubernetes-map-type"), inner, text))
        if list_type is not None and list_type not in ("atomic", "set", "map"):
            add(_one_of(path.child("x-kubernetes-list-type"), list_type, "atomic", "set", "map"))
        keys = schema.get("x-kubernetes-list-map-keys") or []
        if keys and list_type is None:
            add(
                required(path.child("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty")
            )
        elif keys and list_type != "map":
            add(
                invalid(
                    path.child("x-kubernetes-list-type"),
                    list_type,
                    "must be map if x-kubernetes-list-map-keys is non-empty",
                )
            )
        if list_type == "map":
            self._map_list(path, schema, keys, items)
        if self.strict.map_keys:
            self.errors.extend(map_key_errors(path, schema))

    def _wrong_type(self, path: Path, type_: str, text: str) -> None:
        at = path.child("type")
        self.errors.append(invalid(at, type_, text) if type_ else required(at, text))

    def _map_list(self, path: Path, schema: Schema, keys: list[str], items: Schema | None) -> None:
        add = self.errors.append
        if not keys:
            add(
                required(path.child("x-kubernetes-list-map-keys"), "must not be empty if x-kubernetes-list-type is map")
            )
        if "items" not in schema:
            add(required(path.child("items"), "must have a schema if x-kubernetes-list-type is map"))
            return
        if items is None:
            add(
                invalid(
                    path.child("items"),
                    {"Schema": None, "JSONSchemas": go_form("JSONSchemaProps", schema["items"])},
                    "must only have a single schema if x-kubernetes-list-type is map",
                )
            )
            return
        if items.get("type") != "object":
            add(
                invalid(
                    path.child("items", "type"),
                    items.get("type") or "",
                    "must be object if parent array's x-kubernetes-list-type is map",
                )
            )
            return
        properties, seen = items.get("properties") or {}, set()
        for key in keys:
            if key in properties:
                if properties[key].get("type") in ("array", "object"):
                    at = path.child("items", "properties").key(key).child("type")
                    add(
                        invalid(
                            at,
                            items.get("type"),
                            "must be a scalar type if parent array's x-kubernetes-list-type is map",
                        )
                    )
            else:
                add(
                    invalid(
                        path.child("x-kubernetes-list-map-keys"), keys, "entries must all be names of item properties"
                    )
                )
            if key in seen:
                add(invalid(path.child("x-kubernetes-list-map-keys"), keys, "must not contain duplicate entries"))
            seen.add(key)

    def _rule_fields(self, path: Path, schema: Schema, rules: list[Object]) -> None:
        add = self.errors.append
        for index, rule in enumerate(rules):
            at = path.child("x-kubernetes-validations").index(index)
            text, message = rule.get("rule") or "", rule.get("message") or ""
            if not text.strip():
                add(required(at.child("rule"), "rule is not specified"))
            elif message and not message.strip():
                add(invalid(at.child("message"), message, "must be non-empty if specified"))
            elif _has_lines(message.strip()):
                add(invalid(at.child("message"), message, "must not contain line breaks"))
            elif _has_lines(text.strip()) and not message.strip():
                add(required(at.child("message"), "message must be specified if rule contains line breaks"))
            expression = rule.get("messageExpression") or ""
            if expression and not expression.strip():
                add(required(at.child("messageExpression"), "messageExpression must be non-empty if specified"))
            reason = rule.get("reason")
            if reason is not None and reason not in REASONS:
                add(not_supported(at.child("reason"), reason, REASONS))
            target = rule.get("fieldPath") or ""
            if target and not target.strip():
                add(invalid(at.child("fieldPath"), target, "must be non-empty if specified"))
            if _has_lines(target):
                add(invalid(at.child("fieldPath"), target, "must not contain line breaks"))
            if target and not conversion_error(schema):
                try:
                    field_path(target, schema)
                except ValueError:
                    add(invalid(at.child("fieldPath"), target, "must be a valid path"))

    def _rules(self, path: Path, schema: Schema, rules: list[Object], where: _Where, context: CostContext) -> None:
        declared = context.type()
        if declared is None:
            self.rule_errors.append(
                internal(
                    path.child("x-kubernetes-validations"),
                    "internal error: failed to construct type information for x-kubernetes-validations rules: "
                    "unable to convert structural schema to CEL declarations",
                )
            )
            return
        count = context.count if context.count is not None else MAX_REQUEST_BYTES // (declared.min_serialized_size + 1)
        for index, rule in enumerate(compile_rules(schema, declared)):
            self._rule(path.child("x-kubernetes-validations").index(index), rule, count, where, context.total)

    def _rule(self, at: Path, rule: Rule, count: int, where: _Where, total: TotalCost) -> None:
        add = self.rule_errors.append
        cost = 0 if rule.program is None else min(rule.program.cost_estimate.max * count, MAX_UINT64)
        if self.strict.check_cost and cost > MAX_RULE_COST:
            add(forbidden(at.child("rule"), cost_text("estimated rule cost", cost, MAX_RULE_COST)))
        total.add(at.child("rule"), cost)
        if rule.error:
            add(invalid(at.child("rule"), go_form("ValidationRule", rule.source), rule.error))
        if rule.message_error:
            add(invalid(at.child("messageExpression"), go_form("ValidationRule", rule.source), rule.message_error))
        elif rule.message is not None:
            message_cost = rule.message.cost_estimate.max
            if self.strict.check_cost and message_cost > MAX_RULE_COST:
                add(
                    forbidden(
                        at.child("messageExpression"),
                        cost_text("estimated messageExpression cost", message_cost, MAX_RULE_COST),
                    )
                )
            total.add(at.child("messageExpression"), message_cost)
        if rule.uses_old:
            if where.no_old_self is not None:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {where.no_old_self}"
                add(invalid(at.child("rule"), rule.source.get("rule"), text))
        elif rule.source.get("optionalOldSelf") is not None:
            add(
                invalid(
                    at.child("optionalOldSelf"),
                    rule.source["optionalOldSelf"],
                    "may not be set if oldSelf is not used in rule",
                )
            )


def _one_of(path: Path, value: str, *allowed: str) -> FieldError:
    """The error of an unsupported value, with the supported values in the given order."""
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, "supported values: " + ", ".join(map(quote, allowed)))


def walk_schemas(schema: object) -> list[Schema]:
    """A schema and all schemas in it."""
    if not isinstance(schema, dict):
        return []
    found, stack = [], [schema]
    for node in popped(stack):
        found.append(node)
        parts: list[Tree] = []
        for key in ("allOf", "anyOf", "oneOf"):
            parts.extend(node.get(key) or ())
        for key in ("not", "additionalProperties", "additionalItems"):
            parts.append(node.get(key))
        items = node.get("items")
        parts.extend(items if isinstance(items, list) else [items])
        for key in ("properties", "patternProperties", "definitions"):
            parts.extend((node.get(key) or {}).values())
        stack.extend(part for part in elements(reversed(parts)) if isinstance(part, dict))
    return found


def _has_lines(text: str) -> bool:
    """Whether there is a line break; a regular expression would take thirty times as long."""
    return "\n" in text or "\r" in text
