"""Drops tracebacks of handled exceptions: a traceback keeps the variables of all its frames alive, such as a whole body.

Twisted raises a Deferred's failure in a frame that has the failure as a variable, so the exception refers to itself.  Without
``drop_tracebacks`` all this stays until the garbage collector finds the cycle, and is then freed in one piece.
"""

from __future__ import annotations


def drop_tracebacks(error: BaseException | None) -> None:
    """Drops the traceback of an exception, of its cause and of its context."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or each.__traceback__ is None:
            continue
        each.__traceback__ = None
        waiting += each.__cause__, each.__context__
