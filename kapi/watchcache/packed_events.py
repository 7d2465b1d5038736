"""Compressed events: older history, which few watches request, in a tenth of its memory.

Successive states of an object, and objects of one kind, have nearly the same text, so they compress well together.  Compressing
takes some 5 us for an event, and happens when the event has been in the history for some seconds and few clients write.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from itertools import islice
from sys import intern

import msgspec

from kapi.machinery.each import costly
from kapi.watchcache.entry import Entry, Scope
from kapi.watchcache.event import ADDED, DELETED, MODIFIED, CacheEvent

MAX_EVENTS = 256  # in a pack
MAX_BYTES = 512_000  # of the states in a pack; the last one may exceed it
MIN_EVENTS = 32  # fewer events are packed only
MIN_BYTES = 32_000  # when their states have at least so many bytes
_PIECE_BYTES = 64 * 1024  # compressed between two checkpoints
_LEVEL = 1  # of zlib; higher levels take much longer and save little
_KINDS = (ADDED, MODIFIED, DELETED)


class _Columns(msgspec.Struct, array_like=True, gc=False):
    """``states`` are objects at a revision; ``entries`` and ``previous`` their numbers, -1 for none."""

    kinds: list[int]
    entries: list[int]
    previous: list[int]
    namespaces: list[str]
    names: list[str]
    revisions: list[int]
    data: list[bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Columns).decode


class PackedEvents:
    """Consecutive events of one resource, compressed."""

    __slots__ = ("_packed", "_scope", "revisions")

    def __init__(self, events: list[CacheEvent]) -> None:
        """Compresses ``events`` (from ``first_of``), in steps."""
        self.revisions = array("Q", [event.revision for event in events])
        self._scope = events[0].entry.scope
        columns = _Columns([], [], [], [], [], [], [])
        numbers: dict[int, int] = {}
        for event in events:
            columns.kinds.append(_KINDS.index(event.kind))
            columns.previous.append(_number_of(event.previous, columns, numbers))
            columns.entries.append(_number_of(event.entry, columns, numbers))
        whole = memoryview(_encode(columns))
        packer = zlib.compressobj(_LEVEL)
        parts = [
            packer.compress(whole[start : start + _PIECE_BYTES]) for start in costly(range(0, len(whole), _PIECE_BYTES))
        ]
        self._packed = b"".join((*parts, packer.flush()))

    def __len__(self) -> int:
        return len(self.revisions)

    @property
    def newest(self) -> int:
        return self.revisions[-1]

    @property
    def size(self) -> int:
        """The number of compressed bytes."""
        return len(self._packed)

    def events(self) -> list[CacheEvent]:
        """Decompresses the events; each call makes new ones."""
        columns = _decode(zlib.decompress(self._packed))
        scope = self._scope
        states: list[Entry | None] = [
            Entry(scope, f"{namespace}/{name}" if namespace else name, intern(namespace), name, revision, data)
            for namespace, name, revision, data in zip(
                columns.namespaces, columns.names, columns.revisions, columns.data, strict=True
            )
        ]
        states.append(None)  # the one of number -1
        return [
            CacheEvent(revision, _KINDS[kind], states[entry], states[previous])  # type: ignore[arg-type]  # there is an entry
            for revision, kind, entry, previous in zip(
                self.revisions, columns.kinds, columns.entries, columns.previous, strict=True
            )
        ]


def _number_of(entry: Entry | None, columns: _Columns, numbers: dict[int, int]) -> int:
    if entry is None:
        return -1
    number = numbers.get(id(entry))
    if number is None:
        number = numbers[id(entry)] = len(numbers)
        columns.namespaces.append(entry.namespace)
        columns.names.append(entry.name)
        columns.revisions.append(entry.revision)
        columns.data.append(entry.data)
    return number


def first_of(events: Iterable[CacheEvent], until: int) -> list[CacheEvent]:
    """The events to pack next, up to the revision ``until``; none when there are too few."""
    found: list[CacheEvent] = []
    states: set[int] = set()
    size = 0
    scope: Scope | None = None
    for event in islice(events, MAX_EVENTS):
        entry, previous = event.entry, event.previous
        scope = scope or entry.scope
        of_others = entry.scope is not scope or (previous is not None and previous.scope is not scope)
        if event.revision > until or of_others or size >= MAX_BYTES:
            break
        found.append(event)
        for state in (previous, entry):  # the previous one is from another pack at times, or older than the history
            if state is not None and id(state) not in states:
                states.add(id(state))
                size += len(state.data)
    return found if len(found) >= MIN_EVENTS or size >= MIN_BYTES else []
