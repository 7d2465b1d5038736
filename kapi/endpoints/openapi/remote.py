"""What the servers behind APIServices document, and how it joins our own (upstream: kube-openapi ``pkg/aggregator``).

Of a document of v2 the paths of the server's own group version count, with all that these refer to.  What has the name of
something of ours but says something else gets another name.  A document that cannot be written in all forms is refused: it
would keep everybody from having ours.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.codecs import json_pieces
from kapi.endpoints.openapi import protobuf
from kapi.machinery.checkpoint import checkpoint, steps
from kapi.machinery.tree import Object, Tree

_MAX_DEPTH = 100  # objects and lists that are in each other
_PLACES = {"#/definitions/": "definitions", "#/parameters/": "parameters"}


class RemoteDocuments:
    """Kept up to date by the aggregator; ``changed`` is called when a specification of v2 came, changed or went."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        #: of v3: by key in the index the digest and the document
        self.documents: dict[str, tuple[str, bytes]] = {}
        self._specifications: dict[str, bytes] = {}  # of v2: by the APIService's name, only what counts
        self._changed = changed

    def specify(self, name: str, prefix: str, document: Object) -> None:
        """Takes a server's document of v2.  Raises what a document in another form brings about."""
        tree = restricted(document, prefix)
        found = json_pieces.dumps(tree)
        if self._specifications.get(name) != found:
            checkpoint()
            protobuf.document(tree)
            self._specifications[name] = found
            self._changed()

    def forget(self, name: str) -> None:
        """The server has no specification any more."""
        if self._specifications.pop(name, None) is not None:
            self._changed()

    def join(self, document: Object) -> None:
        """Adds all specifications to ours, in place; in the order of their names."""
        for name in sorted(self._specifications):
            checkpoint()
            merge(document, json_pieces.loads(self._specifications[name]))


def restricted(document: Object, prefix: str) -> Object:
    """The paths below a prefix, and what they refer to."""
    result: Object = {"paths": {}, "definitions": {}, "parameters": {}}
    waiting: list[object] = []
    for path, item in steps(document["paths"].items()):
        if path.startswith(prefix):
            result["paths"][path] = item
            waiting.append(item)
    while waiting:
        for place, name in _references(waiting.pop()):
            value = (document.get(place) or {}).get(name)
            if value is not None and name not in result[place]:
                result[place][name] = value
                waiting.append(value)
    return result


def merge(document: Object, other: Object) -> None:
    """Adds the paths of another document that ours does not have, in place."""
    names: dict[tuple[str, str], str] = {}
    for place in _PLACES.values():
        ours = document.setdefault(place, {})
        for name, value in steps(other[place].items()):
            if name in ours and ours[name] != value:
                names[place, name] = _free(name, ours, other[place])
    for place in _PLACES.values():
        for name, value in steps(other[place].items()):
            document[place].setdefault(names.get((place, name), name), _renamed(value, names))
        document[place] = dict(sorted(document[place].items()))
    for path, item in steps(other["paths"].items()):
        document["paths"].setdefault(path, _renamed(item, names))
    document["paths"] = dict(sorted(document["paths"].items()))


def _free(name: str, *taken: Object) -> str:
    number = 2
    while any(f"{name}_v{number}" in names for names in taken):
        number += 1
    return f"{name}_v{number}"


def _place(reference: str) -> tuple[str, str] | None:
    for prefix, place in _PLACES.items():
        if reference.startswith(prefix):
            return place, reference[len(prefix) :]
    return None


def _references(node: object) -> list[tuple[str, str]]:
    """All that a part of a document refers to.  Raises ValueError for what is nested too deeply to be walked by recursion."""
    found, waiting = [], [(node, 0)]
    while waiting:
        checkpoint()
        part, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} levels")
        if isinstance(part, dict):
            reference = part.get("$ref")
            place = _place(reference) if isinstance(reference, str) else None
            if place is not None:
                found.append(place)
            waiting.extend((value, depth + 1) for value in part.values())
        elif isinstance(part, list):
            waiting.extend((value, depth + 1) for value in part)
    return found


def _renamed(node: object, names: dict[tuple[str, str], str]) -> Tree:
    """A copy that refers to the new names."""
    if not names:
        return node
    checkpoint()
    if isinstance(node, list):
        return [_renamed(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    result = {key: _renamed(value, names) for key, value in node.items()}
    reference = node.get("$ref")
    place = _place(reference) if isinstance(reference, str) else None
    if place is not None and place in names:
        result["$ref"] = f"#/{place[0]}/{names[place]}"
    return result
