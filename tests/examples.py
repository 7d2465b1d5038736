"""How many examples a test of Hypothesis draws that draws more or fewer than others."""

from __future__ import annotations

from hypothesis import settings

_USUAL = 100  # of the profile ``kapi`` (tests/conftest.py)


def examples(count: int) -> int:
    """So many in the profile ``kapi``, and in proportion to it in the profile that is loaded."""
    return max(1, count * settings().max_examples // _USUAL)
