"""``--sort-by`` (upstream: kubectl ``cmd/get/sorter.go``)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from kapi.kubectl.jsonpath import Template, relaxed
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import quote, type_name
from kapi.machinery.jsonpath import JSONPathError
from kapi.machinery.tree import Tree

Item = TypeVar("Item")


class Unsortable(CommandError):
    """Values that have no order."""


def sort_by(
    items: Sequence[Item], field: str, object_of: Callable[[Item], Tree], *, templates: bool = False
) -> list[Item]:
    """The items sorted by a field, or by the first of a template's when there may be ``templates``; those without it come first.

    Raises CommandError when no item has it or the path is wrong, and Unsortable.
    """
    try:
        path = _path(field, templates)
        template = Template(path)
        values = [_first(template.find(object_of(item))) for item in items]
    except JSONPathError as error:
        raise CommandError(str(error)) from None
    if items and all(value is _NONE for value in values):
        raise CommandError(f"couldn't find any field with path {quote(path)} in the list of objects")
    pairs = list(zip(values, items, strict=True))
    if len(pairs) <= MAX_INSERTED:
        _insert(pairs)
    else:
        pairs.sort(key=functools.cmp_to_key(_pairs))
    return [item for _, item in pairs]


MAX_INSERTED = 12  # items that Go sorts by insertion
_NONE = object()


def _insert(pairs: list[tuple[Tree, Item]]) -> None:
    """Sorts by insertion, as Go for few items: an item without a value is less than all others, so these are reversed."""
    for end in range(1, len(pairs)):
        place = end
        while place and _less(pairs[place][0], pairs[place - 1][0]):
            pairs[place - 1 : place + 1] = reversed(pairs[place - 1 : place + 1])
            place -= 1


def _path(field: str, templates: bool) -> str:
    """The path.  Raises JSONPathError for an invalid path, unless it may be a template."""
    try:
        return relaxed(field)
    except JSONPathError:
        if templates:
            return field
        raise


def _first(found: list[list[Tree]]) -> Tree:
    return found[0][0] if found and found[0] else _NONE


def _pairs(left: tuple[Tree, Tree], right: tuple[Tree, Tree]) -> int:
    first, second = left[0], right[0]
    if first is _NONE or second is _NONE:
        return (second is _NONE) - (first is _NONE)
    return _less(second, first) - _less(first, second)


def _less(left: object, right: object) -> bool:
    if left is _NONE or right is _NONE:
        return left is _NONE
    if left is None or right is None:
        return left is None and right is not None
    if isinstance(left, bool | dict | list):
        raise Unsortable(f"unsortable type: {type_name(left)}")
    if isinstance(left, str) and isinstance(right, str):
        first, second = _quantity(left), _quantity(right)
        if first is not None and second is not None:
            return first < second
        return left < right  # digits are compared as characters
    if isinstance(left, int | float) and type(left) is type(right):
        return left < right
    raise Unsortable("unsortable interface: interface")


_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def _quantity(text: str) -> Fraction | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix.endswith("i"):
        scale: int = 1024 ** ("KMGTPE".index(suffix[0]) + 1)
        return number * scale
    power = int(match[3]) if match[3] else _SUFFIXES.get(suffix, 0)
    tens: int = 10 ** abs(power)
    return number * tens if power >= 0 else number / tens
