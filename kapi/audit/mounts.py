"""Whether writing to a file may wait for somebody else: a server on the network, a program that is a file system, a reader.

Writing to a disk of the machine's own goes to the memory that the kernel keeps for it, and as a rule waits for nothing.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_OWN_DISKS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "rootfs", "tmpfs", "xfs", "zfs"}
)
_MOUNTS = Path("/proc/self/mountinfo")


def may_wait(file: int, path: Path) -> bool:
    """``file`` is open; it is at ``path`` unless it is a pipe or the like."""
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file_system(path) not in _OWN_DISKS
    return bool(os.get_blocking(file)) and not (stat.S_ISCHR(mode) and not os.isatty(file))


def file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that holds ``path``; that of a local disk where the system does not tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "ext4"
    place = os.path.realpath(path)
    found, longest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split(" ")[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two at one place the later one hides the earlier
            found, longest = after.split(" ")[0], len(point)
    return found
