"""The store's history as a recorder saw it: what every object was at every revision."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from kapi.store.interface import DELETED, Change
from tests.consistency.records import Item, Selector

_revision = attrgetter("revision")


class State(NamedTuple):
    """An object after a change; ``kind`` is the change's.  ``object`` is what is stored, of a deletion the last state."""

    revision: int
    kind: str
    key: str
    value: str
    label: str
    field: str
    object: Any

    @property
    def there(self) -> bool:
        return self.kind != DELETED

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def uid(self) -> str:
        return str(self.object["metadata"].get("uid", ""))

    def selected(self, selector: Selector) -> bool:
        return selector.matches(self.label, self.field, self.name)

    def item(self) -> Item:
        _, _, namespace, name = self.key.split("/", 3)
        return Item(namespace, name, self.revision, self.value)


def state_of(change: Change) -> State:
    obj = orjson.loads(change.data)
    metadata = obj["metadata"]
    value = (metadata.get("annotations") or {}).get("v", "")
    label = (metadata.get("labels") or {}).get("color", "")
    spec = obj.get("spec")
    color = spec.get("color", "") if isinstance(spec, dict) else ""
    return State(change.revision, change.kind, change.key, value, label, color if isinstance(color, str) else "", obj)


class History:
    """``branches`` are changes that a primary made and its successor does not know: no acknowledged write may be there."""

    def __init__(self, changes: Sequence[Change], branches: Sequence[Sequence[Change]] = ()) -> None:
        self.states: list[State] = []
        self.first = changes[0].revision if changes else 1
        #: each with what came before it
        self.branches = [History([*changes[: branch[0].revision - self.first], *branch]) for branch in branches]
        self.dead = {change.revision: state_of(change) for branch in branches for change in branch}
        self._of_key: dict[str, list[State]] = defaultdict(list)
        self._of_prefix: dict[str, list[State]] = defaultdict(list)
        self._keys: dict[str, dict[str, None]] = defaultdict(dict)
        self.previous: dict[int, State | None] = {}
        self.extend(changes)

    @property
    def last(self) -> int:
        """The newest revision, 0 for none."""
        return self.states[-1].revision if self.states else 0

    def extend(self, changes: Iterable[Change]) -> None:
        """What came since."""
        for change in changes:
            state = state_of(change)
            self.states.append(state)
            known = self._of_key[state.key]
            self.previous[state.revision] = known[-1] if known and known[-1].there else None
            known.append(state)
            for prefix in prefixes(state.key):
                self._of_prefix[prefix].append(state)
                self._keys[prefix][state.key] = None

    def keys(self) -> list[str]:
        return list(self._of_key)

    def changes_of(self, key: str) -> list[State]:
        return self._of_key.get(key, [])

    def at(self, revision: int) -> State | None:
        """The change that made a revision."""
        position = revision - self.first
        return self.states[position] if 0 <= position < len(self.states) else None

    def state(self, key: str, revision: int) -> State | None:
        """The object at a revision; None when it was not there."""
        states = self._of_key.get(key, [])
        position = bisect_right(states, revision, key=_revision)
        return states[position - 1] if position and states[position - 1].there else None

    def between(self, key: str, low: int, high: int) -> Iterator[State | None]:
        """What the object was at any revision from ``low`` to ``high``."""
        states = self._of_key.get(key, [])
        yield self.state(key, low)
        for state in states[bisect_right(states, low, key=_revision) :]:
            if state.revision > high:
                return
            yield state if state.there else None

    def replay(self, prefix: str, selector: Selector, revision: int) -> list[State]:
        """The list at a revision."""
        found = (self.state(key, revision) for key in self._keys.get(prefix, ()))
        return [state for state in found if state is not None and state.selected(selector)]

    def events(self, prefix: str, selector: Selector, since: int) -> Iterator[tuple[str, State]]:
        """What a watch after a revision is told, in order."""
        states = self._of_prefix.get(prefix, [])
        for position in range(bisect_left(states, since + 1, key=_revision), len(states)):
            state = states[position]
            before = self.previous[state.revision]
            was = before is not None and before.selected(selector)
            now = state.there and state.selected(selector)
            if was or now:
                yield ("DELETED" if not now else "MODIFIED" if was else "ADDED"), state


def prefixes(key: str) -> tuple[str, str]:
    """Of the resource in all namespaces, and in the object's."""
    group, resource, namespace, _ = key.split("/", 3)
    return f"{group}/{resource}/", f"{group}/{resource}/{namespace}/"
