"""``--pair``: two servers at once, of which one or both may be started from a checkout."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.cases import Bench, Row
from tests.bench.load import Target
from tests.bench.own_server import OwnServer
from tests.bench.pair import Found, compare_start, measure, row


def pair(options: argparse.Namespace) -> list[Row]:
    """The first one's figures as a share of the second's.

    What is started is started anew in each round: where its memory lies makes a process a few percent faster or slower for life.
    """
    one, other = (Path(spec).resolve().name if "://" not in spec else spec.split(",")[0] for spec in options.pair)
    found: dict[str, Found] = {}
    rows: list[Row] = []
    for number in range(1, options.rounds + 1):
        _round(options, found)
        rows = [row(name, outcomes, (one, other)) for name, outcomes in found.items()]
        for each in rows:
            print(f"{number:2} {each.name:34} {each.value:8.2f} x  {each.note}", flush=True)
    if not any("://" in spec for spec in options.pair) and any(
        part in "start to ready" for part in options.case.split(",")
    ):
        rows.append(pair_start(options, (one, other)))
    return rows


def _round(options: argparse.Namespace, found: dict[str, Found]) -> None:
    with contextlib.ExitStack() as stack:
        benches = []
        for spec in options.pair:
            if spec.startswith("https://"):
                url, token, *rest = spec.split(",")
                target = Target(url, token, rest[0] if rest else "", tuple(int(pid) for pid in rest[1:]))
            else:
                scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-bench-")))
                own = OwnServer(scratch, options.flag, spec)
                target, _ = own.start()
                stack.callback(own.stop)
            bench = Bench(target, seconds=options.seconds, runs=options.runs, pods=options.pods, say=print)
            bench.prepare()
            stack.callback(bench.clean)
            benches.append(bench)
        time.sleep(options.settle)
        measure(*benches, found, options.case)


def pair_start(options: argparse.Namespace, names: tuple[str, str]) -> Row:
    with contextlib.ExitStack() as stack:
        starts = []
        for spec in options.pair:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-bench-")))
            starts.append(partial(start_once, OwnServer(scratch, options.flag, spec)))
        for start in starts:
            start()  # the first one makes the data directory
        started = compare_start(*starts, options.runs, names)
        print(f"{started.name:34} {started.value:8.2f} x  {started.note}")
        return started


def start_once(own: OwnServer) -> tuple[float, float]:
    """Seconds until ready, and the CPU-seconds that were used until then."""
    target, took = own.start()
    used = target.cpu()
    own.stop()
    return took, used
