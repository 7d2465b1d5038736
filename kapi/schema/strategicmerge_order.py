"""The order of list items after a strategic merge patch (upstream: apimachinery ``strategicpatch``, ``setElementOrder``)."""

from __future__ import annotations

from kapi.machinery import golang
from kapi.machinery.each import elements
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.schema.listindex import Index, PatchError, mark
from kapi.schema.strategicmerge_directives import DIRECTIVE, ELEMENT_ORDER

_MAX_INSERTION_SORTED = 20  # items: Go's stable sort uses insertion sort up to here


ORDER_FORMAT = "invalid patch format of setElementOrder list"


def received(value: object) -> str:
    return "%!s(<nil>)" if value is None else golang.type_name(value)


def check_order(new: list[Tree], order: list[Tree], merge_key: str) -> None:
    """Raises PatchError unless all items of a patch list, except deletions, are in the order list in the same order."""
    if not order or not new:
        return
    items = [item for item in elements(new) if not (isinstance(item, dict) and DIRECTIVE in item)] if merge_key else new
    if merge_key:
        for item in elements(new):
            if not isinstance(item, dict):
                raise PatchError(f"expected a map[string]interface {{}}, but received a {received(item)}")
    position = 0
    for expected in elements(order):
        if position >= len(items):
            break
        if _merge_value(items[position], merge_key) == _merge_value(expected, merge_key):
            position += 1
    if position < len(items):
        raise PatchError(
            f"The order in patch list:\n{golang.value_text(new)}\n"
            f" doesn't match {ELEMENT_ORDER} list:\n{golang.value_text(order)}\n"
        )


def _merge_value(item: object, merge_key: str) -> Tree:
    if not merge_key:
        return item
    if not isinstance(item, dict):
        raise PatchError(f"expected a map[string]interface {{}}, but received a {received(item)}")
    if merge_key not in item:
        raise no_merge_key(item, merge_key)
    return item[merge_key]


def no_merge_key(item: Object, merge_key: str) -> PatchError:
    return PatchError(f"map: {golang.value_text(item)} does not contain declared merge key: {merge_key}")


def partition(items: list[Tree], by: list[Tree], merge_key: str) -> tuple[list[Tree], list[Tree]]:
    """Items that are in another list, and the others."""
    inside: list[Tree] = []
    outside: list[Tree] = []
    if merge_key:
        index = Index(by, merge_key)
        for item in elements(items):
            (inside if index.find(_merge_value(item, merge_key)) >= 0 else outside).append(item)
        return inside, outside
    marks = set(map(mark, elements(by)))
    for item in elements(items):
        (inside if mark(item) in marks else outside).append(item)
    return inside, outside


def _place_of(placed: tuple[int, Tree]) -> int:
    return placed[0]


def in_order(
    patched: list[Tree], others: list[Tree], order: list[Tree], live: list[Tree], merge_key: str
) -> list[Tree]:
    """Merges ``patched``, sorted by ``order``, and ``others``, sorted by ``live``; between both the order of ``live`` counts."""

    def address(item: object) -> Tree:
        return mark(item.get(merge_key) if merge_key and isinstance(item, dict) else item)

    def placed_by(order: list[Tree]) -> dict[Tree, int]:
        places: dict[Tree, int] = {}
        for i, item in enumerate(elements(order)):
            places.setdefault(address(item), i)
        return places

    def arranged(items: list[Tree], places: dict[Tree, int]) -> list[Tree]:
        placed = [(places.get(address(item), -1), item) for item in elements(items)]
        if len(placed) > _MAX_INSERTION_SORTED or all(at >= 0 for at, _ in placed):
            return [item for _, item in elements(ordered(placed, _place_of))]
        # upstream's comparison returns "less" for items without a place; insertion sort then gives this result
        for i in range(1, len(placed)):
            j = i
            while j > 0 and (min(placed[j][0], placed[j - 1][0]) < 0 or placed[j][0] < placed[j - 1][0]):
                placed[j], placed[j - 1] = placed[j - 1], placed[j]
                j -= 1
        return [item for _, item in elements(placed)]

    in_live = placed_by(live)
    right = arranged(patched, placed_by(order))
    left = arranged(others, in_live)
    left_places = [in_live.get(address(item), -1) for item in elements(left)]
    right_places = [in_live.get(address(item), -1) for item in elements(right)]
    result: list[Tree] = []
    i = j = 0
    for _ in elements(range(len(left) + len(right))):
        if i >= len(left):
            take_left = False
        elif j >= len(right):
            take_left = True
        else:
            take_left = 0 <= left_places[i] < right_places[j]
        if take_left:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result
