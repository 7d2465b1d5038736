"""What a request costs beside many objects, by what it costs beside few: two servers in alternating runs.

Minutes lie between two measurements of a server that is filled in between, and a machine may be half as fast again by then.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from tests.bench.cases import Bench, Row, _spread
from tests.bench.growth import IN_FLIGHT, PAGE, creates, fill, gets, pages, remove, rest
from tests.bench.load import Outcome, drive

_RUNS = 15  # of each
_SECONDS = 0.5  # of a run at most
Run = Callable[[], Outcome]


def beside(many: Bench, few: Bench, sizes: tuple[int, int]) -> None:
    """``sizes`` are how many objects there are in ``many``, and how many are to be in ``few``."""
    fill(few, 0, sizes[1])
    for bench in (many, few):
        rest(bench)
    placed = list(zip((many, few), sizes, strict=True))
    _alternate("page of 500", many, *(lambda bench=bench: pages(bench) for bench, _ in placed), sizes=sizes)
    # what the processor's caches have costs less: here both read the same thousand objects again and again
    few_pages = -(-sizes[1] // PAGE)
    same = [lambda bench=bench: pages(bench, few_pages) for bench, _ in placed]
    _alternate(f"{few_pages} pages, again and again,", many, *same, sizes=sizes)
    _alternate("GET", many, *(_get(bench, size) for bench, size in placed), sizes=sizes)
    _alternate("CREATE", many, *(_create(bench) for bench, _ in placed), sizes=sizes)


def _get(bench: Bench, size: int) -> Run:
    requests = gets(bench, size)
    return lambda: drive(bench.target, requests, IN_FLIGHT, min(_SECONDS, bench.seconds))


def _create(bench: Bench) -> Run:
    names: list[str] = []
    requests = creates(bench, names)

    def run() -> Outcome:
        outcome = drive(bench.target, requests, IN_FLIGHT, min(_SECONDS, bench.seconds))
        remove(bench, names)
        return outcome

    return run


def _alternate(name: str, bench: Bench, many: Run, few: Run, sizes: tuple[int, int]) -> None:
    """The first run of each is not counted: it warms up."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(_RUNS + 1):
        for place in (0, 1) if number % 2 else (1, 0):
            found[place].append((many, few)[place]().cpu)
    ratios = [one / other for one, other in zip(*found, strict=True)][1:]
    each = [statistics.median(cpus[1:]) for cpus in found]
    least = [min(cpus[1:]) for cpus in found]
    note = f"{statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}; "
    note += f"{each[0]:,.0f} and {each[1]:,.0f} us of CPU, {least[0]:,.0f} and {least[1]:,.0f} at the least"
    text = f"{name} beside {sizes[0]:,} by that beside {sizes[1]:,}"
    bench.add(Row(text, statistics.median(ratios), "x", _spread(ratios), note=note))
