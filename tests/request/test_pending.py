"""What waits for all clients together has a bound: who is slow goes."""

from __future__ import annotations

from twisted.internet.task import Clock

from kapi.request.pending import STALL_SECONDS, Pending, PendingBytes
from kapi.server.metrics import Metrics
from kapi.server.pending_metrics import pending_families


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
    assert "\nkapi_pending_bytes 90.0\n" in text
    assert '\nkapi_pending_refusals_total{how="refused"} 1.0\n' in text
    assert '\nkapi_pending_refusals_total{how="cut_off"} 1.0\n' in text
    assert (slow.ended, quick.ended) == (True, False)
