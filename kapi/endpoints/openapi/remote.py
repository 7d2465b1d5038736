"""The OpenAPI documents of extension API servers, and merging them into our own (upstream: kube-openapi ``pkg/aggregator``).

From a document of v2 the paths of the server's own group version are taken, with everything that they refer to.  A definition
whose name we use for another one gets a new name; two that differ only in the kinds they are for are one, with the kinds of both.
A document that cannot be written in all media types is refused, because the merged document could then not be served at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kapi.codecs import json_pieces
from kapi.endpoints.openapi import protobuf
from kapi.endpoints.openapi.pieces import Make
from kapi.machinery.each import elements, entries, popped
from kapi.machinery.tree import Object, Tree
from kapi.request.packed import Packed, packed

_MAX_DEPTH = 100  # of nested objects and lists
_KINDS = "x-kubernetes-group-version-kind"
_PLACES = {"#/definitions/": "definitions", "#/parameters/": "parameters"}


class RemoteDocuments:
    """The documents; the aggregator updates them.  ``changed`` is called when a document of v2 was added, changed or removed."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        #: of v3: by key in the index the digest and the document
        self.documents: dict[str, tuple[str, Packed]] = {}
        self._specifications: dict[str, tuple[str, Packed]] = {}  # by the APIService's name
        self._changed = changed

    def specifications(self) -> list[tuple[str, Packed]]:
        """For v2: the prefix of each server's paths and the relevant part of its document, in the order of the servers' names."""
        return [self._specifications[name] for name in sorted(self._specifications)]

    def specify(self, name: str, prefix: str, document: Object) -> None:
        """Adds or replaces a server's document of v2.  Raises any exception for an invalid document."""
        tree = restricted(document, prefix)
        found = packed(json_pieces.dumps(tree))
        known = self._specifications.get(name)
        if known is None or (known[0], known[1].gzip) != (prefix, found.gzip):
            protobuf.document(tree)
            self._specifications[name] = prefix, found
            self._changed()

    def forget(self, name: str) -> None:
        """Removes a server's document of v2."""
        if self._specifications.pop(name, None) is not None:
            self._changed()


def restricted(document: Object, prefix: str) -> Object:
    """The paths below a prefix, and the definitions and parameters that they refer to."""
    result: Object = {"paths": {}, "definitions": {}, "parameters": {}}
    waiting: list[object] = []
    for path, item in entries(document["paths"]):
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


def merge(ours: dict[str, dict[str, Make]], other: Object) -> Object:
    """Adds the definitions and parameters of another document that ours does not have, and returns its paths, by path.

    ``ours``: functions that make our definitions and parameters, by place and name.
    """
    names: dict[tuple[str, str], str] = {}
    for place, found in ours.items():
        for name, value in entries(other[place]):
            if name in found and not _same(found[name](), value):
                names[place, name] = _new_name(name, value, found, other[place])
    for place, found in ours.items():
        for name, value in entries(other[place]):
            new_name = names.get((place, name), name)
            if new_name not in found:
                found[new_name] = partial(json_pieces.loads, json_pieces.dumps(renamed(value, names)))
            elif _more_kinds(found[new_name](), value):
                found[new_name] = partial(_joined, found[new_name], _kinds(value))
    return {path: renamed(item, names) for path, item in sorted(other["paths"].items())}


def _new_name(name: str, value: object, ours: Mapping[str, Make], theirs: Mapping[str, object]) -> str:
    """The name under which ours has the same definition, else a free name."""
    number = 2
    while f"{name}_v{number}" in ours:
        if _same(ours[f"{name}_v{number}"](), value):
            return f"{name}_v{number}"
        number += 1
    while f"{name}_v{number}" in ours or f"{name}_v{number}" in theirs:
        number += 1
    return f"{name}_v{number}"


def _same(one: object, other: object) -> bool:
    """Whether two definitions are equal, whatever kinds they are for."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one == other
    return {**one, _KINDS: None} == {**other, _KINDS: None}


def _kinds(definition: object) -> dict[str, Object]:
    """The kinds that a definition is for, by their names in the order of a document."""
    found = definition.get(_KINDS) if isinstance(definition, dict) else None
    return {f"{kind.get('group')}/{kind.get('version')}.{kind.get('kind')}": kind for kind in found or ()}


def _more_kinds(ours: Object, theirs: object) -> bool:
    return not _kinds(theirs).keys() <= _kinds(ours).keys()


def _joined(make: Make, more: dict[str, Object]) -> Object:
    """A definition with the kinds of another one."""
    definition = make()
    kinds = {**more, **_kinds(definition)}
    return {**definition, _KINDS: [kinds[name] for name in sorted(kinds)]}


def _place(reference: str) -> tuple[str, str] | None:
    for prefix, place in _PLACES.items():
        if reference.startswith(prefix):
            return place, reference[len(prefix) :]
    return None


def _references(node: object) -> list[tuple[str, str]]:
    """All references in a part of a document.  Raises ValueError when it is nested too deeply for recursive functions."""
    found, waiting = [], [(node, 0)]
    for part, depth in popped(waiting):
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


def renamed(node: object, names: Mapping[tuple[str, str], str]) -> Tree:
    """A copy that refers to the new names."""
    if not names:
        return node
    if isinstance(node, list):
        return [renamed(item, names) for item in elements(node)]
    if not isinstance(node, dict):
        return node
    result = {key: renamed(value, names) for key, value in entries(node)}
    reference = node.get("$ref")
    place = _place(reference) if isinstance(reference, str) else None
    if place is not None and place in names:
        result["$ref"] = f"#/{place[0]}/{names[place]}"
    return result
