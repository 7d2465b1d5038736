"""Imports rarely used libraries in a thread, when they are first needed.  An import takes ten to a hundred milliseconds, or
seconds with a slow disk, in which the reactor would be blocked.

The thread gives up Python's lock after half a millisecond (``kapi/app.py``).
"""

from __future__ import annotations

import threading
from importlib import import_module

from kapi.machinery import checkpoint

_WAIT_SECONDS = 0.001  # for which other work waits for the thread in each turn of the reactor
_imported: set[str] = set()  # completely: modules whose import still runs are in sys.modules, too


def missing(*modules: str) -> bool:
    """Whether modules are not imported yet."""
    return not _imported.issuperset(modules)


def import_all(*modules: str) -> None:
    """Imports the modules on this thread.  Raises any error of an import."""
    for module in modules:
        import_module(module)
    _imported.update(modules)


def import_in_thread(*modules: str) -> None:
    """Inside a slice, imports the modules while other work runs.  Elsewhere it does nothing.

    The caller still imports them itself, which raises any error of the import.  Raises Interrupted.
    """
    if checkpoint.current is None or not missing(*modules):
        return
    checkpoint.engage()
    running = checkpoint.running
    if running is None:
        return  # called on another thread
    thread = threading.Thread(target=_try, args=modules, name="import", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads: the limit of processes also counts threads
        return
    while thread.is_alive():
        running.pause()
        thread.join(_WAIT_SECONDS)


def _try(*modules: str) -> None:
    try:
        import_all(*modules)
    except Exception:
        _imported.update(modules)  # also after an error, which the caller's import raises
