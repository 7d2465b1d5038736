"""Decoding of custom resources: fields that are not in the structural schema are removed, the rest stays unchanged.

Only metadata has a Go type; validation finds values of wrong types elsewhere.
Upstream: apiextensions-apiserver ``customresource_handler.go`` (schemaCoercingDecoder), ``schema/pruning``.
"""

from __future__ import annotations

import math

import orjson

from kapi.codecs.json_reading import MAX_PROBLEMS, Duplicated, Literal, duplicates, loads_exactly, may_have_duplicates
from kapi.machinery import checkpoint
from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path
from kapi.machinery.golang import json_integer, quote
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree, copy
from kapi.schema.decode_exact import MetadataDecoder
from kapi.schema.structural.coercion import UNKNOWN, coerce, decode_metadata
from kapi.schema.structural.pruning import prune
from kapi.schema.types import Type

_INT64_MIN, _INT64_MAX, _UINT64_END = -(1 << 63), (1 << 63) - 1, 1 << 64
_MAY_HAVE_FLOATS = frozenset((dict, list, float))


def decode(
    tree: Object, raw: bytes | None, type_: Type, *, strict: bool, own: bool = False
) -> tuple[Object, list[str]]:
    """The pruned tree, and (when ``strict``) duplicate fields, then unknown ones.  Raises ValueError with Go's text.

    ``own``: ``tree`` itself may be pruned; otherwise it is a copy.
    Without ``raw`` a mapping with duplicate fields is a ``Duplicated``.
    """
    problems: list[str] = []
    keys, odd = count(tree, raw)
    if strict and (odd or raw is not None and may_have_duplicates(raw, keys)):
        exact = tree if raw is None else loads_exactly(raw)
        problems = [f"duplicate field {quote(path)}" for path in elements(dict.fromkeys(duplicates(exact)))]
    decoder = MetadataDecoder()
    meta = decode_metadata(tree.get("metadata"), decoder)
    result = _go_value(tree) if odd else tree if own else copy(tree)
    problems += (text.replace(UNKNOWN, f"{UNKNOWN}metadata.", 1) for text in decoder.problems)
    unknown = prune(result, type_.schema)
    if type_.has_embedded:
        embedded: list[str] = []
        error = coerce(Path(""), result, type_.schema, drop=False, unknown=embedded)
        if error is not None:
            raise ValueError(str(error))
        unknown += ordered(embedded)
    result["metadata"] = meta
    problems += (f'{UNKNOWN}{path}"' for path in elements(unknown))
    return result, problems[:MAX_PROBLEMS] if strict else []


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
