"""Writing to a pipe without waiting for who reads it."""

from __future__ import annotations

import contextlib
import os
import stat


def without_waiting(file: int) -> int | None:
    """A descriptor of our own for the same pipe, which does not block: the given one is shared with programs that may rely on it.

    None for what is no pipe, or where the system has no such descriptors.
    """
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return None
