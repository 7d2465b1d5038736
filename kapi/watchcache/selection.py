"""Watches with the same selector form a group; an index finds the groups that may select a change.

Groups that select by name, or by the exact value of a field, are found by a look-up: every kubelet watches the pods of its own
node.  So the cost of a change does not grow with the number of watches that it does not concern (upstream: apiserver
``storage/cacher``, indexedWatchers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from kapi.machinery.label_requirements import EXACT, LabelRequirement
from kapi.machinery.selectors import FieldRequirement, Predicate
from kapi.machinery.sharding import UID, Shards
from kapi.watchcache.entry import Entry, labelled
from kapi.watchcache.event import Batch, CacheEvent, WatchEvent, select

Matches = Callable[[Entry], bool]
Choose = Callable[[list[Entry]], list[Entry]]
_MAX_TERMS_AT_ONCE = 8  # with more terms a selector is tested on one entry at a time


class Watcher(Protocol):
    """What a group needs of a watch."""

    @property
    def behind(self) -> bool: ...

    def deliver(self, batch: Batch) -> None: ...

    def fail(self) -> None: ...

    def detach(self) -> bool: ...

    def send_end(self, error: Exception | None) -> None: ...


class Selection(NamedTuple):
    """What a watch selects; equal for watches of one group."""

    namespace: str
    name: str
    labels: Sequence[LabelRequirement]
    fields: tuple[FieldRequirement, ...]
    shards: Shards | None = None

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
        return cls(namespace, name, labels, tuple(fields), None if predicate is None else predicate.shards)

    @property
    def by_key_only(self) -> bool:
        """Whether only namespace and name decide: no update makes an object match or stop matching."""
        return not self.labels and not self.fields and self.shards is None


def matcher(predicate: Predicate | None) -> Matches | None:
    """A test of entries; None selects everything.  Looks at labels or fields only if the predicate does."""
    if predicate is None or predicate.empty:
        return None
    shards = predicate.shards
    if shards is not None:
        rest = matcher(unsharded(predicate))
        return lambda entry: is_in(shards, entry) and (rest is None or rest(entry))
    labels, fields = predicate.labels, predicate.fields
    if fields.empty:
        return lambda entry: labels.matches(entry.labels)
    read = predicate.read
    if read is not None:
        return lambda entry: labels.matches(entry.labels) and fields.matches(read(entry))
    if labels.empty:
        return lambda entry: fields.matches(entry.fields)
    return lambda entry: labels.matches(entry.labels) and fields.matches(entry.fields)


def unsharded(predicate: Predicate) -> Predicate:
    """The predicate without shards."""
    return Predicate(predicate.labels, predicate.fields, predicate.read)


def is_in(shards: Shards, entry: Entry) -> bool:
    """Whether an entry is in the shard, which no update of the object changes."""
    return shards.has(entry.uid if shards.key == UID else entry.namespace)


def chooser(predicate: Predicate | None) -> Choose | None:
    """As ``matcher``, but for many entries at once, which costs a tenth of single tests; the order is kept."""
    matches = matcher(predicate)
    if predicate is None or matches is None:
        return None
    terms, fields = predicate.labels.requirements, predicate.fields
    if len(terms) > _MAX_TERMS_AT_ONCE or predicate.read is not None or predicate.shards is not None:
        return lambda entries: [entry for entry in entries if matches(entry)]

    def choose(entries: list[Entry]) -> list[Entry]:
        for term in terms:
            if term.operator in EXACT:
                many = len(entries) > len(term.values)  # only then a set saves time
                entries = labelled(entries, term.key, frozenset(term.values) if many else term.values)
            else:
                entries = [entry for entry in entries if term.matches(entry.labels)]
        return entries if fields.empty else [entry for entry in entries if fields.matches(entry.fields)]

    return choose


class Group:
    """The watches with one selection, and the events that they get next."""

    __slots__ = ("selection", "watches", "pending", "matches")

    def __init__(self, selection: Selection, predicate: Predicate | None) -> None:
        self.selection = selection
        self.watches: dict[Watcher, None] = {}
        self.pending: list[WatchEvent] = []
        self.matches = None if selection.by_key_only else matcher(predicate)

    def covers(self, entry: Entry) -> bool:
        """Whether the entry has the selection's namespace and name."""
        namespace, name, _, _, _ = self.selection
        return (not namespace or namespace == entry.namespace) and (not name or name == entry.name)

    def select(self, event: CacheEvent) -> WatchEvent | None:
        """The event that the watches get for a change; None for none."""
        return select(event, self.matches)


class GroupIndex:
    """The groups of one resource."""

    def __init__(self) -> None:
        self._groups: dict[Selection, Group] = {}
        self.filtered = 0  # events that watches of shards did not get
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
        """The group of a selection, made on first use."""
        group = self._groups.get(selection)
        if group is None:
            group = self._groups[selection] = Group(selection, predicate)
            if predicate is not None and predicate.shards is not None:
                group.matches = self._counting(group.watches, predicate, predicate.shards)
            self._bucket(selection)[group] = None
        return group

    def _counting(self, watches: Collection[Watcher], predicate: Predicate, shards: Shards) -> Matches:
        """As ``matcher``, and counts events of other shards."""
        rest = matcher(unsharded(predicate))

        def matches(entry: Entry) -> bool:
            if not is_in(shards, entry):
                self.filtered += len(watches)
                return False
            return rest is None or rest(entry)

        return matches

    @property
    def sharded(self) -> int:
        """The watches of shards."""
        return sum(len(group.watches) for group in self._groups.values() if group.selection.shards is not None)

    def drop(self, group: Group) -> None:
        """Removes a group without watches."""
        selection = group.selection
        if self._groups.get(selection) is not group:
            return
        del self._groups[selection]
        bucket = self._bucket(selection)
        bucket.pop(group, None)
        if bucket:
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

    def _bucket(self, selection: Selection) -> dict[Group, None]:
        if selection.name:
            return self._named.setdefault((selection.namespace, selection.name), {})
        indexed = _indexed_field(selection)
        if indexed is None:
            return self._broad.setdefault(selection.namespace, {})
        return self._valued.setdefault(indexed.key, {}).setdefault((selection.namespace, indexed.value), {})

    def groups_for(self, event: CacheEvent) -> Iterator[Group]:
        """The groups that may select the change, each once."""
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
    """The first field that is selected by an exact value."""
    for field in selection.fields:
        if field.operator == "=":
            return field
    return None
