"""GET of a collection: cached bytes joined to a list, or a Table, or metadata only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import overload

import orjson

from kapi.codecs.negotiation import MediaType, output_media_type
from kapi.endpoints import transform
from kapi.endpoints.encoding import go_type, message_of_entry, respond_tree, shows_stored
from kapi.endpoints.options import ListOptions, list_options
from kapi.endpoints.scope import RequestScope, path_name
from kapi.endpoints.selection import predicate_of
from kapi.endpoints.writer import LARGE
from kapi.machinery import status
from kapi.machinery.checkpoint import expect_tree, in_slices
from kapi.machinery.each import costly, elements
from kapi.machinery.selectors import Predicate
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.pending import PendingBytes
from kapi.request.response import Parts, Response
from kapi.resources.definition import Resource
from kapi.schema import protobuf_writing
from kapi.watchcache.entry import Entry
from kapi.watchcache.unreadable import Unreadable

_MAX_NAMED = 10  # unreadable objects that a warning names
_ENTRIES_PER_SLICE = 128  # converted entries joined to one slice of the response
_SLICE_BYTES = 252 * 1024  # stored entries in one slice: with separators it is small enough for one call of OpenSSL
_MAX_OBJECTS_AT_ONCE = 4096  # objects that are processed without a checkpoint
_END = b"]}\n"
_data = attrgetter("data")


async def list_objects(ctx: RequestContext, scope: RequestScope, options: ListOptions | None = None) -> Response:
    """200 with the list in the requested form.  Raises StatusError."""
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
        await in_slices  # each object, or each change, is processed
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
            return list_response(ctx, scope, page, media, predicate)
        except Unreadable as error:
            if error.is_former:
                raise
            # the cache has now excluded it, so the next attempt leaves it out
        except status.StatusError:
            raise
        except Exception:
            if not _misshapen(page.entries):
                raise


def _misshapen(entries: Sequence[Entry]) -> bool:
    """Whether some objects do not have the shape of their kind; the cache has excluded them.  Raises an earlier Unreadable."""
    found = False
    for entry in elements(entries):
        try:
            entry.check()
        except Unreadable as error:
            if error.is_former:
                raise
            found = True
    return found


def _warn_unreadable(ctx: RequestContext, keys: list[str]) -> None:
    if keys:
        shown = ", ".join(keys[:_MAX_NAMED]) + (", ..." if len(keys) > _MAX_NAMED else "")
        ctx.warn(f"{len(keys)} object(s) cannot be read and are not in this list: {shown}")


def list_meta(page: read.Page, predicate: Predicate | None = None) -> Object:
    meta: Object = {"resourceVersion": str(page.revision)}
    if page.continue_:
        meta["continue"] = page.continue_
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
    if predicate is not None and predicate.shards is not None:
        meta["shardInfo"] = {"selector": str(predicate.shards)}
    return meta


def list_response(
    ctx: RequestContext, scope: RequestScope, page: read.Page, media: MediaType, predicate: Predicate | None = None
) -> Response:
    resource = scope.resource
    # upstream's lists of custom resources, tables and lists of metadata have no such field
    meta = list_meta(page, None if resource.typed_items or media.as_kind else predicate)
    if resource.typed_items and not media.as_kind:
        meta = {"continue": "", **meta}
    if media.plain and (scope.same_version or resource.typed_items):
        return Response(200, joined(scope, page, meta), media.content_type)
    share = _share(ctx, page)
    try:
        return _made(ctx, scope, page, meta, media)
    finally:
        if share is not None:
            share.set(0)  # from here on the response itself is counted, while it waits for its client


def _made(ctx: RequestContext, scope: RequestScope, page: read.Page, meta: Object, media: MediaType) -> Response:
    """Makes a response that must be complete before its first bytes can be sent."""
    resource = scope.resource
    if media.protobuf and not media.as_kind:
        if ctx.audit is not None:
            ctx.audit.response_object(lambda: _list(scope, meta, list(costly(_objects(scope, page)))))
        return Response(200, list_message(scope, page, meta), media.content_type)
    expect_tree(size_of(page.entries))
    internal = shows_stored(resource)
    objects = _Objects(page.entries, (lambda stored: stored) if internal else scope.from_storage)
    if media.as_kind == "Table":
        include = ctx.first("includeObject", "Metadata")
        served = scope.from_storage if internal else None
        tree = transform.table(
            resource, objects, meta, now=scope.now, version=media.as_version, include=include, served=served
        )
    elif media.as_kind == "PartialObjectMetadata":
        raise not_a_single(resource, media)
    elif media.as_kind:
        tree = transform.partial_list(resource, objects, meta, media.as_version)
    else:
        objects = _objects(scope, page)
        tree = _list(scope, meta, objects if media.yaml or media.cbor else list(costly(objects)))
    return respond_tree(ctx, 200, tree, media)


def _list(scope: RequestScope, meta: Object, items: Sequence[Object]) -> Object:
    resource = scope.resource
    return {
        "kind": resource.list_kind, "apiVersion": str(resource.group_version), "metadata": meta, "items": items,
    }  # fmt: skip


class _Objects(Sequence[Object]):
    """The objects of a list, each decoded when it is needed: many lists at a time need little memory."""

    def __init__(self, entries: Sequence[Entry], make: Callable[[Object], Object]) -> None:
        self._entries = entries
        self._make = make

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Object]:
        return (self._make(entry.object) for entry in self._entries)

    @overload
    def __getitem__(self, position: int) -> Object: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[Object]: ...

    def __getitem__(self, position: int | slice) -> Object | Sequence[Object]:
        if isinstance(position, slice):
            return _Objects(self._entries[position], self._make)
        return self._make(self._entries[position].object)


def _objects(scope: RequestScope, page: read.Page) -> _Objects:
    """The items of a list."""
    if scope.resource.typed_items:
        return _Objects(page.entries, scope.from_storage)
    return _Objects(page.entries, lambda stored: strip_type(scope.from_storage(stored)))


def not_a_single(resource: Resource, media: MediaType) -> status.StatusError:
    """The error for a list requested as the metadata of a single object."""
    name = go_type(resource, "List")
    return status.NotAcceptable(f"you requested {media.as_kind}, but the requested object is a list ({name})")


def _share(ctx: RequestContext, page: read.Page) -> PendingBytes | None:
    """Counts the memory of a large list while it is made, since many lists may be made at the same time, in slices.

    None for a small list.  Raises TooManyRequests.
    """
    pending = ctx.pending
    size = 0 if pending is None else size_of(page.entries)
    if pending is None or size < LARGE:
        return None
    if pending.full:
        raise pending.refusal()
    return PendingBytes(pending, size)


def strip_type(obj: Object) -> Object:
    """An item of a built-in list, which has neither kind nor apiVersion."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def size_of(entries: list[Entry]) -> int:
    """The bytes of the entries' stored forms."""
    if len(entries) <= _MAX_OBJECTS_AT_ONCE:
        return sum([len(entry.data) for entry in entries])
    size = 0
    for start in costly(range(0, len(entries), _MAX_OBJECTS_AT_ONCE)):
        size += sum([len(entry.data) for entry in entries[start : start + _MAX_OBJECTS_AT_ONCE]])
    return size


class Joined(Parts):
    """A list of stored bytes, joined slice by slice: ``head``, then the entries without their first ``cut`` bytes.

    A slice has at most ``_SLICE_BYTES``, or one larger entry: no more is copied for a client that does not read.
    """

    def __init__(self, head: bytes, entries: list[Entry], cut: int) -> None:
        self._head, self._entries, self._cut = head, entries, cut
        self._starts, size = _slices(entries)
        opening = 1 - cut if cut else 0  # a cut item gets a new opening brace
        self.size = len(head) + size + len(entries) * (opening + 1) + len(_END) - 1

    def __len__(self) -> int:
        return len(self._starts)

    def kept(self) -> Iterable[bytes]:
        return map(_data, self._entries)

    def part(self, position: int) -> bytes:
        cut, starts = self._cut, self._starts
        opening, between = (b"{", b",{") if cut else (b"", b",")
        last = position + 1 == len(starts)
        entries = self._entries[starts[position] : None if last else starts[position + 1]]
        # without an interpreted loop, which took most of the time besides copying
        whole: Iterator[memoryview] = map(memoryview, map(_data, entries))
        items: list[bytes | memoryview] = list(map(itemgetter(slice(cut, None)), whole))
        # so that all bytes are copied only once, head and end are joined with the first and the last item
        items[0] = b"".join((between if position else self._head + opening, items[0]))
        if last:
            items[-1] = b"".join((items[-1], _END))
        return between.join(items)


def _slices(entries: list[Entry]) -> tuple[list[int], int]:
    """The positions at which slices begin, and the bytes of all entries."""
    starts, begin, size = [0], 0, 0
    for first in costly(range(0, len(entries), _MAX_OBJECTS_AT_ONCE)):
        part = entries[first : first + _MAX_OBJECTS_AT_ONCE]
        before = list(accumulate(map(len, map(_data, part)), initial=size))  # bytes of the entries before each
        while True:
            end = max(bisect_right(before, begin + _SLICE_BYTES) - 1, starts[-1] + 1 - first)
            if end >= len(part):
                break
            starts.append(first + end)
            begin = before[end]
        size = before[-1]
    return starts, size


def joined(scope: RequestScope, page: read.Page, meta: Object) -> Sequence[bytes]:
    """The list as slices of bytes; only custom resources that may need a conversion are decoded."""
    resource = scope.resource
    version = str(resource.group_version)
    head = orjson.dumps({"kind": resource.list_kind, "apiVersion": version, "metadata": meta})[:-1] + b',"items":['
    entries = page.entries
    if not entries:
        return [head + _END]
    if not scope.same_version:
        slices = [head]
        for start in range(0, len(entries), _ENTRIES_PER_SLICE):
            items = map(scope.served, costly(entries[start : start + _ENTRIES_PER_SLICE]))
            slices.append((b"," if start else b"") + b",".join(items))
        return [*slices, _END]
    return Joined(head, entries, 0 if resource.typed_items else len(item_prefix(resource.kind, version)))


def list_message(scope: RequestScope, page: read.Page, meta: Object) -> list[bytes]:
    """The list in protobuf, as slices of bytes; messages in the cache are reused."""
    raw = [protobuf_writing.list_head(meta)]
    for entry in elements(page.entries):
        message = message_of_entry(scope, entry)
        raw += (b"\x12", protobuf_writing.varint(len(message)), message)
    kind = scope.kind._replace(kind=scope.resource.list_kind)
    head, tail = protobuf_writing.envelope_parts(kind, sum(map(len, raw)))
    parts = 3 * _ENTRIES_PER_SLICE
    return [head, *(b"".join(raw[start : start + parts]) for start in range(0, len(raw), parts)), tail]


def item_prefix(kind: str, version: str) -> bytes:
    """The beginning of stored bytes up to ``"metadata"``, which list items do not have."""
    return b'{"kind":' + orjson.dumps(kind) + b',"apiVersion":' + orjson.dumps(version) + b","
