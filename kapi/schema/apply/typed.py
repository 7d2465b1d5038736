"""Walks over a value and its shape: validate, field set, merge, remove (upstream: structured-merge-diff ``typed``).

Values are plain JSON trees; a missing value is ABSENT, which is not null.
"""

from __future__ import annotations

from kapi.machinery import golang
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object, Tree
from kapi.schema.apply import fieldset
from kapi.schema.apply.fieldset import Set, key_element, show_element, value_element
from kapi.schema.apply.shape import DEDUCED, LIST, MAP, SCALAR, UNTYPED, Shape

MEMBER: Set = {}


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Tree = _Absent()


class SchemaError(ValueError):
    """A value does not fit its type.  ``errors`` are (path, text)."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        lines = [f"{path}: {text}" if path else text for path, text in errors]
        super().__init__(lines[0] if len(lines) == 1 else "\n".join(["errors:", *("  " + line for line in lines)]))
        self.errors = errors


class _BadItem(ValueError):
    """A list item that has no path element."""


# -- list items ---------------------------------------------------------------------------------------------------


def item_element(shape: Shape, item: object) -> str:
    """The path element of an item of an associative list.  Raises ValueError where it has none."""
    if not shape.keys:
        if isinstance(item, dict):
            raise _BadItem("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise _BadItem("not supported: associative list with lists as elements")
        if item is None:
            raise _BadItem("associative list without keys has an element that's an explicit null")
        return value_element(item)
    if item is None:
        raise _BadItem("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise _BadItem("associative list with keys may not have non-map elements")
    keys = {}
    for name in shape.keys:
        if name in item:
            keys[name] = item[name]
        elif (default := shape.key_defaults.get(name)) is not None:
            keys[name] = default
    if not keys:
        names = " ".join(golang.quote(name) for name in shape.keys)
        raise _BadItem(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def items_by_element(shape: Shape, items: list[Tree]) -> dict[str, list[Tree]]:
    """Items by path element, in their order.  Raises ValueError for an item without a path element."""
    found: dict[str, list[Tree]] = {}
    for item in elements(items):
        found.setdefault(item_element(shape, item), []).append(item)
    return found


# -- validation ---------------------------------------------------------------------------------------------------


def validate(shape: Shape, value: object, *, allow_duplicates: bool = False) -> None:
    """Raises SchemaError when the value does not fit its type."""
    errors: list[tuple[str, str]] = []
    _validate(shape, value, "", allow_duplicates, errors)
    if errors:
        raise SchemaError(errors)


def _validate(shape: Shape, value: object, path: str, duplicates: bool, errors: list[tuple[str, str]]) -> None:
    form = shape.form(value)
    if form == SCALAR:
        problem = _scalar_problem(shape.scalar, value)
        if problem:
            errors.append((path, problem))
    elif form == MAP:
        if value is None:
            return
        if not isinstance(value, dict):
            errors.append((path, f"expected map, got {_boxed(value)}"))
            return
        for name, entry in entries(value):
            child = shape.child(name)
            if child is None:
                errors.append((f"{path}.{name}", "field not declared in schema"))
                return
            if child is not UNTYPED and child is not DEDUCED:
                _validate(child, entry, f"{path}.{name}", duplicates, errors)
    elif value is not None:
        if not isinstance(value, list):
            errors.append((path, f"expected list, got {_boxed(value)}"))
            return
        _validate_items(shape, value, path, duplicates, errors)


def _validate_items(
    shape: Shape, items: list[Tree], path: str, duplicates: bool, errors: list[tuple[str, str]]
) -> None:
    child = shape.item
    seen: set[str] = set()
    for i, item in enumerate(elements(items)):
        if shape.list_atomic:
            shown = f"[{i}]"
        else:
            try:
                element = item_element(shape, item)
            except _BadItem as error:
                errors.append((path, f"element {i}: {error}"))
                return
            shown = show_element(element)
            if element in seen and not duplicates:
                errors.append((path, f"duplicate entries for key {shown}"))
            seen.add(element)
        if child is not UNTYPED and child is not DEDUCED:
            _validate(child, item, path + shown, duplicates, errors)


def _scalar_problem(scalar: str, value: object) -> str:
    if value is None:
        return ""
    if scalar == "numeric":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return ""
        return f"expected numeric (int or float), got {golang.type_name(value)}"
    if scalar == "string":
        return (
            ""
            if isinstance(value, str)
            else f"expected string, got &value.valueUnstructured{{Value:{golang.syntax(value)}}}"
        )
    if scalar == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got {_boxed(value)}"
    return f"expected any scalar, got {_boxed(value)}" if isinstance(value, (dict, list, golang.GoValue)) else ""


def _boxed(value: object) -> str:
    return "&{" + golang.value_text(value) + "}"


# -- field set ----------------------------------------------------------------------------------------------------


def field_set(shape: Shape, value: object) -> Set:
    """The set of all leaves and list items of a value."""
    return _fields(shape, value)[1]


def _fields(shape: Shape, value: object) -> tuple[bool, Set]:
    """(whether the value itself is a leaf, the set below it)."""
    form = shape.form(value)
    if form == SCALAR:
        return True, MEMBER
    below: Set = {}
    if form == MAP:
        if shape.map_atomic:
            return True, below
        if not isinstance(value, dict):
            return False, below
        for name, entry in entries(value):
            child = shape.child(name)
            if child is None:
                continue
            if child.scalar and not child.is_map:
                below["f:" + name] = MEMBER
                continue
            leaf, deeper = _fields(child, entry)
            node = fieldset.make_node(leaf or entry is None or entry == {} or not shape.declares(name), deeper)
            if node is not None:
                below["f:" + name] = node
        return False, below
    if shape.list_atomic:
        return True, below
    if isinstance(value, list):
        for element, items in entries(items_by_element(shape, value)):
            if len(items) > 1:
                below[element] = MEMBER
            else:
                below[element] = fieldset.make_node(True, _fields(shape.item, items[0])[1])
    return False, below


# -- merge --------------------------------------------------------------------------------------------------------


def merge(shape: Shape, live: object, config: object) -> Tree:
    """The live value with the values of the configuration.  It shares parts of both; neither is changed.

    Raises SchemaError when lists cannot be merged.
    """
    errors: list[tuple[str, str]] = []
    merged = _merge(shape, live, config, "", errors)
    if errors:
        raise SchemaError(errors)
    return None if merged is ABSENT else merged


def _merge(shape: Shape, live: object, config: object, path: str, errors: list[tuple[str, str]]) -> Tree:
    if config is ABSENT:
        return live
    if live is ABSENT and shape.first != LIST:
        return config
    form = shape.form(config)
    if form == MAP and not shape.map_atomic:
        base = live if isinstance(live, dict) else {}
        change = config if isinstance(config, dict) else {}
        if not base and not change:
            return config
        merged = dict(base)
        for name, value in entries(change):
            child = shape.child(name)
            if child is None:
                errors.append((f"{path}.{name}", "schema error: no type found matching: inlined type"))
                return ABSENT
            result = _merge(child, base.get(name, ABSENT), value, f"{path}.{name}", errors)
            if result is not ABSENT:
                merged[name] = result
        return merged
    if form == LIST and not shape.list_atomic:
        old = live if isinstance(live, list) else []
        new = config if isinstance(config, list) else []
        if not old and not new:
            return config
        return _merge_lists(shape, old, new, path, errors)
    return config


def _merge_lists(shape: Shape, live: list[Tree], config: list[Tree], path: str, errors: list[tuple[str, str]]) -> Tree:
    """The items of both lists: the configuration's items in its order, the others at their places in the live list."""
    configured: Object = {}
    for i, item in enumerate(elements(config)):
        try:
            element = item_element(shape, item)
        except _BadItem as error:
            errors.append((path, f"element {i}: {error}"))
            continue
        if element in configured:
            errors.append((path, f"duplicate entries for key {show_element(element)}"))
            continue
        configured[element] = item
    there: list[str] = []
    current: Object = {}
    for i, item in enumerate(elements(live)):
        try:
            element = item_element(shape, item)
        except _BadItem as error:
            errors.append((path, f"element {i}: {error}"))
            continue
        there.append(element)
        # duplicate items are not merged: the configured one replaces them
        current[element] = None if element in current else item
    if errors:
        return ABSENT

    order = list(configured)
    shared = iter([element for element in elements(order) if element in current])
    next_shared = next(shared, None)
    child = shape.item
    merged: list[Tree] = []
    done: set[str] = set()

    def take(element: str) -> None:
        done.add(element)
        below: list[tuple[str, str]] = []
        result = _merge(child, current.get(element, ABSENT), configured[element], path + show_element(element), below)
        if result is not ABSENT:
            merged.append(result)

    left = right = 0
    while left < len(there) or right < len(order):
        if left < len(there) and right < len(order):
            element = there[left]
            if element == order[right]:
                take(element)
                left += 1
                right += 1
                next_shared = next(shared, None)
                continue
            if element in configured and next_shared is not None and next_shared != element:
                left += 1  # it follows later, in the order of the configuration
                continue
        if left < len(there):
            element = there[left]
            if element not in configured:
                merged.append(live[left])
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(order):
            element = order[right]
            take(element)
            right += 1
            if next_shared == element:
                next_shared = next(shared, None)
    return merged or ABSENT


# -- remove -------------------------------------------------------------------------------------------------------


def remove(shape: Shape, value: object, fields: Set) -> Tree:
    """The value without the fields and items of a set; None for one of which nothing is left.

    Lists and maps inside it stay when they become empty, unless they are in the set themselves.
    """
    form = shape.form(value)
    if form == SCALAR or not fields:
        return value
    if form == LIST:
        if not isinstance(value, list) or not value or shape.list_atomic:
            return None
        kept: list[Tree] = []
        for item in elements(value):
            try:
                node = fields.get(item_element(shape, item))
            except _BadItem:
                node = None
            if node is None:
                kept.append(item)
            elif not fieldset.is_member(node):
                kept.append(_remove_below(shape.item, item, node))
        return kept or None
    if not isinstance(value, dict) or not value or shape.map_atomic:
        return None
    left: Object = {}
    for name, entry in entries(value):
        node = fields.get("f:" + name)
        if node is None:
            left[name] = entry
        elif not fieldset.is_member(node):
            child = shape.child(name)
            left[name] = entry if child is None else _remove_below(child, entry, node)
    return left or None


def _remove_below(shape: Shape, value: object, fields: Set) -> Tree:
    left = remove(shape, value, fields)
    return type(value)() if left is None and isinstance(value, (dict, list)) else left


# -- sets and shapes ----------------------------------------------------------------------------------------------


def with_named_fields(shape: Shape | None, fields: Set) -> Set:
    """The set plus each declared field that is the parent of a member (upstream: ``EnsureNamedFieldsAreMembers``)."""
    grown: Set = {}
    for element, node in entries(fields):
        if element == "." or not node:
            grown[element] = node
            continue
        named = element[0] == "f" and shape is not None and shape.is_map
        child: Shape | None = None
        if named and shape is not None:
            child = shape.child(element[2:])
        elif element[0] == "k" and shape is not None and shape.is_list:
            child = shape.item
        below = with_named_fields(child, node)
        if named and shape is not None and shape.declares(element[2:]):
            below = {".": MEMBER, **below}
        grown[element] = below
    return grown
