"""What watches were sent is counted for each of them, though a batch is looked at once."""

from __future__ import annotations

from kapi.watchcache.counts import SIZES, Sent
from kapi.watchcache.event import BOOKMARK, Batch, WatchEvent


def batch(*sizes: int) -> tuple[Batch, dict[int, bytes]]:
    """Events whose encoded forms are so long."""
    events = [WatchEvent(BOOKMARK, revision, None) for revision in range(1, len(sizes) + 1)]
    return Batch(events), dict(enumerate((b"x" * size for size in sizes), 1))


def send(sent: Sent, one: tuple[Batch, dict[int, bytes]]) -> None:
    made, data = one
    made.encoded("json", lambda event: data[event.revision], sent)


def test_each_watch_counts_all_events_of_a_batch() -> None:
    sent, one = Sent(), batch(10, 1024, 5000)
    for _ in range(3):
        send(sent, one)
    assert sent.row[:4] == [6, 0, 0, 3]  # up to 1, 2, 4 and 8 KiB
    assert (sum(sent.row[:-1]), sent.row[-1]) == (9, 3 * 6034)
    assert len(sent.row) == len(SIZES) + 2


def test_a_watch_that_is_late_counts_after_a_scrape() -> None:
    sent, one = Sent(), batch(10)
    send(sent, one)
    assert sum(sent.row[:-1]) == 1
    send(sent, one)
    assert sum(sent.row[:-1]) == 2


def test_nothing_is_lost_when_nobody_scrapes() -> None:
    sent = Sent()
    for _ in range(2000):
        send(sent, batch(10))
    assert sum(sent.row[:-1]) == 2000
