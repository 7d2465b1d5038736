"""UUIDs for objects and requests (upstream: apimachinery ``util/uuid``).

Every request takes one and every create two; asking the kernel for 16 bytes each time costs more than all the rest of it.
"""

from __future__ import annotations

import os

_AT_ONCE = 256  # UUIDs for which randomness is asked of the kernel
_ready: list[bytes] = []

# a forked process must not give out what its parent does
os.register_at_fork(after_in_child=_ready.clear)


def new_uid() -> str:
    """A random (version 4) UUID."""
    try:
        raw = bytearray(_ready.pop())
    except IndexError:
        fresh = os.urandom(16 * _AT_ONCE)
        _ready.extend(fresh[start : start + 16] for start in range(16, len(fresh), 16))
        raw = bytearray(fresh[:16])
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
