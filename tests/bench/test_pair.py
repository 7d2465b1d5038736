"""How sure a comparison of two servers is."""

import pytest

from tests.bench.pair import interval


@pytest.mark.parametrize(
    ("count", "low"),
    [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (20, 5), (100, 39)],  # as in tables of the sign test
)
def test_the_median_is_between_values_of_the_same_rank_from_either_end(count: int, low: int) -> None:
    assert interval([float(number) for number in range(count)]) == (low, count - 1 - low)
