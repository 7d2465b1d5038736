"""One cached object: its bytes, decoded only when somebody looks inside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Protocol
from weakref import WeakSet

import msgspec

from kapi.codecs import json_pieces
from kapi.machinery.freeing import LARGE, free_in_steps
from kapi.machinery.tree import Object
from kapi.watchcache.unreadable import Unreadable

Fields = Mapping[str, Callable[[Object], str]]

_REVISION = b'"metadata":{"resourceVersion":"'
_NO_LABELS: dict[str, str] = {}
_MAX_SHARED = 4096  # sets of labels, and bytes of one
_MAX_SHARED_SIZE = 1024


class _Metadata(msgspec.Struct):
    labels: msgspec.Raw = msgspec.Raw(b"null")


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_is_former = attrgetter("is_former")
_labelled_of = msgspec.json.Decoder(_Labelled).decode
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode


@lru_cache(_MAX_SHARED)
def _shared_labels(raw: bytes) -> Mapping[str, str]:
    return _decode_labels(raw) or _NO_LABELS


def _labels_of(data: bytes) -> Mapping[str, str]:
    """Many objects have the same labels, and a dictionary for each would take 240 bytes."""
    raw = bytes(_labelled_of(data).metadata.labels)
    return _shared_labels(raw) if len(raw) <= _MAX_SHARED_SIZE else _decode_labels(raw) or _NO_LABELS


class Kept:
    """Bounds how much is kept besides the JSON, in bytes of JSON: the oldest is dropped first.

    ``forget`` lets go what an entry has.
    """

    def __init__(self, limit: int, forget: Callable[[Entry], None]) -> None:
        self._limit = limit
        self._forget = forget
        self._kept: deque[Entry] = deque()
        self._size = 0

    def add(self, entry: Entry) -> None:
        self._kept.append(entry)
        self._size += len(entry.data)
        while self._size > self._limit and len(self._kept) > 1:
            oldest = self._kept.popleft()
            self._size -= len(oldest.data)
            self._forget(oldest)


class Holder(Protocol):
    """A cache, as its entries know it."""

    def set_aside(self, entry: Entry, problem: str) -> Unreadable:
        """Called with an entry that turns out not to be readable; answers what to raise: that of a former state when the
        cache does not hold it now.
        """


class Scope:
    """What the entries of one resource share.

    The caches that hold them are known as long as somebody else needs them: the garbage collector, which does not look
    into entries, could not free what is reached through these alone.
    """

    __slots__ = ("decoded", "encoded", "fields", "holders", "namespaced")

    def __init__(self, decoded: Kept, encoded: Kept, fields: Fields, namespaced: bool) -> None:
        self.decoded = decoded
        self.encoded = encoded
        self.fields = fields
        self.namespaced = namespaced
        self.holders: WeakSet[Holder] = WeakSet()

    def change(self, fields: Fields | None, namespaced: bool | None) -> bool:
        """Replaces what is not None; whether that was another.  Raises ValueError where that cannot be."""
        changed = (fields is not None and fields is not self.fields) or namespaced not in (None, self.namespaced)
        if changed:
            self.fields = self.fields if fields is None else fields
            self.namespaced = self.namespaced if namespaced is None else namespaced
        return changed

    def unreadable(self, entry: Entry, problem: Exception) -> Exception:
        """What to raise for an entry that cannot be decoded."""
        found = [holder.set_aside(entry, str(problem)) for holder in list(self.holders)]
        return min(found, key=_is_former) if found else problem


class SharedScope(Scope):
    """Of entries that the caches of several stores share, as these share the objects; of one resource.

    ``place`` are its group (or "core") and its plural name.
    """

    __slots__ = ("place",)

    def __init__(self, decoded: Kept, encoded: Kept, fields: Fields, namespaced: bool, place: tuple[str, str]) -> None:
        super().__init__(decoded, encoded, fields, namespaced)
        self.place = place

    def change(self, fields: Fields | None, namespaced: bool | None) -> bool:
        if (fields is not None and fields is not self.fields) or namespaced not in (None, self.namespaced):
            raise ValueError(f"the fields of {'/'.join(self.place)} are the same in all stores")
        return False


class Entry(msgspec.Struct, eq=False, gc=False):
    """An object at a revision; never changes.

    ``key`` is ``namespace/name``, or the name alone for cluster-scoped objects; lists are sorted by it.  ``data`` is
    the stored JSON with its resourceVersion.

    There are as many as objects, and the garbage collector passes them by: what they hold does not live by them, or
    does not lead back to them.
    """

    scope: Scope
    key: str
    namespace: str
    name: str
    revision: int
    data: bytes
    served_as: object = None  # for whom ``data`` is known to be what is served
    _object: Object | None = None
    _labels: Mapping[str, str] | None = None
    _fields: dict[str, str] | None = None
    _message: bytes | None = None

    @property
    def object(self) -> Object:
        """The decoded tree: shared, never change it.  Raises Unreadable."""
        if self._object is None:
            tree = self._decode()
            if self._object is None:  # nobody else has decoded it meanwhile
                self._object = tree
                self.scope.decoded.add(self)
        return self._object

    def adopt(self, tree: Object) -> None:
        """``tree`` is what ``data`` was made from: nobody changes it any more.  Large ones are not worth being kept."""
        if self._object is None and len(self.data) < LARGE:
            self._object = tree
            self.scope.decoded.add(self)

    @property
    def decoded(self) -> Object | None:
        """``object`` if it is decoded now."""
        return self._object

    @property
    def is_large(self) -> bool:
        """Whether it takes long to decode it, or to walk ``object``."""
        return len(self.data) >= LARGE

    def _decode(self) -> Object:
        try:
            tree: Object = json_pieces.loads(self.data)
        except ValueError as error:
            raise self._unreadable(error) from None
        return tree

    def _unreadable(self, error: Exception) -> Exception:
        return self.scope.unreadable(self, error)

    @property
    def labels(self) -> Mapping[str, str]:
        if self._labels is None:
            if self._object is not None:
                self._labels = self._object["metadata"].get("labels") or _NO_LABELS
            else:
                try:
                    self._labels = _labels_of(self.data)
                except RecursionError:  # a deep object, and a deep stack already
                    self._labels = self.object["metadata"].get("labels") or _NO_LABELS
                except msgspec.DecodeError as error:
                    raise self._unreadable(error) from None
        return self._labels

    @property
    def fields(self) -> Mapping[str, str]:
        """The selectable fields, metadata.name and metadata.namespace among them."""
        if self._fields is None:
            fields = {"metadata.name": self.name}
            if self.scope.namespaced:
                fields["metadata.namespace"] = self.namespace
            readers = self.scope.fields
            if readers:
                obj = self._object if self._object is not None else self._decode()
                try:
                    for name, read in readers.items():
                        fields[name] = read(obj)
                except Exception as error:  # an object of another shape than its kind has
                    raise self._unreadable(error) from None
            self._fields = fields
        return self._fields

    def message(self, write: Callable[[Object], bytes]) -> bytes:
        """The object's protobuf message in the storage version, made once by ``write``.  Raises Unreadable."""
        if self._message is None:
            self._message = write(self._object if self._object is not None else self._decode())
            self.scope.encoded.add(self)
        return self._message

    def forget_message(self) -> None:
        """Others are asked for more often."""
        self._message = None

    def forget_object(self) -> None:
        """Nobody is likely to look inside again."""
        if self._object is not None:
            free_in_steps(self._object, len(self.data))
            self._object = None

    def forget_fields(self) -> None:
        """After the resource's selectable fields have changed."""
        self._fields = None

    @property
    def halves(self) -> tuple[bytes, bytes]:
        """``data`` before and after its revision."""
        data = self.data
        start = data.index(_REVISION) + len(_REVISION)
        return data[:start], data[data.index(b'"', start) :]

    def at(self, revision: int) -> Entry:
        """The same object under another resourceVersion: as sent when it leaves a selection."""
        head, tail = self.halves
        return Entry(self.scope, self.key, self.namespace, self.name, revision, b"%s%d%s" % (head, revision, tail))

    def __repr__(self) -> str:
        return f"<Entry {self.key}@{self.revision}>"


def labelled(entries: Iterable[Entry], key: str, values: Collection[str]) -> list[Entry]:
    """Those whose label has one of some values, in order.  Raises Unreadable."""
    return [entry for entry in entries if (entry.labels if entry._labels is None else entry._labels).get(key) in values]
