"""Decoding of custom resources: fields that are not in the structural schema are removed, the rest stays unchanged.

Only metadata has a Go type; validation finds values of wrong types elsewhere.
Upstream: apiextensions-apiserver ``customresource_handler.go`` (schemaCoercingDecoder), ``schema/pruning``.
"""

from __future__ import annotations

import json
import math

import orjson

from kapi.codecs.json_reading import MAX_PROBLEMS, Duplicated, Literal, duplicates, loads_exactly, may_have_duplicates
from kapi.machinery import checkpoint
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import json_integer, quote
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.schema import builtin
from kapi.schema.decode_exact import ExactDecoder, MetadataDecoder
from kapi.schema.decode_fast import Unusual, walk_of
from kapi.schema.types import Kind, Type

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT64_MIN, _INT64_MAX, _UINT64_END = -(1 << 63), (1 << 63) - 1, 1 << 64
_MAY_HAVE_FLOATS = frozenset((dict, list, float))
_UNKNOWN = 'unknown field "'
_TYPE_META = ("kind", "apiVersion", "metadata")
#: types without fields: an object in their place has only unknown fields
_NO_OBJECT = frozenset((Kind.LIST, Kind.STRING, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.INT_OR_STRING))


def decode(tree: Object, raw: bytes | None, type_: Type, *, strict: bool) -> tuple[Object, list[str]]:
    """The pruned tree, and (when ``strict``) duplicate fields, then unknown ones.  Raises ValueError with Go's text.

    Without ``raw`` a mapping with duplicate fields is a ``Duplicated``.
    """
    problems: list[str] = []
    unknown: list[str]
    embedded: list[str]
    keys, odd = count(tree, raw)
    if strict and (odd or raw is not None and may_have_duplicates(raw, keys)):
        exact = tree if raw is None else loads_exactly(raw)
        problems = [f"duplicate field {quote(path)}" for path in elements(dict.fromkeys(duplicates(exact)))]
    decoder = MetadataDecoder()
    result = {key: _go_value(value) for key, value in tree.items()} if odd else dict(tree)
    meta = decode_metadata(tree.get("metadata"), decoder)
    problems += (text.replace(_UNKNOWN, f"{_UNKNOWN}metadata.", 1) for text in decoder.problems)
    result["metadata"] = meta
    unknown, embedded = [], []
    pruned = prune(result, type_, "", unknown, embedded, root=True)
    problems += (f'{_UNKNOWN}{path}"' for part in (unknown, embedded) for path in ordered(part))  # each part for itself
    return pruned, problems[:MAX_PROBLEMS] if strict else []


def count(tree: object, raw: bytes | None) -> tuple[int, bool]:
    """The number of keys at all depths, and whether there is a ``Duplicated`` or an integer beyond int64.

    Raises ValueError for a number beyond a float64.
    """
    keys, odd = 0, False
    stack: list[Tree] = [[tree]]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            keys += len(node)
            node = node.values()
        for item in elements(node):
            kind = item.__class__
            if kind is dict or kind is list:
                stack.append(item)
            elif kind is int:
                odd = odd or not _INT64_MIN <= item <= _INT64_MAX
            elif kind is Duplicated:
                odd = True
                stack.append(item)
            elif isinstance(item, float) and item in (math.inf, -math.inf):
                raise ValueError(f"json: cannot unmarshal number {_literal(raw)} into Go value of type float64")
    return keys, odd


def _go_value(node: Tree) -> Tree:
    """A copy as Go decodes it: without ``Duplicated`` and ``Literal``, and a float for an integer beyond int64."""
    if isinstance(node, dict):
        return {key: _go_value(item) for key, item in entries(node)}
    if isinstance(node, list):
        return [_go_value(item) for item in elements(node)]
    if node.__class__ is int:
        return node if _INT64_MIN <= node <= _INT64_MAX else float(node)
    return float(node) if isinstance(node, Literal) else node


def write_numbers(node: Tree) -> Tree:
    """Replaces whole floats by integers, in place, as Go writes them; returns the value itself or its integer.

    Beyond 2**53 the digits are those of the float's shortest text.
    """
    if isinstance(node, dict):
        for key, item in entries(node):
            if item.__class__ in _MAY_HAVE_FLOATS:
                node[key] = write_numbers(item)
    elif isinstance(node, list):
        for index, item in enumerate(elements(node)):
            if item.__class__ in _MAY_HAVE_FLOATS:
                node[index] = write_numbers(item)
    elif node.__class__ is float and node.is_integer() and _INT64_MIN < node < _UINT64_END:
        return json_integer(node)
    return node


def same_values(one: Tree, other: Tree) -> bool:
    """Whether two values are equal for Go: true, 1 and 1.0 are not, and an integer beyond int64 is the nearest float."""
    if checkpoint.running is None and orjson.dumps(one) == orjson.dumps(other):  # most often, and 20 times faster
        return True
    return _same_values(one, other)


def _same_values(one: Tree, other: Tree) -> bool:
    kind = one.__class__
    if kind is str or one is None:
        return bool(one == other)
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(key in other and _same_values(item, other[key]) for key, item in entries(one))
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        return all(_same_values(item, there) for item, there in elements(zip(one, other, strict=True)))
    if kind is other.__class__ and one == other:
        return True
    one, other = _go_value(one), _go_value(other)
    return one.__class__ is other.__class__ and bool(one == other)


def _literal(raw: bytes | None) -> str:
    """The text of the first number that no float64 can hold."""
    stack = [loads_exactly(raw)] if raw is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, Literal) and math.isinf(node):
            return node.text
    return ""


def decode_metadata(metadata: object, decoder: ExactDecoder) -> Object:
    """Metadata decoded by its Go type.  Raises ValueError with Go's text."""
    if metadata is None:
        return {}
    if isinstance(metadata, dict):
        metadata = dict(sorted(metadata.items()))  # the order in which upstream reports errors
    type_ = builtin.definition(_OBJECT_META)
    try:
        return walk_of(type_)(metadata, [0])  # type: ignore[no-any-return]
    except (Unusual, RecursionError):
        result: Object = decoder.decode(metadata, type_)
        return result


def prune(node: object, type_: Type, path: str, unknown: list[str], embedded: list[str], *, root: bool = False) -> Tree:
    """A copy without the fields that the schema does not know; their paths are appended to ``unknown``.

    Unknown fields in the metadata of embedded resources are appended to ``embedded``.
    """
    if isinstance(node, list):
        if type_.elem is None:
            return node
        return [prune(item, type_.elem, f"{path}[{i}]", unknown, embedded) for i, item in enumerate(elements(node))]
    if not isinstance(node, dict):
        return node
    if type_.kind is Kind.MAP and type_.elem is not None:
        elem = type_.elem
        return {
            key: prune(item, elem, f"{path}.{key}" if path else key, unknown, embedded) for key, item in entries(node)
        }
    if type_.kind in _NO_OBJECT:
        unknown.extend(f"{path}.{key}" for key in elements(node))
        return {}
    if type_.kind is not Kind.STRUCT:
        return node
    result: Object = {}
    spared = _TYPE_META if root or type_.embedded_resource else ()
    for key, item in entries(node):
        below = f"{path}.{key}" if path else key
        field = type_.fields.get(key)
        if key == "metadata" and type_.embedded_resource and not root:
            result[key] = _embedded_metadata(item, below, embedded)
        elif key in spared:
            result[key] = item
        elif field is not None:
            result[key] = prune(item, field.type, below, unknown, embedded)
        elif type_.preserve_unknown:
            result[key] = item
        else:
            unknown.append(below)
    return result


def _embedded_metadata(item: object, path: str, unknown: list[str]) -> Tree:
    decoder = MetadataDecoder()
    try:
        result = decode_metadata(item, decoder)
    except ValueError as error:
        shown = json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        raise ValueError(f"{path}: Invalid value: {shown}: {error}") from None
    unknown.extend(text.replace(_UNKNOWN, f"{path}.", 1).removesuffix('"') for text in elements(decoder.problems))
    return result
