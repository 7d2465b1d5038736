"""An exception keeps alive what the frames that it passed hold, a request's whole body among it.

Twisted raises a Deferred's failure in a frame that holds the failure, so the exception holds itself: nothing of all that goes
before the garbage collector has found the circle, which it then frees in one piece.  Who has dealt with an exception and
needs no more of it than what it says lets go of its frames.
"""

from __future__ import annotations


def let_go(error: BaseException | None) -> None:
    """Frames of the exception and of those that it followed or was raised from."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or each.__traceback__ is None:
            continue
        each.__traceback__ = None
        waiting += each.__cause__, each.__context__
