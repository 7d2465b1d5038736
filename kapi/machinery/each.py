"""Walks over the parts of a client's object: a missing or empty field has no parts.

A list or a mapping of a client may be long, so other work of the server may run between its parts (``checkpoint``).  Other code
must not change the walked object meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, TypeVar, overload

from kapi.machinery import checkpoint as checkpoints
from kapi.machinery.checkpoint import checkpoint, steps
from kapi.machinery.tree import Tree

if TYPE_CHECKING:  # it takes msgspec, which clients do without
    from kapi.machinery.field import Path

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")
_POPPED_PER_CHECKPOINT = 32


# parameters with defaults instead of *names, which would double the cost: these two are called a hundred times for a pod
@overload
def elements(tree: Iterable[Item] | None) -> Iterable[Item]: ...
@overload
def elements(tree: Mapping[str, Tree] | None, name: str, below: str | None = None) -> Iterable[Tree]: ...
def elements(tree: Tree, name: str | None = None, below: str | None = None) -> Iterable[Tree]:
    """The elements of a list, or the keys of a mapping: of the field ``name``, or of the field ``below`` that one."""
    if name is not None:
        tree = _field(tree, name, below)
    if checkpoints.running is None:
        return tree or ()
    return steps(tree or ())


@overload
def entries(tree: Mapping[Key, Value] | None) -> Iterable[tuple[Key, Value]]: ...
@overload
def entries(tree: Mapping[str, Tree] | None, name: str, below: str | None = None) -> Iterable[tuple[str, Tree]]: ...
def entries(tree: Tree, name: str | None = None, below: str | None = None) -> Iterable[tuple[Tree, Tree]]:
    """Keys and values of a mapping: of the field ``name``, or of the field ``below`` that one."""
    if name is not None:
        tree = _field(tree, name, below)
    if not tree:
        return ()
    return tree.items() if checkpoints.running is None else steps(tree.items())


def _field(tree: Tree, name: str, below: str | None) -> Tree:
    if tree:
        tree = tree.get(name)
        if tree and below is not None:
            return tree.get(below)
    return tree


def costly(values: Iterable[Item]) -> Iterable[Item]:
    """Elements whose processing may take milliseconds each: other work may run after every element."""
    return steps(values, 1)


def popped(stack: list[Item]) -> Iterator[Item]:
    """The elements of a stack, from its end; the caller may add more meanwhile."""
    left = _POPPED_PER_CHECKPOINT
    while stack:
        yield stack.pop()
        left -= 1
        if not left:
            left = _POPPED_PER_CHECKPOINT
            checkpoint()


def each(path: Path, parent: Mapping[str, Tree] | None) -> Iterable[tuple[Tree, Path]]:
    """The elements of the list field of ``parent`` that ``path`` ends with, each with its path."""
    return each_of(path, parent.get(path.name)) if parent else ()


def each_of(path: Path, values: Iterable[Item] | None) -> Iterable[tuple[Item, Path]]:
    """The elements of a list, each with its path."""
    return zip(values, map(path.index, count()), strict=False) if values else ()
