"""One cached object: its stored bytes, decoded only when needed.

Upstream decodes every object that it reads from etcd.  Here stored bytes are served as they are, so an object that another
program or version wrote may be JSON of another shape.  That matters for objects that configure the server, since an
error there would affect all requests.  So such an object without the shape of its kind is unreadable, like an object that cannot
be decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Protocol
from weakref import WeakSet

import msgspec

from kapi.codecs import json_pieces
from kapi.machinery.freeing import LARGE, free_in_steps
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.memo import cached_function
from kapi.machinery.tree import Object
from kapi.schema import builtin
from kapi.schema.decode import decode_tree
from kapi.watchcache.unreadable import Unreadable

#: (group or "core", resource) of objects that are checked whenever they are decoded; there are few of them
CHECKED = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiregistration.k8s.io", "apiservices"),
        ("core", "limitranges"),
        ("core", "resourcequotas"),
        ("core", "services"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "servicecidrs"),
    }
)
Fields = Mapping[str, Callable[[Object], str]]
_REVISION = b'"metadata":{"resourceVersion":"'
_NO_LABELS: dict[str, str] = {}
_MAX_SHARED = 4096  # sets of labels
_MAX_SHARED_BYTES = 1024  # of one set of labels
_is_former = attrgetter("is_former")
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode


def check_shape(tree: Object) -> None:
    """Raises ValueError with the text of Go's decoder.  A kind that is not known is not checked."""
    kind = GroupVersionKind(*GroupVersion.parse(str(tree["apiVersion"])), str(tree["kind"]))
    if kind in builtin.names_by_kind():
        decode_tree(tree, builtin.type_of(kind), strict=False)


class _Metadata(msgspec.Struct):
    labels: msgspec.Raw = msgspec.Raw(b"null")


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_labelled_of = msgspec.json.Decoder(_Labelled).decode


class _Identity(msgspec.Struct):
    uid: str = ""


class _Identified(msgspec.Struct):
    metadata: _Identity


_identified_of = msgspec.json.Decoder(_Identified).decode


@cached_function(_MAX_SHARED)
def _shared_labels(raw: bytes) -> Mapping[str, str]:
    return _decode_labels(raw) or _NO_LABELS


def _labels_of(data: bytes) -> Mapping[str, str]:
    """The labels; objects with the same labels share one dictionary, because one for each object would take 240 bytes."""
    raw = bytes(_labelled_of(data).metadata.labels)
    return _shared_labels(raw) if len(raw) <= _MAX_SHARED_BYTES else _decode_labels(raw) or _NO_LABELS


class ByteBudget:
    """Bounds how many entries keep a second form of their object (decoded, or protobuf); the oldest is dropped first.

    ``limit`` is in bytes of the entries' JSON.  ``forget`` drops the second form of an entry.
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
    """What an entry needs of a cache that holds it."""

    def set_aside(self, entry: Entry, problem: str) -> Unreadable:
        """Excludes an entry that cannot be decoded; returns the error to raise.

        ``is_former`` is set in it when the cache now holds another state of the object.
        """


def check_of(place: tuple[str, str]) -> Callable[[Object], None] | None:
    """``check`` for a resource, given by its group (or "core") and plural name."""
    return check_shape if place in CHECKED else None


class Scope:
    """The common data of the entries of one resource.

    The caches are referenced weakly: the garbage collector does not track entries (``gc=False``), so a cycle through them would
    never be freed.
    """

    __slots__ = ("check", "decoded", "encoded", "fields", "holders", "namespaced")

    def __init__(
        self,
        decoded: ByteBudget,
        encoded: ByteBudget,
        fields: Fields,
        namespaced: bool,
        check: Callable[[Object], None] | None = None,
    ) -> None:
        #: raises ValueError for a decoded object without the shape of its kind
        self.check = check
        self.decoded = decoded
        self.encoded = encoded
        self.fields = fields
        self.namespaced = namespaced
        self.holders: WeakSet[Holder] = WeakSet()

    def change(self, fields: Fields | None, namespaced: bool | None) -> bool:
        """Replaces what is not None; returns whether anything changed.  Raises ValueError when the scope is shared."""
        changed = (fields is not None and fields is not self.fields) or namespaced not in (None, self.namespaced)
        if changed:
            self.fields = self.fields if fields is None else fields
            self.namespaced = self.namespaced if namespaced is None else namespaced
        return changed

    def unreadable(self, entry: Entry, problem: Exception) -> Exception:
        """The error to raise for an entry that cannot be decoded."""
        found = [holder.set_aside(entry, str(problem)) for holder in list(self.holders)]
        return min(found, key=_is_former) if found else problem


class SharedScope(Scope):
    """The scope of one resource's entries that the caches of several stores share.

    ``place`` is the resource's group (or "core") and its plural name.
    """

    __slots__ = ("place",)

    def __init__(
        self, decoded: ByteBudget, encoded: ByteBudget, fields: Fields, namespaced: bool, place: tuple[str, str]
    ) -> None:
        super().__init__(decoded, encoded, fields, namespaced, check_of(place))
        self.place = place

    def change(self, fields: Fields | None, namespaced: bool | None) -> bool:
        if (fields is not None and fields is not self.fields) or namespaced not in (None, self.namespaced):
            raise ValueError(f"the fields of {'/'.join(self.place)} are the same in all stores")
        return False


class Entry(msgspec.Struct, eq=False, gc=False):
    """An object at a revision; never changes.

    ``key`` is ``namespace/name``, or the name alone for cluster-scoped objects; lists are sorted by it.  ``data`` is
    the stored JSON with its resourceVersion.

    There is one for each object, so the garbage collector does not track them (``gc=False``).  Nothing that an entry references
    may therefore reference the entry.
    """

    scope: Scope
    key: str
    namespace: str
    name: str
    revision: int
    data: bytes
    served_as: object = None  # the version whose served form is known to equal ``data``
    _object: Object | None = None
    _labels: Mapping[str, str] | None = None
    _fields: dict[str, str] | None = None
    _message: bytes | None = None

    @property
    def object(self) -> Object:
        """The decoded tree: shared, never change it.  Raises Unreadable."""
        found = self._object
        if found is None:
            tree = self._decode()
            found = self._object
            if found is None:  # decoding is in slices: another caller may have finished first
                found = self._object = tree
                self.scope.decoded.add(self)  # which may drop it again
        return found

    def adopt(self, tree: Object) -> None:
        """Takes the tree that ``data`` was encoded from; the caller must not change it any more.  Large ones are not kept."""
        if self._object is None and len(self.data) < LARGE:
            self._object = tree
            self.scope.decoded.add(self)

    def check(self) -> None:
        """Raises Unreadable when the object does not have the shape of its kind, whatever its resource."""
        try:
            check_shape(self.object)
        except ValueError as error:
            raise self._unreadable(error) from None

    @property
    def decoded(self) -> Object | None:
        """``object`` if it is decoded already, else None."""
        return self._object

    @property
    def is_large(self) -> bool:
        """Whether decoding it, or walking ``object``, takes long."""
        return len(self.data) >= LARGE

    def _decode(self) -> Object:
        try:
            tree: Object = json_pieces.loads(self.data)
            if self.scope.check is not None:
                self.scope.check(tree)
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
                except (
                    RecursionError
                ):  # a deeply nested object on a deep stack; orjson's limit does not depend on the stack
                    self._labels = self.object["metadata"].get("labels") or _NO_LABELS
                except msgspec.DecodeError as error:
                    raise self._unreadable(error) from None
        return self._labels

    @property
    def uid(self) -> str:
        """The uid, looked up each time.  Raises Unreadable."""
        if self._object is not None:
            found: str = self._object["metadata"].get("uid", "")
            return found
        try:
            return _identified_of(self.data).metadata.uid
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from None

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
                except Exception as error:  # an object without the shape of its kind
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
        """Drops the protobuf form."""
        self._message = None

    def forget_object(self) -> None:
        """Drops the decoded tree."""
        if self._object is not None:
            free_in_steps(self._object, len(self.data))
            self._object = None

    def forget_fields(self) -> None:
        """Drops the values of selectable fields, after the resource's fields have changed."""
        self._fields = None

    @property
    def halves(self) -> tuple[bytes, bytes]:
        """``data`` before and after the digits of its resourceVersion."""
        data = self.data
        start = data.index(_REVISION) + len(_REVISION)
        return data[:start], data[data.index(b'"', start) :]

    def at(self, revision: int) -> Entry:
        """The same object with another resourceVersion, as sent when it no longer matches a selector."""
        head, tail = self.halves
        return Entry(self.scope, self.key, self.namespace, self.name, revision, b"%s%d%s" % (head, revision, tail))

    def __repr__(self) -> str:
        return f"<Entry {self.key}@{self.revision}>"


def labelled(entries: Iterable[Entry], key: str, values: Collection[str]) -> list[Entry]:
    """The entries whose label ``key`` has one of ``values``, in order.  Raises Unreadable."""
    return [entry for entry in entries if (entry.labels if entry._labels is None else entry._labels).get(key) in values]
