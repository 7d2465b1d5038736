"""UUIDs for objects and requests (upstream: apimachinery ``util/uuid``).

Every request needs one and every create two.  To ask the kernel for 16 bytes each time would cost more than all the rest.
"""

from __future__ import annotations

import os

_BATCH_SIZE = 256  # UUIDs that are made at once
_ready: list[str] = []

# a forked process must not return the UUIDs of its parent
os.register_at_fork(after_in_child=_ready.clear)


def new_uid() -> str:
    """A random (version 4) UUID."""
    if not _ready:
        _ready.extend(_fresh(os.urandom(16 * _BATCH_SIZE)))
    return _ready.pop()


def _fresh(random: bytes) -> list[str]:
    texts = [random[start : start + 16].hex() for start in range(0, len(random), 16)]
    return [f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}" for text in texts]


#: sets the two highest bits of a digit to 1 and 0
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
