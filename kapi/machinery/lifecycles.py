"""Releases, and their kinds and feature gates, all from ``lifecycles.txt``.

Upstream: ``k8s.io/api`` prerelease-lifecycle, apiserver ``endpoints/deprecation``, component-base ``compatibility``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import msgspec

_TABLE = Path(__file__).with_name("lifecycles.txt")


class Release(NamedTuple):
    """A minor release, as in "1.36"."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def before(self, releases: int) -> Release:
        return Release(self.major, self.minor - releases)


class Lifecycle(msgspec.Struct, frozen=True):
    """The releases of one kind of a group version; ``replacement`` is like "apps/v1 Deployment"."""

    introduced: Release
    deprecated: Release | None = None
    removed: Release | None = None
    replacement: str = ""

    def serves(self, release: Release) -> bool:
        """Whether a release has the kind: it was introduced, and not yet removed."""
        return self.introduced <= release and not self.gone(release)

    def gone(self, release: Release) -> bool:
        return self.removed is not None and self.removed <= release


class Stage(NamedTuple):
    """A stage of a feature gate.  ``name`` is as in metrics: "ALPHA", "BETA", "DEPRECATED", "PRE-ALPHA", or "" for GA."""

    name: str
    default: bool
    locked: bool


class Table(NamedTuple):
    release: Release
    kinds: dict[tuple[str, str, str], Lifecycle]  # by group, version and kind
    stages: dict[str, list[tuple[Release, Stage | None]]]  # by gate; None: from this release on there is no such gate
    needs: dict[str, list[str]]  # gates -> the gates that must be on with it


#: the stage of a gate before its first release
PRE_ALPHA = Stage("PRE-ALPHA", False, False)
_STAGES = {"alpha": "ALPHA", "beta": "BETA", "ga": "", "deprecated": "DEPRECATED"}


@functools.cache
def parse_release(text: str) -> Release:
    major, _, minor = text.partition(".")
    return Release(int(major), int(minor))


def _lifecycle(text: str) -> Lifecycle:
    words = dict(part.split(" ", 1) for part in text.split(", "))
    deprecated, removed = words.get("deprecated"), words.get("gone")
    return Lifecycle(
        parse_release(words["since"]),
        parse_release(deprecated) if deprecated else None,
        parse_release(removed) if removed else None,
        words.get("use", ""),
    )


@functools.cache  # most gates have the same few stages
def _stage(text: str) -> tuple[Release, Stage | None]:
    release, name, *rest = text.split()
    return parse_release(release), None if name == "gone" else Stage(_STAGES[name], rest[0] == "on", "locked" in rest)


def parse(text: str) -> Table:
    """Raises ValueError and KeyError for lines of another form."""
    release = Release(0, 0)
    kinds: dict[tuple[str, str, str], Lifecycle] = {}
    stages: dict[str, list[tuple[Release, Stage | None]]] = {}
    needs: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, mark, rest = line.partition(": ")
        if line.startswith("#") or not line:
            continue
        if not mark:
            release = parse_release(line.removeprefix("release "))
        elif " " in name:
            group_version, kind = name.split(" ")
            group, _, version = group_version.rpartition("/")
            kinds[group, version, kind] = _lifecycle(rest)
        else:
            specs, _, required = rest.partition("; needs ")
            stages[name] = [_stage(part) for part in specs.split(", ")]
            if required:
                needs[name] = required.split()
    return Table(release, kinds, stages, needs)


TABLE = parse(_TABLE.read_text())
#: kapi's release of Kubernetes
RELEASE = TABLE.release
#: the oldest release that kapi can emulate, and the oldest release of a server beside it
OLDEST = RELEASE.before(3)


class EffectiveVersion(NamedTuple):
    """The emulated release, and the oldest release of a server beside this one."""

    emulated: Release = RELEASE
    min_compatibility: Release = RELEASE.before(1)


#: kapi's versions without emulation
CURRENT = EffectiveVersion()


def stage(gate: str, release: Release) -> Stage | None:
    """The stage of a known gate in a release; None when there is no such gate any more."""
    found: Stage | None = PRE_ALPHA
    for since, following in TABLE.stages[gate]:
        if since > release:
            break
        found = following
    return found


def lifecycle(group: str, version: str, kind: str) -> Lifecycle | None:
    """None: the kind was served before the oldest release that can be emulated, and is not deprecated."""
    return TABLE.kinds.get((group, version, kind))


def stored_version(group: str, version: str, kind: str) -> str:
    """The version in which upstream stores a kind of this version: one that the oldest compatible release also has.

    Upstream: apiserver ``pkg/server/storage/resource_encoding_config.go``.
    """
    since = CURRENT.min_compatibility
    found = lifecycle(group, version, kind)
    if found is None or found.introduced <= since:
        return version
    older = [
        (known.introduced, name)
        for (of, name, other), known in TABLE.kinds.items()
        if (of, other) == (group, kind) and known.introduced <= since and not known.gone(RELEASE)
    ]
    return max(older)[1] if older else version


def deprecation(group: str, version: str, kind: str) -> tuple[str, str]:
    """The warning for a deprecated kind and the release that removes it; ("", "") when it is not deprecated.

    As upstream, kapi's own release decides, not the emulated one.
    """
    found = lifecycle(group, version, kind)
    if found is None or found.deprecated is None or found.deprecated > RELEASE:
        return "", ""
    group_version = f"{group}/{version}" if group else version
    removed = "" if found.removed is None else str(found.removed)
    text = f"{group_version} {kind} is deprecated in v{found.deprecated}+"
    if removed:
        text += f", unavailable in v{removed}+"
    if found.replacement:
        text += f"; use {found.replacement}"
    return text, removed
