"""Estimates how many seats a request needs (upstream: ``util/flowcontrol/request``).

A list needs seats by the bytes it reads, a write by the watchers that must get its event.  Any other request needs one seat.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kapi.machinery.golang import NumberError, parse_uint
from kapi.machinery.gvk import GroupResource
from kapi.request.context import RequestContext
from kapi.request.info import WRITES, RequestInfo

_BYTES_PER_SEAT = 100_000
_MAX_STREAMED_BYTES = 1_000_000  # bytes of a list in memory at once, since lists are sent in parts
_WATCHES_PER_SEAT = 10
_EVENT_SECONDS = 0.005  # seat-seconds for sending an event to ten watchers
MAX_LIST_SEATS = 100
MAX_WRITE_SEATS = 10


class WorkEstimate(NamedTuple):
    """Seats while the request runs; then ``final_seats`` for ``additional_latency`` seconds."""

    initial_seats: int = 1
    final_seats: int = 0
    additional_latency: float = 0.0


class Stored(Protocol):
    """The numbers of a watch cache that estimates use."""

    @property
    def size(self) -> int:
        """Bytes of all objects."""

    @property
    def watches(self) -> int:
        """Current watches."""

    def __len__(self) -> int: ...


#: returns the cache of a resource, or None when it is not stored here
CacheOf = Callable[[GroupResource], "Stored | None"]
_ONE = WorkEstimate()


def estimate(ctx: RequestContext, cache_of: CacheOf, max_seats: int, watches: int = 0) -> WorkEstimate:
    """Estimates the work of a request.

    ``max_seats`` is the most that the priority level allows one request; 0 when it has no such limit.  ``watches`` is how many
    watches must get the event of a write.
    """
    info = ctx.info
    assert info is not None
    if not info.is_resource:
        return _ONE
    if info.verb in ("list", "watch"):
        return _list_work(ctx, cache_of, max_seats)
    if info.verb in WRITES:
        return _write_work(info, watches, max_seats)
    return _ONE


def watches_of(info: RequestInfo, cache_of: CacheOf) -> int:
    """How many watches get an event for a write."""
    cache = cache_of(GroupResource(info.group, info.resource))
    return cache.watches if cache is not None else 0


def _list_work(ctx: RequestContext, cache_of: CacheOf, max_seats: int) -> WorkEstimate:
    info = ctx.info
    assert info is not None
    if info.verb == "watch" and ctx.first("sendInitialEvents") not in ("true", "1"):
        if ctx.first("resourceVersion") not in ("", "0"):
            return _ONE
    cache = cache_of(GroupResource(info.group, info.resource))
    if cache is None:
        return _ONE
    count = len(cache)
    if not count:
        return _ONE
    limit = ctx.first("limit")
    try:
        read = min(count, parse_uint(limit) or count)
    except NumberError:  # the endpoint answers with the error
        read = count
    if info.name:
        read = 1
    size = min(read * cache.size / count, _MAX_STREAMED_BYTES)
    limit_seats = min(max_seats or MAX_LIST_SEATS, MAX_LIST_SEATS)
    return WorkEstimate(max(1, min(math.ceil(size / _BYTES_PER_SEAT), limit_seats)))


def _write_work(info: RequestInfo, watches: int, max_seats: int) -> WorkEstimate:
    if info.subresource == "token" and info.resource == "serviceaccounts":
        return _ONE  # a dry run makes no event
    if watches < _WATCHES_PER_SEAT:
        return _ONE
    unbounded = math.ceil(watches / _WATCHES_PER_SEAT)
    final = min(unbounded, max_seats or MAX_WRITE_SEATS, MAX_WRITE_SEATS)
    return WorkEstimate(1, final, unbounded * _EVENT_SECONDS / final)
