"""Finds duplicates in lists of type set, and duplicate keys in lists of type map (upstream: ``schema/listtype``)."""

from __future__ import annotations

import orjson

from kapi.machinery.each import each_of, elements, entries
from kapi.machinery.field import FieldError, Path, duplicate, invalid
from kapi.machinery.freeing import drain
from kapi.machinery.go_json import sorted_fields
from kapi.machinery.tree import Tree
from kapi.schema.structural.structure import Schema, additional


def list_errors(path: Path, schema: Schema | None, value: object) -> list[FieldError]:
    """The errors of all duplicates."""
    errors: list[FieldError] = []
    if schema:
        _walk(path, schema, value, errors)
    return errors


def _walk(path: Path, schema: Schema, value: object, errors: list[FieldError]) -> None:
    if isinstance(value, dict):
        extra = additional(schema)
        properties = schema.get("properties") or {}
        for name, item in entries(value):
            if item.__class__ not in (dict, list):
                continue
            if extra is not None:
                _walk(path.key(name), extra, item, errors)
            if name in properties:
                _walk(path.child(name), properties[name], item, errors)
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            errors.extend(
                duplicate(path.index(index), sorted_fields(value[index])) for index in elements(repeated(value))
            )
        elif kind == "map":
            _keyed(path, schema, value, errors)
        items = schema.get("items")
        if isinstance(items, dict):
            for item, here in each_of(path, value):
                if item.__class__ in (dict, list):
                    _walk(here, items, item, errors)


def repeated(values: list[Tree]) -> list[int]:
    """The index of the second of each group of equal values."""
    seen: dict[Tree, int] = {}
    found: list[int] = []
    for index, value in enumerate(elements(values)):
        key: object
        if isinstance(value, (dict, list)):
            key = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        else:
            key = value if value.__class__ is str else (value.__class__, value)
        count = seen.get(key, 0)
        if count == 1:
            found.append(index)
        seen[key] = count + 1
    drain(seen)
    return found


def _keyed(path: Path, schema: Schema, value: list[Tree], errors: list[FieldError]) -> None:
    for index, item in enumerate(elements(value)):
        if item is not None and not isinstance(item, dict):
            errors.append(invalid(path.index(index), item, "must be an object for an array of list-type map"))
            return
    names = sorted(schema.get("x-kubernetes-list-map-keys") or ())  # the order of a Go map in an error
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in elements(value)]
    errors.extend(duplicate(path.index(index), keys[index]) for index in elements(repeated(keys)))
    drain(keys)
