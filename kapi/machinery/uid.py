"""UUIDs for objects and requests (upstream: apimachinery ``util/uuid``).

Every request takes one and every create two; asking the kernel for 16 bytes each time costs more than all the rest of it.
"""

from __future__ import annotations

import os

_BATCH_SIZE = 256  # UUIDs that are made together
_ready: list[str] = []

# a forked process must not give out what its parent does
os.register_at_fork(after_in_child=_ready.clear)


def new_uid() -> str:
    """A random (version 4) UUID."""
    if not _ready:
        _ready.extend(_fresh(os.urandom(16 * _BATCH_SIZE)))
    return _ready.pop()


def _fresh(random: bytes) -> list[str]:
    texts = [random[start : start + 16].hex() for start in range(0, len(random), 16)]
    return [f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}" for text in texts]


#: the two highest bits are 1 and 0
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
