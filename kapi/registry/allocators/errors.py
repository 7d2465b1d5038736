"""Why an address or a port cannot be had; the texts are upstream's."""

from __future__ import annotations


class AllocationError(Exception):
    """Any of them."""


class Taken(AllocationError):
    """Somebody has it."""


class Full(AllocationError):
    """Nothing is left."""

    def __init__(self) -> None:
        super().__init__("range is full")


class OutOfRange(AllocationError):
    """It is not one of those that are given out."""
