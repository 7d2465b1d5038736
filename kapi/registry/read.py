"""Reading: one object, a list at a revision, pages of one snapshot (upstream: ``storage/cacher`` and ``storage/continue.go``)."""

from __future__ import annotations

import base64
from collections.abc import Awaitable

import msgspec
import orjson

from kapi.codecs import json_reading
from kapi.codecs.json_reading import kind_of
from kapi.machinery import status
from kapi.machinery.field import Path, invalid
from kapi.machinery.golang import URL_SAFE, NumberError, base64_bytes, parse_uint
from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import FieldSelector, Predicate
from kapi.machinery.tree import Tree
from kapi.registry.errors import missing
from kapi.registry.resource_store import ResourceStore, check_name
from kapi.resources.definition import Resource
from kapi.store.errors import Compacted
from kapi.watchcache.cache import Cache, Entry
from kapi.watchcache.pages import ListPart

_TOKEN_VERSION = "meta.k8s.io/v1"
_INT64 = 1 << 63
_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)


def parse_revision(text: str, *, listing: bool = False) -> int:
    """A resourceVersion as a number; "" is 0.  Raises StatusError as upstream: 400 for a list, 500 for get and watch."""
    if not text:
        return 0
    try:
        return parse_uint(text)
    except NumberError as error:
        cause = invalid(Path("resourceVersion"), text, f'strconv.ParseUint: parsing "{text}": {error}')
    if listing:
        raise status.bad_request(f"invalid resource version: {cause}")
    raise status.generic(str(cause))


#: resources without a watch cache upstream, where the store answers reads
UNCACHED = frozenset((GroupResource("", "events"),))


async def get(
    store: ResourceStore, namespace: str, name: str, resource_version: str = "", resource: Resource | None = None
) -> Entry:
    """The object's entry, not older than ``resource_version``; "" means the latest.  Raises NotFound, Timeout.

    ``resource``: the resource that errors name, when the store has another one.
    """
    check_name(name)
    revision, uncached = 0, False
    if resource_version:
        uncached = store.group_resource in UNCACHED
        revision = parse_revision(resource_version, listing=uncached)
    waiting = store.cache.wait_fresh() if uncached or not resource_version else store.cache.wait_for(revision)
    if waiting is not None:
        await _timed(store.cache, waiting)
    if uncached:
        _check_reached(store.cache, revision)
    entry = store.cache.get(namespace, name)
    if entry is None:
        raise missing((resource or store).group_resource, namespace, name)
    return entry


def _check_reached(cache: Cache, revision: int) -> None:
    """Raises Timeout for a later revision: a store does not wait for it, and its error has no Retry-After."""
    if revision > cache.revision:
        raise status.too_large_resource_version(revision, cache.revision, retry_after=0)


async def _timed(cache: Cache, waiting: Awaitable[None]) -> None:
    began = cache.seconds()
    try:
        await waiting
    finally:
        cache.reads.waited(cache.seconds() - began)


class Page(msgspec.Struct):
    """Entries of a list, the revision at which they are consistent, and the continue token."""

    entries: list[Entry]
    revision: int
    continue_: str = ""
    remaining: int | None = None


class ContinueToken(msgspec.Struct):
    """``revision`` of the list (negative: continue with the latest state) and the first relative ``key`` of the page."""

    revision: int
    key: str


def encode_token(last: str, revision: int) -> str:
    """The continue token of a page whose last entry has the relative key ``last``."""
    raw = orjson.dumps({"v": _TOKEN_VERSION, "rv": revision, "start": f"/{last}\0"})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_token(text: str) -> ContinueToken:
    """Raises BadRequest with upstream's text."""
    try:
        fields = _token_fields(json_reading.loads(base64_bytes(text, URL_SAFE)))
    except ValueError as error:
        raise _invalid_token(str(error)) from None
    if fields.v != _TOKEN_VERSION:
        raise _invalid_token(f"server does not recognize this encoded version {fields.v}")
    if fields.rv == 0:
        raise _invalid_token(f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})")
    if not fields.start:
        raise _invalid_token(f"encoded start key empty (version {_TOKEN_VERSION})")
    key = fields.start.removeprefix("/")
    if any(part in ("", ".", "..") for part in key.split("/")) and fields.start != "/":
        raise _invalid_token(fields.start)  # Go's path.Clean would change it
    return ContinueToken(fields.rv, key)


def _invalid_token(why: str) -> status.StatusError:
    return status.bad_request(f"invalid continue token: continue key is not valid: {why}")


class _TokenFields(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def _token_fields(token: Tree) -> _TokenFields:
    """The fields of a token as Go's decoder reads them.  Raises ValueError with its text."""
    fields = _TokenFields()
    if token is None:
        return fields
    if not isinstance(token, dict):
        raise ValueError(f"json: cannot unmarshal {kind_of(token)} into Go value of type storage.continueToken")
    for key, value in token.items():
        name = key.lower()
        if name not in ("v", "rv", "start") or value is None:
            continue
        if name == "rv":
            wanted, fits = "int64", value.__class__ is int and -_INT64 <= value < _INT64
        else:
            wanted, fits = "string", isinstance(value, str)
        if not fits:
            shown = f"number {value}" if name == "rv" and kind_of(value) == "number" else kind_of(value)
            raise ValueError(
                f"json: cannot unmarshal {shown} into Go struct field continueToken.{name} of type {wanted}"
            )
        setattr(fields, name, value)
    return fields


async def list_page(
    store: ResourceStore,
    namespace: str,
    predicate: Predicate | None,
    *,
    resource_version: str = "",
    match: str | None = None,
    limit: int = 0,
    token: str = "",
    paged: bool = False,
) -> Page:
    """One page of a list.

    ``limit`` 0 or less is no limit; ``paged``: upstream has one even then, which makes the revision exact.  Raises BadRequest,
    Expired (410) and Timeout (a revision not reached yet).
    """
    cache = store.cache
    # a list that accepts any age ignores the limit, as upstream when it answers from its cache
    limit = 0 if resource_version == "0" and store.group_resource not in UNCACHED else max(limit, 0)
    if token:
        position = decode_token(token)
        if resource_version not in ("", "0"):
            raise status.bad_request("specifying resource version is not allowed when using continue")
        if position.revision < 0:
            await _wait_fresh(cache)
            return _page(cache, *cache.page(namespace, predicate, position.key, limit), namespace, predicate)
        return await _list_exact(store, namespace, predicate, position.revision, limit, position.key, token)
    revision = parse_revision(resource_version, listing=True)
    exact = match == "Exact" or (match is None and bool(limit or paged))
    single = exact and predicate is not None and _is_of_one(store, namespace, predicate.fields)
    if revision and (match == "Exact" or (exact and not single)):  # a limit makes it exact, except of a single object
        if single:
            await _wait_for(store, revision, uncached=True)
        return await _list_exact(store, namespace, predicate, revision, limit, "", "")
    if resource_version == "":
        await _wait_fresh(cache)
    elif revision:
        await _wait_for(store, revision, uncached=single)
    else:
        waiting = cache.wait_loaded()
        if waiting is not None:
            await waiting
    return _page(cache, *cache.page(namespace, predicate, "", limit), namespace, predicate)


def _is_of_one(store: ResourceStore, namespace: str, fields: FieldSelector) -> bool:
    """Whether a list has at most one object, by its name and in one namespace (upstream: ``Store.ListPredicate``)."""
    where = namespace or fields.exact("metadata.namespace") or not store.row.namespaced
    return bool(where and fields.exact("metadata.name"))


async def _wait_fresh(cache: Cache) -> None:
    """Waits until the cache has every write that was acknowledged before the call (upstream: consistent reads)."""
    reads = cache.reads
    reads.consistent += 1
    waiting = cache.wait_fresh()
    if waiting is None:
        reads.waited(0.0)
        return
    try:
        await _timed(cache, waiting)
    except BaseException:
        reads.failed += 1
        raise


async def _wait_for(store: ResourceStore, revision: int, uncached: bool = False) -> None:
    cache = store.cache
    if uncached or store.group_resource in UNCACHED:
        await _wait_fresh(cache)
        _check_reached(cache, revision)
        return
    waiting = cache.wait_for(revision)
    if waiting is None:
        cache.reads.waited(0.0)
    else:
        await _timed(cache, waiting)


async def _list_exact(
    store: ResourceStore, namespace: str, predicate: Predicate | None, revision: int, limit: int, start: str, token: str
) -> Page:
    cache = store.cache
    await _wait_for(store, revision)
    try:
        part = cache.page_at(revision, namespace, predicate, start, limit)
    except Compacted:
        if not token:
            raise status.expired("The resourceVersion for the provided list is too old.") from None
        raise status.expired(_INCONSISTENT, encode_token(start.rstrip("\0"), -1)) from None
    return _page(cache, part, revision, namespace, predicate)


def _relative(entry: Entry, namespace: str) -> str:
    """The entry's key relative to the listed prefix, as continue tokens contain it."""
    if namespace or not entry.namespace:
        return str(entry.name)
    return f"{entry.namespace}/{entry.name}"


def _page(cache: Cache, part: ListPart, revision: int, namespace: str, predicate: Predicate | None) -> Page:
    entries = part.entries
    cache.reads.listed(part.fetched, len(entries))
    if not part.remaining:
        return Page(entries, revision)
    remaining = part.remaining if predicate is None or predicate.counts else None
    return Page(entries, revision, encode_token(_relative(entries[-1], namespace), revision), remaining)
