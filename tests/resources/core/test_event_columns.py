"""The columns of events, which have been reported in several ways (upstream: ``printEvent``)."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.time import stamp
from kapi.resources.core import events

NOW = 1_700_000_000.0


def cells(event: dict[str, Any]) -> dict[str, Any]:
    event = {"metadata": {"name": "e"}, **event}
    names = [column.name for column in events.TABLE.columns]
    return dict(zip(names, events.TABLE.cells(event, NOW), strict=True))


def ago(seconds: int) -> str:
    return stamp(NOW - seconds)


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        ({"source": {"component": "c", "host": "h"}, "reportingComponent": "r", "reportingInstance": "i"}, "c, h"),
        ({"source": {"component": "c"}, "reportingComponent": "r", "reportingInstance": "i"}, "c, i"),
        ({"source": {"host": "h"}, "reportingComponent": "r"}, "r, h"),
        ({"source": {"component": "c"}}, "c"),
        ({"reportingComponent": "r", "reportingInstance": "i"}, "r, i"),
        ({"reportingInstance": "i"}, ", i"),
        ({}, ""),
    ],
)
def test_who_has_reported_it(event: dict[str, Any], shown: str) -> None:
    assert cells(event)["Source"] == shown


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        ({"firstTimestamp": ago(90), "lastTimestamp": ago(30), "count": 4}, ("30s", "90s", 4)),
        ({"firstTimestamp": ago(90)}, ("90s", "90s", 1)),
        ({"eventTime": ago(80), "count": 0}, ("80s", "80s", 1)),
        ({"eventTime": ago(80), "series": {"lastObservedTime": ago(20), "count": 7}, "count": 2}, ("20s", "80s", 7)),
        ({"eventTime": ago(80), "lastTimestamp": ago(30), "series": {}}, ("<unknown>", "80s", 0)),
    ],
)
def test_when_and_how_often_it_was_seen(event: dict[str, Any], shown: tuple[str, str, int]) -> None:
    found = cells(event)
    assert (found["Last Seen"], found["First Seen"], found["Count"]) == shown


@pytest.mark.parametrize(
    ("involved", "shown"),
    [({"kind": "Pod", "name": "p"}, "pod/p"), ({"kind": "Pod"}, "pod"), ({"name": "p"}, "/p"), (None, "")],
)
def test_what_it_is_about(involved: dict[str, Any] | None, shown: str) -> None:
    found = cells({"involvedObject": involved, "message": " text\n"})
    assert (found["Object"], found["Message"], found["Name"]) == (shown, "text", "e")
