"""Notices that files were changed, so that they are read again at once (upstream: apiserver ``dynamiccertificates``)."""

from __future__ import annotations

import os
from collections.abc import Iterable


class FileChanges:
    """Compares inode, size and time of files.  A look costs one system call for each; links are followed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(sorted(set(paths)))
        self._seen = self._stamps()

    def __bool__(self) -> bool:
        """Whether there are files to look at."""
        return bool(self._paths)

    def look(self) -> bool:
        """Whether a file was changed, replaced, removed or made since the last look."""
        stamps = self._stamps()
        changed = stamps != self._seen
        self._seen = stamps
        return changed

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, self._paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
