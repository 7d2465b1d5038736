"""What becomes of a mutation."""

from __future__ import annotations

from enum import StrEnum


class Fate(StrEnum):
    KILLED = "killed"  # a test fails
    TIMED_OUT = "timed out"  # a test hangs, or its process crashes: it is noticed, too
    SURVIVED = "survived"
