"""Applies mutations to an object: JSON patches and apply configurations made by expressions.

Upstream: apiserver ``admission/plugin/policy/mutating/patch``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import NoReturn

from kapi.cel.times import NANOS, Duration, Timestamp
from kapi.cel.types import TYPE, StructType
from kapi.cel.values import Message, Optional, type_of
from kapi.machinery.golang import GoValue
from kapi.machinery.tree import Object, Tree
from kapi.resources.admissionregistration.expressions import JSON_PATCH, LazyVariables
from kapi.schema import jsonpatch
from kapi.schema.apply import typed
from kapi.schema.apply.shape import DEDUCED, LIST, MAP, Shape, Shapes, shape_of
from kapi.schema.types import Type

#: types of libraries that cel-go's errors call otherwise
_GO_NAMES = {
    "kubernetes.Quantity": "Quantity",
    "kubernetes.URL": "URL",
    "kubernetes.Semver": "Semver",
    "kubernetes.NamedFormat": "Format",
    "net.IP": "IP",
    "net.CIDR": "CIDR",
}


class MutationError(ValueError):
    """A mutation that cannot be applied; the text is upstream's."""


def json_patch(value: object) -> list[Object]:
    """The operations that an expression made.  Raises MutationError."""
    assert isinstance(value, list)  # the type of the expression, which is null only in a list
    operations: list[Object] = []
    for item in value:
        if not isinstance(item, Message) or item.cel_type != JSON_PATCH:
            raise MutationError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
        operation: Object = {"op": item.get("op", ""), "path": item.get("path", "")}
        if item.get("from"):
            operation["from"] = item["from"]
        if "value" in item:
            _check_names(item["value"])
            operation["value"] = _json_value(item["value"])
        operations.append(operation)
    return operations


def apply_json_patch(obj: Object, operations: list[Object]) -> object:
    """The patched object, which may be any value; the given object when a test operation fails.  Raises MutationError.

    Parts that the operations do not reach are shared with the given object.
    """
    try:
        return jsonpatch.patched(obj, operations, sharing=True)
    except jsonpatch.TestFailed:
        return obj
    except jsonpatch.PatchError as error:
        raise MutationError(f"JSON Patch: {error}") from None


def apply_configuration(obj: Object, value: object, type_: Type | None) -> Object:
    """The object merged with the ``Object{}`` an expression made.  Raises MutationError."""
    if not isinstance(value, Message):
        raise MutationError("unsupported return type from ApplyConfiguration expression")
    _check_names(value)
    own = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    config = {**plain(value, str), **own}
    shape = DEDUCED if type_ is None else shape_of(type_, Shapes())
    try:
        typed.validate(shape, {**_native(value), **own})
    except typed.SchemaError as error:
        why = f"failed to convert patch object to typed object: {error}"
        raise MutationError(f"error applying patch: {why}") from None
    atomics = list(_atomics(shape, config, ""))
    if atomics:
        why = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise MutationError(f"error applying patch: {why}")
    try:
        merged = typed.merge(shape, obj, config)
    except typed.SchemaError as error:
        raise MutationError(f"error applying patch: failed to merge patch: {error}") from None
    return dict(merged)


def _atomics(shape: Shape, value: object, path: str) -> Iterator[str]:
    """Paths of atomic values in a configuration; below the root only, and never below one without a type."""
    form = shape.form(value)
    if isinstance(value, dict) and form == MAP:
        if shape.map_atomic:
            yield path
        for key, item in value.items():
            child = shape.child(key) if shape.declares(key) else None
            if child is not None:
                yield from _atomics(child, item, f"{path}.{key}")
    elif isinstance(value, list) and form == LIST:
        if shape.list_atomic:
            yield path
        for i, item in enumerate(value):
            yield from _atomics(shape.item, item, f"{path}[{i}]")


def _check_names(value: object) -> None:
    """Checks that the types of nested objects are named by their path.  Raises MutationError."""
    if isinstance(value, Message) and _is_object(value):
        problems = list(_misnamed(value, value.cel_type.name))
        if problems:
            raise MutationError("type mismatch: " + "\n".join(problems))


def _is_object(value: Message) -> bool:
    return isinstance(value.cel_type, StructType) and value.cel_type.name.partition(".")[0] == "Object"


def _misnamed(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Message) and _is_object(value):
        name = value.cel_type.name
        if name != path:
            yield f'unexpected type name "{name}", expected "{path}", which matches field name path from root Object type'
        for key, item in value.items():
            yield from _misnamed(item, f"{path}.{key}")
    elif isinstance(value, dict):
        for item in value.values():
            yield from _misnamed(item, path)
    elif isinstance(value, list):
        for item in value:
            yield from _misnamed(item, path)


def _native(value: object) -> Tree:
    """A value of an expression as upstream checks it against the schema: what is not JSON is no text and no number."""
    if isinstance(value, dict):
        return {str(key): _native(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_native(item) if isinstance(item, (dict, list, tuple)) else plain(item, str) for item in value]
    if value is None:
        return GoValue("NULL_VALUE", "0", "structpb.NullValue")
    if isinstance(value, bytes):
        source = ", ".join(map(hex, value))
        return GoValue("[" + " ".join(map(str, value)) + "]", f"[]uint8{{{source}}}", "[]uint8")
    if isinstance(value, Duration):
        return GoValue(str(value), str(value.nanos), "time.Duration")
    if isinstance(value, Timestamp):
        utc = value.datetime()
        clock = f"{utc.hour}, {utc.minute}, {utc.second}, {value.nanos % NANOS}"
        source = f"time.Date({utc.year}, time.{utc:%B}, {utc.day}, {clock}, time.UTC)"
        return GoValue(f"{utc:%Y-%m-%d %H:%M:%S} +0000 UTC", source, "time.Time")
    return plain(value, str)


def _json_value(value: object) -> Tree:
    """A value in a JSON patch (upstream: the conversions to ``structpb.Value``).  Raises MutationError."""
    if isinstance(value, Optional):
        if not value.present:
            raise _no_json("optional.none() dereference")
        return _json_value(value.value())
    if isinstance(value, LazyVariables):
        raise _no_json('disallowed conversion from "kubernetes.variables" to ""')
    if isinstance(value, Message):
        if value.cel_type == JSON_PATCH:
            raise _no_json("cannot convert to native type: *structpb.Value")
        if _is_object(value):
            return plain(value, str)
    if isinstance(value, dict):
        return {_json_key(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return str(int(value))
    return plain(value, _refuse)


def _json_key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int):
        raise _no_json(f"unsupported type conversion from '{type_of(key).name}' to string")
    raise _no_json("type conversion error from bool to 'string'")


def _refuse(value: object) -> NoReturn:
    type_ = type_of(value)
    if type_ is TYPE:
        raise _no_json("type conversion not supported for 'type'")
    name = _GO_NAMES.get(type_.name, type_.name)
    raise _no_json(f"type conversion error from '{name}' to '*structpb.Value'")


def _no_json(why: str) -> MutationError:
    return MutationError(f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")


def plain(value: object, other: Callable[[object], Tree]) -> Tree:
    """A value of an expression as JSON; ``other`` is called with what cannot be made so."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Optional):
        return plain(value.value(), other) if value.present else None
    if isinstance(value, dict):
        return {str(key): plain(item, other) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, other) for item in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (Timestamp, Duration)):
        return str(value)
    return other(value)
