"""Notices that files were changed, so that they are read again at once (upstream: apiserver ``dynamiccertificates``)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

#: mode, inode, size and time of a file; None if there is none
Stamp = tuple[int, int, int, int] | None


class FileChanges:
    """Compares inode, size and time of files, and of the files in a directory.

    A look costs one system call for each file; links are followed.
    """

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

    def _stamps(self) -> dict[str, Stamp]:
        stamps = {}
        for path in self._paths:
            stamps[path] = stamp = _stamp(path)
            if stamp is not None and stat.S_ISDIR(stamp[0]):
                stamps.update((inside, _stamp(inside)) for inside in _entries(path))
        return stamps


def _entries(directory: str) -> list[str]:
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory)]
    except OSError:
        return []


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns
