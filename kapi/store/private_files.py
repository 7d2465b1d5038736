"""Files that only their owner may read: keys, and all data of the cluster."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path


def make_own_directory(path: Path) -> None:
    """Makes a directory for this user alone, unless it exists.

    Raises OSError when it is a link or another user's: where everybody may make files, somebody may have made it before.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"{path} exists and is no directory of this user")
    if found.st_mode & 0o077:
        path.chmod(0o700)


def make_private(directory: Path) -> None:
    """Removes the rights of other users to a directory and its contents, which an older version or a restore may have given."""
    for root, _, files in os.walk(directory):
        for path in (Path(root), *(Path(root, name) for name in files)):
            with suppress(FileNotFoundError, PermissionError):  # deleted meanwhile, or owned by another user
                mode = path.lstat().st_mode
                if mode & 0o077 and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & 0o700)
