"""A bounded memory of what tokens were good for (upstream: apiserver ``authentication/token/cache``).

Tokens are kept as keyed digests.  An entry lives for its time to live, never beyond the token's own expiry.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ExpiringCache(Generic[Value]):
    """Least recently used out first."""

    def __init__(self, size: int = 4096, clock: Callable[[], float] = time.time) -> None:
        self._size = size
        self._clock = clock
        self._entries: OrderedDict[bytes, tuple[float, Value]] = OrderedDict()
        self._key = secrets.token_bytes(32)

    def __len__(self) -> int:
        return len(self._entries)

    def digest(self, *parts: str) -> bytes:
        """The key of an entry: nothing of the parts can be read from it."""
        message = b"".join(
            len(data).to_bytes(8, "big") + data for data in (part.encode("utf-8", "surrogateescape") for part in parts)
        )
        return hmac.digest(self._key, message, hashlib.sha256)

    def get(self, digest: bytes) -> Value | None:
        entry = self._entries.get(digest)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            del self._entries[digest]
            return None
        self._entries.move_to_end(digest)
        return entry[1]

    def put(self, digest: bytes, value: Value, seconds: float, expires: float = 0.0) -> None:
        """``expires``: unix seconds beyond which it must not live; 0 = not limited."""
        end = self._clock() + seconds
        if expires:
            end = min(end, expires)
        if end <= self._clock():
            return
        self._entries[digest] = (end, value)
        self._entries.move_to_end(digest)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)
