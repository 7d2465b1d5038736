"""Two servers side by side: each case in alternating runs, so that noise hits both, and ratios with their spread.

Either is a running server, or a checkout of kapi, which is started with the flags given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bench import neighbours
from tests.bench.cases import Bench, Row, pod, small, times
from tests.bench.http2 import Request, block, drive_http2
from tests.bench.load import Outcome, drive
from tests.bench.watchers import fan_out

Run = Callable[[], Outcome]
Found = tuple[list[Outcome], list[Outcome]]  # what was measured of either server, run by run
_SEEDED = 500  # ConfigMaps that are updated and patched, and that a page lists
_WRITES = 100  # to an object that many watch
Start = Callable[[], tuple[float, float]]  # seconds until ready, CPU-seconds until then


@dataclass(slots=True)
class Case:
    """``prepare`` is told a server's bench and gives what one run does."""

    name: str
    prepare: Callable[[Bench], Run]
    objects: str = ""  # what it leaves behind


def cases() -> Iterator[Case]:
    for level in (1, 16, 64):
        yield Case(f"GET, {level} in flight", _get(level))
    for connections, streams in ((1, 16), (16, 1), (16, 4), (100, 1)):
        yield Case(f"GET HTTP/2, {connections} x {streams}", _get2(connections, streams))
    for level in (1, 16, 64):
        yield Case(f"CREATE, {level} in flight", _create(level), "configmaps")
    yield Case("CREATE HTTP/2, 16 x 4", _create2(16, 4), "configmaps")
    yield Case("UPDATE, 64 in flight", _write("PUT", 64))
    yield Case("PATCH, 64 in flight", _write("PATCH", 64))
    yield Case("CREATE Pod, 16 in flight", _create_pods(16), "pods")
    yield Case("LIST a page of 500, 1 in flight", _page)
    for watchers in (100, 1000):
        yield Case(f"WATCH fan-out to {watchers}", _fan_out(watchers))
    for name, prepare in neighbours.cases():
        yield Case(name, prepare)


def measure(first: Bench, second: Bench, found: dict[str, Found], chosen: str = "") -> None:
    """Adds one round of runs of each case to ``found``.  ``chosen`` are parts of names, comma-separated."""
    wanted = [part for part in chosen.split(",") if part]
    benches = (first, second)
    for bench in benches:
        _seed(bench)
    for case in cases():
        if wanted and not any(part in case.name for part in wanted):
            continue
        outcomes = found.setdefault(case.name, ([], []))
        runs = [case.prepare(bench) for bench in benches]
        for number in range(first.runs):
            for place in (0, 1) if number % 2 else (1, 0):
                outcomes[place].append(runs[place]())
        for bench in benches:
            if case.objects:
                bench.empty(case.objects)
                _seed(bench)


def compare_start(first: Start, second: Start, runs: int, names: tuple[str, str]) -> Row:
    """How long a start takes beside the other's, in data directories that are there already."""
    found: Found = ([], [])
    for number in range(runs):
        for place in (0, 1) if number % 2 else (1, 0):
            took, used = (first, second)[place]()
            found[place].append(Outcome(1 / took, used * 1e6, [took]))
    seconds = [statistics.median(outcome.latencies[0] for outcome in outcomes) for outcomes in found]
    ratios = [one.rate / other.rate for one, other in zip(*found, strict=True)]
    used = [statistics.median(outcome.cpu for outcome in outcomes) / 1e6 for outcomes in found]
    note = (
        f"{min(ratios):.2f} to {max(ratios):.2f}; {names[0]} {seconds[0]:.2f} s, {names[1]} {seconds[1]:.2f} s"
        f"; CPU {used[0]:.2f} and {used[1]:.2f} s"
    )
    spread = (max(ratios) - min(ratios)) / 2 / statistics.median(ratios) * 100
    return Row("start to ready", statistics.median(ratios), "x", spread, note=note)


def row(name: str, found: Found, names: tuple[str, str]) -> Row:
    """The first one's rate as a share of the second's: the median of all pairs, and between what it lies."""
    pairs = list(zip(*found, strict=True))
    ratios = sorted(one.rate / other.rate for one, other in pairs)
    ours, theirs = (statistics.median(outcome.rate for outcome in outcomes) for outcomes in found)
    low, high = interval(ratios)
    note = f"95 %: {low:.2f} to {high:.2f}; pairs {ratios[0]:.2f} to {ratios[-1]:.2f}"
    note += f"; {names[0]} {ours:,.0f}/s, {names[1]} {theirs:,.0f}/s"
    if all(outcome.cpu for pair in pairs for outcome in pair):
        used = sorted(one.cpu / other.cpu for one, other in pairs)
        low, high = interval(used)
        each = [statistics.median(outcome.cpu for outcome in outcomes) for outcomes in found]
        note += f"; CPU {statistics.median(used):.2f} ({low:.2f} to {high:.2f}), {each[0]:.0f} and {each[1]:.0f} us"
    if told := [text for outcomes in found if (text := times(outcomes))]:
        note += f"; {' and '.join(told)}"
    failures = [sum(outcome.failures for outcome in outcomes) for outcomes in found]
    if any(failures):
        note += f"; {failures[0]} and {failures[1]} FAILED"
    median = statistics.median(ratios)
    return Row(name, median, "x", (ratios[-1] - ratios[0]) / 2 / median * 100, note=note)


def interval(ordered: list[float]) -> tuple[float, float]:
    """Between which of the values, in rising order, the median of all that could be measured lies with 95 % certainty.

    Each value is above that median as often as a coin shows heads: fewer than k of n are as rarely as of n throws.
    """
    count = len(ordered)
    place, below = 0, 1
    while (below := below + math.comb(count, place + 1)) <= 0.025 * 2**count:
        place += 1
    return ordered[place], ordered[count - 1 - place]


def _seed(bench: Bench) -> None:
    """The ConfigMaps that later cases read and change, as far as they are not there."""
    for number in range(_SEEDED):
        code, answer = bench.ask("POST", f"{bench.base}/configmaps", small(f"seed-{number}"))
        assert code in (201, 409), answer


def _get(level: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        get = bench.target.request("GET", f"{bench.base}/configmaps/seed-1")
        return lambda: drive(bench.target, lambda n: get, level, bench.seconds)

    return prepare


def _get2(connections: int, streams: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        get = Request(block(bench.target, "GET", f"{bench.base}/configmaps/seed-1"))
        return lambda: drive_http2(bench.target, lambda n: get, connections, streams, bench.seconds)

    return prepare


def _create(level: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        target, path = bench.target, f"{bench.base}/configmaps"
        return lambda: drive(
            target, lambda n: target.request("POST", path, small(bench.number())), level, bench.seconds
        )

    return prepare


def _create2(connections: int, streams: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        head = block(bench.target, "POST", f"{bench.base}/configmaps")
        make = lambda n: Request(head, small(bench.number()))  # noqa: E731
        return lambda: drive_http2(bench.target, make, connections, streams, bench.seconds)

    return prepare


def _create_pods(level: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        target, path = bench.target, f"{bench.base}/pods"
        return lambda: drive(target, lambda n: target.request("POST", path, pod(bench.number())), level, bench.seconds)

    return prepare


def _write(method: str, level: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        target = bench.target

        def make(n: int) -> bytes:
            name = f"seed-{n % _SEEDED}"
            path = f"{bench.base}/configmaps/{name}"
            if method == "PUT":
                return target.request("PUT", path, small(name, n))
            return target.request("PATCH", path, b'{"data":{"n":"%d"}}' % n, "application/merge-patch+json")

        return lambda: drive(target, make, level, bench.seconds)

    return prepare


def _fan_out(watchers: int) -> Callable[[Bench], Run]:
    def prepare(bench: Bench) -> Run:
        def run() -> Outcome:
            found = fan_out(bench.target, f"{bench.base}/configmaps", watchers, _WRITES)
            return Outcome(found["rate"], found["cpu"], [], int(found["lost"]))

        return run

    return prepare


def _page(bench: Bench) -> Run:
    page = bench.target.request("GET", f"{bench.base}/configmaps?limit={_SEEDED}")
    return lambda: drive(bench.target, lambda n: page, 1, bench.seconds)


__all__ = ["Found", "compare_start", "interval", "measure", "row"]
