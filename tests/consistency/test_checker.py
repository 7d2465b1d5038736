"""The checker notices what it is there for: each of these answers must not be."""

from __future__ import annotations

import pytest

from kapi.store.interface import Change
from tests.consistency.checker import Bounds, check
from tests.consistency.made import HISTORY, PREFIX, change, history, journal, listing, read, stream
from tests.consistency.records import Gone, Journal, Listing, Read, Selector, Stream, Write

RED, BLUE = Selector(label="red"), Selector(label="blue")


def problems(
    made: Journal, changes: list[Change] = HISTORY, bounds: Bounds | None = None, dead: tuple[Change, ...] = ()
) -> list[str]:
    return check(history(*changes, dead=dead), made, bounds or Bounds())


def test_a_good_run() -> None:
    made = journal()
    made.reads = [
        read("n0", 5, 6, 200, 2, "two"),
        read("n1", 5, 6, 404),
        read("n0", 1.5, 6, 200, 1, "one"),
        read("n1", 2.5, 2.7, 404),
        read("n1", 2.5, 3.5, 200, 3, "three"),
    ]
    made.listings = [
        listing((4, 4), ("n0", 2, "two")),
        listing((3,), ("n0", 2, "two"), ("n1", 3, "three"), mode="exact", wanted=3),
        listing((1,), ("n0", 1, "one"), mode="any"),
        listing((4,), selector=RED),
        listing((4,), ("n0", 2, "two"), selector=Selector(name="n0"), mode="atleast", wanted=2),
    ]
    made.streams = [
        stream(1, ("MODIFIED", "n0", 2, "two"), ("BOOKMARK", "", 2, ""), ("ADDED", "n1", 3, "three")),
        stream(0, ("ADDED", "n0", 1, "one"), ("DELETED", "n0", 2, "one"), ("ADDED", "n1", 3, "three"), selector=RED),
        stream(0, ("ADDED", "n0", 2, "two"), ("BOOKMARK", "", 4, ""), selector=BLUE),
        stream(None, ("ADDED", "n0", 2, "two"), ("INITIAL", "", 4, "")),
        stream(None, ("ADDED", "n0", 2, "two")),  # broke off
        stream(100),
    ]
    made.writes += [
        Write("create", f"{PREFIX}n0", "four", None, 0, 5.0, 6.0, 409, "AlreadyExists"),
        Write("update", f"{PREFIX}n0", "five", 1, 0, 5.0, 6.0, 409, "Conflict"),
        Write("patch", f"{PREFIX}n1", "six", None, 0, 5.0, 6.0, 404, "NotFound"),
        Write("patch", f"{PREFIX}n0", "seven", None, 0, 5.0),  # no answer
        Write("deletecollection", PREFIX, "", None, 0, 3.0, 5.0, 200),
    ]
    assert problems(made) == []


def test_a_write_of_unknown_outcome_may_take_effect_later() -> None:
    made = journal()
    made.writes.append(Write("update", f"{PREFIX}n0", "five", 2, 0, 1.5, 1.6, 0))
    assert problems(made, [*HISTORY, change(5, "u", "n0", "five")]) == []
    made.writes[-1] = Write("update", f"{PREFIX}n0", "five", 2, 0, 1.5, 1.6, 503, undecided=True)
    assert problems(made, [*HISTORY, change(5, "u", "n0", "five")]) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (HISTORY[:3], "is lost"),
        (HISTORY[:2] + HISTORY[3:], "revision 3 is missing"),
        ([*HISTORY, change(5, "c", "n2", "nobody")], "a phantom"),
        ([*HISTORY, change(5, "u", "n0", "two")], "was written at 2 and at 5"),
        ([change(1, "c", "n0", "one"), change(2, "u", "n0", "other"), *HISTORY[2:]], "a phantom"),
        ([change(1, "c", "n0", "one"), change(2, "c", "n0", "two"), *HISTORY[2:]], "was created at 2 though"),
        ([*HISTORY, change(5, "d", "n1", "three")], "was not there"),
        ([*HISTORY, change(5, "d", "n0", "two", "blue")], "0 deletions are not accounted for"),
        ([change(1, "c", "n0", "one")._replace(data=HISTORY[1].data), *HISTORY[1:]], "has 2 inside"),
    ],
)
def test_histories_that_do_not_explain_the_writes(changes: list[Change], why: str) -> None:
    assert any(why in problem for problem in problems(journal(), changes))


def test_an_acknowledged_write_that_only_a_replaced_primary_knows() -> None:
    found = problems(journal(), HISTORY[:3], dead=(HISTORY[3],))
    assert any("is lost" in problem for problem in found)
    made = journal()
    made.writes.append(Write("update", f"{PREFIX}n0", "five", 2, 0, 5.0, 6.0, 200, revision=5))
    found = problems(made, dead=(change(5, "u", "n0", "five"),))
    assert any("made by a primary that lost it" in problem for problem in found)


def test_answers_of_a_primary_that_was_replaced() -> None:
    """What was never acknowledged may be gone after a fail-over; whoever was told of it was told of that branch alone."""
    made = journal()
    made.writes.append(Write("update", f"{PREFIX}n0", "five", 2, 0, 5.0, 6.0, 504))
    made.writes.append(Write("update", f"{PREFIX}n0", "six", 2, 0, 6.5, 6.9, 200, revision=5))
    made.reads = [read("n0", 5, 6, 200, 5, "five")]
    made.listings = [listing((5,), ("n0", 5, "five"))]
    made.streams = [stream(4, ("MODIFIED", "n0", 5, "five"), ("BOOKMARK", "", 5, ""))]
    kept, lost = change(5, "u", "n0", "six"), change(5, "u", "n0", "five")
    assert problems(made, [*HISTORY, kept], dead=(lost,)) == []
    assert len(made.replaced) == 3
    made.streams = [stream(4, ("MODIFIED", "n0", 5, "five"), ("MODIFIED", "n0", 5, "six"))]  # both
    assert len(problems(made, [*HISTORY, kept], dead=(lost,))) == 1
    made.streams = []
    made.listings = [listing((5,), ("n0", 2, "two"))]  # neither
    assert len(problems(made, [*HISTORY, kept], dead=(lost,))) == 1


def test_two_winners_of_one_version() -> None:
    made = journal()
    made.writes.append(Write("update", f"{PREFIX}n0", "five", 1, 0, 3.0, 5.0, 200, revision=5))
    found = problems(made, [*HISTORY, change(5, "u", "n0", "five")])
    assert any("replaced 2" in problem for problem in found)


def test_a_creation_that_replaced() -> None:
    made = journal()
    made.writes.append(Write("create", f"{PREFIX}n0", "five", None, 0, 3.0, 5.0, 201, revision=5))
    found = problems(made, [*HISTORY, change(5, "u", "n0", "five")])
    assert any("replaced 2" in problem for problem in found)


@pytest.mark.parametrize("status", [409, 404, 403, 429, 503])
def test_a_refused_write_that_was_done(status: int) -> None:
    made = journal()
    made.writes[1].status = status
    assert any("refused and yet done" in problem for problem in problems(made))


def test_an_order_that_time_forbids() -> None:
    """A write that began when revision 3 was known cannot have revision 2."""
    made = journal()
    made.writes[1].start = 3.5
    assert any("3 was known before it began" in problem for problem in problems(made))


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (Write("delete", f"{PREFIX}n0", "", None, 0, 5.0, 6.0, 200, uids=("n0",)), "is lost"),
        (Write("delete", f"{PREFIX}n1", "", None, 0, 5.0, 6.0, 200, uids=("n1",)), "had deleted"),
        (Write("deletecollection", PREFIX, "", None, 0, 5.0, 6.0, 200, uids=("n0",)), "n0 is not deleted"),
        (Write("create", f"{PREFIX}n1", "x", None, 0, 5.0, 6.0, 409, "AlreadyExists"), "it was [None]"),
        (Write("update", f"{PREFIX}n0", "x", 2, 0, 5.0, 6.0, 409, "Conflict"), "it was [2]"),
        (Write("patch", f"{PREFIX}n0", "x", None, 0, 5.0, 6.0, 404, "NotFound"), "it was [2]"),
    ],
)
def test_writes_that_must_not_be_answered_so(write: Write, why: str) -> None:
    made = journal()
    made.writes.append(write)
    assert any(why in problem for problem in problems(made))


def test_a_deletion_of_another_version() -> None:
    made = journal()
    made.writes[3].expected = 2
    assert any("deleted 3" in problem for problem in problems(made))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (read("n0", 5, 6, 200, 1, "one"), "is stale"),
        (read("n0", 5, 6, 200, 2, "other"), "the history says"),
        (read("n0", 5, 6, 200, 9, "two"), "the history says"),
        (read("n0", 5, 6, 404), "it was there"),
        (read("n1", 5, 6, 200, 3, "three"), "is stale"),
        (read("n0", 0.2, 0.5, 200, 2, "two"), "before its time"),
    ],
)
def test_reads_that_must_not_be(found: Read, why: str) -> None:
    made = journal()
    made.reads = [found]
    assert any(why in problem for problem in problems(made))


def test_what_a_watch_told_must_be_in_later_reads() -> None:
    made = journal()
    made.writes[1].end = 8.0  # not acknowledged yet
    made.observed = [(1.0, 1), (2.5, 2)]
    made.reads = [read("n0", 3.0, 3.5, 200, 1, "one")]
    assert any("is stale: 2 was known" in problem for problem in problems(made))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (listing((2,), ("n0", 2, "two")), "is stale"),
        (listing((4, 3), ("n0", 2, "two")), "its pages have revisions"),
        (listing((4,), ("n0", 2, "two"), ("n1", 3, "three")), "beside the history"),
        (listing((4,)), "misses"),
        (listing((4,), ("n0", 2, "one")), "beside the history"),
        (listing((4,), ("n0", 2, "two"), selector=RED), "beside the history"),
        (listing((4,), ("n0", 2, "two"), mode="exact", wanted=3), "another revision"),
        (listing((1,), ("n0", 1, "one"), mode="atleast", wanted=2), "is too old"),
        (listing((3,), ("n1", 3, "three"), ("n0", 2, "two"), mode="any"), "is not sorted"),
        (listing((4,), ("n0", 2, "two"), mode="any", start=0.0), "before its time"),
    ],
)
def test_lists_that_must_not_be(found: Listing, why: str) -> None:
    made = journal()
    made.listings = [found]
    assert any(why in problem for problem in problems(made)), problems(made)


@pytest.mark.parametrize(
    "found",
    [
        stream(1, ("ADDED", "n1", 3, "three")),  # a hole
        stream(1, ("MODIFIED", "n0", 2, "two"), ("MODIFIED", "n0", 2, "two")),  # twice
        stream(1, ("MODIFIED", "n0", 2, "two"), ("DELETED", "n1", 4, "three")),  # a hole in the middle
        stream(0, ("MODIFIED", "n0", 2, "two"), ("ADDED", "n0", 1, "one")),  # out of order
        stream(1, ("ADDED", "n0", 2, "two")),  # another type
        stream(1, ("MODIFIED", "n0", 2, "one")),  # another object
        stream(1, ("BOOKMARK", "", 2, "")),  # ahead of an event
        stream(4, ("BOOKMARK", "", 9, "")),  # of the future
        stream(1, ("MODIFIED", "n0", 2, "two"), selector=RED),  # it left the selection
        stream(1, ("ADDED", "n1", 3, "three"), selector=RED),  # and nobody said so
        stream(1, ("MODIFIED", "n0", 2, "two"), selector=BLUE),  # it entered it
        stream(4, ("ADDED", "n9", 5, "five")),  # nothing of the kind happened
        stream(None, ("INITIAL", "", 4, "")),  # an object is missing
        stream(None, ("ADDED", "n0", 2, "two"), ("ADDED", "n1", 3, "three"), ("INITIAL", "", 4, "")),  # one too many
        stream(None, ("ADDED", "n0", 1, "one"), ("INITIAL", "", 1, "")),  # stale
    ],
)
def test_watches_that_must_not_be(found: Stream) -> None:
    made = journal()
    made.streams = [found]
    assert len(problems(made)) == 1


def test_when_a_410_is_right() -> None:
    made = journal()
    for number in range(5, 9):  # a write a second
        made.writes.append(
            Write("patch", f"{PREFIX}n0", str(number), None, 0, number - 1.0, number, 200, revision=number)
        )
        made.observed.append((float(number), number))
    changes = [*HISTORY, *(change(number, "u", "n0", str(number)) for number in range(5, 9))]
    bounds = Bounds(history_age=3.0)
    made.gone = [Gone("watch", 0, 2, 8.0)]
    assert problems(made, changes, bounds) == []
    made.gone = [Gone("watch", 0, 7, 8.0)]
    assert len(problems(made, changes, bounds)) == 1
    shaken = Bounds(history_age=3.0, shaken=[(7.0, 7.5)])
    assert problems(made, changes, shaken) == []
    made.gone = [Gone("watching", 0, 100, 7.2)]  # of a watch from the future
    assert problems(made, changes, shaken) == []
    made.gone = [Gone("watch", 0, 7, 8.0)]
    early = Bounds(history_age=3.0, shaken=[(2.0, 2.5)])
    assert len(problems(made, changes, early)) == 1


def test_more_than_a_quota_admits() -> None:
    changes = [change(n, "c", f"n{n}", f"v{n}", key=f"core/secrets/limited/n{n}") for n in range(1, 4)]
    made = Journal()
    made.writes = [
        Write("create", f"core/secrets/limited/n{n}", f"v{n}", None, 0, 0.0, 9.0, 201, revision=n) for n in range(1, 4)
    ]
    assert problems(made, changes, Bounds(quota=3, quota_namespace="limited")) == []
    found = problems(made, changes, Bounds(quota=2, quota_namespace="limited"))
    assert found == ["3 secrets at 3 (n3), 2 are admitted"]


@pytest.mark.parametrize(("shown", "good"), [("2", False), ("3", True), ("4", True)])
def test_a_quota_that_shows_less_than_there_is(shown: str, good: bool) -> None:
    changes = [change(n, "c", f"n{n}", "", key=f"core/secrets/limited/n{n}") for n in range(1, 4)]
    used = {"used": {"count/secrets": shown}}
    changes.append(change(4, "c", "q", "", key="core/resourcequotas/limited/q", status=used))
    found = problems(Journal(), changes, Bounds(quota=9, quota_namespace="limited"))
    assert len(found) == (0 if good else 1)


def service(revision: int, name: str, address: str, port: int, kind: str = "c") -> Change:
    spec = {"clusterIPs": [address], "ports": [{"protocol": "TCP", "nodePort": port}]}
    return change(revision, kind, name, "", key=f"core/services/a/{name}", spec=spec)


@pytest.mark.parametrize(
    ("second", "good"),
    [
        (service(2, "n2", "10.0.0.2", 30002), True),
        (service(2, "n2", "10.0.0.1", 30002), False),
        (service(2, "n2", "10.0.0.2", 30001), False),
    ],
)
def test_an_allocation_that_two_have(second: Change, good: bool) -> None:
    found = problems(Journal(), [service(1, "n1", "10.0.0.1", 30001), second])
    assert len(found) == (0 if good else 1)
    freed = [
        service(1, "n1", "10.0.0.1", 30001),
        service(2, "n1", "10.0.0.1", 30001, "d"),
        service(3, "n2", "10.0.0.1", 30001),
    ]
    assert problems(Journal(), freed) == []
