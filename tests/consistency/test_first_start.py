"""A server that was killed in its first start completes it the next time.  ``first_start`` as a program kills a hundred."""

from __future__ import annotations

import random

import pytest

from tests.consistency.first_start import FirstStart
from tests.integration.server_process import ForkedServer


@pytest.fixture(scope="module")
def first_start() -> FirstStart:
    found = FirstStart(ForkedServer)
    found.measure()
    return found


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
def test_a_first_start_that_was_killed_is_completed_by_the_next(first_start: FirstStart, share: float) -> None:
    """The moment is a random one of the part of the start around ``share``."""
    seconds = first_start.seconds * random.uniform(share - 0.1, share + 0.1)
    try:
        first_start.interrupted(seconds)
    except AssertionError as error:
        raise AssertionError(f"killed after {seconds:.4f} s: {error}") from None
