"""What is known of all pods between two looks: of each only whether, and where, it may have to go."""

from __future__ import annotations

from collections.abc import Collection
from sys import intern

from kapi.controllers.podgc.reconcile import Pod
from kapi.machinery.sorting import ordered


class KnownPods:
    """By their keys in the cache.  Pods that are on no node, have not ended and do not go are not in it."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}  # of pods that are on one
        self._ended: set[str] = set()
        self._going: set[str] = set()

    @property
    def nodes(self) -> set[str]:
        """On which there are pods."""
        return set(self._nodes.values())

    def note(self, key: str, pod: Pod) -> None:
        """A pod as it is now."""
        self.forget(key)
        if pod.node:
            self._nodes[key] = intern(pod.node)
        if pod.has_ended:
            self._ended.add(key)
        if pod.metadata.deletion_timestamp is not None:
            self._going.add(key)

    def forget(self, key: str) -> None:
        """A pod is gone, or is no more what it was."""
        self._nodes.pop(key, None)
        self._ended.discard(key)
        self._going.discard(key)

    def candidates(self, missing: Collection[str], threshold: int) -> list[str]:
        """Those that ``chosen`` has to look at, in order; it would choose none of the others."""
        found = set(self._going)
        if missing:
            found.update([key for key, node in self._nodes.items() if node in missing])
        if 0 < threshold < len(self._ended):
            found |= self._ended
        return ordered(found)
