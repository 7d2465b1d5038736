"""What a body costs grows with its size, not with its square: every list and map of the built-in types is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kapi.machinery.status import StatusError
from kapi.resources.catalogue import BUILT_IN
from tests.growth.counting import lines, steepest
from tests.growth.samples import Place, places
from tests.growth.work import WORK, Work

FEW = 16  # entries
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
        if place.row.kind != kind:
            continue
        for do in WORK:
            for how in ({"distinct": True}, {"distinct": False, "full": True}):
                worst, where = growth(place, do, **how)
                if worst > FACTOR:
                    found.append(f"{do.__name__} of {place} {how}: x {worst:.1f}, {where}")
    assert not found, "\n".join(found)
