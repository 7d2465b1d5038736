"""Encodes the events of a watch in the requested form, framed for HTTP/1.1 (chunks) or a WebSocket (messages).

Hundreds of watches with the same form may get the same large object.  If all of them decoded and encoded it at once, in slices,
each would have its own tree meanwhile.  In a queue, the second watch finds the bytes of the first one.

The object of a bookmark is of the watched kind, and empty except for its revision (upstream: ``newFunc`` of a Cacher).  Go writes
some fields even of an empty object: structs that are held by value, and lists without ``omitempty``.  A few numbers are pointers
in the served types but values in upstream's internal types, so they are written as zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import lru_cache

import orjson
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kapi.codecs.negotiation import MediaType
from kapi.endpoints import transform
from kapi.endpoints.encoding import message_of_entry, shows_stored
from kapi.endpoints.errors import to_status
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status, tree
from kapi.machinery.checkpoint import LARGE
from kapi.machinery.gvk import GroupKind
from kapi.machinery.selectors import Predicate
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.schema import protobuf_writing
from kapi.schema.builtin import type_of
from kapi.schema.zero import always_emitted
from kapi.watchcache.cache import Batch, WatchEvent
from kapi.watchcache.event import ADDED, CacheEvent, select
from kapi.watchcache.selection import matcher

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_GENERATION = "deprecated.daemonset.template.generation"
_DAEMON_SET = GroupKind("apps", "DaemonSet")
#: kinds whose replicas are a plain number internally
_COUNTED = frozenset(GroupKind("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet"))
_FRAME_HEAD = 4
Encoding = Callable[[], "Deferred[bytes | None]"]


def bookmark_metadata(event: WatchEvent) -> Object:
    metadata: Object = {"resourceVersion": str(event.revision)}
    if event.initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata


def bookmark(resource: Resource, event: WatchEvent) -> Object:
    """The bookmark's object in the watched version."""
    kind = resource.group_version_kind
    metadata = bookmark_metadata(event)
    obj: Object = {"kind": kind.kind, "apiVersion": str(kind.group_version), "metadata": metadata}
    if resource.typed_items:
        return obj
    for name, value in always_emitted(type_of(kind)):
        obj.setdefault(name, tree.copy(value))
    if kind.group_kind in _COUNTED:
        obj["spec"] = {"replicas": 0, **obj["spec"]}
    elif kind.group_kind == _DAEMON_SET:
        metadata["annotations"] = {_GENERATION: "0", **metadata.get("annotations", {})}
    return obj


class EncodingQueue:
    """Runs the encodings of one form one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Deferred[bytes | None], Encoding]] = deque()
        self._busy = False  # an encoding runs
        self._beginning = False

    def run(self, encoding: Encoding) -> Deferred[bytes | None]:
        """The result of ``encoding``, which begins when the encodings before it have ended; it may be cancelled."""
        running: list[Deferred[bytes | None]] = []

        def begin() -> Deferred[bytes | None]:
            running.append(encoding())
            return running[0]

        done: Deferred[bytes | None] = Deferred(lambda _: running[0].cancel() if running else None)
        self._waiting.append((done, begin))
        self._begin()
        return done

    def _begin(self) -> None:
        if self._beginning:
            return  # an encoding that ended at once: the loop goes on
        self._beginning = True
        while self._waiting and not self._busy:
            done, begin = self._waiting.popleft()
            if not done.called:
                self._busy = True
                begin().addBoth(self._ended, done)
        self._beginning = False

    def _ended(self, result: bytes | Failure | None, done: Deferred[bytes | None]) -> None:
        self._busy = False
        if not done.called:
            done.callback(result)  # a Failure is an error
        self._begin()


class Form:
    """The form of a watch's events: the key under which encoded bytes are shared, and the encoder.

    ``converted`` selects objects by fields that they have in the version of the watch alone; other objects are left out.
    """

    def __init__(self, scope: RequestScope, media: MediaType, include: str, converted: Predicate | None = None) -> None:
        self.scope = scope
        self.media = media
        self.include = include
        resource = scope.resource
        self.table = media.as_kind == "Table"
        if self.table and self.include not in ("None", "Metadata", "Object", ""):
            raise status.bad_request(transform.bad_include(self.include))
        self.stored = media.plain and scope.same_version
        self.plain = media.plain
        self.matches = matcher(converted)
        self.as_list = media.as_kind.endswith("List")
        self.key: Hashable = (
            resource.group,
            resource.version,
            media.as_kind,
            media.as_version,
            self.include if self.table else "",
            media.content_type if media.binary else b"",
            () if converted is None else converted.fields.requirements,
        )
        self.chunk_key = (self.key, "chunk")
        self.message_key = (self.key, "message")
        self.queue = EncodingQueue()
        self.sent = scope.store.cache.sent_as(resource.version)

    def takes_long(self, batch: Batch) -> bool:
        """Whether encoding a batch may take long: it has large objects, or custom resources, whose schemas may be large."""
        return self.scope.resource.typed_items or batch.size >= LARGE

    def encode(self, event: WatchEvent, headers: bool = False) -> bytes:
        """One framed event; b"" for the form of a list, which a watch cannot have.

        Raises Unconverted when the conversion webhook must convert the object first.
        """
        if self.as_list:
            return b""
        if event.entry is None:
            return self._frame("BOOKMARK", self._bookmark(event, headers))
        if self.matches is not None:
            previous = None if event.type == ADDED else event.previous
            chosen = select(CacheEvent(event.revision, event.type, event.entry, previous), self.matches)
            if chosen is None or chosen.entry is None:
                return b""
            event = chosen
        assert event.entry is not None
        if self.stored:
            return event.json
        if self.plain:
            return self._line(event, self.scope.served(event.entry))
        if self.media.protobuf and not self.media.as_kind:
            kind = self.scope.kind
            message = protobuf_writing.envelope(kind, message_of_entry(self.scope, event.entry))
            return protobuf_writing.watch_frame(event.type, message)
        served = self.scope.from_storage
        if self.media.as_kind and shows_stored(self.scope.resource):
            obj = event.entry.object
        else:
            obj = served(event.entry.object)
        if self.table:
            meta = {"resourceVersion": str(event.revision)}
            tree = transform.table(
                self.scope.resource,
                [obj],
                meta,
                now=self.scope.now,
                version=self.media.as_version,
                include=self.include,
                headers=headers,
                served=served if shows_stored(self.scope.resource) else None,
            )
        elif self.media.as_kind:
            tree = transform.partial(obj, self.media.as_version, self.scope.resource)
        else:
            tree = obj
        return self._frame(event.type, tree)

    def parts(self, kind: str, data: bytes, framing: str) -> tuple[bytes, bytes, bytes]:
        """An event whose object has the stored bytes ``data``, framed; none of it is copied."""
        head, tail = b'{"type":"%s","object":' % kind.encode(), b"}\n"
        size = len(head) + len(data) + len(tail)
        if framing == "chunk":
            return b"%x\r\n%b" % (size, head), data, tail + b"\r\n"
        return (message_head(size, False) + head if framing else head), data, tail

    def error(self, error: Exception) -> bytes:
        """The ERROR event that ends a stream."""
        return self._frame("ERROR", to_status(error).status)

    @staticmethod
    def _line(event: WatchEvent, data: bytes) -> bytes:
        if event.entry is not None and data is event.entry.data:
            return event.json
        return b'{"type":"%s","object":%s}\n' % (event.type.encode(), data)

    def unconverted(self, batch: Batch) -> list[Object]:
        """The objects of a batch that the conversion webhook must convert first."""
        found = [event.entry for event in batch.events if event.entry is not None]
        if self.matches is not None:
            found += [event.previous for event in batch.events if event.previous is not None]
        return self.scope.unconverted(entry.object for entry in found)

    def encode_chunk(self, event: WatchEvent, headers: bool = False) -> bytes:
        """As ``encode``, as a chunk of HTTP/1.1."""
        data = self.encode(event, headers)
        return chunk(data) if data else b""  # an empty chunk would end the stream

    def encode_message(self, event: WatchEvent, headers: bool = False) -> bytes:
        """As ``encode``, as a message of a WebSocket."""
        data = self.encode(event, headers)
        return message(data, self.media.binary, frame_head(self.media)) if data else b""

    def _bookmark(self, event: WatchEvent, headers: bool) -> Object:
        if self.media.as_kind and not self.table:
            return transform.partial({"metadata": bookmark_metadata(event)}, self.media.as_version)
        obj = bookmark(self.scope.resource, event)
        if self.table:
            # the bookmark after the initial events has its object even with includeObject=None
            include = "Metadata" if event.initial_end and self.include == "None" else self.include
            return transform.table(
                self.scope.resource,
                [obj],
                {"resourceVersion": str(event.revision)},
                now=self.scope.now,
                version=self.media.as_version,
                include=include,
                headers=headers,
            )
        return obj

    def _frame(self, kind: str, tree: Object) -> bytes:
        if self.media.protobuf:
            return protobuf_writing.watch_frame(kind, protobuf_writing.encode_tree(tree))
        if self.media.cbor:
            from kapi.codecs.cbor_writing import dump_event  # imported only when they are used
            from kapi.schema.cbor import encode_tree

            return dump_event(kind, encode_tree(tree))
        return b'{"type":"' + kind.encode() + b'","object":' + orjson.dumps(tree) + b"}\n"


def frame_head(media: MediaType) -> int:
    """The bytes before an event that contain its length."""
    return _FRAME_HEAD if media.protobuf else 0


def chunk(data: bytes) -> bytes:
    """A chunk of HTTP/1.1; b"" for no data, because an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else data


def message(data: bytes, binary: bool, head: int = 0) -> bytes:
    """A message of a WebSocket (RFC 6455, section 5.2); b"" for no data.  It has no need of the ``head`` of a frame."""
    content = memoryview(data)[head:] if head else data
    return b"".join((message_head(len(content), binary), content)) if data else data


def message_head(size: int, binary: bool) -> bytes:
    """The bytes before the ``size`` bytes of a message."""
    opcode = b"\x82" if binary else b"\x81"
    if size < 126:
        return opcode + size.to_bytes(1)
    return opcode + (b"\x7e" + size.to_bytes(2) if size < 1 << 16 else b"\x7f" + size.to_bytes(8))


@lru_cache(maxsize=512)
def form_of(scope: RequestScope, media: MediaType, include: str) -> Form:
    """The form, shared by all clients that request the same.  Raises BadRequest."""
    return Form(scope, media, include)
