"""Sets of field paths, in the form in which ``managedFields`` store them (upstream: structured-merge-diff ``fieldpath``).

A set is a tree of dicts whose keys are path elements: ``f:<name>`` a field, ``k:{...}`` an item of an associative
list, ``v:<json>`` an item of a set, ``i:<n>`` a position.  A node is a member of the set if it is empty or holds
the key ``"."``; a node with children and without ``"."`` only leads to members.  The root is never a member, so the
empty set is ``{}``.  Sets are immutable by convention: the operations share subtrees and build new dicts.
Encoding is then a matter of order (``canonical``) and decoding of checking the keys (``decode``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from kapi.machinery import golang
from kapi.machinery.each import elements, entries
from kapi.machinery.freeing import free_now
from kapi.machinery.golang import NumberError, parse_int
from kapi.machinery.memo import memoized
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree

Set = dict[str, Tree]
Path = tuple[str, ...]

_MEMBER: Object = {}
_MAX_SORTED_AT_ONCE = 1000  # elements; more are sorted with checkpoints


class BadSet(ValueError):
    """Stored fields that cannot be read."""


def is_member(node: Set) -> bool:
    """Whether a node (not the root) stands for a member itself."""
    return not node or "." in node


def make_node(member: bool, children: Set) -> Set | None:
    """A node of these parts, or None if it would be empty.  ``children`` has no ``"."`` and is not copied."""
    if not children:
        return _MEMBER if member else None
    return {".": _MEMBER, **children} if member else children


def from_paths(paths: Iterable[Path]) -> Set:
    return union_all(path_set(path) for path in paths if path)


def path_set(path: Path) -> Set:
    """The set of one path."""
    node: Set = _MEMBER
    for element in reversed(path):
        node = {element: node}
    return node


def union(one: Set, other: Set) -> Set:
    """Paths in either set."""
    if not one or one is other:
        return other
    if not other:
        return one
    merged = dict(one)
    for element, node in entries(other):
        if element == ".":
            merged["."] = _MEMBER
            continue
        mine = merged.get(element)
        merged[element] = node if mine is None else _union_nodes(mine, node)
    return merged


def union_all(sets: Iterable[Set]) -> Set:
    """Paths in any of the sets.  Sets are joined in pairs, so that none is copied as often as there are others."""
    left = list(sets)
    while len(left) > 1:
        pairs = [union(one, other) for one, other in zip(left[::2], left[1::2], strict=False)]
        left = pairs + left[len(left) - len(left) % 2 :]
    return left[0] if left else {}


def _union_nodes(one: Set, other: Set) -> Set:
    if one is other:
        return one
    if not one:
        return other if is_member(other) else {".": _MEMBER, **other}
    if not other:
        return one if "." in one else {".": _MEMBER, **one}
    return union(one, other)


def intersection(one: Set, other: Set) -> Set:
    """Paths in both sets."""
    common: Set = {}
    if not one or not other:
        return common
    for element, node in entries(one):
        if element == ".":
            continue
        theirs = other.get(element)
        if theirs is None:
            continue
        children = intersection(node, theirs) if node and theirs else {}
        kept = make_node(is_member(node) and is_member(theirs), children)
        if kept is not None:
            common[element] = kept
    return common


def contains(one: Set, other: Set) -> bool:
    """Whether all paths of the second set are in the first."""
    for element, node in entries(other):
        if element == ".":
            continue
        mine = one.get(element)
        if mine is None or is_member(node) and not is_member(mine) or not contains(mine, node):
            return False
    return True


def difference(one: Set, other: Set, recursive: bool = False) -> Set:
    """Paths of the first set that the second does not name; a parent and its child are different paths.

    ``recursive``: nor are paths kept that lie below a member of the second set.
    """
    if not one or not other:
        return {key: node for key, node in entries(one) if key != "."} if "." in one else one
    left: Set = {}
    for element, node in entries(one):
        if element == ".":
            continue
        theirs = other.get(element)
        if theirs is None:
            left[element] = node
            continue
        named = is_member(theirs)
        if named and recursive:
            continue
        kept = make_node(not named and is_member(node), difference(node, theirs, recursive))
        if kept is not None:
            left[element] = kept
    return left


def has(fields: Set, path: Path) -> bool:
    node = fields
    for element in path:
        found = node.get(element)
        if found is None:
            return False
        node = found
    return bool(path) and is_member(node)


def walk(fields: Set, prefix: Path = ()) -> Iterator[Path]:
    """Every path, in upstream's order: at each level first the members, then what lies below each of them."""
    inner = ordered((element for element in elements(fields) if element != "."), key=order)
    for element in elements(inner):
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements(inner):
        if fields[element]:
            yield from walk(fields[element], (*prefix, element))


def show(path: Path) -> str:
    """A path in the form of messages: ``.spec.containers[name="a"].image``."""
    return "".join(map(show_element, path))


@memoized(4096)
def show_element(element: str) -> str:
    kind, _, content = element.partition(":")
    if kind == "f":
        return "." + content
    if kind == "i":
        return f"[{content}]"
    value = orjson.loads(content)
    if kind == "v":
        return f"[={_show_value(value)}]"
    return "[" + ",".join(f"{name}={_show_value(value[name])}" for name in sorted(value)) + "]"


def _show_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return golang.quote(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_show_value, value)) + "]"
    if isinstance(value, dict):
        return "".join(f"{key}={_show_value(item)}" for key, item in value.items())
    return golang.value_text(value)


#: in structured-merge-diff's order; integers are compared with floats
_KINDS, _TYPES = "fkvi", (float, str, bool, list, dict, type(None))


@memoized(8192)
def order(element: str) -> tuple[Tree, ...]:
    """The sort key of a path element: fields by name, then keys, then values, then positions."""
    kind, _, content = element.partition(":")
    place = _KINDS.index(kind)
    if kind == "f":
        return place, content
    if kind == "i":
        return place, int(content)
    return place, _value_order(orjson.loads(content))


def _value_order(value: object) -> tuple[Tree, ...]:
    place = _TYPES.index(float if type(value) is int else type(value))
    if isinstance(value, list):
        return place, tuple(map(_value_order, value))
    if isinstance(value, dict):
        return place, tuple((key, _value_order(value[key])) for key in sorted(value))
    return place, value


def canonical(fields: Set) -> Set:
    """The same set in the order in which upstream writes it."""
    if not fields:
        return _MEMBER
    members = sorted(fields) if len(fields) < _MAX_SORTED_AT_ONCE else ordered(fields)
    if members[-1] >= "g":  # other kinds than fields and ".", which do not sort by their text
        members = [e for e in elements(members) if e == "."] + ordered(
            (e for e in elements(members) if e != "."), key=order
        )
    return {element: canonical(node) if (node := fields[element]) else _MEMBER for element in elements(members)}


def decode(stored: object) -> Set:
    """Decodes a ``fieldsV1``: checks and normalises path elements, drops elements of unknown kinds.

    Raises BadSet where upstream's decoder fails.
    """
    if stored is None:
        return {}
    if not isinstance(stored, dict):
        raise BadSet("error decoding set: expect { or n")
    found = _decode(stored)
    fields = canonical(found)
    free_now([found])
    return fields


def _decode(stored: Object) -> Set:
    fields: Set = {}
    for text, below in entries(stored):
        if text == ".":
            continue
        element = parse_element(text)
        if element is None:
            continue
        if below is not None and not isinstance(below, dict):
            raise BadSet("error decoding set: ReadMapCB: expect { or n")
        children = _decode(below) if below else {}
        # a node all of whose children were dropped is a member, as upstream reads it
        node = make_node(not children or "." in (below or ()), children)
        if node is not None:
            fields[element] = _union_nodes(fields[element], node) if element in fields else node
    return fields


@memoized(8192)
def parse_element(text: str) -> str | None:
    """A path element in its normal form, or None for a kind that is not known."""
    if len(text) < 2:
        raise BadSet("error decoding set: parsing key as path element: key must be 2 characters long:")
    if text[1] != ":":
        raise BadSet(f"error decoding set: parsing key as path element: missing colon: {text}")
    kind = text[0]
    if kind == "f":
        return text
    if kind == "i":
        try:
            return f"i:{parse_int(text[2:])}"
        except NumberError as error:
            raise BadSet(
                "error decoding set: parsing key as path element: "
                f"strconv.Atoi: parsing {golang.quote(text[2:])}: {error}"
            ) from None
    if kind not in "kv":
        return None
    try:
        value = orjson.loads(text[2:])
    except orjson.JSONDecodeError as error:
        raise BadSet(f"error decoding set: parsing key as path element: {error}") from None
    if kind == "v":
        return value_element(value)
    if not isinstance(value, dict):
        raise BadSet("error decoding set: parsing key as path element: expect { or n")
    return key_element(value)


def key_element(keys: Object) -> str:
    """The path element of an associative list's item, from its key fields."""
    return "k:" + orjson.dumps({name: _number(keys[name]) for name in sorted(keys)}).decode()


def value_element(value: object) -> str:
    """The path element of a set's item."""
    return "v:" + orjson.dumps(_number(value)).decode()


def _number(value: object) -> Tree:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
