"""The groups and versions that discovery shows, in order (upstream: kube-aggregator priorities of APIServices)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import orjson

from kapi.machinery.tree import Object
from kapi.request.packed import Packed
from kapi.resources.definition import Resource

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?\Z").match
_STABILITY = {"alpha": 1, "beta": 2, None: 3}


class VersionEntry(msgspec.Struct):
    """One version of a group: resource definitions, or the documents of another server."""

    version: str
    resources: list[Resource] = msgspec.field(default_factory=list)
    remote: list[Object] | None = None  # the entries of an extension API server in the aggregated document
    stale: bool = False
    unserved: bool = False  # it has only an APIService, which another server of the cluster may have made


@dataclass(slots=True)
class GroupEntry:
    """A group with its versions, the preferred one first."""

    name: str
    versions: list[VersionEntry]
    priority: int = 0  # of the whole group; the highest comes first
    service: str = ""  # its first APIService: by this name ``/apis`` sorts groups of the same priority
    # parts of documents, made once: the group never changes
    entry: Object | None = None  # in ``/apis``
    aggregated: orjson.Fragment | None = None  # in the aggregated document, encoded
    openapi: dict[str, tuple[str, Callable[..., Packed]]] | None = None  # key -> hash, document


def version_rank(version: str) -> tuple[int, int, int, str]:
    """A sort key for versions by stability: v2, v1, v1beta2, v1beta1, v1alpha1, then other names.

    A larger key is more stable; names that are no Kubernetes versions rank below all versions.
    """
    found = _VERSION(version)
    if found is None:
        return (0, 0, 0, version)
    return (_STABILITY[found[2]], int(found[1]), int(found[3] or 0), "")


def sort_versions(versions: Iterable[str]) -> list[str]:
    """The versions, most stable first; names that are no Kubernetes versions last, in order."""
    ranked = sorted((version for version in versions if _VERSION(version)), key=version_rank, reverse=True)
    return ranked + sorted(version for version in set(versions) if not _VERSION(version))
