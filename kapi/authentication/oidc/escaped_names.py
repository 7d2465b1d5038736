"""Maps whose keys expressions may write as names: ``claims.example__dot__com`` (upstream: ``oidc.go``, ``unescapeMapper``)."""

from __future__ import annotations

from kapi.cel.types import Value
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Tree
from kapi.schema.structural.celtypes import unescape


class EscapedNames(dict[str, Value]):
    """A map that is asked for names in the form of expressions, and in no other form if a name has an escape."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Value:
        return super().__getitem__(_key(name))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(_key(name))


def _key(name: Tree) -> Tree:
    return unescape(name) or name if isinstance(name, str) else name


def with_escaped_names(tree: Tree) -> Tree:
    """A copy of a tree with such maps at every level."""
    if isinstance(tree, dict):
        return EscapedNames((name, with_escaped_names(value)) for name, value in entries(tree))
    return [with_escaped_names(item) for item in elements(tree)] if isinstance(tree, list) else tree
