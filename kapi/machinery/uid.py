"""UUIDs for objects and requests (upstream: apimachinery ``util/uuid``).

Every request needs one UUID, and every create two.  A system call for 16 bytes each time would cost more than all the rest.
"""

from __future__ import annotations

import os
from struct import iter_unpack

_BATCH_SIZE = 256  # UUIDs made at once
_ready: list[str] = []

# a forked process must not return the UUIDs of its parent
os.register_at_fork(after_in_child=_ready.clear)


def new_uid() -> str:
    """A random (version 4) UUID."""
    if not _ready:
        _ready.extend(_fresh(os.urandom(16 * _BATCH_SIZE)))
    return _ready.pop()


def _fresh(random: bytes) -> list[str]:
    number = int.from_bytes(random, "big") & _RANDOM_BITS | _FIXED_BITS
    digits = number.to_bytes(len(random), "big").hex().encode()
    return [b"-".join(fields).decode() for fields in iter_unpack("8s4s4s4s12s", digits)]


#: masks for a whole batch: the random bits, and the bits of version and variant
_RANDOM_BITS = int("ffffffffffff0fff3fffffffffffffff" * _BATCH_SIZE, 16)
_FIXED_BITS = int("00000000000040008000000000000000" * _BATCH_SIZE, 16)
