"""A cache for functions of a short text: the same few names, quantities and times come with every request."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Generic, ParamSpec, Protocol, TypeVar, cast

from kapi.machinery import checkpoint

P = ParamSpec("P")
R = TypeVar("R")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
_MAX_LENGTH = 512  # characters of a cached text: a client's long texts must not fill the memory
_MIN_FORGOTTEN = 256  # results in a cache; a smaller cache is never emptied


def memoized(size: int) -> Callable[[Callable[[str], R]], Callable[[str], R]]:
    """A decorator: caches the results for at most ``size`` texts.  Texts over 512 characters are not cached."""

    def decorate(function: Callable[[str], R]) -> Callable[[str], R]:
        cached = cached_function(size)(function)

        @wraps(function)
        def bounded(text: str) -> R:
            if checkpoint.running is not None:
                checkpoint.checkpoint()
            return cached(text) if len(text) <= _MAX_LENGTH else function(text)

        return bounded

    return decorate


def cached_function(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """``lru_cache`` for a function of clients' data: its results are dropped after a burst (``forget_burst``)."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = lru_cache(size)(function)
        _functions.append((cached, [-1]))
        return cast("Callable[P, R]", cached)

    return decorate


class BoundedCache(dict[Key, Value], Generic[Key, Value]):
    """At most ``size`` values; it is emptied when it is full, and after a burst."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self.misses = 0
        _caches.append((self, [-1]))

    def add(self, key: Key, value: Value) -> None:
        self.misses += 1
        if len(self) >= self._size:
            self.clear()
        self[key] = value


class RecentlyUsed(OrderedDict[Key, Value]):
    """At most ``size`` values: ``keep`` drops the least recently kept one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def keep(self, key: Key, value: Value) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)


class ExpiringCache(Generic[Key, Value]):
    """Values for a time.  When it is full, the least recently used one is dropped.  ``clock`` returns seconds."""

    def __init__(self, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: RecentlyUsed[Key, tuple[float, Value]] = RecentlyUsed(size)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: Key, value: Value, seconds: float, expires: float = 0.0) -> None:
        """``expires``: the time of ``clock`` at which the value ends at the latest; 0 = no limit."""
        now = self._clock()
        end = min(now + seconds, expires) if expires else now + seconds
        if end > now:
            self._entries.keep(key, (end, value))


class _Statistics(Protocol):
    @property
    def misses(self) -> int: ...
    @property
    def currsize(self) -> int: ...


class _CachedFunction(Protocol):
    def cache_info(self) -> _Statistics: ...
    def cache_clear(self) -> None: ...


class _Emptied(Protocol):
    @property
    def misses(self) -> int: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...


#: caches, with their number of misses at the last check
_functions: list[tuple[_CachedFunction, list[int]]] = []
_caches: list[tuple[_Emptied, list[int]]] = []


def forget_burst() -> None:
    """Empties the caches that have grown large and in which nothing was missed since the last call.

    After a burst of many different texts the results are not used again.  They occupy far more than their own memory, since they
    keep arenas in use whose other objects are freed.  Making the results that are still needed takes a few milliseconds.
    """
    for function, before in _functions:
        info = function.cache_info()
        if info.misses == before[0] and info.currsize >= _MIN_FORGOTTEN:
            function.cache_clear()
        else:
            before[0] = info.misses
    for cache, before in _caches:
        if cache.misses == before[0] and len(cache) >= _MIN_FORGOTTEN:
            cache.clear()
        else:
            before[0] = cache.misses
