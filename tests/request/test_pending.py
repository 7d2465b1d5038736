"""What waits for all clients together has a bound: who is slow goes."""

from __future__ import annotations

from twisted.internet.task import Clock

from kapi.observability.metrics import Metrics
from kapi.observability.request_metrics import pending_families
from kapi.request.pending import STALL_SECONDS, HeldBytes, Pending, PendingBytes


class Answer:
    """Waits for a client."""

    def __init__(self, pending: Pending, size: int) -> None:
        self.pending = pending
        self.share: PendingBytes | None = PendingBytes(pending, size)
        self.ended = False
        pending.progress(self)

    def cut_off(self) -> None:
        self.ended = True
        self.share = None


def test_who_took_nothing_for_longest_is_cut_off_and_who_reads_is_not() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    slow, slower, quick = Answer(pending, 30), Answer(pending, 30), Answer(pending, 30)
    clock.advance(STALL_SECONDS)
    pending.progress(slow)
    clock.advance(STALL_SECONDS)
    pending.progress(quick)
    last = Answer(pending, 30)
    assert [each.ended for each in (slow, slower, quick, last)] == [False, True, False, False]
    assert (pending.size, pending.cut_off) == (90, 1)


def test_while_all_read_more_is_refused() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    answers = [Answer(pending, 60), Answer(pending, 60)]
    assert pending.full
    assert not any(each.ended for each in answers)
    pending.leave(answers[0])
    answers.pop(0)
    assert (pending.size, pending.full) == (60, False)


def test_one_that_has_left_is_not_cut_off() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    gone, here = Answer(pending, 60), Answer(pending, 30)
    pending.leave(gone)
    clock.advance(2 * STALL_SECONDS)
    Answer(pending, 60)
    assert (gone.ended, here.ended) == (False, True)


def test_an_object_that_waits_in_several_places_counts_once() -> None:
    pending = Pending(Clock().seconds, 100)
    event, small = b"x" * 10_000, b"y" * 10
    for _ in range(3):
        pending.hold(event)
        pending.hold(small)
    assert pending.size == 10_030
    queued = HeldBytes(pending)
    queued.add([event, event, b"z" * 5_000])
    queued.add([event])
    assert pending.size == 15_030
    for _ in range(3):
        pending.release(event)
        pending.release(small)
    assert pending.size == 15_000
    del queued
    assert pending.size == 0


def test_the_more_there_is_the_sooner_somebody_is_cut_off() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    first = Answer(pending, 110)
    clock.advance(STALL_SECONDS / 2)
    second = Answer(pending, 10)
    assert not first.ended
    third = Answer(pending, 50)
    assert (first.ended, second.ended, third.ended) == (True, False, False)
    fourth = Answer(pending, 145)
    assert (second.ended, third.ended, fourth.ended) == (True, False, False), "more than twice the limit"


def test_one_is_not_cut_off_in_the_middle_of_its_own_work() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    old, new = Answer(pending, 50), Answer(pending, 40)
    clock.advance(2 * STALL_SECONDS)
    assert old.share is not None
    old.share.set(150)
    pending.wait(old)
    assert (old.ended, new.ended) == (False, True)
    pending.look()
    assert old.ended


class List(Answer):
    """Keeps objects that are changed while its client does not read."""

    def __init__(self, pending: Pending) -> None:
        super().__init__(pending, 0)
        pending.keep(self)
        self.looks = 0

    def stalled(self) -> None:
        assert self.share is not None
        self.looks += 1
        self.share.set(60)


def test_what_an_answer_keeps_counts_when_its_client_makes_no_progress() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    read, unread, left = List(pending), List(pending), List(pending)
    clock.advance(STALL_SECONDS)
    pending.progress(read)
    pending.leave(left)
    for _ in range(2):
        pending.look()
    assert (pending.size, [each.looks for each in (read, unread, left)]) == (60, [0, 1, 0])
    clock.advance(STALL_SECONDS)
    pending.look()
    assert ([each.ended for each in (read, unread)], pending.size) == ([False, True], 60)


def test_without_a_limit_nobody_is_cut_off_and_nothing_refused() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 0)
    answer = Answer(pending, 1 << 40)
    clock.advance(2 * STALL_SECONDS)
    Answer(pending, 1 << 40)
    assert (answer.ended, pending.full) == (False, False)


def test_what_waits_and_was_refused_is_told_as_metrics() -> None:
    clock = Clock()
    pending = Pending(clock.seconds, 100)
    slow = Answer(pending, 60)
    clock.advance(2 * STALL_SECONDS)
    quick = Answer(pending, 90)
    error = pending.refusal()
    assert (error.code, error.retry_after) == (429, 1)
    metrics = Metrics()
    metrics.add(lambda: pending_families(pending))
    text = b"".join(metrics.exposition()).decode()
    assert "\nkapi_pending_bytes 90\n" in text
    assert '\nkapi_pending_refusals_total{how="refused"} 1\n' in text
    assert '\nkapi_pending_refusals_total{how="cut_off"} 1\n' in text
    assert (slow.ended, quick.ended) == (True, False)
