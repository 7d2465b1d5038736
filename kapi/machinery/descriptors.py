"""Writes to a pipe without waiting for its reader."""

from __future__ import annotations

import contextlib
import os
import stat


def without_waiting(file: int) -> int | None:
    """A new descriptor for the same pipe, which does not block.  The given one is shared with programs that may expect blocking.

    None for a descriptor that is not a pipe, or where the system has no such descriptors.
    """
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return None
