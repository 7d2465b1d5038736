"""Pruning of unknown fields, and defaulting (upstream: apiextensions-apiserver ``schema/pruning``, ``schema/defaulting``)."""

from __future__ import annotations

from kapi.machinery.each import elements, entries
from kapi.machinery.tree import copy
from kapi.schema.structural.structure import Schema, additional, anywhere, embedded, preserves

_META = frozenset(("apiVersion", "kind", "metadata"))
_ROOT: Schema = {"x-kubernetes-embedded-resource": True}


def root(schema: Schema | None) -> Schema:
    """The schema of a whole object, whose metadata the server defines."""
    return {**(schema or {}), **_ROOT}


def prune(obj: object, schema: Schema | None, is_root: bool = True) -> list[str]:
    """Removes fields that the schema does not know, in place; returns their sorted paths."""
    unknown: list[str] = []
    _prune(obj, root(schema) if is_root else schema, "", unknown)
    unknown.sort()
    return unknown


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _prune(value: object, schema: Schema | None, path: str, unknown: list[str]) -> None:
    if preserves(schema):
        assert schema is not None
        _keep(value, schema, path, unknown)
        return
    if isinstance(value, dict):
        if schema is None:
            unknown.extend(_below(path, name) for name in elements(value))
            value.clear()
            return
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        is_object = embedded(schema)
        gone: list[str] = []
        for name, item in entries(value):
            if is_object and name in _META:
                continue
            if name in properties:
                if item.__class__ in (dict, list):
                    _prune(item, properties[name], _below(path, name), unknown)
            elif extra is not None:
                if item.__class__ in (dict, list):
                    _prune(item, additional(schema), _below(path, name), unknown)
            else:
                gone.append(name)
        for name in elements(gone):
            if name not in _META or path:
                unknown.append(_below(path, name))
            del value[name]
    elif isinstance(value, list):
        items = schema.get("items") if schema is not None else None
        below = items if isinstance(items, dict) else None
        for index, item in enumerate(elements(value)):
            if item.__class__ in (dict, list):
                _prune(item, below, f"{path}[{index}]", unknown)


def _keep(value: object, schema: Schema, path: str, unknown: list[str]) -> None:
    if isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        is_object = embedded(schema)
        for name, item in entries(value):
            if (is_object and name in _META) or item.__class__ not in (dict, list):
                continue
            if name in properties:
                _prune(item, properties[name], _below(path, name), unknown)
            elif extra is not None:
                _prune(item, additional(schema), _below(path, name), unknown)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(elements(value)):
                _keep(item, items, f"{path}[{index}]", unknown)


def has_defaults(schema: Schema | None) -> bool:
    """Whether defaulting could change anything."""
    return anywhere(schema, lambda part: part.get("default") is not None)


def _null_to_default(value: object, schema: Schema | None) -> bool:
    return value is None and schema is not None and schema.get("default") is not None and not schema.get("nullable")


def default(value: object, schema: Schema | None) -> None:
    """Fills in defaults, in place; an explicit null of a field that is not nullable counts as absent."""
    if schema is None:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, field in entries(properties):
            if field.get("default") is not None and (name not in value or _null_to_default(value[name], field)):
                value[name] = copy(field["default"])
        extra = additional(schema)
        for name in elements(value):
            if name in properties:
                default(value[name], properties[name])
            elif extra is not None:
                if _null_to_default(value[name], extra):
                    value[name] = copy(extra["default"])
                default(value[name], extra)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index in range(len(value)):
                if _null_to_default(value[index], items):
                    value[index] = copy(items["default"])
                default(value[index], items)


def drop_nulls(value: object, schema: Schema | None) -> None:
    """Removes nulls of fields that are neither nullable nor have a default, in place."""
    if isinstance(value, dict):
        properties = (schema or {}).get("properties") or {}
        extra = additional(schema) if schema else None
        for name in elements(list(value)):
            field = properties.get(name, extra)
            if value[name] is None and field is not None and not field.get("nullable") and field.get("default") is None:
                del value[name]
            else:
                drop_nulls(value[name], field)
    elif isinstance(value, list):
        items = (schema or {}).get("items")
        for item in elements(value):
            drop_nulls(item, items if isinstance(items, dict) else None)
