"""Checks of watches: ordered, unique, complete to their last event or bookmark; and of each 410."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import inf

from tests.consistency.check_reads import anywhere
from tests.consistency.history import History, State
from tests.consistency.records import Gone, Journal, Stream
from tests.consistency.timeline import Timeline


def check_streams(history: History, journal: Journal, timeline: Timeline) -> list[str]:
    return [problem for stream in journal.streams for problem in anywhere(_stream, history, stream, timeline, journal)]


def _stream(history: History, stream: Stream, timeline: Timeline) -> list[str]:
    what = f"a watch of {stream.prefix} {tuple(stream.selector)} after {stream.since} by server {stream.server}"
    events = stream.events
    begin, since = 0, stream.since
    if since is None:
        begin = next((position for position, event in enumerate(events, 1) if event.type == "INITIAL"), 0)
        if not begin:
            return []  # it broke off before it began
        since = events[begin - 1].item.revision
        problem = _initial(history, stream, begin, timeline)
        if problem:
            return [f"{what}: {problem}"]
    expected = history.events(stream.prefix, stream.selector, since)
    following = next(expected, None)
    for event in events[begin:]:
        revision = event.item.revision
        if event.type == "BOOKMARK":
            if following is not None and following[1].revision <= revision:
                return [f"{what}: a bookmark at {revision} came before {_told(following)}"]
            if revision > history.last:
                return [f"{what}: a bookmark at {revision}, but {history.last} is the newest"]
            continue
        if following is None or not _same(event.type, event.item, following):
            return [f"{what}: was told {event}, not {_told(following)}"]
        following = next(expected, None)
    return []


def _same(kind: str, item: object, following: tuple[str, State]) -> bool:
    wanted, state = following
    if kind != wanted:
        return False
    expected = state.item()
    if kind == "DELETED":  # the object as it was before it went or left the selection
        return item[:3] == expected[:3]  # type: ignore[index]
    return item == expected


def _told(following: tuple[str, State] | None) -> str:
    return f"{following[0]} {following[1].item()}" if following is not None else "nothing"


def _initial(history: History, stream: Stream, end: int, timeline: Timeline) -> str:
    revision = stream.events[end - 1].item.revision
    low = stream.wanted or timeline.known(stream.start)
    if revision < low:
        return f"its initial events are those of {revision}, {low} was known"
    found = sorted(event.item for event in stream.events[: end - 1])
    expected = sorted(state.item() for state in history.replay(stream.prefix, stream.selector, revision))
    if found == expected:
        return ""
    return f"its initial events at {revision} were {found}, not {expected}"


def check_gone(
    journal: Journal, timeline: Timeline, history_age: float, shaken: Sequence[tuple[float, float]]
) -> Iterator[str]:
    """A 410 is right for what is older than the history has to be, or than the last time the server began anew."""
    for gone in journal.gone:
        if not (is_old(gone, timeline, history_age) or is_shaken(gone, timeline, shaken)):
            yield f"{gone}: revision {timeline.possible(gone.end - history_age)} and later cannot have been compacted"


def is_old(gone: Gone, timeline: Timeline, history_age: float) -> bool:
    return gone.wanted < timeline.possible(gone.end - history_age)


def is_shaken(gone: Gone, timeline: Timeline, shaken: Sequence[tuple[float, float]]) -> bool:
    """A server that loads everything anew lacks the former states of what changed before, and ends all watches."""
    position = bisect_right(shaken, (gone.end, inf))
    if not position:
        return False
    wanted = min(gone.wanted, timeline.possible(gone.end))  # a watch may have begun in the future
    return wanted <= timeline.possible(min(gone.end, shaken[position - 1][1]))
