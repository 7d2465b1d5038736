"""Frees large trees in steps, since freeing the 200,000 objects of a body in one piece would block the reactor.

Code that makes a large tree, or drops one, registers it with ``free_in_steps``.  When its last other reference is gone,
``kapi/process/freeing.py`` takes it apart with checkpoints.  Without a ``collector`` Python frees it in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

from kapi.machinery import checkpoint as checkpoints
from kapi.machinery.checkpoint import checkpoint

LARGE = 256 * 1024  # bytes of JSON from which its tree is freed in steps
_NODES_PER_CHECKPOINT = 150

#: class -> attributes that may refer to large trees
_parts: dict[type, tuple[str, ...]] = {}
#: watches a tree until it is unused, then frees it in steps; None: trees are freed like any object
collector: Callable[[object], None] | None = None
#: whether there are trees that it has not freed yet
busy: Callable[[], bool] | None = None


def free_in_steps(tree: object, size: int = LARGE) -> None:
    """Registers a tree that may still be in use.  ``size``: bytes of its JSON; small ones are ignored."""
    if collector is not None and size >= LARGE:
        collector(tree)


def has_parts(kind: type, *names: str) -> None:
    """Declares a class whose objects are taken apart like trees; ``names`` are the attributes with their parts."""
    _parts[kind] = names


def is_unused(holder: list[object]) -> bool:
    """Whether ``holder``, a list, has the only reference to its last element."""
    return _references(holder) == _UNSHARED


def _references(holder: list[object]) -> int:
    """The references of its last element: the list's, and the call's, which some versions of Python omit for variables."""
    return getrefcount(holder[-1])


_UNSHARED = _references([object()])


def free_now(holder: list[object]) -> None:
    """Empties ``holder``, in steps if the computation may take long.  Its trees must have no other references."""
    if checkpoints.running is None:
        holder.clear()
    else:
        dismantle(holder)


def drain(found: dict[Any, Any] | set[Any] | list[Any]) -> None:
    """Empties a large collection of small values in steps.  It must have no other references."""
    if checkpoints.running is None:
        return
    pop: Callable[[], object] = found.popitem if isinstance(found, dict) else found.pop
    while len(found) > _NODES_PER_CHECKPOINT:
        for _ in range(_NODES_PER_CHECKPOINT):
            pop()
        checkpoint()


def dismantle(stack: list[object]) -> None:
    """Frees the trees on the stack, and their parts that have no other references."""
    left = _NODES_PER_CHECKPOINT
    while stack:
        unused, node = getrefcount(stack[-1]) == _UNSHARED, stack.pop()
        if unused:
            if not isinstance(node, (dict, list)):
                stack += [getattr(node, name) for name in _parts.get(node.__class__, ())]
            elif len(node) > _NODES_PER_CHECKPOINT:  # some of its members, then the rest
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


def drop_tracebacks(error: BaseException | None) -> None:
    """Drops the traceback of a handled exception, of its cause and of its context, which keep the variables of their frames.

    Twisted raises a Deferred's failure in a frame that has the failure as a variable, so the exception refers to itself.
    Without this a whole body may stay until the garbage collector finds the cycle, and is then freed in one piece.
    """
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or each.__traceback__ is None:
            continue
        each.__traceback__ = None
        waiting += each.__cause__, each.__context__
