"""Strategic merge patch: directives, merge keys and element order (upstream: apimachinery ``util/strategicpatch``).

The patch strategy and merge key of a field come from ``kapi.schema.types.Field``.  Directives: ``$patch: replace |
delete | merge``, ``$retainKeys``, ``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>``.
"""

from __future__ import annotations

from kapi.codecs.json_reading import kind_of
from kapi.machinery import golang, tree
from kapi.machinery.each import elements, entries
from kapi.machinery.sorting import ordered
from kapi.machinery.status import BadRequest, Invalid, StatusError
from kapi.machinery.tree import Object, Tree
from kapi.schema.listindex import Index, PatchError, mark, typed_mark
from kapi.schema.types import Field, Kind, Type

DIRECTIVE = "$patch"

RETAIN_KEYS = "$retainKeys"

DELETE_FROM = "$deleteFromPrimitiveList"

ELEMENT_ORDER = "$setElementOrder"

_MAX_INSERTION_SORTED = 20  # items: Go's stable sort uses insertion sort up to here

ORDER_FORMAT = "invalid patch format of setElementOrder list"
_PRIMITIVE_FORMAT = "invalid patch format of primitive list"
_RETAIN_FORMAT = "invalid patch format of retainKeys"


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
        if len(placed) > _MAX_INSERTION_SORTED:
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


class BadFormat(PatchError):
    """A malformed directive: 400."""


class ListOfLists(PatchError):
    """A list of lists cannot be merged: 422."""

    def __init__(self) -> None:
        super().__init__("lists of lists are not supported")


def decode(value: object) -> Object:
    """Checks a parsed patch document.  Raises BadRequest."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"json: cannot unmarshal {kind_of(value)} into Go value of type map[string]interface {{}}")
    return value


def apply(document: Object, change: Object, type_: Type | None) -> Object:
    """The patched document, which may share values with the patch.  Raises StatusError as upstream answers.

    What the application uses up is removed from the patch, as upstream does: directives, and nulls of new values.
    """
    try:
        return patched(document, change, type_)
    except BadFormat as error:
        raise BadRequest(str(error)) from None
    except ListOfLists as error:
        raise Invalid("the server rejected our request due to an error in our request", details={}) from error
    except PatchError as error:
        raise StatusError(str(error)) from None


def patched(document: Object, change: Object, type_: Type | None) -> Object:
    """Like ``apply`` but raises PatchError with upstream's text."""
    result = _merge_maps(tree.copy(document), change, type_)
    return {**change} if result is change else result


# -- types --------------------------------------------------------------------------------------------------------


def _field(type_: Type | None, name: str) -> Field | None:
    """The field of a member of a map, or None below values without declared fields.  Raises PatchError."""
    if type_ is None:
        return None
    if type_.kind is Kind.MAP:
        raise PatchError("merging an object in json but data type is not struct, instead is: map")
    if type_.kind is Kind.ANY and type_.name != "RawExtension":
        return None
    field = type_.fields.get(name)
    if field is None:
        if type_.preserve_unknown:
            return None
        raise PatchError(f"unable to find api field in struct {type_.name} for the json field {golang.quote(name)}")
    return field


def _strategy(field: Field | None) -> str:
    """The strategy without retainKeys: "", "merge" or "replace"."""
    strategies = field.patch_strategy.split(",") if field is not None and field.patch_strategy else []
    others = [name for name in strategies if name != "retainKeys"]
    if len(others) > 1:
        raise PatchError(f"unexpected patch strategy: [{' '.join(strategies)}]")
    return others[0] if others else ""


def _item_type(field: Field | None) -> Type | None:
    if field is None:
        return None
    if field.type.kind is Kind.LIST:
        return field.type.elem
    return field.type


# -- maps ---------------------------------------------------------------------------------------------------------


def _merge_maps(original: Object | None, change: Object, type_: Type | None) -> Object:
    """Merges a patch into a map; both may be changed."""
    if DIRECTIVE in change:
        directive = change[DIRECTIVE]
        if directive == "replace":
            del change[DIRECTIVE]
            return change
        if directive == "delete":
            return {}
        raise PatchError(f"unknown patch type: {_directive_text(directive)} in map: {golang.value_text(change)}")
    original = {} if original is None else original
    _retain_keys(original, change)
    _element_orders(original, change, type_)
    for key, value in entries(change):
        deletion = key.startswith(DELETE_FROM)
        if deletion:
            key = _after_slash(key, DELETE_FROM, _PRIMITIVE_FORMAT)
        if value is None:
            original.pop(key, None)
            continue
        if key not in original or type(original[key]) is not type(value):
            if not deletion:
                _discard_nulls(value)
                _take(original, key, value)
            continue
        if isinstance(value, dict):
            field = _field(type_, key)
            if _strategy(field) == "replace":
                original[key] = value
            else:
                original[key] = _merge_maps(original[key], value, field.type if field else None)
        elif isinstance(value, list):
            field = _field(type_, key)
            if _strategy(field) == "merge" or deletion:
                original[key] = _merge_lists(original[key], value, field, deletion)
            else:
                original[key] = value
        else:
            original[key] = value
    return original


def _take(original: Object, key: str, value: object) -> None:
    """Sets a value for which there is none to merge with; a value with a directive is dropped."""
    if _is_directive(value):
        original.pop(key, None)
    else:
        original[key] = _without_directives(value)


def _is_directive(value: object) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _without_directives(value: object) -> Tree:
    """A value without directives: maps are changed in place, lists are copied."""
    if isinstance(value, dict):
        for key, item in elements(list(value.items())):
            if _is_directive(item):
                del value[key]
            else:
                value[key] = _without_directives(item)
        return value
    if isinstance(value, list):
        return [_without_directives(item) for item in elements(value) if not _is_directive(item)]
    return value


def _discard_nulls(value: object) -> None:
    """Removes members that are null, however deep; elements of lists stay."""
    if isinstance(value, dict):
        for key, item in elements(list(value.items())):
            if item is None:
                del value[key]
            else:
                _discard_nulls(item)
    elif isinstance(value, list):
        for item in elements(value):
            _discard_nulls(item)


def _directive_text(value: object) -> str:
    """A directive in the form of ``%s``."""
    if isinstance(value, str):
        return value
    if value is None:
        return "%!s(<nil>)"
    return f"%!s({golang.type_name(value)}={golang.value_text(value)})"


def _after_slash(key: str, prefix: str, problem: str) -> str:
    start, slash, name = key.partition("/")
    if not slash or start != prefix:
        raise BadFormat(problem)
    return name


def _retain_keys(original: Object, change: Object) -> None:
    """Removes keys that ``$retainKeys`` does not list.  Raises BadFormat when the patch sets such a key."""
    if RETAIN_KEYS not in change:
        return
    given = change.pop(RETAIN_KEYS)
    if not isinstance(given, list):
        raise BadFormat(_RETAIN_FORMAT)
    listed = {key for key in given if isinstance(key, str)}
    for key, value in entries(change):
        if value is not None and not key.startswith((DELETE_FROM, ELEMENT_ORDER)) and key not in listed:
            raise BadFormat(_RETAIN_FORMAT)
    for key in elements(list(original)):
        if key not in listed:
            del original[key]


# -- order --------------------------------------------------------------------------------------------------------


def _element_orders(original: Object, change: Object, type_: Type | None) -> None:
    """Merges each list with a ``$setElementOrder`` and sorts it by that; these lists are removed from the patch."""
    for directive in [key for key in elements(change) if key.startswith(ELEMENT_ORDER)]:
        order = change.pop(directive)
        if not isinstance(order, list):
            raise PatchError(f"expected a []interface {{}}, but received a {received(order)}")
        key = _after_slash(directive, ELEMENT_ORDER, ORDER_FORMAT)
        there, new = original.get(key), change.get(key)
        for name, value in ((key, there), (key, new)):
            holder = original if value is there else change
            if name in holder and not isinstance(value, list):
                raise PatchError(f"expected a []interface {{}}, but received a {received(value)}")
        field = _field(type_, key)
        strategy = _strategy(field)
        merge_key = field.patch_merge_key if field is not None else ""
        check_order(new or [], order, merge_key)
        if key in original and key not in change:
            merged = there or []
        elif key not in original and key in change:
            merged = _without_directives(new)
        elif key in original:
            assert there is not None and new is not None
            merged = _merge_lists(there, new, field, deletion=False) if strategy == "merge" else new
        else:
            continue
        first, rest = partition(merged, order, merge_key)
        _same_kinds(there or [], new or [])
        original[key] = in_order(first, rest, order, there or [], merge_key)
        change.pop(key, None)


# -- lists --------------------------------------------------------------------------------------------------------


def _merge_lists(original: list[Tree], new: list[Tree], field: Field | None, deletion: bool) -> list[Tree]:
    """Merges lists with the merge strategy; both may be changed."""
    if not original and not new:
        return original
    sample = _same_kinds(original, new)
    merge_key = field.patch_merge_key if field is not None else ""
    if not isinstance(sample, dict):
        if deletion:
            gone = set(map(mark, elements(new)))
            return [item for item in elements(original) if mark(item) not in gone]
        distinct: dict[Tree, Tree] = {}
        for item in elements((*original, *new)):
            distinct.setdefault(mark(item), item)
        merged = list(distinct.values())
        first, rest = partition(merged, new, merge_key)
        return in_order(first, rest, new, original, merge_key)
    if not merge_key:
        raise PatchError("cannot merge lists without merge key for struct")
    given = original
    original, new = _list_directives(original, new, merge_key)
    item_type = _item_type(field)
    result = list(original)
    index = Index(result, merge_key)
    for item in elements(new):
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
        value = item[merge_key]
        at = index.find(value)
        if at >= 0:
            result[at] = _merge_maps(result[at], item, item_type)
            index.check(at, value)
        else:
            result.append(item)
            index.appended(item)
    if original is not given and original:
        # Upstream deletes in place, so a caller that sorts by the given list finds new items in the freed places.
        # Clients see the resulting order.
        kept = len(original)
        added = result[kept : len(given)]
        given[:] = [*original, *added, *given[kept + len(added) :]]
    first, rest = partition(result, new, merge_key)
    return in_order(first, rest, new, original, merge_key)


def _list_directives(original: list[Tree], new: list[Tree], merge_key: str) -> tuple[list[Tree], list[Tree]]:
    """Executes items that are directives; returns the remaining original and the plain new items."""
    plain: list[Tree] = []
    gone: set[object] = set()
    replaced = False
    for item in elements(new):
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[DIRECTIVE]
        if directive == "delete":
            if merge_key not in item:
                raise no_merge_key(item, merge_key)
            gone.add(typed_mark(item[merge_key]))
        elif directive == "replace":
            replaced = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch")
        else:
            raise PatchError(f"unknown patch type: {_directive_text(directive)} in map: {golang.value_text(item)}")
    if replaced:
        return plain, []
    if gone:
        left = [item for item in elements(original) if merge_key not in item or typed_mark(item[merge_key]) not in gone]
        if len(left) < len(original):
            return left, plain
    return original, plain


def _same_kinds(*lists: list[Tree]) -> Tree:
    """The first item.  Raises PatchError when items have different JSON types or are lists, or without any."""
    sample: Tree = None
    first = True
    for items in elements(lists):
        for item in elements(items):
            if first:
                if isinstance(item, list):
                    raise ListOfLists()
                sample, first = item, False
            elif type(item) is not type(sample):
                raise PatchError(f"list element types are not identical: {golang.value_text(list(lists))}")
    if first:
        raise PatchError("no elements in any of the given slices")
    return sample
