"""The checker notices what it is there for: each of these answers must not be."""

from __future__ import annotations

import json

import pytest

from kapi.store.interface import Change
from tests.consistency.checker import PREFIX, Checker
from tests.consistency.clients import Journal, Listing, Read, Watching, Write


def change(revision: int, kind: str, name: str, value: str, color: str = "red") -> Change:
    obj = {"metadata": {"resourceVersion": str(revision), "labels": {"color": color}}, "data": {"v": value}}
    return Change(revision, kind, PREFIX + name, json.dumps(obj).encode())


HISTORY = [
    change(1, "c", "c00", "one"),
    change(2, "u", "c00", "two", "blue"),
    change(3, "c", "c01", "three"),
    change(4, "d", "c01", "three"),
]


def journal() -> Journal:
    made = Journal()
    made.writes = [
        Write("create", "c00", 0, "one", 0.0, 1.0, 201, 1),
        Write("update", "c00", 1, "two", 1.0, 2.0, 200, 2),
        Write("create", "c01", 0, "three", 2.0, 3.0, 201, 3),
        Write("delete", "c01", 3, "four", 3.0, 4.0, 200),
    ]
    return made


def problems(made: Journal, history: list[Change] = HISTORY) -> list[str]:
    return Checker(history, made).check()


def test_a_good_run() -> None:
    made = journal()
    made.reads = [Read("c00", 5, 6, 200, 2, "two"), Read("c01", 5, 6, 404), Read("c00", 1.5, 6, 200, 1, "one")]
    made.listings = [
        Listing(5, 6, [4, 4], [("c00", 2, "two")]),
        Listing(5, 6, [3], [("c00", 2, "two"), ("c01", 3, "three")], exact=3),
        Listing(5, 6, [4], [], color="red"),
    ]
    made.watchings = [
        Watching(1, "", [("MODIFIED", "c00", 2), ("BOOKMARK", "", 2), ("ADDED", "c01", 3), ("DELETED", "c01", 4)]),
        Watching(0, "red", [("ADDED", "c00", 1), ("DELETED", "c00", 2), ("ADDED", "c01", 3)]),
    ]
    assert problems(made) == []


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (HISTORY[:3], "is lost"),
        (HISTORY[:2] + HISTORY[3:], "revision 3 is missing"),
        ([*HISTORY, change(5, "c", "c02", "nobody")], "a phantom"),
        ([*HISTORY, change(5, "u", "c00", "two")], "was written at"),
        ([change(1, "c", "c00", "one"), change(2, "u", "c00", "other"), *HISTORY[2:]], "a phantom"),
    ],
)
def test_histories_that_do_not_explain_the_writes(history: list[Change], why: str) -> None:
    assert any(why in problem for problem in problems(journal(), history))


def test_two_winners_of_one_version() -> None:
    made = journal()
    made.writes.append(Write("update", "c00", 1, "five", 3.0, 4.0, 200, 5))
    found = problems(made, [*HISTORY, change(5, "u", "c00", "five")])
    assert any("replaced" in problem for problem in found)


def test_a_refused_write_that_was_done() -> None:
    made = journal()
    made.writes[1].status = 409
    assert any("refused and yet done" in problem for problem in problems(made))


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (Read("c00", 5, 6, 200, 1, "one"), "is stale"),
        (Read("c00", 5, 6, 200, 2, "other"), "the history says"),
        (Read("c00", 5, 6, 200, 9, "two"), "the history says"),
        (Read("c00", 5, 6, 404), "it was there since"),
    ],
)
def test_reads_that_must_not_be(read: Read, why: str) -> None:
    made = journal()
    made.reads = [read]
    assert any(why in problem for problem in problems(made))


@pytest.mark.parametrize(
    ("listing", "why"),
    [
        (Listing(5, 6, [2], [("c00", 2, "two")]), "is stale"),
        (Listing(5, 6, [4, 3], [("c00", 2, "two")]), "pages of one list"),
        (Listing(5, 6, [4], [("c00", 2, "two"), ("c01", 3, "three")]), "a list at 4"),
        (Listing(5, 6, [4], [("c00", 2, "two")], color="red"), "a list at 4 (red)"),
        (Listing(5, 6, [4], [("c00", 2, "two")], exact=3), "a list at 3 says 4"),
    ],
)
def test_lists_that_must_not_be(listing: Listing, why: str) -> None:
    made = journal()
    made.listings = [listing]
    assert any(why in problem for problem in problems(made))


@pytest.mark.parametrize(
    "told",
    [
        [("ADDED", "c01", 3)],
        [("MODIFIED", "c00", 2), ("MODIFIED", "c00", 2)],
        [("MODIFIED", "c00", 2), ("DELETED", "c01", 4)],
        [("ADDED", "c00", 2)],
        [("BOOKMARK", "", 2)],
    ],
)
def test_watches_that_must_not_be(told: list[tuple[str, str, int]]) -> None:
    made = journal()
    made.watchings = [Watching(1, "", told)]
    assert len(problems(made)) == 1
