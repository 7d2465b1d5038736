"""Large trees go piece by piece: nobody else is served while 200,000 objects of a body are freed at once.

Who makes a large tree, or has had one for long, names it here (``free_in_steps``).  Once nobody else has it it is taken apart,
with checkpoints (``kapi/server/freeing.py`` does so; without it a tree goes as any other object).
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

from kapi.machinery import checkpoint as checkpoints
from kapi.machinery.checkpoint import checkpoint

LARGE = 256 * 1024  # bytes of JSON whose tree is worth it
_NODES_PER_CHECKPOINT = 180  # between two checkpoints
_UNSHARED = 2  # references to what is asked for: the one there is, and that of the question

#: attributes of objects of a class that may refer to much
_parts: dict[type, tuple[str, ...]] = {}
#: takes a tree that somebody may still have; None: nobody takes it
taker: Callable[[object], None] | None = None


def free_in_steps(tree: object, size: int = LARGE) -> None:
    """``size``: bytes of JSON."""
    if taker is not None and size >= LARGE:
        taker(tree)


def has_parts(kind: type, *names: str) -> None:
    """Objects of a class are taken apart like trees: these attributes refer to their parts."""
    _parts[kind] = names


def is_unused(holder: list[object]) -> bool:
    """Whether ``holder``, a list of one element, has the only reference to it."""
    return getrefcount(holder[0]) == _UNSHARED


def free_now(holder: list[object]) -> None:
    """Lets go of trees that ``holder`` alone has: in a computation that may take long it does so in steps."""
    if checkpoints.running is None:
        holder.clear()
    else:
        dismantle(holder)


def drain(found: dict[Any, Any] | set[Any] | list[Any]) -> None:
    """Empties a large collection that nobody else has, whose keys or members are no trees: what was noted on a walk."""
    if checkpoints.running is None:
        return
    pop: Callable[[], object] = found.popitem if isinstance(found, dict) else found.pop
    while len(found) > _NODES_PER_CHECKPOINT:
        for _ in range(_NODES_PER_CHECKPOINT):
            pop()
        checkpoint()


def dismantle(stack: list[object]) -> None:
    """Frees trees, and their parts as far as nothing else refers to them."""
    left = _NODES_PER_CHECKPOINT
    while stack:
        node = stack.pop()
        if getrefcount(node) == _UNSHARED:
            if not isinstance(node, (dict, list)):
                stack += [getattr(node, name) for name in _parts.get(node.__class__, ())]
            elif len(node) > _NODES_PER_CHECKPOINT:  # a part of it now
                stack.append(node)
                left -= _NODES_PER_CHECKPOINT - 1
                if isinstance(node, list):
                    stack += node[-_NODES_PER_CHECKPOINT:]
                    del node[-_NODES_PER_CHECKPOINT:]
                else:
                    stack += [node.popitem()[1] for _ in range(_NODES_PER_CHECKPOINT)]
            else:
                stack.extend(node.values() if isinstance(node, dict) else node)
        left -= 1
        node = None
        if left <= 0:
            left = _NODES_PER_CHECKPOINT
            checkpoint()
