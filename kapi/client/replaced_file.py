"""Replaces a file atomically: readers see either the old or the new content."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int, directory_mode: int) -> None:
    """Replaces the file, and makes its directory if it is missing.  Raises OSError."""
    path.parent.mkdir(mode=directory_mode, parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
