"""The rules for structural schemas (upstream: apiextensions-apiserver ``schema/validation.go``, ``complete.go``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements, entries
from kapi.machinery.field import FieldError, Path, forbidden, invalid, required
from kapi.machinery.regexps import pattern_error
from kapi.machinery.tree import Object

Schema = Object

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY_TEXT = "must be empty to be structural"
_UNDEFINED_TEXT = "must be undefined to be structural"
_FALSE_TEXT = "must be false to be structural"


def conversion_error(schema: Schema) -> str:
    """The reason why a schema cannot be converted to a structural one; "" when it can."""
    for key, name in (
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
    ):
        if schema.get(key):
            return f"OpenAPIV3Schema '{name}' is not supported"
    if schema.get("additionalItems") is not None:
        return "OpenAPIV3Schema 'additionalItems' is not supported"
    if schema.get("definitions"):
        return "OpenAPIV3Schema 'definitions' is not supported"
    if isinstance(schema.get("items"), list) and schema["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    for child in elements(_children(schema)):
        error = conversion_error(child)
        if error:
            return error
    return ""


def _children(schema: Schema) -> list[Schema]:
    found: list[Schema] = []
    for key in ("allOf", "anyOf", "oneOf"):
        found.extend(schema.get(key) or ())
    for key in ("not", "items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found.append(schema[key])
    found.extend((schema.get("properties") or {}).values())
    return found


def structural_errors(path: Path, schema: Schema) -> list[FieldError]:
    """The errors of a schema that is not structural, sorted by text."""
    errors: list[FieldError] = []
    _invariants(schema, "root", path, errors)
    _complete_values(schema, schema, path, path, errors)
    errors.sort(key=str)
    return errors


def additional(schema: Schema) -> Schema | None:
    """The schema of additional properties, if there is one."""
    value = schema.get("additionalProperties")
    return value if isinstance(value, dict) else None


def anywhere(schema: Schema | None, holds: Callable[[Schema], object]) -> bool:
    """Whether a predicate is true for the schema, or for a nested schema of an item or a field."""
    checkpoint()
    if not schema:
        return False
    if holds(schema):
        return True
    items = schema.get("items")
    if isinstance(items, dict) and anywhere(items, holds):
        return True
    if anywhere(additional(schema), holds):
        return True
    return any(anywhere(field, holds) for field in (schema.get("properties") or {}).values())


def required_properties(schema: Schema) -> set[str]:
    """The required properties; names in ``required`` that are no properties have no effect."""
    properties = schema.get("properties") or {}
    return {name for name in elements(schema, "required") if name in properties}


def preserves(schema: Schema | None) -> bool:
    return bool(schema and schema.get("x-kubernetes-preserve-unknown-fields"))


def embedded(schema: Schema | None) -> bool:
    return bool(schema and schema.get("x-kubernetes-embedded-resource"))


def int_or_string(schema: Schema | None) -> bool:
    return bool(schema and schema.get("x-kubernetes-int-or-string"))


_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _invariants(schema: Schema, level: str, path: Path, errors: list[FieldError]) -> None:
    type_ = schema.get("type") or ""
    items = schema.get("items")
    if type_ == "array" and not isinstance(items, dict):
        errors.append(required(path.child("items"), "must be specified"))
    if isinstance(items, dict):
        _invariants(items, "item", path.child("items"), errors)
    properties = schema.get("properties") or {}
    for name, field in entries(properties):
        _invariants(field, "field", path.child("properties").key(name), errors)
    extra = schema.get("additionalProperties")
    if extra is not None:
        if level == "root":
            errors.append(forbidden(path.child("additionalProperties"), "must not be used at the root"))
        if isinstance(extra, dict):
            _invariants(extra, "field", path.child("additionalProperties"), errors)
    for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if int_or_string(schema) and schema.get(name):
            errors.append(invalid(path.child(name), True, "must be false if x-kubernetes-int-or-string is true"))
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    _values(
        schema, any_of == _INT_OR_STRING, bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING, level, path, errors
    )
    _types(schema, type_, level, path, errors)
    _metadata(schema, level, path, errors)
    if embedded(schema) and not preserves(schema) and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(path.child("properties"), text))


def _types(schema: Schema, type_: str, level: str, path: Path, errors: list[FieldError]) -> None:
    text = "must be object if x-kubernetes-embedded-resource is true"
    if embedded(schema) and type_ != "object":
        errors.append(required(path.child("type"), text) if not type_ else invalid(path.child("type"), type_, text))
    elif not type_ and not int_or_string(schema) and not preserves(schema):
        errors.append(required(path.child("type"), _NO_TYPE[level]))
    if embedded(schema) and schema.get("additionalProperties") is not None:
        errors.append(
            forbidden(path.child("additionalProperties"), "must not be used if x-kubernetes-embedded-resource is set")
        )
    if level == "root" and type_ and type_ != "object":
        errors.append(invalid(path.child("type"), type_, "must be object at the root"))


def _metadata(schema: Schema, level: str, path: Path, errors: list[FieldError]) -> None:
    properties = schema.get("properties") or {}
    checked = level == "root" or embedded(schema)
    for name in ("kind", "apiVersion"):
        if checked and name in properties and properties[name].get("type") != "string":
            here = path.child("properties").key(name).child("type")
            errors.append(invalid(here, properties[name].get("type") or "", "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return
    at = path.child("properties").key("metadata")
    if checked and metadata.get("type") != "object":
        errors.append(invalid(at.child("type"), metadata.get("type") or "", "must be object"))
    if level == "root":
        rest = {
            key: value
            for key, value in metadata.items()
            if key not in ("type", "default") and value not in (None, "", [], {}, False)
        }
        fields = set(rest.get("properties") or {})
        if fields and fields <= {"name", "generateName"}:
            rest.pop("properties")
        if rest:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(forbidden(at, text))


def _values(
    schema: Schema, skip_any_of: bool, skip_first_all_of: bool, level: str, path: Path, errors: list[FieldError]
) -> None:
    if not skip_any_of:
        for index, nested in enumerate(schema.get("anyOf") or ()):
            _nested(nested, False, level, path.child("anyOf").index(index), errors)
    for index, nested in enumerate(schema.get("allOf") or ()):
        _nested(nested, skip_first_all_of and index == 0, level, path.child("allOf").index(index), errors)
    for index, nested in enumerate(schema.get("oneOf") or ()):
        _nested(nested, False, level, path.child("oneOf").index(index), errors)
    if isinstance(schema.get("not"), dict):
        _nested(schema["not"], False, level, path.child("not"), errors)
    pattern = schema.get("pattern")
    if pattern:
        problem = pattern_error(pattern)
        if problem:
            errors.append(
                invalid(path.child("pattern"), pattern, f"must be a valid regular expression, but isn't: {problem}")
            )


#: what only the structural part of a schema has, not the schemas in its allOf, anyOf, oneOf and not; with the texts of errors
_ONLY_STRUCTURAL = {
    "type": _EMPTY_TEXT, "additionalProperties": _UNDEFINED_TEXT, "default": _UNDEFINED_TEXT, "title": _EMPTY_TEXT,
    "description": _EMPTY_TEXT, "nullable": _FALSE_TEXT, "x-kubernetes-preserve-unknown-fields": _FALSE_TEXT,
    "x-kubernetes-embedded-resource": _FALSE_TEXT, "x-kubernetes-int-or-string": _FALSE_TEXT,
    "x-kubernetes-list-map-keys": _EMPTY_TEXT, "x-kubernetes-list-type": _UNDEFINED_TEXT,
    "x-kubernetes-map-type": _UNDEFINED_TEXT, "x-kubernetes-validations": _EMPTY_TEXT,
}  # fmt: skip


def _nested(schema: Schema, skip_any_of: bool, level: str, path: Path, errors: list[FieldError]) -> None:
    _values(schema, skip_any_of, False, level, path, errors)
    if isinstance(schema.get("items"), dict):
        _nested(schema["items"], False, level, path.child("items"), errors)
    properties = schema.get("properties") or {}
    for name, field in entries(properties):
        _nested(field, False, "field", path.child("properties").key(name), errors)
    for name, text in _ONLY_STRUCTURAL.items():
        value = schema.get(name)
        is_set = value is not None if text is _UNDEFINED_TEXT else bool(value)
        if is_set and not (name == "additionalProperties" and value is False):
            errors.append(forbidden(path.child(name), text))
    if "metadata" in properties:
        errors.append(forbidden(path.child("properties").key("metadata"), "must not be specified in a nested context"))


def _complete_values(
    values: Schema, schema: Schema | None, schema_path: Path, path: Path, errors: list[FieldError]
) -> None:
    if schema is None:
        errors.append(required(schema_path, f"because it is defined in {path}"))
        return
    if isinstance(values.get("not"), dict):
        _complete_nested(values["not"], schema, schema_path, path.child("not"), errors)
    for key in ("allOf", "anyOf", "oneOf"):
        for index, nested in enumerate(values.get(key) or ()):
            _complete_nested(nested, schema, schema_path, path.child(key).index(index), errors)


def _complete_nested(
    values: Schema, schema: Schema | None, schema_path: Path, path: Path, errors: list[FieldError]
) -> None:
    if schema is None:
        errors.append(required(schema_path, f"because it is defined in {path}"))
        return
    _complete_values(values, schema, schema_path, path, errors)
    if isinstance(values.get("items"), dict):
        items = schema.get("items")
        _complete_nested(
            values["items"],
            items if isinstance(items, dict) else None,
            schema_path.child("items"),
            path.child("items"),
            errors,
        )
    known = schema.get("properties") or {}
    for name, field in entries(values, "properties"):
        at, below = schema_path.child("properties").key(name), path.child("properties").key(name)
        if name in known:
            _complete_nested(field, known[name], at, below, errors)
        else:
            errors.append(required(at, f"because it is defined in {below}"))
