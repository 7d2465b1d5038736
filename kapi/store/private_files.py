"""Files that are their owner's alone: keys, and everything that the cluster holds."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def make_private(directory: Path) -> None:
    """Takes everybody else's rights to what is in a directory, which an older server or a restore may have left."""
    for root, _, files in os.walk(directory):
        for path in (Path(root), *(Path(root, name) for name in files)):
            with suppress(FileNotFoundError, PermissionError):  # gone meanwhile, or not ours
                mode = path.lstat().st_mode
                if mode & 0o077 and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & 0o700)
