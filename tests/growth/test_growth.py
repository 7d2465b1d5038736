"""What a body costs grows with its size, not with its square: every list and map of the built-in types is tried."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapi.machinery.status import StatusError
from kapi.resources.catalogue import BUILT_IN
from tests.growth.counting import lines, steepest
from tests.growth.samples import Place, places
from tests.growth.work import WORK, Work

#: each entry is reported once for each that came before it, as upstream does: bounded by the number of errors
REPEATED = frozenset(["storage.k8s.io/v1/storageclasses:allowedTopologies"])
FEW = 12  # entries
FACTOR = 6.0  # of the work for four times as many
LEAST = 10 * FEW  # runs of a line, below which it does not count


def distinct_places() -> Iterator[Place]:
    """Each field of each type, and those near the top for each resource: the same type is judged by the same code."""
    seen = set()
    for row in BUILT_IN:
        if row.handler:
            continue
        for place in places(row):
            owner = place.types[-2] if len(place.types) > 1 else None
            holder = owner.elem if owner is not None and owner.elem is not None else owner
            near = len(place.names) <= 3 and place.names[0] != "metadata"
            key = (holder.name if holder is not None else row.kind, place.names[-1], row.kind if near else "")
            if key not in seen:
                seen.add(key)
                yield place


PLACES = list(distinct_places())
KINDS = sorted({place.row.kind for place in PLACES})


def growth(place: Place, do: Callable[[Work, dict[str, object]], Callable[[], None]], **how: bool) -> tuple[float, str]:
    work = Work(place.row)
    try:
        few, many = (lines(do(work, place.body(count, **how))) for count in (FEW, 4 * FEW))
    except StatusError:  # cannot be decoded
        return 0.0, ""
    return steepest(few, many, LEAST)


@pytest.mark.parametrize("kind", KINDS)
def test_no_line_runs_more_than_in_proportion(kind: str) -> None:
    found = []
    for place in PLACES:
        if place.row.kind != kind or str(place) in REPEATED:
            continue
        for do in WORK:
            for how in ({"distinct": True}, {"distinct": False, "full": True}):
                worst, where = growth(place, do, **how)
                if worst > FACTOR:
                    found.append(f"{do.__name__} of {place} {how}: x {worst:.1f}, {where}")
    assert not found, "\n".join(found)


ENTRIES = 500
NOISE = 0.002  # seconds of CPU that a run may take whatever it does
TRIES = 6


def seconds(make: Callable[[], Callable[[], None]]) -> float:
    """CPU time of one run."""
    work = make()
    begin = time.process_time()
    work()
    return time.process_time() - begin


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), st.sampled_from(WORK), st.booleans(), st.booleans())
def test_time_grows_in_proportion(
    place: Place, do: Callable[[Work, dict[str, object]], Callable[[], None]], distinct: bool, full: bool
) -> None:
    """What runs in C and not line by line (copies of lists, comparisons of objects) is seen by the clock only."""
    work = Work(place.row)
    bodies = [place.body(count, distinct=distinct, full=full) for count in (ENTRIES, 4 * ENTRIES)]
    best = [float("inf"), float("inf")]
    gc.disable()
    try:
        for _ in range(TRIES):  # the machine has other things to do, too
            best = [
                min(least, seconds(lambda body=body: do(work, body)))  # type: ignore[misc]
                for least, body in zip(best, bodies, strict=True)
            ]
            if best[1] < FACTOR * max(best[0], NOISE):
                return
    except StatusError:  # cannot be decoded
        return
    finally:
        gc.enable()
    raise AssertionError(
        f"{do.__name__} of {place}: {best[0]:.4f} s for {ENTRIES} entries, {best[1]:.4f} s for four times as many"
    )
