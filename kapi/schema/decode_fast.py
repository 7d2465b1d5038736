"""The fast decoder: one compiled closure for each type.

It handles only usual trees: known fields of the right JSON types, each once.  Anything else raises Unusual, and the exact
decoder (``decode_exact.py``) starts from the beginning.  Both have the same results.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery import quantity, tree
from kapi.machinery import time as times
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object, Tree
from kapi.schema.decode_exact import base64_text
from kapi.schema.types import Field, Kind, Type
from kapi.schema.zero import always_emitted, is_zero, keeps_empty

#: (value, counter of keys) -> value
Walk = Callable[[Tree, list[int]], Tree]
_INT32, _INT64 = 1 << 31, 1 << 63
_MAX_EXACT = 1 << 53  # whole numbers up to here are exact as float64
_walks: dict[Type, Walk] = {}


class Unusual(Exception):
    """A tree that only the exact decoder handles."""


def walk_of(type_: Type) -> Walk:
    """The compiled walk of a type; cached."""
    walk = _walks.get(type_)
    if walk is None:
        if type_.kind is Kind.STRUCT:
            walk = _struct_walk(type_)
        else:
            walk = _walks[type_] = _plain_walk(type_)
    return walk


def _struct_walk(type_: Type) -> Walk:
    steps: dict[str, tuple[type | None, bool, Walk | None]] = {}
    always: tuple[tuple[str, Tree], ...] = ()
    compiled = False

    def compile_fields() -> None:
        nonlocal always, compiled
        for name, field in type_.fields.items():
            steps[name] = _step(field, keeps_empty(type_, name))
        always = always_emitted(type_)
        compiled = True

    def walk(value: object, keys: list[int]) -> Tree:
        if type(value) is not dict:
            raise Unusual
        if not compiled:
            compile_fields()  # on first use, since a type may contain itself
        keys[0] += len(value)
        out: Object = {}
        try:
            for name, item in value.items():
                expected, keep, convert = steps[name]
                if type(item) is expected:
                    if convert is None:
                        if item or keep:
                            out[name] = item
                    else:
                        item = convert(item, keys)
                        if keep or item:
                            out[name] = item
                elif item is not None:
                    if expected is not None:
                        raise Unusual
                    assert convert is not None
                    out[name] = convert(item, keys)
        except KeyError:
            raise Unusual from None
        for name, template in always:
            if name not in out:
                out[name] = tree.copy(template) if template.__class__ is dict else template
        return out

    _walks[type_] = walk
    return walk


def _step(field: Field, keep_empty: bool) -> tuple[type | None, bool, Walk | None]:
    """(JSON type, whether empty values stay, conversion) of a field."""
    type_ = field.type
    expected, convert = _SHAPES[type_.kind](type_)
    keep = keep_empty or field.pointer or not field.omitempty or type_.kind in (Kind.STRUCT, Kind.QUANTITY)
    if field.omitzero and not field.pointer:
        inner = convert

        def unless_zero(value: object, keys: list[int]) -> Tree:
            if inner is not None:
                value = inner(value, keys)
            return None if is_zero(value, type_) else value

        return expected, False, unless_zero
    if type_.kind in (Kind.TIME, Kind.MICRO_TIME):
        return str, True, convert
    return expected, keep, convert


def _plain_walk(type_: Type) -> Walk:
    """The walk of a value outside of a struct, such as a list item, where null is unusual."""
    expected, convert = _SHAPES[type_.kind](type_)

    def walk(value: object, keys: list[int]) -> Tree:
        if expected is not None and type(value) is not expected or value is None:
            raise Unusual
        return value if convert is None else convert(value, keys)

    return walk


Shape = tuple["type | None", "Walk | None"]


def _string(type_: Type) -> Shape:
    return str, None


def _boolean(type_: Type) -> Shape:
    return bool, None


def _integer(type_: Type) -> Shape:
    limit = _INT32 if type_.int_bits == 32 else _INT64

    def walk(value: Tree, keys: list[int]) -> Tree:
        if -limit <= value < limit:
            return value
        raise Unusual

    return int, walk


def _number(type_: Type) -> Shape:
    def walk(value: object, keys: list[int]) -> Tree:
        if type(value) is float or type(value) is int and -_MAX_EXACT <= value <= _MAX_EXACT:
            return value
        raise Unusual

    return None, walk


def _int_or_string(type_: Type) -> Shape:
    def walk(value: object, keys: list[int]) -> Tree:
        if type(value) is str or type(value) is int and -_INT32 <= value < _INT32:
            return value
        raise Unusual

    return None, walk


def _quantity(type_: Type) -> Shape:
    def walk(value: object, keys: list[int]) -> Tree:
        if type(value) is int:
            value = str(value)
        elif type(value) is not str:
            raise Unusual
        try:
            return quantity.canonical(value)
        except ValueError:
            raise Unusual from None

    return None, walk


def _time(type_: Type) -> Shape:
    read = times.time if type_.kind is Kind.TIME else times.micro_time

    def walk(value: Tree, keys: list[int]) -> Tree:
        try:
            return read(value)
        except ValueError:
            raise Unusual from None

    return str, walk


def _bytes(type_: Type) -> Shape:
    def walk(value: Tree, keys: list[int]) -> Tree:
        try:
            return base64_text(value)
        except ValueError:
            raise Unusual from None

    return str, walk


def _any(type_: Type) -> Shape:
    if type_.unions:
        return None, _schema_walk(type_)

    def walk(value: object, keys: list[int]) -> Tree:
        _count(value, keys)
        return value

    return None, walk


def _schema_walk(type_: Type) -> Walk:
    """The walk of a field of CRD schemas that has alternatives: usual is a schema, or a bool where it is allowed."""

    def walk(value: object, keys: list[int]) -> Tree:
        if type(value) is dict:
            return walk_of(type_.unions[0])(value, keys)
        if type(value) is bool and type_.name == "JSONSchemaPropsOrBool":
            return value
        raise Unusual

    return walk


def _count(value: object, keys: list[int]) -> None:
    if isinstance(value, dict):
        if type(value) is not dict:
            raise Unusual
        keys[0] += len(value)
        for item in elements(value.values()):
            _count(item, keys)
    elif isinstance(value, list):
        for item in elements(value):
            _count(item, keys)


def _struct(type_: Type) -> Shape:
    return dict, walk_of(type_)


def _map(type_: Type) -> Shape:
    assert type_.elem is not None
    elem = type_.elem
    if elem.kind is Kind.STRING:

        def walk_strings(value: Tree, keys: list[int]) -> Tree:
            keys[0] += len(value)
            for item in elements(value.values()):
                if type(item) is not str:
                    raise Unusual
            return value

        return dict, walk_strings
    walk_elem = walk_of(elem)

    def walk(value: Tree, keys: list[int]) -> Tree:
        keys[0] += len(value)
        return {key: walk_elem(item, keys) for key, item in entries(value)}

    return dict, walk


def _list(type_: Type) -> Shape:
    assert type_.elem is not None
    elem = type_.elem
    if elem.kind is Kind.STRING:

        def walk_strings(value: Tree, keys: list[int]) -> Tree:
            for item in elements(value):
                if type(item) is not str:
                    raise Unusual
            return value

        return list, walk_strings
    walk_elem = walk_of(elem)

    def walk(value: Tree, keys: list[int]) -> Tree:
        return [walk_elem(item, keys) for item in elements(value)]

    return list, walk


_SHAPES: dict[Kind, Callable[[Type], Shape]] = {
    Kind.STRUCT: _struct,
    Kind.MAP: _map,
    Kind.LIST: _list,
    Kind.STRING: _string,
    Kind.DURATION: _string,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
    Kind.ANY: _any,
    Kind.QUANTITY: _quantity,
    Kind.INT_OR_STRING: _int_or_string,
    Kind.TIME: _time,
    Kind.MICRO_TIME: _time,
    Kind.BYTES: _bytes,
}
