"""GET of a collection: cached bytes joined into a list, or rows, or metadata."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from kapi.codecs.negotiation import MediaType, output_media_type
from kapi.endpoints import transform
from kapi.endpoints.encoding import go_type, message_of_entry, respond_tree
from kapi.endpoints.options import ListOptions, list_options
from kapi.endpoints.scope import RequestScope, path_name
from kapi.endpoints.selection import predicate_of
from kapi.endpoints.writer import LARGE
from kapi.machinery import status
from kapi.machinery.checkpoint import checkpoint, in_slices, steps
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.pending import Share
from kapi.request.response import Parts, Response
from kapi.resources.definition import Resource
from kapi.schema import protobuf_writing
from kapi.watchcache.entry import Entry
from kapi.watchcache.unreadable import Unreadable

_MAX_NAMED = 10  # unreadable objects that a warning names
_ENTRIES_PER_SLICE = 128  # entries joined into one slice
_MAX_OBJECTS_AT_ONCE = 4096  # objects of a resource: so many are looked at in one piece
_END = b"]}\n"


async def list_objects(ctx: RequestContext, scope: RequestScope, options: ListOptions | None = None) -> Response:
    """A list in the form asked for.  Raises StatusError."""
    info = ctx.info
    assert info is not None
    media = output_media_type(ctx, "list")
    options = options or list_options(ctx)
    namespace = info.namespace if scope.resource.namespaced else ""
    cache = scope.store.cache
    predicate = predicate_of(scope, options, path_name(ctx))
    selective = not (predicate is None or predicate.empty)
    former = options.continue_ or options.resource_version not in ("", "0")
    if (
        media.as_kind
        or not (media.plain and scope.same_version)
        or selective
        or former
        or len(cache) > _MAX_OBJECTS_AT_ONCE
    ):
        await in_slices  # each object is looked at, or each change
    while True:
        page = await read.list_page(
            scope.store,
            namespace,
            predicate,
            resource_version=options.resource_version,
            match=options.resource_version_match,
            limit=options.limit,
            token=options.continue_,
        )
        try:
            if cache.unreadable:
                _warn_unreadable(ctx, cache.unreadable_in(namespace))
            return list_response(ctx, scope, page, media)
        except Unreadable as error:
            if error.is_former:
                raise
            # it is set aside now: the list goes around it


def _warn_unreadable(ctx: RequestContext, keys: list[str]) -> None:
    if keys:
        shown = ", ".join(keys[:_MAX_NAMED]) + (", ..." if len(keys) > _MAX_NAMED else "")
        ctx.warn(f"{len(keys)} object(s) cannot be read and are not in this list: {shown}")


def list_meta(page: read.Page) -> Object:
    meta: Object = {"resourceVersion": str(page.revision)}
    if page.continue_:
        meta["continue"] = page.continue_
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
    return meta


def list_response(ctx: RequestContext, scope: RequestScope, page: read.Page, media: MediaType) -> Response:
    resource, meta = scope.resource, list_meta(page)
    if resource.typed_items and not media.as_kind:
        meta = {"continue": "", **meta}
    if media.plain and (scope.same_version or resource.typed_items):
        return Response(200, joined(scope, page, meta), media.content_type)
    share = _share(ctx, page)
    try:
        return _made(ctx, scope, page, meta, media)
    finally:
        if share is not None:
            share.set(0)  # what was made counts from here on, as long as it waits


def _made(ctx: RequestContext, scope: RequestScope, page: read.Page, meta: Object, media: MediaType) -> Response:
    """What has to be made as a whole before its client gets the first of it."""
    resource = scope.resource
    if media.protobuf and not media.as_kind:
        return Response(200, list_message(scope, page, meta), media.content_type)
    objects = [scope.from_storage(entry.object) for entry in steps(page.entries, 1)]
    if media.as_kind == "Table":
        include = ctx.first("includeObject", "Metadata")
        if resource.table is not None and resource.table.of_stored and include != "Object":
            objects = [entry.object for entry in steps(page.entries, 1)]
        tree = transform.table(resource, objects, meta, version=media.as_version, include=include)
    elif media.as_kind == "PartialObjectMetadata":
        raise not_a_single(resource, media)
    elif media.as_kind:
        tree = transform.partial_list(objects, meta, media.as_version)
    else:
        items = objects if resource.typed_items else [strip_type(obj) for obj in objects]
        tree = {
            "kind": resource.list_kind,
            "apiVersion": str(resource.group_version),
            "metadata": meta,
            "items": items,
        }
    return respond_tree(200, tree, media)


def not_a_single(resource: Resource, media: MediaType) -> status.StatusError:
    """The metadata of one object was asked for, of a list."""
    name = go_type(resource, "List")
    return status.NotAcceptable(f"you requested {media.as_kind}, but the requested object is a list ({name})")


def _share(ctx: RequestContext, page: read.Page) -> Share | None:
    """What a large list counts while it is made, in slices and beside others, as it cannot be made while its client reads.

    Raises TooManyRequests.
    """
    pending = ctx.pending
    size = 0 if pending is None else size_of(page.entries)
    if pending is None or size < LARGE:
        return None
    if pending.full:
        raise pending.refusal()
    return Share(pending, size)


def strip_type(obj: Object) -> Object:
    """Items of a built-in list carry neither kind nor apiVersion."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def size_of(entries: list[Entry]) -> int:
    """Bytes of what is stored."""
    if len(entries) <= _MAX_OBJECTS_AT_ONCE:
        return sum([len(entry.data) for entry in entries])
    size = 0
    for start in range(0, len(entries), _MAX_OBJECTS_AT_ONCE):
        checkpoint()
        size += sum([len(entry.data) for entry in entries[start : start + _MAX_OBJECTS_AT_ONCE]])
    return size


class Joined(Parts):
    """The stored bytes of some entries as a list: ``head``, and of each what follows after ``cut`` bytes."""

    def __init__(self, head: bytes, entries: list[Entry], cut: int) -> None:
        self._head, self._entries, self._cut = head, entries, cut
        opening = 1 - cut if cut else 0  # an item begins anew where it was cut
        self.size = len(head) + size_of(entries) + len(entries) * (opening + 1) + len(_END) - 1

    def __len__(self) -> int:
        return (len(self._entries) + _ENTRIES_PER_SLICE - 1) // _ENTRIES_PER_SLICE

    def part(self, position: int) -> bytes:
        cut, start = self._cut, position * _ENTRIES_PER_SLICE
        opening, between = (b"{", b",{") if cut else (b"", b",")
        end = start + _ENTRIES_PER_SLICE
        items = [memoryview(entry.data)[cut:] for entry in self._entries[start:end]]
        before = between if start else self._head + opening
        return b"".join((before, between.join(items), b"" if end < len(self._entries) else _END))


def joined(scope: RequestScope, page: read.Page, meta: Object) -> Sequence[bytes]:
    """The list as slices of bytes; nothing is decoded but custom resources that may have to be converted."""
    resource = scope.resource
    version = str(resource.group_version)
    head = orjson.dumps({"kind": resource.list_kind, "apiVersion": version, "metadata": meta})[:-1] + b',"items":['
    entries = page.entries
    if not entries:
        return [head + _END]
    if not scope.same_version:
        slices = [head]
        for start in range(0, len(entries), _ENTRIES_PER_SLICE):
            items = map(scope.served, steps(entries[start : start + _ENTRIES_PER_SLICE], 1))
            slices.append((b"," if start else b"") + b",".join(items))
        return [*slices, _END]
    return Joined(head, entries, 0 if resource.typed_items else len(item_prefix(resource.kind, version)))


def list_message(scope: RequestScope, page: read.Page, meta: Object) -> list[bytes]:
    """The list in protobuf, as slices of bytes; what has been asked for before is joined as it is."""
    raw = [protobuf_writing.list_head(meta)]
    for entry in steps(page.entries):
        message = message_of_entry(scope, entry)
        raw += (b"\x12", protobuf_writing.varint(len(message)), message)
    kind = scope.kind._replace(kind=scope.resource.list_kind)
    head, tail = protobuf_writing.envelope_parts(kind, sum(map(len, raw)))
    parts = 3 * _ENTRIES_PER_SLICE
    return [head, *(b"".join(raw[start : start + parts]) for start in range(0, len(raw), parts)), tail]


def item_prefix(kind: str, version: str) -> bytes:
    """What stored bytes begin with up to ``"metadata"``; list items begin after it."""
    return b'{"kind":' + orjson.dumps(kind) + b',"apiVersion":' + orjson.dumps(version) + b","
