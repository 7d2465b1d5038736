"""JSON patch, RFC 6902, with the semantics of the library that upstream uses (evanphx/json-patch v4).

The library differs from the RFC: negative array indices count from the end, ``replace`` and ``copy`` accept a missing member of
an object, and the root can be replaced but neither added nor removed.
Limits as upstream: 10,000 operations, 3 MiB of copied bytes.

A patch may insert ten thousand values at the front of a list of a million.  So a long list consists of pieces of bounded length:
an operation looks at the lengths of the pieces and moves only the items of one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapi.codecs import json_pieces
from kapi.codecs.json_reading import MAX_PROBLEMS, Duplicated, duplicates, kind_of
from kapi.machinery import golang, tree
from kapi.machinery.checkpoint import engage
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import NumberError, parse_int, quote
from kapi.machinery.status import BadRequest, Invalid, RequestTooLarge
from kapi.machinery.tree import Object, Tree

LONG = 4096  # items from which a LongList is used
_PIECE_ITEMS = 2048  # of a new piece; it is divided when it has twice as many
MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
_OPERATION_FIELDS = {"op": "string", "path": "string", "from": "string", "value": ""}


class LongList:
    """The methods of a list that patches need; indices must be within bounds and not negative."""

    __slots__ = ("_length", "_pieces")

    def __init__(self, items: list[Tree]) -> None:
        self._pieces = [items[start : start + _PIECE_ITEMS] for start in range(0, len(items), _PIECE_ITEMS)] or [[]]
        self._length = len(items)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Tree]:
        for piece in self._pieces:
            yield from piece

    def _place(self, index: int) -> tuple[int, int]:
        """(piece, index in it) of an item; the list's end belongs to the last piece."""
        for number, piece in enumerate(self._pieces):
            if index < len(piece):
                return number, index
            index -= len(piece)
        last = len(self._pieces) - 1
        return last, len(self._pieces[last])

    def __getitem__(self, index: int) -> Tree:
        number, place = self._place(index)
        return self._pieces[number][place]

    def __setitem__(self, index: int, value: object) -> None:
        number, place = self._place(index)
        self._pieces[number][place] = value

    def __delitem__(self, index: int) -> None:
        number, place = self._place(index)
        del self._pieces[number][place]
        self._length -= 1

    def insert(self, index: int, value: object) -> None:
        number, place = self._place(index)
        piece = self._pieces[number]
        piece.insert(place, value)
        self._length += 1
        if len(piece) > 2 * _PIECE_ITEMS:
            self._pieces[number : number + 1] = [piece[:_PIECE_ITEMS], piece[_PIECE_ITEMS:]]

    def append(self, value: object) -> None:
        self.insert(self._length, value)


def plain(value: Tree) -> Tree:
    """A deep copy of a tree with lists in place of LongLists."""
    kind = type(value)
    if kind is dict:
        return {key: plain(item) if type(item) in _CONTAINERS else item for key, item in entries(value)}
    if kind is list or kind is LongList:
        return [plain(item) if type(item) in _CONTAINERS else item for item in elements(value)]
    return value


Container = Object | list[Tree] | LongList
_CONTAINERS = (dict, list, LongList)


class PatchError(ValueError):
    """An operation that does not apply; the text is the library's."""


class TestFailed(PatchError):
    """A test operation found another value."""

    __test__ = False


def decode(value: object, *, strict: bool) -> tuple[list[Object], list[str]]:
    """Checks a parsed patch document; returns its operations and the errors of strict decoding (without their prefix).

    The errors are unknown fields and duplicate keys, in the order of the text.
    ``strict`` is true for field validation Warn and Strict.  Raises BadRequest and RequestTooLarge.
    """
    prefix, whole = ("error decoding patch: ", "[]handlers.jsonPatchOp") if strict else ("", "jsonpatch.Patch")
    if value is None:
        return [], []
    if not isinstance(value, list):
        raise BadRequest(f"{prefix}json: cannot unmarshal {kind_of(value)} into Go value of type {whole}")
    item = "handlers.jsonPatchOp" if strict else "jsonpatch.Operation"
    problems: list[str] = []
    operations: list[Object] = []
    for i, operation in enumerate(elements(value)):
        if operation is None:
            operations.append({})
            continue
        if not isinstance(operation, dict):
            raise BadRequest(f"{prefix}json: cannot unmarshal {kind_of(operation)} into Go value of type {item}")
        if strict:
            seen = set()
            for key, part in elements(operation.pairs if isinstance(operation, Duplicated) else operation.items()):
                path = f"[{i}].{key}"
                if key not in _OPERATION_FIELDS:
                    problems.append(f"json patch unknown field {quote(path)}")
                    continue
                if key in seen:
                    problems.append(f"json patch duplicate field {quote(path)}")
                seen.add(key)
                if _OPERATION_FIELDS[key] and part is not None and not isinstance(part, str):
                    raise BadRequest(
                        f"{prefix}json: cannot unmarshal {kind_of(part)} into Go struct field "
                        f"jsonPatchOp.{key} of type string"
                    )
                problems.extend(f"json patch duplicate field {quote(below)}" for below in duplicates(part, path))
        operations.append(operation)
    check_size(operations)
    return operations, list(dict.fromkeys(problems))[:MAX_PROBLEMS]


def check_size(operations: list[Object]) -> None:
    """Raises RequestTooLarge for more than 10,000 operations."""
    if len(operations) > MAX_OPERATIONS:
        raise RequestTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )


def apply(document: object, operations: list[Object]) -> Tree:
    """The patched document; the given one is not changed.

    Raises RequestTooLarge for too many operations and Invalid (422) where upstream answers so.
    """
    check_size(operations)
    try:
        return patched(document, operations)
    except PatchError as error:
        raise Invalid("the server rejected our request due to an error in our request", details={}) from error


def patched(document: object, operations: list[Object], *, sharing: bool = False) -> Tree:
    """Like ``apply`` but raises PatchError with the library's text.

    ``sharing``: parts that no operation reaches are not copied, but shared with the given document.
    """
    run = _SharingRun(document) if sharing else _Run(tree.copy(document))
    for operation in elements(operations):
        run.one(operation)
    return run.result()


class _Run:
    """One application of a patch: the document and the number of copied bytes."""

    def __init__(self, document: Tree) -> None:
        self.document = document
        self.copied = 0
        self.long = False  # whether there are long lists in the document

    def result(self) -> Tree:
        return plain(self.document) if self.long else self.document

    def own(self, container: Container, parent: Tree, key: str) -> Container:
        """The container at a key of its parent (None at the root), after it was made changeable for operations."""
        return container

    def one(self, operation: Object) -> None:
        kind = operation.get("op")
        action = _ACTIONS.get(kind) if isinstance(kind, str) else None
        if action is None:
            raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        action(self, operation)

    def find(self, path: str) -> tuple[Container | None, str]:
        """(the container of a path's target, the last token); the container is None when the path does not exist."""
        parts = path.split("/")
        if len(parts) < 2:
            return None, ""
        node, parent, key = self.document, None, ""
        for part in parts[1:-1]:
            node = self.own(node, parent, key)
            parent, key = node, _unescape(part)
            try:
                node = _get(node, key)
            except PatchError:
                return None, ""
            if not isinstance(node, _CONTAINERS):
                return None, ""
        if not isinstance(node, _CONTAINERS):
            return None, ""
        if type(node) is list and len(node) >= LONG:
            node = self._lengthened(node, parent, key)
        return self.own(node, parent, key), _unescape(parts[-1])

    def _source(self, operation: Object, kind: str) -> tuple[str, Container, str]:
        """Where a value is taken from: the path, its container and the last token."""
        source = _member(
            operation, "from", f"{kind} operation failed to decode from: operation, missing from field: missing value"
        )
        container, key = self.find(source)
        if container is None:
            raise PatchError(f"{kind} operation does not apply: doc is missing from path: {source}: missing value")
        return source, container, key

    def _lengthened(self, items: list[Tree], parent: Tree, key: str) -> LongList:
        """Replaces a list that an operation is about to change by a LongList."""
        self.long = True
        long = LongList(items)
        self.put(long, parent, key)
        return long

    def put(self, container: Container, parent: Tree, key: str) -> None:
        """Replaces what the parent has at the key."""
        if parent is None:
            self.document = container
        elif isinstance(parent, dict):
            parent[key] = container
        else:
            index = _index(key)
            parent[index + len(parent) if index < 0 else index] = container

    def add(self, operation: Object) -> None:
        path = _member(operation, "path", "add operation failed to decode path: missing value")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f'add operation does not apply: doc is missing path: "{path}": missing value')
        _wrapped(f"error in add for path: '{path}'", _add, container, key, tree.copy(operation.get("value")))

    def remove(self, operation: Object) -> None:
        path = _member(operation, "path", "remove operation failed to decode path: missing value")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f'remove operation does not apply: doc is missing path: "{path}": missing value')
        _wrapped(f"error in remove for path: '{path}'", _remove, container, key)

    def replace(self, operation: Object) -> None:
        path = _member(
            operation, "path", "replace operation failed to decode path: operation missing path field: missing value"
        )
        value = tree.copy(operation.get("value"))
        if path == "":
            if not isinstance(value, (dict, list)):
                raise PatchError("replace operation value must be object or array: %!w(<nil>)")
            self.document = value
            return
        container, key = self.find(path)
        if container is None:
            raise PatchError(f"replace operation does not apply: doc is missing path: {path}: missing value")
        try:
            _get(container, key)
        except PatchError:
            raise PatchError(f"replace operation does not apply: doc is missing key: {path}: missing value") from None
        if isinstance(container, dict):
            container[key] = value
        else:
            index = _index(key)
            container[index + len(container) if index < 0 else index] = value

    def move(self, operation: Object) -> None:
        _, taken, key = self._source(operation, "move")
        value = _wrapped(f"error in move for path: '{key}'", _get, taken, key)
        _wrapped(f"error in move for path: '{key}'", _remove, taken, key)
        path = _member(
            operation, "path", "move operation failed to decode path: operation missing path field: missing value"
        )
        container, key = self.find(path)
        if container is None:
            raise PatchError(f"move operation does not apply: doc is missing destination path: {path}: missing value")
        _wrapped(f"error in move for path: '{path}'", _add, container, key, value)

    def test(self, operation: Object) -> None:
        path = _member(
            operation, "path", "test operation failed to decode path: operation missing path field: missing value"
        )
        if path == "":
            found = self.document
        else:
            container, key = self.find(path)
            if container is None:
                raise PatchError(f"test operation does not apply: is missing path: {path}: missing value")
            found = _wrapped(f"error in test for path: '{path}'", _get, container, key)
        if not same(found, operation.get("value")):
            raise TestFailed(f"testing value {path} failed: test failed")

    def copy(self, operation: Object) -> None:
        source, taken, key = self._source(operation, "copy")
        value = _wrapped(f"error in copy for from: '{source}'", _get, taken, key)
        path = _member(operation, "path", "copy operation failed to decode path: missing value")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f"copy operation does not apply: doc is missing destination path: {path}: missing value")
        value = plain(value) if self.long else tree.copy(value)
        if value is not None:
            engage()  # repeated copies of copies make a large document
            self.copied += len(json_pieces.dumps(value))
        if self.copied > MAX_COPIED_BYTES:
            raise PatchError(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self.copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        _wrapped("error while adding value during copy", _add, container, key, value)


class _SharingRun(_Run):
    """Copies a container, but not what is in it, when a path first leads into it."""

    def __init__(self, document: Tree) -> None:
        super().__init__(document)
        self._owned: dict[int, Container] = {}  # by id

    def own(self, container: Container, parent: Tree, key: str) -> Container:
        if not isinstance(container, _CONTAINERS) or id(container) in self._owned:
            return container
        mine: Container = container
        if type(container) is not LongList:
            mine = dict(container) if isinstance(container, dict) else list(container)
            self.put(mine, parent, key)
        self._owned[id(mine)] = mine
        return mine

    def result(self) -> Tree:
        if not self.long:
            return self.document
        for container in elements(self._owned.values()):  # a long list is in one of these
            if isinstance(container, dict):
                for key, item in entries(container):
                    if type(item) is LongList:
                        container[key] = _shortened(item)
            elif isinstance(container, list):
                container[:] = map(_shortened, elements(container))
        return _shortened(self.document)


def _shortened(item: Tree) -> Tree:
    """A list in place of a LongList, also of those that are its items."""
    return list(map(_shortened, elements(item))) if type(item) is LongList else item


_ACTIONS = {
    "add": _Run.add,
    "remove": _Run.remove,
    "replace": _Run.replace,
    "move": _Run.move,
    "test": _Run.test,
    "copy": _Run.copy,
}


def same(one: Tree, other: Tree) -> bool:
    """Equality for ``test``: ``1``, ``1.0`` and ``true`` are different values."""
    if type(one) is not type(other) and type(one) is not LongList:
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(key in other and same(item, other[key]) for key, item in entries(one))
    if isinstance(one, (list, LongList)):
        return type(other) is list and len(one) == len(other) and all(map(same, elements(one), other))
    return bool(one == other)


def _member(operation: Object, name: str, missing: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise PatchError(missing)
    return value


def _wrapped(prefix: str, action: Callable[..., Tree], *arguments: Tree) -> Tree:
    try:
        return action(*arguments)
    except PatchError as error:
        raise PatchError(f"{prefix}: {error}") from None


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def _index(key: str) -> int:
    try:
        return parse_int(key)
    except NumberError as error:
        raise PatchError(f"strconv.Atoi: parsing {golang.quote(key)}: {error}") from None


def _bounded(index: int, low: int, high: int) -> int:
    if not low <= index < high:
        raise PatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index


def _get(container: object, key: str) -> Tree:
    if isinstance(container, dict):
        return container.get(key)
    if not isinstance(container, (list, LongList)):
        raise PatchError("unknown object type")
    size = len(container)
    index = _bounded(_index(key), -size, size)
    return container[index + size if index < 0 else index]


def _add(container: Container, key: str, value: object) -> None:
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    try:
        index = _index(key)
    except PatchError as error:
        raise PatchError(f"value was not a proper array index: '{key}': {error}") from None
    size = len(container) + 1
    index = _bounded(index, -size, size)
    container.insert(index + size if index < 0 else index, value)


def _remove(container: Container, key: str) -> None:
    if isinstance(container, dict):
        if key not in container:
            raise PatchError(f"Unable to remove nonexistent key: {key}: missing value")
        del container[key]
        return
    size = len(container)
    index = _bounded(_index(key), -size, size)
    del container[index + size if index < 0 else index]
