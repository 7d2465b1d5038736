"""``python -m tests.bench``: measures an API server, or starts kapi and measures that.

    python -m tests.bench --server https://127.0.0.1:6443 --token T [--ca F] [--pid N ...] [--name kube-apiserver]
    python -m tests.bench                       # starts kapi in a directory of its own

Several servers: run once per server with --json, then --compare a.json b.json --svg plot.svg.

Two of them at once, in alternating runs: --pair ONE OTHER, each https://HOST:PORT,TOKEN[,CA file[,PID...]] or the directory of a
checkout of kapi, which is started.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench import report, target_cases, targets
from tests.bench.beside import beside
from tests.bench.cases import Bench, Row, _spread
from tests.bench.custom import compare
from tests.bench.definitions import Definitions
from tests.bench.fairness import fairness
from tests.bench.growth import growth
from tests.bench.http2_cases import http2
from tests.bench.kubelets import kubelets
from tests.bench.load import Target
from tests.bench.logical_clusters import FLAGS as CLUSTERS
from tests.bench.memory import memory
from tests.bench.neighbours import neighbours
from tests.bench.own_server import OwnServer
from tests.bench.pair_runs import pair
from tests.bench.shares import shares
from tests.bench.stalls import stalls
from tests.bench.store import store
from tests.bench.testkit import testkit


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", help="URL of a running server; without it kapi is started")
    parser.add_argument("--token", default="")
    parser.add_argument("--ca", default="")
    parser.add_argument(
        "--pid", type=int, action="append", default=[], help="(further) process whose CPU and memory count"
    )
    parser.add_argument("--name", default="kapi")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--rounds", type=int, default=1, help="pair: how often both are started anew, for so many runs each"
    )
    parser.add_argument("--settle", type=float, default=0.0, help="pair: seconds between a start and the first run")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--watchers", default="100,1000,5000")
    parser.add_argument("--definitions", type=int, default=500, help="how many custom resource definitions to create")
    parser.add_argument("--objects", default="1000,10000,100000", help="growth: beside how many to measure, rising")
    parser.add_argument("--kubelets", default="100,1000", help="kubelets: how many to simulate, rising")
    parser.add_argument("--events", type=int, default=5, help="kubelets: Events of each Pod")
    parser.add_argument("--idle", type=int, default=2000, help="watches on which nothing happens (ulimit -n)")
    parser.add_argument(
        "--only",
        default="start,requests,lists,watches,idle",
        help="more: bursts, custom, crds, deletion, fairness, growth, http2, kubelets, large-start, memory, neighbours, stalls, "
        "store, testkit, webhooks, workers",
    )
    parser.add_argument(
        "--case",
        default="",
        help="stalls, pair, memory, neighbours: only cases whose names contain one of these, comma-separated",
    )
    parser.add_argument("--flag", action="append", default=[], help="further flag for the kapi that is started")
    parser.add_argument("--profile", default="", help="directory for flame graphs of the server (needs py-spy)")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--compare", nargs="*", help="JSON files of earlier runs to show instead of measuring")
    parser.add_argument(
        "--targets", nargs="*", help="JSON files of earlier runs of which to say what targets they meet"
    )
    parser.add_argument("--pair", nargs=2, metavar=("ONE", "OTHER"), help="two servers or checkouts, see above")
    return parser


def main() -> None:
    options = arguments().parse_args()
    if options.targets is not None:
        print(targets.table([row for path in options.targets for rows in earlier(path).values() for row in rows]))
        return
    if options.pair:
        results = {"pair": pair(options)}
    elif options.compare:
        results = {}
        for path in options.compare:
            for name, rows in earlier(path).items():
                results[name] = [*results.get(name, ()), *rows]
    else:
        results = {options.name: measure(options)}
    for name, rows in results.items():
        print(f"\n{name}\n{report.table(rows)}")
    if options.json:
        Path(options.json).write_text(report.as_json(results))
    if options.svg:
        Path(options.svg).write_text(report.svg(report.beside(results, targets.peers())))


def earlier(path: str) -> dict[str, list[Row]]:
    return {name: [Row(**row) for row in rows] for name, rows in json.loads(Path(path).read_text()).items()}


def measure(options: argparse.Namespace) -> list[Row]:
    wanted = set(options.only.split(","))
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-bench-")))
        own: OwnServer | None = None
        rows: list[Row] = []
        if options.server:
            target = Target(options.server, options.token, options.ca, tuple(options.pid))
        else:
            own = OwnServer(scratch, [*options.flag, *(CLUSTERS if "testkit" in wanted else ())])
            target, first = own.start()
            stack.callback(own.stop)
            if "start" in wanted:
                target = starts(own, first, options.runs, rows)
            target.pids += tuple(options.pid)
        bench = Bench(
            target,
            seconds=options.seconds,
            runs=options.runs,
            pods=options.pods,
            say=lambda text: print(text, flush=True),
            profile=options.profile,
        )
        if target.pids:
            time.sleep(1)
            rows.append(Row("memory idle", target.memory(), "MB"))
        for row in rows:
            bench.add(row)
        bench.prepare()
        for name, case in CASES.items():
            if name in wanted:
                case(bench, options)
        if "large-start" in wanted and own is not None:
            target_cases.start(bench, own.restart)
        bench.clean()
    if not options.server:
        for name, alone in ALONE.items():
            if name in wanted:
                alone(bench, options)
    return bench.rows


def starts(own: OwnServer, first: float, runs: int, rows: list[Row]) -> Target:
    """Starts over again, and what the first one took."""
    later = []
    for _ in range(runs):
        target, took = own.restart()
        later.append(took)
    rows.append(Row("first start to ready", first, "s"))
    rows.append(Row("later start to ready", statistics.median(later), "s", _spread(later)))
    return target


def idle_watches(bench: Bench, options: argparse.Namespace) -> None:
    if bench.target.pids:
        bench.idle(options.idle, max(10.0, options.seconds))


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


Case = Callable[[Bench, argparse.Namespace], object]
#: what ``--only`` names, in the order in which it is measured
CASES: dict[str, Case] = {
    "idle": idle_watches,
    "requests": lambda bench, options: bench.requests(),
    "lists": lambda bench, options: bench.lists(),
    "watches": lambda bench, options: bench.watches(tuple(numbers(options.watchers))),
    "http2": lambda bench, options: http2(bench),
    "webhooks": lambda bench, options: bench.webhooks(),
    "custom": lambda bench, options: compare(bench),
    "fairness": lambda bench, options: (shares(bench), fairness(bench)),
    "neighbours": lambda bench, options: neighbours(bench, options.case),
    "growth": lambda bench, options: many_objects(bench, options),
    "store": lambda bench, options: store(bench.add, options.seconds),
    "kubelets": lambda bench, options: kubelets(bench, numbers(options.kubelets), options.events),
    "bursts": lambda bench, options: target_cases.bursts(bench),
    "deletion": lambda bench, options: target_cases.deletion(bench),
    "stalls": lambda bench, options: stalls(bench, options.case),
    "testkit": lambda bench, options: testkit(bench),
}
#: the same, on servers of their own, behind all others
ALONE: dict[str, Case] = {
    "workers": lambda bench, options: target_cases.workers(partial(with_workers, options), bench.add),
    "memory": lambda bench, options: memory(bench.add, options.flag, options.case),
    "crds": lambda bench, options: [definitions(options, bench, one_group) for one_group in (False, True)],
}


def another(options: argparse.Namespace, *flags: str) -> tuple[Bench, Callable[[], None]]:
    """A further server, and what stops it."""
    stack = contextlib.ExitStack()
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-bench-")))
    own = OwnServer(scratch, [*options.flag, *flags])
    target, _ = own.start()
    stack.callback(own.stop)
    bench = Bench(target, seconds=options.seconds, runs=options.runs, pods=options.pods, say=print)
    bench.prepare()
    return bench, stack.close


def with_workers(options: argparse.Namespace, count: int) -> tuple[Bench, Callable[[], None]]:
    return another(options, f"--workers={count}")


def many_objects(bench: Bench, options: argparse.Namespace) -> None:
    sizes = numbers(options.objects)
    growth(bench, sizes)
    if not options.server and len(sizes) > 1:
        few, stop = another(options)
        beside(bench, few, (sizes[-1], sizes[0]))
        stop()


def definitions(options: argparse.Namespace, bench: Bench, one_group: bool) -> None:
    """Many definitions on a server of their own."""
    with tempfile.TemporaryDirectory(prefix="kapi-bench-") as scratch:
        own = OwnServer(Path(scratch), options.flag)
        target, _ = own.start()
        time.sleep(1)

        try:
            Definitions(target, options.definitions, bench.add, own.restart).run(one_group=one_group)
        finally:
            own.stop()


if __name__ == "__main__":
    main()
