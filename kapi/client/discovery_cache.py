"""Discovery with a cache on disk, in kubectl's files (upstream: client-go ``discovery/cached/disk``).

The files are ``~/.kube/cache/discovery/HOST_PORT/servergroups.json`` and ``GROUP/VERSION/serverresources.json`` beside it; they
are valid for six hours.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson

from kapi.client.discovery import (
    APIResource,
    Discovered,
    Discovery,
    read_groups,
    read_resources,
    write_groups,
    write_resources,
)
from kapi.client.replaced_file import replace_file
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Tree

TTL_SECONDS = 6 * 3600.0
FILE_MODE, DIRECTORY_MODE = 0o660, 0o750


def cache_directory(host: str, base: Path | None = None) -> Path:
    """The directory for a server's URL."""
    base = base or Path(os.environ.get("KUBECACHEDIR") or Path.home() / ".kube" / "cache")
    name = re.sub(r"^https?://", "", host)
    return base / "discovery" / re.sub(r"[^(\w/.)]", "_", name)


class CachedDiscovery:
    """``invalidate`` makes the next ``discover`` send requests; ``fresh``: whether the last one did."""

    def __init__(
        self, discovery: Discovery, directory: Path, ttl: float = TTL_SECONDS, now: Callable[[], float] = time.time
    ) -> None:
        self._discovery, self._directory, self._ttl, self._now = discovery, directory, ttl, now
        self._known: Discovered | None = None
        self.fresh = False

    def invalidate(self) -> None:
        self._known = None
        self._ttl = -1.0

    async def discover(self) -> Discovered:
        if self._known is None:
            self._known = self._read()
        if self._known is None:
            self._known = await self._discovery.discover()
            self.fresh = True
            self._write(self._known)
        return self._known

    def _load(self, path: Path) -> object:
        if self._now() - path.stat().st_mtime > self._ttl:
            raise OSError("too old")
        return orjson.loads(path.read_bytes())

    def _read(self) -> Discovered | None:
        if self._ttl < 0:
            return None
        try:
            tree = self._load(self._directory / "servergroups.json")
            if not isinstance(tree, dict):
                return None
            groups = list(read_groups(tree))
            if not groups:
                return None
            resources: list[APIResource] = []
            for group in groups:
                for version in group.versions:
                    file = self._directory / group.name / version / "serverresources.json"
                    part = self._load(file)
                    if not isinstance(part, dict):
                        return None
                    resources.extend(read_resources(part))
            return Discovered(groups, resources, {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _write(self, found: Discovered) -> None:
        """Writes the cache; a directory that cannot be written is not an error."""
        with suppress(OSError):
            _replace(self._directory / "servergroups.json", write_groups(found.groups))
            parts: dict[str, list[APIResource]] = {}
            for one in found.resources:
                parts.setdefault(one.group_version, []).append(one)
            for group in found.groups:
                for version in group.versions:
                    group_version = str(GroupVersion(group.name, version))
                    if group_version in found.failed:
                        continue
                    tree = write_resources(group_version, parts.get(group_version, ()))
                    _replace(self._directory / group.name / version / "serverresources.json", tree)


def _replace(path: Path, tree: Tree) -> None:
    replace_file(path, orjson.dumps(tree), FILE_MODE, DIRECTORY_MODE)
