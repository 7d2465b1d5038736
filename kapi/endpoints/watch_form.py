"""Encodes the events of a watch in the requested form, framed for HTTP/1.1 (chunks) or a WebSocket (messages)."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

import orjson

from kapi.codecs.negotiation import MediaType
from kapi.endpoints import transform
from kapi.endpoints.bookmark import bookmark, bookmark_metadata
from kapi.endpoints.encoding import message_of_entry
from kapi.endpoints.encoding_queue import EncodingQueue
from kapi.endpoints.errors import to_status
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.checkpoint import LARGE
from kapi.machinery.tree import Object
from kapi.schema import protobuf_writing
from kapi.watchcache.cache import Batch, WatchEvent


class Form:
    """The form of a watch's events: the key under which encoded bytes are shared, and the encoder."""

    def __init__(self, scope: RequestScope, media: MediaType, include: str) -> None:
        self.scope = scope
        self.media = media
        self.include = include
        resource = scope.resource
        self.table = media.as_kind == "Table"
        if self.table and self.include not in ("None", "Metadata", "Object", ""):
            raise status.bad_request(transform.bad_include(self.include))
        self.stored = media.plain and scope.same_version
        self.plain = media.plain
        self.as_list = media.as_kind.endswith("List")
        self.key: Hashable = (
            resource.group,
            resource.version,
            media.as_kind,
            media.as_version,
            self.include if self.table else "",
            media.protobuf,
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
        if self.stored:
            return event.json
        if self.plain:
            return self._line(event, self.scope.served(event.entry))
        if self.media.protobuf and not self.media.as_kind:
            kind = self.scope.kind
            message = protobuf_writing.envelope(kind, message_of_entry(self.scope, event.entry))
            return protobuf_writing.watch_frame(event.type, message)
        obj = self.scope.from_storage(event.entry.object)
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
            )
        elif self.media.as_kind:
            tree = transform.partial(obj, self.media.as_version)
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
        return self.scope.unconverted(event.entry.object for event in batch.events if event.entry is not None)

    def encode_chunk(self, event: WatchEvent, headers: bool = False) -> bytes:
        """As ``encode``, as a chunk of HTTP/1.1."""
        return chunk(self.encode(event, headers))

    def encode_message(self, event: WatchEvent, headers: bool = False) -> bytes:
        """As ``encode``, as a message of a WebSocket."""
        return message(self.encode(event, headers), self.media.protobuf)

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
        return b'{"type":"' + kind.encode() + b'","object":' + orjson.dumps(tree) + b"}\n"


def chunk(data: bytes) -> bytes:
    """A chunk of HTTP/1.1; b"" for no data, because an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else data


def message(data: bytes, binary: bool) -> bytes:
    """A message of a WebSocket (RFC 6455, section 5.2); b"" for no data.  A binary one has no need of the frame's length."""
    content = memoryview(data)[4:] if binary else data
    return b"".join((message_head(len(content), binary), content)) if data else data


def message_head(size: int, binary: bool) -> bytes:
    """What comes before the ``size`` bytes of a message."""
    opcode = b"\x82" if binary else b"\x81"
    if size < 126:
        return opcode + size.to_bytes(1)
    return opcode + (b"\x7e" + size.to_bytes(2) if size < 1 << 16 else b"\x7f" + size.to_bytes(8))


@lru_cache(maxsize=512)
def form_of(scope: RequestScope, media: MediaType, include: str) -> Form:
    """The form, shared by all clients that request the same.  Raises BadRequest."""
    return Form(scope, media, include)
