"""Walks over a value and its shape: validate, field set, compare, merge, remove (upstream: SMD ``typed``).

Values are plain JSON trees; a value that is not there at all is ABSENT, which is not the same as null.
"""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
from kapi.machinery.tree import Object, Tree
from kapi.schema import gotext
from kapi.schema.apply import fieldset
from kapi.schema.apply.fieldset import Set, key_element, show_element, value_element
from kapi.schema.apply.shape import DEDUCED, LIST, MAP, SCALAR, UNTYPED, Shape

_MEMBER: Set = {}


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
    """A list item that cannot be addressed."""


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
        names = " ".join(gotext.quote(name) for name in shape.keys)
        raise _BadItem(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def _elements(shape: Shape, items: list[Tree]) -> dict[str, list[Tree]]:
    """Items by path element, in order of appearance; items that have none are left out."""
    found: dict[str, list[Tree]] = {}
    for item in steps(items):
        try:
            found.setdefault(item_element(shape, item), []).append(item)
        except _BadItem:
            continue
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
        for name, entry in steps(value.items()):
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
    for i, item in enumerate(steps(items)):
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
        return f"expected numeric (int or float), got {gotext.type_name(value)}"
    if scalar == "string":
        return (
            "" if isinstance(value, str) else f"expected string, got &value.valueUnstructured{{Value:{_syntax(value)}}}"
        )
    if scalar == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got {_boxed(value)}"
    return f"expected any scalar, got {_boxed(value)}" if isinstance(value, (dict, list)) else ""


def _boxed(value: object) -> str:
    return "&{" + gotext.text(value) + "}"


def _syntax(value: object) -> str:
    """A value as ``%#v`` shows it."""
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, dict):
        return (
            "map[string]interface {}{"
            + ", ".join(f"{gotext.quote(k)}:{_syntax(value[k])}" for k in sorted(value))
            + "}"
        )
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_syntax, value)) + "}"
    if value is None:
        return "interface {}(nil)"
    return gotext.text(value)


# -- field set ----------------------------------------------------------------------------------------------------


def field_set(shape: Shape, value: object) -> Set:
    """Every leaf and every item that a value mentions."""
    return _fields(shape, value)[1]


def _fields(shape: Shape, value: object) -> tuple[bool, Set]:
    """Whether the value itself is a leaf, and the set below it."""
    form = shape.form(value)
    if form == SCALAR:
        return True, _MEMBER
    below: Set = {}
    if form == MAP:
        if shape.map_atomic:
            return True, below
        if not isinstance(value, dict):
            return False, below
        for name, entry in steps(value.items()):
            child = shape.child(name)
            if child is None:
                continue
            if child.scalar and not child.is_map:
                below["f:" + name] = _MEMBER
                continue
            leaf, deeper = _fields(child, entry)
            node = fieldset.make_node(leaf or entry is None or entry == {} or not shape.declares(name), deeper)
            if node is not None:
                below["f:" + name] = node
        return False, below
    if shape.list_atomic:
        return True, below
    if isinstance(value, list):
        for element, items in steps(_elements(shape, value).items()):
            if len(items) > 1:
                below[element] = _MEMBER
            else:
                below[element] = fieldset.make_node(True, _fields(shape.item, items[0])[1])
    return False, below


# -- compare ------------------------------------------------------------------------------------------------------


class Comparison:
    """What changed from one value to another: three disjoint sets of paths."""

    __slots__ = ("removed", "modified", "added")

    def __init__(self, removed: Set, modified: Set, added: Set) -> None:
        self.removed = removed
        self.modified = modified
        self.added = added

    @property
    def changed(self) -> Set:
        """What the new value set: added or modified."""
        return fieldset.union(self.modified, self.added)

    def without(self, reset: Set) -> Comparison:
        """Leaves out fields and all that is below them."""
        if not reset:
            return self
        return Comparison(
            fieldset.recursive_difference(self.removed, reset),
            fieldset.recursive_difference(self.modified, reset),
            fieldset.recursive_difference(self.added, reset),
        )

    def only(self, pattern: Set) -> Comparison:
        return Comparison(
            fieldset.include_matches(self.removed, pattern),
            fieldset.include_matches(self.modified, pattern),
            fieldset.include_matches(self.added, pattern),
        )


def compare(shape: Shape, old: object, new: object) -> Comparison:
    """The difference between two values of one type, either of which may be null."""
    result = Comparison({}, {}, {})
    _compare(shape, old, new, result)
    return result


def _compare(shape: Shape, old: object, new: object, out: Comparison) -> bool:
    """Fills ``out`` with what lies below two present values; True when the value itself is a modified leaf."""
    form, new_form = shape.form(old), shape.form(new)
    modified = _compare_as(shape, form, old, new, out)
    if new_form != form:
        modified = _compare_as(shape, new_form, old, new, out) or modified
    return modified


def _compare_as(shape: Shape, form: int, old: object, new: object, out: Comparison) -> bool:
    if form == MAP and not shape.map_atomic:
        before = old if isinstance(old, dict) else None
        after = new if isinstance(new, dict) else None
        if before or after:
            _compare_maps(shape, before or {}, after or {}, out)
            return False
    elif form == LIST and not shape.list_atomic:
        first = old if isinstance(old, list) else None
        second = new if isinstance(new, list) else None
        if first or second:
            _compare_lists(shape, first or [], second or [], out)
            return False
    return bool(old != new) or type(old) is not type(new) and (isinstance(old, bool) or isinstance(new, bool))


def _compare_maps(shape: Shape, old: Object, new: Object, out: Comparison) -> None:
    for name, after in steps(new.items()):
        before = old.get(name, ABSENT)
        if before is ABSENT:
            child = shape.child(name)
            if child is not None:
                out.added["f:" + name] = _whole(child, after) if isinstance(after, _COMPOUND) and after else _MEMBER
        elif before is not after and before != after:
            child = shape.child(name)
            if child is not None:
                _descend(child, "f:" + name, before, after, out)
    for name, before in steps(old.items()):
        if name not in new:
            child = shape.child(name)
            if child is not None:
                out.removed["f:" + name] = (
                    _whole(child, before) if isinstance(before, _COMPOUND) and before else _MEMBER
                )


def _descend(shape: Shape, element: str, old: object, new: object, out: Comparison) -> None:
    """Of two values that differ."""
    if not isinstance(old, _COMPOUND) and not isinstance(new, _COMPOUND):
        out.modified[element] = _MEMBER  # a leaf, whatever its shape
        return
    below = Comparison({}, {}, {})
    modified = False
    if type(old) is dict and type(new) is dict and shape.is_map and not shape.map_atomic:
        _compare_maps(shape, old, new, below)
    else:
        modified = _compare(shape, old, new, below)
    if modified or below.modified:
        out.modified[element] = {".": _MEMBER, **below.modified} if modified and below.modified else below.modified
    if below.removed:
        out.removed[element] = below.removed
    if below.added:
        out.added[element] = below.added


def _compare_lists(shape: Shape, old: list[Tree], new: list[Tree], out: Comparison) -> None:
    before, after = _elements(shape, old), _elements(shape, new)
    child = shape.item
    for element, items in steps(before.items()):
        others = after.get(element, ())
        if len(items) == 1 and len(others) == 1:
            if items[0] != others[0]:
                _descend(child, element, items[0], others[0], out)
        elif len(items) > 1 and len(others) > 1:
            if items != others:
                out.modified[element] = _MEMBER
        elif len(items) > 1:
            if others:
                out.added[element] = _whole(child, others[0])
            out.removed[element] = _MEMBER
        else:
            out.removed[element] = _whole(child, items[0])
            if others:
                out.added[element] = _MEMBER
    for element, items in steps(after.items()):
        if element not in before:
            out.added[element] = _whole(child, items[0]) if len(items) == 1 else _MEMBER


def _whole(shape: Shape, value: object) -> Set:
    """The node of a value that the other side has not at all: every path in it, containers too."""
    form = shape.form(value)
    if form == MAP and not shape.map_atomic and value and isinstance(value, dict):
        node: Set = {".": _MEMBER}
        for name, entry in steps(value.items()):
            child = shape.child(name)
            if child is not None:
                if entry and type(entry) in _CONTAINERS:
                    node["f:" + name] = _whole(child, entry)
                else:
                    node["f:" + name] = _MEMBER
        return node
    if form == LIST and not shape.list_atomic and value and isinstance(value, list):
        node = {".": _MEMBER}
        for element, items in steps(_elements(shape, value).items()):
            node[element] = _whole(shape.item, items[0]) if len(items) == 1 else _MEMBER
        return node
    return _MEMBER


_CONTAINERS = frozenset((dict, list))
_COMPOUND = (dict, list)


# -- merge --------------------------------------------------------------------------------------------------------


def merge(shape: Shape, live: object, config: object) -> Tree:
    """The live value with all that the configuration mentions put in.  Parts of both are shared, neither changes.

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
        for name, value in steps(change.items()):
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
    """Items of both; items of the configuration keep its order, those of the live list go where they stood."""
    wanted: Object = {}
    for i, item in enumerate(steps(config)):
        try:
            element = item_element(shape, item)
        except _BadItem as error:
            errors.append((path, f"element {i}: {error}"))
            continue
        if element in wanted:
            errors.append((path, f"duplicate entries for key {show_element(element)}"))
            continue
        wanted[element] = item
    there: list[str] = []
    current: Object = {}
    for i, item in enumerate(steps(live)):
        try:
            element = item_element(shape, item)
        except _BadItem as error:
            errors.append((path, f"element {i}: {error}"))
            continue
        there.append(element)
        # an item that stands there twice is not merged into: the new one takes its place
        current[element] = None if element in current else item
    if errors:
        return ABSENT

    order = list(wanted)
    shared = iter([element for element in steps(order) if element in current])
    next_shared = next(shared, None)
    child = shape.item
    merged: list[Tree] = []
    done: set[str] = set()

    def take(element: str) -> None:
        done.add(element)
        below: list[tuple[str, str]] = []
        result = _merge(child, current.get(element, ABSENT), wanted[element], path + show_element(element), below)
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
            if element in wanted and next_shared is not None and next_shared != element:
                left += 1  # its turn comes with the configuration's order
                continue
        if left < len(there):
            element = there[left]
            if element not in wanted:
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
    """The value without the fields and items of a set; a container that loses everything becomes null."""
    form = shape.form(value)
    if form == SCALAR or not fields:
        return value
    if form == LIST:
        if not isinstance(value, list) or not value or shape.list_atomic:
            return None
        kept: list[Tree] = []
        for item in steps(value):
            try:
                node = fields.get(item_element(shape, item))
            except _BadItem:
                node = None
            if node is None:
                kept.append(item)
            elif not fieldset.is_member(node):
                kept.append(remove(shape.item, item, node))
        return kept or None
    if not isinstance(value, dict) or not value or shape.map_atomic:
        return None
    left: Object = {}
    for name, entry in steps(value.items()):
        node = fields.get("f:" + name)
        if node is None:
            left[name] = entry
        elif not fieldset.is_member(node):
            child = shape.child(name)
            left[name] = entry if child is None else remove(child, entry, node)
    return left or None


# -- sets and shapes ----------------------------------------------------------------------------------------------


def with_named_fields(shape: Shape | None, fields: Set) -> Set:
    """The set with every declared field that leads to a member made a member too."""
    grown: Set = {}
    for element, node in steps(fields.items()):
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
            below = {".": _MEMBER, **below}
        grown[element] = below
    return grown


def reconcile(shape: Shape, fields: Set) -> Set:
    """The set as the schema of today has it: what has become atomic since is owned as a whole."""
    changed = _reconcile(shape, fields)
    return fields if changed is None else changed


def _reconcile(shape: Shape, fields: Set) -> Set | None:
    """The new set of children, or None when nothing changes."""
    result: Set | None = None
    for element, node in steps(fields.items()):
        if element == "." or not node:
            continue
        if shape.first == MAP:
            child = shape.child(element[2:]) if element[0] == "f" else shape.elem
        else:
            child = shape.item if shape.is_list else None
        if child is None or child is DEDUCED:
            continue
        if child.first == MAP:
            collapse = child.map_atomic and not (child.elem is DEDUCED and not child.type_has_fields)
        elif child.first == LIST:
            collapse = child.list_atomic
        else:
            continue
        below = _MEMBER if collapse else _reconcile(child, node)
        if below is not None and below is not node:
            if result is None:
                result = dict(fields)
            if collapse:
                result[element] = _MEMBER
            else:
                result[element] = below
    return result
