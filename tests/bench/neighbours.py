"""What small requests get beside large ones, and a quiet client beside a hundred busy connections.

Beside four clients that write large objects another account creates ConfigMaps or reads one, sixteen at a time, or 200 watches
follow 50 writes a second; what the large writes get is measured alone and beside the creates.  And a quiet client sends one
request after the other, with pauses, while another account creates ConfigMaps over 100 connections.
"""

from __future__ import annotations

import functools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator

from tests.bench.cases import Bench, Row, _spread, small, times
from tests.bench.fairness import CONNECTIONS, account, flood, latencies
from tests.bench.large_writes import LargeWrites
from tests.bench.load import Outcome, drive
from tests.bench.stall_observer import Waits
from tests.bench.watchers import timed_fan_out

_CLIENTS = 16
_WATCHES, _PACE = 200, 50  # writes a second
_WARM = 1.0  # seconds of noise before the quiet client is timed
Run = Callable[[], Outcome]


class Neighbours:
    """The accounts and objects of one server."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._small, self._crowd = account(bench, "small"), account(bench, "crowd")
        self._large = LargeWrites(bench)

    def creates(self) -> Outcome:
        """ConfigMaps a second."""
        bench, path = self._bench, f"{self._bench.base}/configmaps"
        make = lambda n: self._small.request("POST", path, small(bench.number()))  # noqa: E731
        return self._scaled(lambda: drive(self._small, make, _CLIENTS, bench.seconds))

    def gets(self) -> Outcome:
        """GETs a second."""
        get = self._small.request("GET", f"{self._bench.base}/configmaps/one")
        return self._scaled(lambda: drive(self._small, lambda n: get, _CLIENTS, self._bench.seconds))

    def events(self) -> Outcome:
        """Watch events a second, with the time of each from its write on."""
        path, writes = f"{self._bench.base}/configmaps", int(_PACE * self._bench.seconds)

        def run() -> Outcome:
            found, delays = timed_fan_out(self._small, path, _WATCHES, writes, pause=1 / _PACE)
            return Outcome(found["rate"], found["cpu"], delays, int(found["lost"]))

        return self._scaled(run)

    def quiet(self, kind: str) -> Outcome:
        """A quiet client's requests a second while it waits for one."""

        def run() -> Outcome:
            noise = multiprocessing.Process(
                target=flood, args=(self._crowd, self._bench.base, "CREATE", self._bench.seconds + 2 * _WARM)
            )
            noise.start()
            time.sleep(_WARM)
            took = [wait / 1000 for wait in latencies(self._small, self._bench.base, kind, self._bench.seconds)]
            noise.join()
            return Outcome(1 / statistics.median(took), 0.0, took)

        return self._scaled(run)

    def large(self, beside: Run | None = None) -> Outcome:
        """Large writes a second, while ``beside`` is run again and again."""
        work = beside or (lambda: time.sleep(0.1))

        def run() -> Outcome:
            with self._large.running() as written:
                return Outcome(written.rate(work), 0.0, [])

        return self._scaled(run)

    def beside_large(self, run: Run) -> Outcome:
        with self._large.running():
            return run()

    def _scaled(self, run: Run) -> Outcome:
        """The rate without the time for which the server stood in line for a core, since other processes had it."""
        waits = Waits(self._bench.target.pids[:1])
        before = waits.now()
        outcome = run()
        after = waits.now()
        share = (after.waited - before.waited) / (after.time - before.time)
        outcome.rate /= 1 - min(share, 0.9)
        return outcome


_of = functools.cache(Neighbours)  # a bench's accounts and objects are made once


def cases() -> Iterator[tuple[str, Callable[[Bench], Run]]]:
    """Each case with what makes its run on a server."""
    for name, run in (("CREATE", Neighbours.creates), ("GET", Neighbours.gets), ("WATCH", Neighbours.events)):
        yield f"{name} of a small client, alone", lambda bench, run=run: functools.partial(run, _of(bench))
        yield f"{name} beside 4 large writers", lambda bench, run=run: _beside(_of(bench), run)
    yield "large writes alone", lambda bench: _of(bench).large
    yield "large writes beside CREATE", lambda bench: functools.partial(_of(bench).large, _of(bench).creates)
    for kind in ("GET", "CREATE"):
        name = f"quiet {kind} beside {CONNECTIONS} x CREATE"
        yield name, lambda bench, kind=kind: functools.partial(_of(bench).quiet, kind)


def _beside(found: Neighbours, run: Callable[[Neighbours], Outcome]) -> Run:
    return lambda: found.beside_large(functools.partial(run, found))


def neighbours(bench: Bench, wanted: str = "") -> None:
    """A row for each case whose name contains one of the words in ``wanted`` (comma-separated; all when empty)."""
    words = [word for word in wanted.split(",") if word]
    for name, prepare in cases():
        if words and not any(word in name for word in words):
            continue
        run = prepare(bench)
        outcomes = [run() for _ in range(bench.runs)]
        rates = [outcome.rate for outcome in outcomes]
        bench.add(Row(name, statistics.median(rates), "1/s", _spread(rates), note=times(outcomes)))
    bench.empty("configmaps")
