"""HTTP/2 beside HTTP/1.1: the same requests over both, in alternating runs, so that noise hits both.

GETs in the forms that clients have: one connection with many streams (an operator), many with one (a crowd of kubectl).  Where
``h2load`` is installed (Debian's nghttp2-client) it drives them as well.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable

from tests.bench.cases import Bench, Row, _cpu, _spread, small
from tests.bench.http2 import Http2, Request, block, drive_http2
from tests.bench.idle import idle
from tests.bench.load import Connection, Outcome, drive
from tests.bench.watchers import fan_out

_PATIENCE = 60.0  # seconds on top of those that h2load is to take
FORMS = ((1, 16), (16, 1), (16, 4), (100, 1))  # connections, streams on each
_WATCHERS = 100
_WRITES = 400
_IDLE = 500
_MOST_WINDOW = (1 << 31) - 1


def http2(bench: Bench) -> None:
    idle_watches(bench)
    gets(bench)
    creates(bench)
    lists(bench)
    watches(bench)


def _alternate(bench: Bench, one: Callable[[], Outcome], other: Callable[[], Outcome]) -> tuple[list[Outcome], ...]:
    found: tuple[list[Outcome], list[Outcome]] = ([], [])
    for number in range(bench.runs):
        for place in (0, 1) if number % 2 else (1, 0):
            found[place].append((one, other)[place]())
    return found


def _row(bench: Bench, name: str, outcomes: list[Outcome], note: str = "") -> None:
    rates = [outcome.rate for outcome in outcomes]
    failures = sum(outcome.failures for outcome in outcomes)
    cpu = _cpu(bench.target, [outcome.cpu for outcome in outcomes])
    bench.add(
        Row(name, statistics.median(rates), "1/s", _spread(rates), cpu, f"{failures} FAILED" if failures else note)
    )


def _of(outcomes: list[Outcome], others: list[Outcome]) -> str:
    """The first ones' rate beside the others'."""
    rate, other = (statistics.median([outcome.rate for outcome in found]) for found in (outcomes, others))
    return f"{rate / other:.0%} of HTTP/1.1's"


def gets(bench: Bench) -> None:
    path = f"{bench.base}/configmaps/one"
    plain = bench.target.request("GET", path)
    framed = Request(block(bench.target, "GET", path))
    for connections, streams in FORMS:
        form = f"{connections} x {streams}"
        level = connections * streams
        one, two = _alternate(
            bench,
            lambda level=level: drive(bench.target, lambda n: plain, level, bench.seconds),  # type: ignore[misc]
            lambda c=connections, s=streams: drive_http2(bench.target, lambda n: framed, c, s, bench.seconds),  # type: ignore[misc]
        )
        _row(bench, f"GET HTTP/1.1, {level} x 1", one)
        _row(bench, f"GET HTTP/2, {form}", two, _of(two, one))
        if shutil.which("h2load"):
            outcomes = [h2load(bench, path, connections, streams) for _ in range(bench.runs)]
            _row(bench, f"GET HTTP/2, {form}, h2load", outcomes)


def h2load(bench: Bench, path: str, connections: int, streams: int, *flags: str) -> Outcome:
    """``flags`` are more of its own: with ``--h1`` it speaks HTTP/1.1.  Raises TimeoutExpired: not always does it end."""
    target = bench.target
    seconds = max(1, round(bench.seconds))
    command = ["h2load", "-D", str(seconds), "-c", str(connections), "-m", str(streams), *flags]
    command += ["-H", f"authorization: Bearer {target.token}", target.url + path]
    before = target.cpu()
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + _PATIENCE).stdout
    used = target.cpu() - before
    rate, done, good = (
        float(re.search(pattern, text)[1])  # type: ignore[index]
        for pattern in (r"([\d.]+) req/s", r"(\d+) succeeded", r"status codes: (\d+) 2xx")
    )
    return Outcome(rate, used * 1e6 / max(1.0, done), [], max(0, int(done - good)))


def creates(bench: Bench) -> None:
    path = f"{bench.base}/configmaps"
    creation = block(bench.target, "POST", path)
    for connections, streams in ((1, 16), (16, 4)):
        level = connections * streams
        one, two = _alternate(
            bench,
            lambda level=level: drive(  # type: ignore[misc]
                bench.target,
                lambda n: bench.target.request("POST", path, small(bench.number())),
                level,
                bench.seconds,
            ),
            lambda c=connections, s=streams: drive_http2(  # type: ignore[misc]
                bench.target, lambda n: Request(creation, small(bench.number())), c, s, bench.seconds
            ),
        )
        _row(bench, f"CREATE HTTP/1.1, {level} x 1", one)
        _row(bench, f"CREATE HTTP/2, {connections} x {streams}", two, _of(two, one))
    bench.empty("configmaps")


def lists(bench: Bench) -> None:
    """All Pods in one answer, read as fast as they come."""
    bench.fill(bench.pods)
    path = f"{bench.base}/pods?resourceVersion=0"
    plain = bench.target.request("GET", path)
    framed = Request(block(bench.target, "GET", path))

    def first() -> Outcome:
        connection = Connection(bench.target)
        before, begin = bench.target.cpu(), time.perf_counter()
        code, _ = connection.roundtrip(plain)
        took, used = time.perf_counter() - begin, bench.target.cpu() - before
        connection.close()
        return Outcome(took * 1000, used * 1e6, [], int(code != 200))

    def second() -> Outcome:
        connection = Http2(bench.target, bench.target.context())
        before, begin = bench.target.cpu(), time.perf_counter()
        connection.begin(framed)
        while not connection.received(connection.socket.recv(1 << 18)):
            pass
        took, used = time.perf_counter() - begin, bench.target.cpu() - before
        connection.close()
        return Outcome(took * 1000, used * 1e6, [], connection.failures)

    one, two = _alternate(bench, first, second)
    for name, outcomes in (("HTTP/1.1", one), ("HTTP/2", two)):
        times = [outcome.rate for outcome in outcomes]
        assert not sum(outcome.failures for outcome in outcomes)
        cpu = _cpu(bench.target, [outcome.cpu for outcome in outcomes])
        bench.add(
            Row(f"LIST {bench.pods} Pods, {name}", statistics.median(times), "ms", _spread(times), cpu, "with TLS")
        )
    bench.empty("pods")


def watches(bench: Bench) -> None:
    path = f"{bench.base}/configmaps"
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for number in range(bench.runs):
        for protocol in (False, True) if number % 2 else (True, False):
            found[protocol].append(fan_out(bench.target, path, _WATCHERS, _WRITES, http2=protocol))
    for protocol, runs in found.items():
        rates = [run["rate"] for run in runs]
        lost = sum(run["lost"] for run in runs)
        bench.add(
            Row(
                f"WATCH fan-out to {_WATCHERS}, {'HTTP/2' if protocol else 'HTTP/1.1'}",
                statistics.median(rates),
                "events/s",
                _spread(rates),
                _cpu(bench.target, [run["cpu"] for run in runs]),
                f"{lost:.0f} LOST" if lost else "",
            )
        )


def idle_watches(bench: Bench) -> None:
    """Before all else: what a server has freed it gives to what comes next."""
    if bench.target.pids:
        watch = f"{bench.base}/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=3600"
        result = idle(bench.target, watch, _IDLE, bench.seconds, http2=True)
        bench.add(Row("an idle watch over HTTP/2", result["each"], "kB"))
