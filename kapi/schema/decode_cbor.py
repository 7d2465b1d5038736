"""Upstream's errors for bodies in CBOR that do not fit their type: they have fewer details than for JSON, and other texts.

Upstream: apimachinery ``runtime/serializer/cbor``, over ``fxamacker/cbor``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kapi.codecs.reading import CBORDocument
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Tree
from kapi.schema.types import Kind, Type

_OTHER_KIND = re.compile(
    r"json: cannot unmarshal (?P<kind>\w+)(?: (?P<number>\S+))? into Go struct field \w+\.(?P<path>\S+) of type (?P<type>.+)"
)
_KINDS = {"string": "byte string", "object": "map", "array": "array", "bool": "primitives"}
_POSITIVE, _NEGATIVE, _FLOAT = "positive integer", "negative integer", "primitives"
_BASE64 = "illegal base64 data"


def type_error(body: CBORDocument, type_: Type, text: str) -> str:
    """The error of a value that does not fit its field; ``text`` is the error for JSON.

    It has the name of the outermost field, and the type of the innermost.
    """
    if text.startswith(_BASE64):
        return f"cbor: failed to decode base64 from byte string: {text}"
    found = _OTHER_KIND.fullmatch(text)
    if found is None:
        return text
    names, target, number = found["path"].split("."), found["type"], found["number"]
    kind, why = _KINDS.get(found["kind"], ""), ""
    if kind == "array" and _is_struct(type_, names, target):
        why = " (cannot decode CBOR array to struct without toarray option)"
    if not kind:
        kind = _kind_of_number(number or next(_numbers(body, names), 0))
        if number and kind != _FLOAT and target.startswith(("int", "uint")):
            why = f" ({number} overflows {target})"
    return f"cbor: cannot unmarshal {kind} into Go struct field {type_.go_type}.{names[0]} of type {target}{why}"


def _is_struct(type_: Type | None, names: Iterable[str], target: str) -> bool:
    """Whether the type of a field, or of what is in it, is the struct ``target``."""
    for name in names:
        while type_ is not None and type_.elem is not None:
            type_ = type_.elem
        field = None if type_ is None else type_.fields.get(name)
        type_ = None if field is None else field.type
    while type_ is not None and type_.elem is not None and type_.go_type != target:
        type_ = type_.elem
    return type_ is not None and type_.kind == Kind.STRUCT and type_.go_type == target


def _kind_of_number(number: object) -> str:
    text = str(number)
    if not text.lstrip("-").isdecimal():
        return _FLOAT
    return _NEGATIVE if text.startswith("-") else _POSITIVE


def _numbers(body: CBORDocument, names: Iterable[str]) -> Iterator[int | float]:
    """The numbers in a field of which only names are known: neither indices nor keys of maps."""
    nodes: list[Tree] = [body]
    for name in names:
        nodes = [each for node in nodes for each in (node if isinstance(node, list) else (node,))]
        # a struct that is embedded in another has a name in Go alone
        nodes = [node[name] for node in elements(nodes) if isinstance(node, dict) and name in node] or nodes
    for node in nodes:
        values = node if isinstance(node, list) else node.values() if isinstance(node, dict) else (node,)
        yield from (value for value in elements(values) if type(value) in (int, float))


def unknown_field(body: CBORDocument, problems: Iterable[str]) -> str:
    """The error of strict decoding: the position of one unknown field in its map."""

    def position(node: Tree, path: str) -> int | None:
        found = None
        if isinstance(node, list):
            for index, item in enumerate(elements(node)):
                inside = position(item, f"{path}[{index}]")
                found = inside if found is None else found
        elif isinstance(node, dict):
            for index, (key, value) in enumerate(entries(node)):
                below = f"{path}.{key}" if path else key
                if below in unknown:
                    return index
                inside = position(value, below)
                found = inside if found is None else found
        return found

    unknown = {problem.partition('"')[2].removesuffix('"') for problem in problems}
    return f"cbor: found unknown field at map element index {position(body, '') or 0}"


def shown(body: CBORDocument) -> str:
    """The body in diagnostic notation."""
    from kapi.codecs.cbor_reading import SELF_DESCRIBED, notation  # there since the body was read

    text = notation(body)
    return f"55799({text})" if body.source.startswith(SELF_DESCRIBED) else text
