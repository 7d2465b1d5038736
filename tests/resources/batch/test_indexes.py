"""Lists of indexes of a job: how many they have, what is wrong with one, and where two overlap."""

from __future__ import annotations

import itertools

import pytest

from kapi.resources.batch.job_spec import IndexesError, check_apart, count_indexes

SETS = [frozenset(some) for size in range(6) for some in itertools.combinations(range(5), size)]


def text(indexes: frozenset[int]) -> str:
    """``0,2-4``"""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def test_all_of_a_list_are_counted() -> None:
    assert [count_indexes(text(indexes), 5) for indexes in SETS] == [len(indexes) for indexes in SETS]


def test_lists_overlap_where_an_index_is_in_both() -> None:
    for one, other in itertools.product(SETS, SETS):
        try:
            check_apart(text(one), text(other), 5)
        except IndexesError as error:
            assert str(error) == f"failedIndexes and completedIndexes overlap at index: {min(one & other)}"
        else:
            assert not one & other, (one, other)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("5", 'too large index: "5"'), ("4", ""), ("0-5", 'too large index: "5"'), ("5-6", 'too large index: "5"'),
        ("3-3", "non-increasing order, previous: 3, current: 3"), ("3-2", "non-increasing order, previous: 3, current: 2"),
        ("1,1", "non-increasing order, previous: 1, current: 1"), ("2,1", "non-increasing order, previous: 2, current: 1"),
        ("0-2,2", "non-increasing order, previous: 2, current: 2"), ("0-2,3", ""), ("0,1", ""),
        ("x", 'cannot convert string to integer for index: "x"'), ("1,", 'cannot convert string to integer for index: ""'),
        ("-1", 'cannot convert string to integer for index: ""'), ("1-", 'cannot convert string to integer for index: ""'),
        ("1-2-3", 'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '
         "'-'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_list(given: str, why: str) -> None:
    if why:
        with pytest.raises(IndexesError) as caught:
            count_indexes(given, 5)
        assert str(caught.value) == why
    else:
        count_indexes(given, 5)


def test_what_is_wrong_with_a_list_is_no_overlap() -> None:
    check_apart("x,1", "1-1,0", 5)
    with pytest.raises(IndexesError, match="overlap at index: 1$"):
        check_apart("x,1,9", "3-2,9,1", 5)
