"""What a body costs grows with its size, not with its square: every list and map of the built-in types is tried."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery.status import StatusError
from kapi.resources.catalogue import BUILT_IN
from tests.growth.counting import lines, steepest
from tests.growth.samples import Place, places
from tests.growth.work import GENERAL, WORK, Work

#: each entry is reported once for each that came before it, as upstream does: bounded by the number of errors
REPEATED = frozenset(["storage.k8s.io/v1/storageclasses:allowedTopologies"])
FEW = 8  # entries
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
DISTINCT: dict[str, bool] = {"distinct": True}
EQUAL: dict[str, bool] = {"distinct": False, "full": True}


def samples() -> Iterator[tuple[Place, Any, dict[str, bool]]]:
    """Each field with each work.  What works by the schema alone sees equal entries once for each form of a list or map."""
    seen = set()
    for place in PLACES:
        if str(place) in REPEATED:
            continue
        for do in WORK:
            yield place, do, DISTINCT
            form = (do, place.form())
            if do not in GENERAL or form not in seen:
                seen.add(form)
                yield place, do, EQUAL


SAMPLES = list(samples())


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
    for place, do, how in SAMPLES:
        if place.row.kind == kind:
            worst, where = growth(place, do, **how)
            if worst > FACTOR:
                found.append(f"{do.__name__} of {place} {how}: x {worst:.1f}, {where}")
    assert not found, "\n".join(found)


ENTRIES = 500
NOISE = 0.004  # seconds of CPU that a run may take whatever it does
TRIES = 30  # as many only where the first of them were disturbed


def seconds(make: Callable[[], Callable[[], None]]) -> float:
    """CPU time of one run."""
    work = make()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def check_time(
    place: Place, do: Callable[[Work, dict[str, object]], Callable[[], None]], count: int, **how: bool
) -> None:
    work = Work(place.row)
    bodies = [place.body(number, **how) for number in (count, 4 * count)]
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
        f"{do.__name__} of {place}: {best[0]:.4f} s for {count} entries, {best[1]:.4f} s for four times as many"
    )


@settings(max_examples=30)
@given(st.sampled_from(PLACES), st.sampled_from(WORK), st.booleans(), st.booleans())
def test_time_grows_in_proportion(
    place: Place, do: Callable[[Work, dict[str, object]], Callable[[], None]], distinct: bool, full: bool
) -> None:
    """What runs in C and not line by line (copies of lists, comparisons of objects) is seen by the clock only."""
    check_time(place, do, ENTRIES, distinct=distinct, full=full)


def test_limits_of_many_resources_are_judged_in_proportion() -> None:
    """Their names are keys, whose comparisons are not counted."""
    place = next(place for place in PLACES if str(place) == "core/v1/limitranges:spec.limits.max")
    check_time(place, Work.create, 2000)
