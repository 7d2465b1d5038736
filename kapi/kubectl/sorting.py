"""``--sort-by`` (upstream: kubectl ``cmd/get/sorter.go``)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from kapi.kubectl.jsonpath import Template, relaxed
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import type_name
from kapi.machinery.jsonpath import JSONPathError
from kapi.machinery.tree import Tree

Item = TypeVar("Item")


class Unsortable(CommandError):
    """Values that have no order."""


def sort_by(items: Sequence[Item], field: str, object_of: Callable[[Item], Tree]) -> list[Item]:
    """The items sorted by a field; those without it come first.  Raises CommandError when no item has it, and Unsortable."""
    try:
        template = Template(relaxed(field))
        values = [_first(template.find(object_of(item))) for item in items]
    except JSONPathError as error:
        raise CommandError(str(error)) from None
    if items and all(value is _NONE for value in values):
        raise CommandError(f'couldn\'t find any field with path "{relaxed(field)}" in the list of objects')
    pairs = sorted(zip(values, items, strict=True), key=functools.cmp_to_key(_pairs))
    return [item for _, item in pairs]


_NONE = object()


def _first(found: list[list[Tree]]) -> Tree:
    return found[0][0] if found and found[0] else _NONE


def _pairs(left: tuple[Tree, Tree], right: tuple[Tree, Tree]) -> int:
    return _order(left[0], right[0])


def _order(left: object, right: object) -> int:
    if left is _NONE or right is _NONE:
        return (right is _NONE) - (left is _NONE)
    if isinstance(left, str) and isinstance(right, str):
        first, second = _quantity(left), _quantity(right)
        if first is not None and second is not None:
            return int(first > second) - int(first < second)
        return int(left > right) - int(left < right)  # digits are compared as characters
    if isinstance(left, int | float) and isinstance(right, int | float):
        return int(left > right) - int(left < right)
    raise Unsortable(f"unsortable type: {type_name(left)}")


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
