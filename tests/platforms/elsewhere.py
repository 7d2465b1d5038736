"""kapi as on a system without Linux's own calls: ``python -m tests.platforms.elsewhere REACTOR [flags]``.

A simulation.  It takes away what macOS has not: ``/proc``, epoll, and names of ``os`` and ``socket``.  What macOS has instead
(kqueue, its C library) is not there, so the reactor is Twisted's of poll or select.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import select
import socket
import sys
from typing import Any

_ABSENT = {
    os: ("memfd_create", "pidfd_open", "sched_getaffinity", "sched_setaffinity"),
    select: ("epoll", "POLLRDHUP"),
    socket: ("SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT"),
}


def hide_linux() -> None:
    """Called before anything of kapi or Twisted is imported."""
    for module, names in _ABSENT.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for module, name in (
        (builtins, "open"),
        (io, "open"),
        (os, "open"),
        (os, "stat"),
        (os, "readlink"),
        (os, "listdir"),
    ):
        setattr(module, name, _WithoutProc(getattr(module, name)))


class _WithoutProc:
    """A function of a file; like a built-in one it does not become a method of a class that keeps it."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, path: Any = ".", *arguments: Any, **others: Any) -> Any:
        if not isinstance(path, int) and os.fsdecode(path).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._call(path, *arguments, **others)


def main() -> None:
    hide_linux()
    if sys.argv[1] == "poll":
        from twisted.internet import pollreactor as chosen
    else:
        from twisted.internet import selectreactor as chosen  # type: ignore[no-redef]
    chosen.install()
    sys.argv[1:2] = []
    from kapi.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
