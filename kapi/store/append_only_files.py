"""Recognises files of the embedded server that are an incomplete copy, before the server takes them for an empty store.

The manifest lists the files.  Without it, the server starts without objects and writes over the files; it ignores files that are
not listed, and reads an empty one as if nothing had been in it.  A kill of the server leaves nothing of that kind: only a copy
that was interrupted, or made on a full disk, does.
"""

from __future__ import annotations

import re
from pathlib import Path

DIRECTORY = "appendonlydir"
_MANIFEST = "appendonly.aof.manifest"
_FILE = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:rdb|aof)")
_MAX_EMPTY_BASE_BYTES = 512  # a base without objects is smaller; a server killed at its first start may leave one


def incomplete(directory: Path) -> str:
    """Why the files in ``directory``, the server's, are an incomplete copy; "" when they are not.  Raises OSError."""
    files = directory / DIRECTORY
    if not files.is_dir():
        return ""
    sizes = {path.name: path.stat().st_size for path in files.iterdir() if _FILE.fullmatch(path.name)}
    if not (files / _MANIFEST).exists():
        found = [name for name, size in sizes.items() if size > _least(name)]
        return f"it has {min(found)}, but no {_MANIFEST}" if found else ""
    listed = set(re.findall(r"^file (\S+)", (files / _MANIFEST).read_text("utf-8", "replace"), re.M))
    emptied = [name for name in listed if name.endswith(".base.rdb") and sizes.get(name) == 0]
    if emptied:
        return f"{min(emptied)} is empty"
    newest = max((_number(name) for name in listed if ".incr." in name), default=0)
    # a former one may be left when the server is killed while it removes it
    unlisted = [name for name, size in sizes.items() if ".incr." in name and name not in listed and size]
    missing = [name for name in unlisted if _number(name) > newest]
    return f"{_MANIFEST} does not list {min(missing)}" if missing else ""


def _number(name: str) -> int:
    match = _FILE.fullmatch(name)
    return int(match[1]) if match else 0


def _least(name: str) -> int:
    return _MAX_EMPTY_BASE_BYTES if ".base." in name else 0
