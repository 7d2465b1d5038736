"""What only a target asks for: bursts of events, many deletions at once, starts beside many objects, and workers."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable

from tests.bench.cases import Bench, Row, _cpu, _spread
from tests.bench.growth import fill
from tests.bench.http2_cases import h2load
from tests.bench.idle import proportional
from tests.bench.load import Connection, Outcome, Target, drive
from tests.bench.watchers import burst, fan_out

WATCHERS = 1000
_WRITERS = 16
_WRITES = 600  # of a burst
_PACE = 20  # events a second
_SECONDS = 10
DELETED = 50_000
STARTED = 100_000
_IN_FLIGHT = 64  # GETs for all workers together
_REST = 3.0  # seconds after which a server that has started is at rest
Restart = Callable[[], tuple[Target, float]]  # the server again, and the seconds until it was ready


def bursts(bench: Bench) -> None:
    """Events that come faster than turns of the reactor, and events that come one by one."""
    path = f"{bench.base}/configmaps"
    with bench.flames.of("fan-out, burst", bench.target.pids):
        runs = [burst(bench.target, path, WATCHERS, _WRITES, _WRITERS) for _ in range(bench.runs)]
    rates = [run["rate"] for run in runs]
    lost = sum(run["lost"] for run in runs)
    cpu = _cpu(bench.target, [run["cpu"] for run in runs])
    note = f"{_WRITERS} writers, {statistics.median(run['writes'] for run in runs):,.0f} writes a second"
    note += f", {lost:.0f} LOST" if lost else ""
    bench.add(Row(f"WATCH burst to {WATCHERS}", statistics.median(rates), "events/s", _spread(rates), cpu, note))
    runs = [fan_out(bench.target, path, WATCHERS, _PACE * _SECONDS, pause=1 / _PACE) for _ in range(bench.runs)]
    p99 = [run["p99"] for run in runs]
    cpu = _cpu(bench.target, [run["cpu"] for run in runs])
    note = f"p50 {statistics.median(run['p50'] for run in runs):.1f} ms"
    bench.add(Row(f"WATCH {_PACE} a second to {WATCHERS}, p99", statistics.median(p99), "ms", _spread(p99), cpu, note))


def deletion(bench: Bench) -> None:
    """All of a collection, by one request."""
    fill(bench, 0, DELETED)
    connection = Connection(bench.target)
    connection.socket.settimeout(600)
    before, begin = bench.target.cpu(), time.perf_counter()
    code, answer = connection.roundtrip(bench.target.request("DELETE", f"{bench.base}/configmaps"))
    took, used = time.perf_counter() - begin, bench.target.cpu() - before
    connection.close()
    gone = len(json.loads(answer).get("items", ())) if code == 200 else 0
    note = "" if gone >= DELETED else f"code {code}, {gone} DELETED ONLY"
    bench.add(Row(f"DELETE of {DELETED:,} ConfigMaps", took, "s", cpu=used * 1e6 / DELETED, note=note))
    bench.empty("configmaps")


def start(bench: Bench, restart: Restart) -> None:
    """Beside many objects in the store."""
    fill(bench, 0, STARTED)
    took, used = [], []
    for _ in range(bench.runs):
        target, seconds = restart()
        took.append(seconds)
        used.append(target.cpu())
        bench.target = target
    note = f"{statistics.median(used):.1f} s CPU until then"
    bench.add(Row(f"start with {STARTED:,} ConfigMaps", statistics.median(took), "s", _spread(took), note=note))
    time.sleep(_REST)
    bench.add(Row(f"memory after a start with {STARTED:,}", bench.target.memory(), "MB"))


def workers(start_with: Callable[[int], tuple[Bench, Callable[[], None]]], add: Callable[[Row], None]) -> None:
    """GETs with one and two workers in alternating runs, and what a third takes.

    A server has one core for all its processes, the generator another: two workers that answer as much from one core as one
    does answer twice as much from two.  They share the core's caches, too, which two cores have each of their own: with h2load,
    which takes little, each worker has a core and the generator what they leave.
    """
    cores = sorted(os.sched_getaffinity(0))
    rests: dict[int, float] = {}
    begun = {count: start_with(count) for count in (1, 2)}
    for count, (bench, _) in begun.items():
        time.sleep(_REST)
        rests[count] = sum(proportional(pid) for pid in bench.target.pids)
        for pid in bench.target.pids:
            os.sched_setaffinity(pid, cores[:1])
    benches = {count: bench for count, (bench, _) in begun.items()}
    os.sched_setaffinity(0, cores[1:] or cores)

    def gets(bench: Bench) -> Outcome:
        get = bench.target.request("GET", f"{bench.base}/configmaps/one")
        return drive(bench.target, lambda n: get, _IN_FLIGHT, bench.seconds)

    _by_cpu(benches, gets, "on one core", "GET, 2 workers by CPU", add)
    os.sched_setaffinity(0, cores)
    if shutil.which("h2load") and len(cores) > 1:
        for bench in benches.values():
            for number, pid in enumerate(sorted(bench.target.pids)):
                os.sched_setaffinity(pid, {cores[number % 2]})
        _by_cpu(
            benches,
            lambda bench: h2load(bench, f"{bench.base}/configmaps/one", _IN_FLIGHT, 1, "--h1"),
            "on a core each",
            "GET, 2 workers by CPU, a core each",
            add,
        )
    for _, stop in begun.values():
        stop()
    third, stop = start_with(3)
    time.sleep(_REST)
    more = sum(proportional(pid) for pid in third.target.pids) - rests[2]
    stop()
    add(Row("memory of a further worker", more, "MB", note="proportional, the third's"))


def _by_cpu(
    benches: dict[int, Bench], gets: Callable[[Bench], Outcome], where: str, name: str, add: Callable[[Row], None]
) -> None:
    """Rates of one worker and of two in alternating runs, and what two would answer if nothing but their CPU counted."""
    found: dict[int, list[Outcome]] = {count: [] for count in benches}
    before = benches[2].target.cpu_of_each()
    for number in range(benches[1].runs):
        for count in (1, 2) if number % 2 else (2, 1):
            found[count].append(gets(benches[count]))
    for count, outcomes in found.items():
        rates = [outcome.rate for outcome in outcomes]
        cpu = statistics.median(outcome.cpu for outcome in outcomes)
        add(Row(f"GET, {count} workers {where}", statistics.median(rates), "1/s", _spread(rates), cpu))
    one, two = (statistics.median(outcome.cpu for outcome in found[count]) for count in (1, 2))
    used = sorted(seconds - before[process] for process, seconds in benches[2].target.cpu_of_each().items())[-2:]
    note = f"of one's rate, when each has a core of its own; one did {used[0] / sum(used):.0%} of the work"
    add(Row(name, 2 * one / two, "x", note=note))
