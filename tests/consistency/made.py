"""Histories and journals for the checker's own tests."""

from __future__ import annotations

from typing import Any

import orjson

from kapi.store.interface import Change
from tests.consistency.history import History
from tests.consistency.records import Event, Item, Journal, Listing, Read, Selector, Stream, Write

PREFIX = "core/configmaps/a/"


def change(
    revision: int, kind: str, name: str, value: str, color: str = "red", *, uid: str = "", key: str = "", **more: Any
) -> Change:
    """``uid`` is the name's when it is not given."""
    metadata = {
        "resourceVersion": str(revision),
        "labels": {"color": color},
        "annotations": {"v": value},
        "uid": uid or name,
    }
    return Change(revision, kind, key or PREFIX + name, orjson.dumps({"metadata": metadata, **more}))


#: n0 turns from red to blue, n1 comes and goes
HISTORY = [
    change(1, "c", "n0", "one"),
    change(2, "u", "n0", "two", "blue"),
    change(3, "c", "n1", "three"),
    change(4, "d", "n1", "three"),
]


def journal() -> Journal:
    """Writes that explain HISTORY, one after the other, a second each."""
    made = Journal()
    made.writes = [
        Write("create", f"{PREFIX}n0", "one", None, 0, 0.0, 1.0, 201, revision=1),
        Write("update", f"{PREFIX}n0", "two", 1, 0, 1.0, 2.0, 200, revision=2),
        Write("create", f"{PREFIX}n1", "three", None, 0, 2.0, 3.0, 201, revision=3),
        Write("delete", f"{PREFIX}n1", "", 3, 0, 3.0, 4.0, 200, uids=("n1",)),
    ]
    made.observed = [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4)]
    return made


def read(name: str, start: float, end: float, status: int, revision: int = 0, value: str = "") -> Read:
    return Read(PREFIX + name, 0, start, end, status, revision, value)


def listing(
    revisions: tuple[int, ...],
    *items: tuple[str, int, str],
    mode: str = "fresh",
    wanted: int = 0,
    selector: Selector = Selector(),  # noqa: B008 - it cannot be changed
    start: float = 5.0,
) -> Listing:
    found = [Item("a", *item) for item in items]
    return Listing(PREFIX, selector, mode, wanted, 0, start, start + 1, revisions, found)


def stream(since: int | None, *events: tuple[str, str, int, str], selector: Selector = Selector()) -> Stream:  # noqa: B008
    """``events`` are type, name, revision and value; of a bookmark name and value are empty."""
    made = Stream(PREFIX, selector, since, 0, 5.0)
    made.events = [
        Event(kind, Item("a" if name else "", name, revision, value)) for kind, name, revision, value in events
    ]
    made.end = 9.0
    return made


def history(*changes: Change, dead: tuple[Change, ...] = ()) -> History:
    """``dead`` is a branch that was given up."""
    return History(changes or HISTORY, [dead] if dead else [])
