"""What few servers need is imported when it is needed first, in a thread: a library is ten to a hundred milliseconds in which
nobody else would be served, and seconds when its files must come from a slow disk.

Python takes its lock from the thread after half a millisecond (``kapi/app.py``).
"""

from __future__ import annotations

import threading
from importlib import import_module

from kapi.machinery import checkpoint

_WAIT_SECONDS = 0.001  # seconds that the others wait for the thread in each of their turns
_imported: set[str] = set()  # to their end: those that are being imported are in sys.modules, too


def missing(*modules: str) -> bool:
    """Whether their first use may still import something."""
    return not _imported.issuperset(modules)


def import_all(*modules: str) -> None:
    """On this thread.  Raises what importing raises."""
    for module in modules:
        import_module(module)
    _imported.update(modules)


def import_in_thread(*modules: str) -> None:
    """In a slice: they are there when this returns, and others have worked meanwhile.  Elsewhere it does nothing.

    The caller imports them all the same, and learns then what is wrong with them.  Raises Interrupted.
    """
    if checkpoint.current is None or not missing(*modules):
        return
    checkpoint.engage()
    running = checkpoint.running
    if running is None:
        return  # on another thread
    thread = threading.Thread(target=_try, args=modules, name="import", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the limit of processes, which also counts threads
        return
    while thread.is_alive():
        running.pause()
        thread.join(_WAIT_SECONDS)


def _try(*modules: str) -> None:
    try:
        import_all(*modules)
    except Exception:
        _imported.update(modules)  # the caller finds the error, and nobody waits for it again
