"""Allocation of an address or a port: the source of randomness, and why it fails.

The texts are upstream's (``ErrAllocated``, ``ErrFull``, ``ErrNotInRange``).
"""

from __future__ import annotations

import random

RANDOM = random.SystemRandom()


class AllocationError(Exception):
    """The base of all errors of allocators."""


class AlreadyAllocated(AllocationError):
    """The address or port is in use."""


class RangeFull(AllocationError):
    """No address or port is free."""

    def __init__(self) -> None:
        super().__init__("range is full")


class NotInRange(AllocationError):
    """The address or port is outside of the allocator's range."""
