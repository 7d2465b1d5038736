"""Watchers with the same selection form a group; an index finds the groups that a change concerns.

A selection by name, or by the exact value of a field (every kubelet watches the pods of its own node), is looked up
and not tried, so that a change costs what it concerns and not what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kapi.machinery.label_terms import EXACT, LabelRequirement
from kapi.machinery.selectors import FieldRequirement, Predicate
from kapi.watchcache.entry import Entry, labelled
from kapi.watchcache.event import Batch, CacheEvent, WatchEvent, select

Matches = Callable[[Entry], bool]
Choose = Callable[[list[Entry]], list[Entry]]
_MAX_TERMS_AT_ONCE = 8  # terms of a selector: so many are looked at in one piece


class Watcher(Protocol):
    """A watch, as a group knows it."""

    @property
    def behind(self) -> bool: ...

    def deliver(self, batch: Batch) -> None: ...

    def end(self, error: Exception | None) -> None: ...

    def leave(self) -> bool: ...

    def send_end(self, error: Exception | None) -> None: ...


class Selection(NamedTuple):
    """The identity of a selection."""

    namespace: str
    name: str
    labels: Sequence[LabelRequirement]
    fields: tuple[FieldRequirement, ...]

    @classmethod
    def of(cls, namespace: str, name: str, predicate: Predicate | None) -> Selection:
        labels = predicate.labels.requirements if predicate is not None else ()
        fields = list(predicate.fields.requirements) if predicate is not None else []
        if predicate is not None and not name:
            exact = predicate.fields.exact("metadata.name")
            if exact is not None:
                name = exact
        if name:
            fields = [field for field in fields if field != ("metadata.name", "=", name)]
        return cls(namespace, name, labels, tuple(fields))

    @property
    def by_key_only(self) -> bool:
        """True when an object can neither enter nor leave the selection by changing."""
        return not self.labels and not self.fields


def matcher(predicate: Predicate | None) -> Matches | None:
    """A test of entries; None selects everything.  Looks at labels or fields only if the predicate does."""
    if predicate is None or predicate.empty:
        return None
    labels, fields = predicate.labels, predicate.fields
    if fields.empty:
        return lambda entry: labels.matches(entry.labels)
    if labels.empty:
        return lambda entry: fields.matches(entry.fields)
    return lambda entry: labels.matches(entry.labels) and fields.matches(entry.fields)


def chooser(predicate: Predicate | None) -> Choose | None:
    """The same for many entries at once, which costs a tenth of asking one by one; the entries keep their order."""
    matches = matcher(predicate)
    if predicate is None or matches is None:
        return None
    terms, fields = predicate.labels.requirements, predicate.fields
    if len(terms) > _MAX_TERMS_AT_ONCE:
        return lambda entries: [entry for entry in entries if matches(entry)]

    def choose(entries: list[Entry]) -> list[Entry]:
        for term in terms:
            if term.operator in EXACT:
                many = len(entries) > len(term.values)  # so many look-ups are worth a set that is quicker
                entries = labelled(entries, term.key, frozenset(term.values) if many else term.values)
            else:
                entries = [entry for entry in entries if term.matches(entry.labels)]
        return entries if fields.empty else [entry for entry in entries if fields.matches(entry.fields)]

    return choose


class Group:
    """The watchers with one selection and the events they will get together."""

    __slots__ = ("selection", "watches", "pending", "matches")

    def __init__(self, selection: Selection, predicate: Predicate | None) -> None:
        self.selection = selection
        self.watches: dict[Watcher, None] = {}
        self.pending: list[WatchEvent] = []
        self.matches = None if selection.by_key_only else matcher(predicate)

    def covers(self, entry: Entry) -> bool:
        """Whether the entry is in the namespace and has the name."""
        namespace, name, _, _ = self.selection
        return (not namespace or namespace == entry.namespace) and (not name or name == entry.name)

    def select(self, event: CacheEvent) -> WatchEvent | None:
        return select(event, self.matches)


class GroupIndex:
    """The groups of one resource."""

    def __init__(self) -> None:
        self._groups: dict[Selection, Group] = {}
        self._broad: dict[str, dict[Group, None]] = {}  # namespace ("" = all)
        self._named: dict[tuple[str, str], dict[Group, None]] = {}  # (namespace, name)
        self._valued: dict[str, dict[tuple[str, str], dict[Group, None]]] = {}  # field -> (namespace, value)

    def __len__(self) -> int:
        count = 0
        for group in self._groups.values():
            count += len(group.watches)
        return count

    def all(self) -> list[Watcher]:
        return [watch for group in self._groups.values() for watch in group.watches]

    def group(self, selection: Selection, predicate: Predicate | None) -> Group:
        """The group of a selection, made when there is none."""
        group = self._groups.get(selection)
        if group is None:
            group = self._groups[selection] = Group(selection, predicate)
            self._shelf(selection)[group] = None
        return group

    def drop(self, group: Group) -> None:
        """Forgets a group without watchers."""
        selection = group.selection
        if self._groups.get(selection) is not group:
            return
        del self._groups[selection]
        shelf = self._shelf(selection)
        shelf.pop(group, None)
        if shelf:
            return
        if selection.name:
            self._named.pop((selection.namespace, selection.name), None)
            return
        indexed = _indexed_field(selection)
        if indexed is None:
            self._broad.pop(selection.namespace, None)
            return
        values = self._valued[indexed.key]
        values.pop((selection.namespace, indexed.value), None)
        if not values:
            del self._valued[indexed.key]

    def _shelf(self, selection: Selection) -> dict[Group, None]:
        if selection.name:
            return self._named.setdefault((selection.namespace, selection.name), {})
        indexed = _indexed_field(selection)
        if indexed is None:
            return self._broad.setdefault(selection.namespace, {})
        return self._valued.setdefault(indexed.key, {}).setdefault((selection.namespace, indexed.value), {})

    def concerned(self, event: CacheEvent) -> Iterator[Group]:
        """The groups that may select the change; each once."""
        if not self._groups:
            return
        entry = event.entry
        namespace = entry.namespace
        yield from self._broad.get("", ())
        if namespace:
            yield from self._broad.get(namespace, ())
        if self._named:
            yield from self._named.get(("", entry.name), ())
            if namespace:
                yield from self._named.get((namespace, entry.name), ())
        for field, groups in self._valued.items():
            values = {entry.fields.get(field, "")}
            if event.previous is not None:
                values.add(event.previous.fields.get(field, ""))
            for value in values:
                yield from groups.get(("", value), ())
                if namespace:
                    yield from groups.get((namespace, value), ())


def _indexed_field(selection: Selection) -> FieldRequirement | None:
    """The first exact field; metadata.name is the name already."""
    for field in selection.fields:
        if field.operator == "=":
            return field
    return None
