"""Answers kept for short texts: the same few names, quantities and times come with every request."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

from kapi.machinery import checkpoint

R = TypeVar("R")
_MAX_LENGTH = 512  # characters: what a client makes up at length must not fill the memory


def remember(size: int) -> Callable[[Callable[[str], R]], Callable[[str], R]]:
    """Caches a function of one text, for at most ``size`` texts of at most 512 characters; longer ones are worked out anew."""

    def decorate(function: Callable[[str], R]) -> Callable[[str], R]:
        cached = lru_cache(size)(function)

        @wraps(function)
        def bounded(text: str) -> R:
            if checkpoint.running is not None:
                checkpoint.checkpoint()
            return cached(text) if len(text) <= _MAX_LENGTH else function(text)

        return bounded

    return decorate
