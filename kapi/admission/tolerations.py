"""Merging tolerations: of two that cover each other only the wider stays (upstream: ``pkg/util/tolerations``)."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import orjson

from kapi.machinery.each import elements
from kapi.machinery.tree import Object

Toleration = Object
_Key = tuple[str, str, str | None]


class TolerationIndex:
    """Tolerations indexed by key, effect and value, to find one that covers another."""

    def __init__(self, tolerations: Iterable[Toleration] = ()) -> None:
        self._known: set[bytes] = set()
        #: key, effect and value (None: any) -> the two that last longest: seconds and which it is
        self._longest: dict[_Key, list[tuple[float, bytes]]] = {}
        for toleration in elements(tolerations):
            self.add(toleration)

    def add(self, toleration: Toleration) -> None:
        encoded = _encoded(toleration)
        self._known.add(encoded)
        operator = toleration.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            return
        effect, seconds = toleration.get("effect") or "", toleration.get("tolerationSeconds")
        value = None if operator == "Exists" else toleration.get("value", "")
        lasting = inf if effect != "NoExecute" or seconds is None else seconds
        longest = self._longest.setdefault((toleration.get("key") or "", effect, value), [])
        if all(other != encoded for _, other in longest):
            longest.append((lasting, encoded))
            longest.sort(reverse=True)
            del longest[2:]

    def covers(self, narrow: Toleration, *, equal: bool = True) -> bool:
        """Whether one of them tolerates all that this one does; ``equal``: the same one counts, too."""
        encoded = _encoded(narrow)
        if encoded in self._known and equal:
            return True
        key, effect, seconds = narrow.get("key") or "", narrow.get("effect") or "", narrow.get("tolerationSeconds")
        values = [None, narrow.get("value", "")] if narrow.get("operator") == "Equal" else [None]
        for value in values:
            for wide_key in {key, ""} if value is None else {key}:
                for wide_effect in {effect, ""}:
                    for lasting, other in self._longest.get((wide_key, wide_effect, value), ()):
                        if other != encoded and (lasting == inf or seconds is not None and seconds <= lasting):
                            return True
        return False


def _encoded(toleration: Toleration) -> bytes:
    return orjson.dumps(toleration, option=orjson.OPT_SORT_KEYS)


def merged(first: list[Toleration], second: list[Toleration]) -> list[Toleration]:
    """Both lists without tolerations that others cover; of equal ones the first stays."""
    everything = [*first, *second]
    later = TolerationIndex()
    covered_later = [False] * len(everything)
    for i in elements(range(len(everything) - 1, -1, -1)):
        covered_later[i] = later.covers(everything[i], equal=False)
        later.add(everything[i])
    kept, known = [], TolerationIndex()
    for i, toleration in enumerate(elements(everything)):
        if not covered_later[i] and not known.covers(toleration):
            kept.append(toleration)
            known.add(toleration)
    return kept
