"""Large trees go piece by piece: nobody else is served while 200,000 objects of a body are freed at once.

Who makes a large tree, or has had one for long, names it here (``free_in_steps``).  Once nobody else has it it is taken apart,
with checkpoints (``kapi/server/freeing.py`` does so; without it a tree goes as any other object).
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount

from kapi.machinery.checkpoint import checkpoint

LARGE = 256 * 1024  # bytes of JSON whose tree is worth it
_NODES = 200  # between two checkpoints
_UNSHARED = 2  # references to what is asked for: the one there is, and that of the question

#: takes a tree that somebody may still have; None: nobody takes it
taker: Callable[[object], None] | None = None


def free_in_steps(tree: object, size: int = LARGE) -> None:
    """``size``: bytes of JSON."""
    if taker is not None and size >= LARGE:
        taker(tree)


def is_unused(holder: list[object]) -> bool:
    """Whether nobody but ``holder``, of one element, has that element."""
    return getrefcount(holder[0]) == _UNSHARED


def dismantle(stack: list[object]) -> None:
    """Lets go of trees, and of their parts as far as nobody else has them."""
    left = _NODES
    while stack:
        node = stack.pop()
        if getrefcount(node) == _UNSHARED:
            if isinstance(node, dict):
                stack.extend(node.values())
            elif isinstance(node, list):
                stack.extend(node)
        left -= 1
        if not left:
            left = _NODES
            node = None
            checkpoint()
