"""How much goes into a batch, waits for a client, or is done in one turn; when a bookmark is due."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from kapi.machinery.gvk import GroupResource
from kapi.request.pending import Pending
from kapi.store.errors import Compacted
from kapi.watchcache import fan_out, watch
from kapi.watchcache.backlog import Initial, past
from kapi.watchcache.counts import LIST_SECONDS, SIZES, WAITS, Reads, Sent, SentBatch
from kapi.watchcache.event import BOOKMARK, Batch, WatchEvent
from kapi.watchcache.fan_out import FanOut
from kapi.watchcache.metrics import _sent
from kapi.watchcache.observers import Observers
from kapi.watchcache.turns import Turns
from kapi.watchcache.unreadable import Unreadable, problem_of
from kapi.watchcache.watch import BookmarkWheel, Watch


def entry(number: int, size: int = 1) -> Any:
    return SimpleNamespace(key=f"{number:05d}", revision=number, data=b"x" * size)


class Everything:
    """A group that covers all entries but those of ``others``."""

    def __init__(self, *others: int, selects: bool = True, matches: bool = False) -> None:
        self.others, self.selects = others, selects
        self.matches = (lambda entry: selects) if matches else None

    def covers(self, entry: Any) -> bool:
        return entry.revision not in self.others

    def select(self, event: Any) -> Any:
        return WatchEvent("MODIFIED", event.revision, event.entry) if self.selects else None


def sizes(batches: Any) -> list[int]:
    return [len(batch.events) for batch in batches]


@pytest.mark.parametrize(
    ("count", "size", "selects", "expected"),
    [
        (0, 1, True, []), (1, 1, True, [1]), (500, 1, True, [500]), (501, 1, True, [500, 1]), (1100, 1, True, [500, 500, 100]),
        (6, 31_999, True, [3, 3]), (4, 32_000, True, [2, 2]), (3, 64_000, True, [1, 1, 1]), (3, 63_999, True, [2, 1]),
        (2000, 1, False, [0]), (2001, 1, False, [0, 0]), (20, 100_000, False, [0, 0]), (11, 99_999, False, [0]),
        (12, 99_999, False, [0, 0]),
    ],
)  # fmt: skip
def test_the_present_objects_come_in_batches(count: int, size: int, selects: bool, expected: list[int]) -> None:
    entries = [entry(number, size) for number in range(count)]
    found = Initial(lambda: entries, Everything(), None if selects else lambda entry: False, 9, False)  # type: ignore[arg-type]
    assert sizes(found) == expected
    with pytest.raises(StopIteration):
        next(found)


@pytest.mark.parametrize("matches", [True, False])
def test_only_objects_that_are_tested_count_as_read(matches: bool) -> None:
    entries = [entry(number, 300_000) for number in range(10)]
    group: Any = Everything(*range(10))
    found = Initial(lambda: entries, group, (lambda entry: True) if matches else None, 9, False)
    assert sizes(found) == ([0, 0, 0] if matches else [0])


def test_the_closing_bookmark_comes_last_and_once() -> None:
    listed: list[int] = []
    found = Initial(lambda: [entry(1)], Everything(), None, 9, True, lambda: listed.append(1))  # type: ignore[arg-type]
    first = next(found)
    assert (len(first.events), listed) == (1, [])
    (last,) = next(found).events
    assert (last.type, last.revision, last.entry, last.initial_end, listed) == (BOOKMARK, 9, None, True, [1])
    assert list(found) == [] and listed == [1]


@pytest.mark.parametrize("position", [0, 500, 1000])
def test_a_list_that_was_released_goes_on_behind_the_last_entry_that_was_sent(position: int) -> None:
    lists: list[int] = []

    def again() -> list[Any]:
        lists.append(1)
        return [entry(number) for number in range(1000)]

    found = Initial(again, Everything(), None, 9, False)  # type: ignore[arg-type]
    seen: list[int] = []
    while len(seen) < position:
        seen += [event.revision for event in next(found).events]
    found.release()
    found.release()
    seen += [event.revision for batch in found for event in batch.events]
    assert seen == list(range(1000))
    assert len(lists) == (1 if position == 1000 else 2), "of a list that was sent nothing is needed again"


def changes(count: int, size: int) -> Any:
    """A history, of which at most 1,000 changes are read at once."""
    forgotten: list[int] = []
    every = [
        SimpleNamespace(
            revision=number, entry=entry(number, size), forget=lambda number=number: forgotten.append(number)
        )
        for number in range(1, count + 1)
    ]
    return lambda since: every[since : since + 1000]


@pytest.mark.parametrize(
    ("count", "size", "group", "expected"),
    [
        (0, 1, Everything(), []), (1, 1, Everything(), [1]), (500, 1, Everything(), [500]), (501, 1, Everything(), [500, 1]),
        (4, 32_000, Everything(), [2, 2]), (5, 31_999, Everything(), [3, 2]), (2, 64_000, Everything(), [1, 1]),
        (3, 64_000, Everything(1, 2), [1]), (1500, 1, Everything(selects=False), [0, 0]),
        (20, 100_000, Everything(selects=False), [0]), (20, 100_000, Everything(selects=False, matches=True), [0, 0]),
        (12, 99_999, Everything(selects=False, matches=True), [0, 0]), (11, 99_999, Everything(selects=False, matches=True), [0]),
        (20, 100_000, Everything(*range(11), selects=False, matches=True), [0]),
    ],
)  # fmt: skip
def test_the_past_comes_in_batches(count: int, size: int, group: Any, expected: list[int]) -> None:
    assert sizes(past(changes(count, size), 0, group)) == expected


def test_a_past_that_cannot_be_read_is_gone() -> None:
    group: Any = Everything()

    def select(event: Any) -> Any:
        if event.revision == 3:
            raise Unreadable("pods", "a", 3, "why")
        return WatchEvent("MODIFIED", event.revision, event.entry)

    group.select = select
    with pytest.raises(Compacted) as caught:
        list(past(changes(5, 1), 1, group))
    assert vars(caught.value) == vars(Compacted(3, 3))


# -- a slow client


class Source:
    def __init__(self, events: int, size: int, pending: Pending | None = None) -> None:
        self.max_queued_events, self.max_queued_bytes, self.pending = events, size, pending
        self.forgotten: list[Any] = []
        self.terminated = 0
        self.calls: list[Any] = []
        self.turns = Turns(self.calls.append, lambda: 0.0)

    def bookmark(self) -> None: ...

    def forget(self, watch: Any, group: Any) -> None:
        self.forgotten.append(watch)

    def count_terminated(self) -> None:
        self.terminated += 1


class Client:
    def __init__(self, source: Source, after: int = 0, backlog: Any = None) -> None:
        self.got: list[list[int]] = []
        self.ends: list[Any] = []
        group: Any = SimpleNamespace(pending=[])
        self.watch = Watch(source, group, self.take, self.ends.append, after, backlog, False, 0.0)

    def take(self, batch: Batch) -> None:
        self.got.append([event.revision for event in batch.events])


def batch(*revisions: int, size: int = 10) -> Batch:
    return Batch([WatchEvent("ADDED", revision, entry(revision, size)) for revision in revisions])


@pytest.mark.parametrize(
    ("after", "revisions", "got"),
    [
        (0, (1, 2), [[1, 2]]), (1, (1, 2), [[2]]), (2, (1, 2), []), (1, (2, 3), [[2, 3]]), (2, (1, 2, 3), [[3]]), (9, (1, 2), []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("paused", [True, False])
def test_a_watch_gets_what_is_newer_than_its_start(
    after: int, revisions: tuple[int, ...], got: list[list[int]], paused: bool
) -> None:
    client = Client(Source(10, 1000), after)
    if paused:
        client.watch.pause()
    client.watch.deliver(batch(*revisions))
    assert client.got == ([] if paused else got)
    assert client.watch.behind is paused
    if paused:
        client.watch.resume()
        assert client.got == got and not client.watch.behind


@pytest.mark.parametrize(("events", "size", "ends"), [(4, 1000, 0), (3, 1000, 1), (100, 40, 0), (100, 39, 1)])
def test_a_client_that_is_too_slow_is_cut_off(events: int, size: int, ends: int) -> None:
    source = Source(events, size)
    client = Client(source)
    client.watch.pause()
    for first in (1, 3):
        assert client.ends == []
        client.watch.deliver(batch(first, first + 1))
    assert (client.ends, source.terminated, client.watch.was_cut_off) == ([None] * ends, ends, bool(ends))
    assert source.forgotten == [client.watch] * ends
    client.watch.cut_off()
    client.watch.fail()
    assert (len(client.ends), source.terminated, client.watch.failed) == (1, 1, False)


def test_what_a_client_has_read_does_not_count_any_more() -> None:
    client = Client(Source(3, 1000))
    for first in (1, 4, 7):
        client.watch.pause()
        client.watch.deliver(batch(first, first + 1, first + 2))
        client.watch.resume()
    assert client.ends == [] and len(client.got) == 3


def test_waiting_events_count_for_what_waits_for_clients() -> None:
    clock = Clock()
    pending = Pending(clock.seconds)
    source = Source(100, 10_000, pending)
    client = Client(source)
    client.watch.deliver(batch(1))
    assert pending._holders == {}
    client.watch.pause()
    for revision in (2, 3):
        client.watch.deliver(batch(revision))
        clock.advance(1.0)
    assert (pending.size, pending._holders) == (20, {client.watch: 0.0})
    one = batch(4)
    client.watch.deliver(one)
    client.watch._on_batch = lambda batch: client.watch.pause()
    client.watch.resume()
    assert pending._holders == {client.watch: 2.0}, "it has read one"
    client.watch._on_batch = client.take
    client.watch.resume()
    assert pending._holders == {} and client.got == [[1], [3], [4]]
    client.watch.pause()
    client.watch.deliver(batch(5))
    client.watch.stop()
    assert pending._holders == {} and client.ends == []


@pytest.mark.parametrize(
    ("revision", "after", "paused", "sent"), [(5, 5, False, 1), (5, 4, False, 1), (5, 6, False, 0), (5, 4, True, 0)]
)
def test_a_bookmark_never_goes_back_and_overtakes_nothing(revision: int, after: int, paused: bool, sent: int) -> None:
    client = Client(Source(10, 1000), after)
    if paused:
        client.watch.pause()
    bookmark = Batch([WatchEvent(BOOKMARK, 5, None)])
    client.watch.bookmark(bookmark)
    assert len(client.got) == sent
    client.watch.stop()
    client.watch.bookmark(bookmark)
    assert len(client.got) == sent


@pytest.mark.parametrize("count", [7, 8, 9])
def test_of_a_long_backlog_some_batches_are_sent_in_a_turn(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "perf_counter", lambda: 0.0)
    source = Source(10, 1000)
    client = Client(source, 0, iter([batch(number + 1) for number in range(count)]))
    turns = []
    while source.calls:
        before = len(client.got)
        source.calls.pop(0)()
        turns.append(len(client.got) - before)
    assert turns == {7: [7], 8: [8, 0], 9: [8, 1]}[count]
    assert not client.watch.behind


@pytest.mark.parametrize(
    ("error", "told", "failed"), [(Compacted(1, 2), True, False), (ValueError("a fault"), False, True)]
)
def test_a_backlog_that_fails_ends_its_watch(error: Exception, told: bool, failed: bool) -> None:
    source = Source(10, 1000)

    def fail() -> Any:
        raise error
        yield

    client = Client(source, 0, fail())
    source.calls.pop(0)()
    assert (client.ends, client.watch.failed) == ([error if told else None], failed)
    assert source.calls == []


# -- turns


@pytest.mark.parametrize(("seconds", "at_once"), [(0.005, 2), (0.00999, 2), (0.01, 1), (0.02, 1)])
def test_a_turn_is_over_after_ten_milliseconds(seconds: float, at_once: int) -> None:
    now, calls, sent = [0.0], [], []  # type: ignore[var-annotated]
    turns = Turns(calls.append, lambda: now[0])

    def send() -> None:
        sent.append(1)
        now[0] = seconds * len(sent)

    for _ in range(2):
        turns.run(send)
    assert len(sent) == at_once and len(calls) == 1
    calls.pop()()
    assert len(sent) == 2 and calls == []
    turns.run(send)
    assert len(sent) == 3, "a new turn has begun"


@pytest.mark.parametrize(("seconds", "counted"), [(0.0005, False), (0.00051, True)])
def test_what_takes_no_time_is_not_counted(seconds: float, counted: bool) -> None:
    now, calls = [0.0], []  # type: ignore[var-annotated]
    turns = Turns(calls.append, lambda: now[0])

    def send() -> None:
        now[0] += seconds

    turns.run(send)
    assert len(calls) == counted


class Due:
    def __init__(self, deadline: float) -> None:
        self.deadline = deadline


class Receiver:
    ended = False
    behind = False

    def __init__(self, got: list[Any], fails: bool = False) -> None:
        self.got, self.fails, self.failed = got, fails, 0

    def deliver(self, batch: Batch) -> None:
        self.got.append(self)
        if self.fails:
            raise ValueError("a fault")

    def fail(self) -> None:
        self.failed += 1


@pytest.mark.parametrize(("size", "turns"), [(16 * 1024 - 1, [16, 16, 8]), (16 * 1024, [1] * 40)])
def test_between_watches_others_are_served(size: int, turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(fan_out, "perf_counter", lambda: now[0])
    calls, got = [], []  # type: ignore[var-annotated]
    reactor: Any = SimpleNamespace(callLater=lambda seconds, function: calls.append(function))
    fan = FanOut(reactor, Observers())
    watches = dict.fromkeys(Receiver(got, fails=number == 3) for number in range(40))
    group: Any = SimpleNamespace(pending=list(batch(1, size=size).events), watches=watches)
    fan.dirty.append(group)
    assert not fan.busy
    fan.schedule()
    fan.schedule()
    assert fan.busy and len(calls) == 1
    real = Receiver.deliver

    def slow(self: Receiver, batch: Batch) -> None:
        now[0] += 1.0
        real(self, batch)

    monkeypatch.setattr(Receiver, "deliver", slow)
    seen = []
    while calls:
        before = len(got)
        calls.pop()()
        seen.append(len(got) - before)
    assert [each for each in seen if each] == turns
    assert [watch.failed for watch in watches] == [int(number == 3) for number in range(40)]
    assert not fan.behind(next(iter(watches)))  # type: ignore[arg-type]


@pytest.mark.parametrize("concerned", [(), (True,), (False,), (False, True), (True, False)])
def test_events_are_kept_for_those_whom_they_concern(concerned: tuple[bool, ...]) -> None:
    observers, told = Observers(), []  # type: ignore[var-annotated]
    for concerns in concerned:
        observer: Any = Due(0.0)
        observer.concerns = lambda event, concerns=concerns: concerns
        observer.changed = lambda events: told.append(list(events))
        observers.add(observer)
    assert bool(observers) is bool(concerned)
    cache, event = object(), object()
    assert observers.note(cache, event) is any(concerned)  # type: ignore[arg-type]
    for _ in range(2):
        observers.flush()
    assert told == [[(cache, event)]] * sum(concerned)


# -- bookmarks


@pytest.mark.parametrize(
    ("deadline", "due"),
    [
        (0.0, 1060), (1100.0, 1060), (1062.0, 1060), (1061.5, 1059), (1030.0, 1028), (1002.5, 1001), (1002.0, 1060),
        (1001.0, 1060),
    ],
)  # fmt: skip
def test_when_a_bookmark_is_due(deadline: float, due: int) -> None:
    now = [1000.0]
    wheel = BookmarkWheel(lambda: now[0])
    one: Any = Due(deadline)
    wheel.add(one)
    found = []
    for second in range(1001, 1063):
        now[0] = second + 0.25
        found += [second for _ in wheel.turn()]
    assert found[0] == due
    wheel.discard(one)
    wheel.discard(one)
    now[0] = 2000.0
    assert wheel.turn() == []


def test_seconds_that_were_missed_are_made_up_for() -> None:
    now = [1000.5]
    wheel = BookmarkWheel(lambda: now[0])
    first: Any = Due(0.0)
    second: Any = Due(1030.0)
    wheel.add(first)
    wheel.add(second)
    now[0] = 1060.5
    assert wheel.turn() == [second, first]
    assert wheel.turn() == []
    now[0] = 1120.5
    assert wheel.turn() == [second, first]


# -- counts


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.0, 0), (0.005, 0), (0.0051, 1), (0.025, 1), (3.0, len(WAITS) - 1), (3.1, len(WAITS))]
)
def test_waits_are_counted_up_to_their_bound(seconds: float, place: int) -> None:
    reads = Reads()
    reads.waited(seconds)
    assert reads.waits == [float(number == place) for number in range(len(WAITS) + 1)] + [seconds]
    reads.listed(3, 2)
    reads.listed(3, 2)
    assert (reads.lists, reads.fetched, reads.returned) == (2, 6, 4)


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.05, 0), (0.06, 1), (60.0, len(LIST_SECONDS) - 1), (61.0, len(LIST_SECONDS))]
)
def test_initial_lists_are_counted_by_scope(seconds: float, place: int) -> None:
    sent = Sent()
    sent.listed("cluster", seconds)
    assert sent.lists == {"cluster": [float(number == place) for number in range(len(LIST_SECONDS) + 1)] + [seconds]}


def test_metrics_have_the_sums_of_what_watches_were_sent() -> None:
    sent = Sent()
    sent.listed("cluster", 0.25)
    sent.listed("cluster", 0.5)
    batch = SentBatch([1000, 3000])
    batch.times = 2
    sent.begin(batch)
    cache: Any = SimpleNamespace(resource=GroupResource("apps", "deployments"), sent={"v1": sent, "v2": Sent()})
    found = {
        sample.name: sample.value
        for family in _sent([cache])
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }
    assert found == {
        "apiserver_watch_events_total": 4, "apiserver_watch_events_sizes_count": 4, "apiserver_watch_events_sizes_sum": 8000,
        "apiserver_watch_list_duration_seconds_count": 2, "apiserver_watch_list_duration_seconds_sum": 0.75,
    }  # fmt: skip


def test_buckets_are_those_of_upstream() -> None:
    assert SIZES == (1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0)
    assert WAITS == (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)
    assert LIST_SECONDS == (
        0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
    )  # fmt: skip


# -- stored forms


def stored(revision: int = 7, name: str = "a", before: bytes = b"") -> bytes:
    return b'{"kind":"Pod",%s"apiVersion":"v1","metadata":{"resourceVersion":"%d","name":"%s"}}' % (
        before, revision, name.encode(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (stored(), ""), (stored(8), "not in the form that is stored"), (stored(name="b"), "it has another name"),
        (b" " + stored(), "not in the form that is stored"),
        (b"k8s:enc:aescbc:v1:a", "no key of the encryption configuration decrypts it"),
        (stored(before=b'"x":"%s",' % (b"x" * 952)), ""),
        (stored(before=b'"x":"%s",' % (b"x" * 953)), "not in the form that is stored"),
        (stored() + b"}", "JSON is malformed: trailing characters (byte 79)"),
    ],
)  # fmt: skip
def test_what_is_no_stored_form(data: bytes, why: str) -> None:
    assert problem_of(data, 7, "a") == why


@pytest.mark.parametrize(("group", "key"), [("", "pods/x/a"), ("apps", "apps/pods/x/a")])
def test_how_an_unreadable_object_is_reported(group: str, key: str) -> None:
    error = Unreadable.of(GroupResource(group, "pods"), "x/a", 7, "bad")
    whole = (
        f"StorageError: corrupt object, Code: 7, Key: /registry/{key}, ResourceVersion: 0, "
        "AdditionalErrorMsg: object not decodable revision=7: bad"
    )
    assert error.again().message == error.message == f"Internal error occurred: {whole}"
    assert error.details == {"causes": [{"message": whole}]}
    assert not error.is_former and error.former().is_former and not error.again().is_former
