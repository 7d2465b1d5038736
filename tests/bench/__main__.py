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
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench import report, target_cases, targets
from tests.bench.cases import Bench, Row, _spread
from tests.bench.custom import compare
from tests.bench.definitions import Definitions
from tests.bench.fairness import fairness
from tests.bench.growth import growth
from tests.bench.http2_cases import http2
from tests.bench.kubelets import kubelets
from tests.bench.load import Connection, Target
from tests.bench.logical_clusters import FLAG as CLUSTERS
from tests.bench.pair import compare as compare_pair
from tests.bench.pair import compare_start
from tests.bench.shares import shares
from tests.bench.stalls import stalls
from tests.bench.store import store
from tests.bench.testkit import testkit

_TOKEN = "bench-token"


class OwnServer:
    """A kapi started for the measurement."""

    def __init__(self, directory: Path, flags: list[str], checkout: str = ".") -> None:
        self.checkout = checkout
        self.directory = directory
        self.tokens = directory / "tokens.csv"
        self.tokens.write_text(f"{_TOKEN},bench,bench,system:masters\n")
        self.flags = flags
        self.environment = as_installed(directory / "bytecode", checkout)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> tuple[Target, float]:
        """The target and the seconds until /readyz answered."""
        begin = time.perf_counter()
        command = [
            sys.executable, "-m", "kapi", f"--data-dir={self.directory / 'data'}", "--bind-address=127.0.0.1",
            "--secure-port=0", f"--token-auth-file={self.tokens}", *self.flags,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=self.checkout, env=self.environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "serving at" not in line:
            raise SystemExit("kapi did not start")
        target = Target(line.split()[-1], _TOKEN, str(self.directory / "data" / "pki" / "ca.crt"))
        connection = Connection(target)
        while connection.roundtrip(target.request("GET", "/readyz"))[0] != 200:
            time.sleep(0.005)
        took = time.perf_counter() - begin
        connection.close()
        target.pids = (self.process.pid, *children(self.process.pid))
        return target, took

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def restart(self) -> tuple[Target, float]:
        self.stop()
        return self.start()


def as_installed(bytecode: Path, checkout: str) -> dict[str, str]:
    """The environment of a server whose modules are compiled before it starts, as those of an installed package are.

    A checkout's are not where PYTHONDONTWRITEBYTECODE is set: each start would compile all of them, which takes longer than the
    start itself.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", "import kapi.tap, kapi.app"], cwd=checkout, env=environment, check=True)
    return environment


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def main() -> None:
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
        help="more: bursts, custom, crds, deletion, fairness, growth, http2, kubelets, large-start, stalls, store, testkit, "
        "webhooks, workers",
    )
    parser.add_argument(
        "--case", default="", help="stalls, pair: only cases whose names contain one of these, comma-separated"
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
    options = parser.parse_args()
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
    rows: list[Row] = []
    own: OwnServer | None = None
    with tempfile.TemporaryDirectory(prefix="kapi-bench-") as scratch:
        if options.server:
            target = Target(options.server, options.token, options.ca, tuple(options.pid))
        else:
            flags = [*options.flag, *([CLUSTERS] if "testkit" in wanted else [])]
            own = OwnServer(Path(scratch), flags)
            target, first = own.start()
            if "start" in wanted:
                later = []
                for _ in range(options.runs):
                    own.stop()
                    target, took = own.start()
                    later.append(took)
                rows.append(Row("first start to ready", first, "s"))
                rows.append(Row("later start to ready", statistics.median(later), "s", _spread(later)))
            target.pids += tuple(options.pid)
        try:
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
            if "idle" in wanted and target.pids:
                bench.idle(options.idle, max(10.0, options.seconds))
            if "requests" in wanted:
                bench.requests()
            if "lists" in wanted:
                bench.lists()
            if "watches" in wanted:
                bench.watches(tuple(int(level) for level in options.watchers.split(",")))
            if "http2" in wanted:
                http2(bench)
            if "webhooks" in wanted:
                bench.webhooks()
            if "custom" in wanted:
                compare(bench)
            if "fairness" in wanted:
                shares(bench)
                fairness(bench)
            if "growth" in wanted:
                growth(bench, [int(size) for size in options.objects.split(",")])
            if "store" in wanted:
                store(bench.add, options.seconds)
            if "kubelets" in wanted:
                kubelets(bench, [int(count) for count in options.kubelets.split(",")], options.events)
            if "bursts" in wanted:
                target_cases.bursts(bench)
            if "deletion" in wanted:
                target_cases.deletion(bench)
            if "large-start" in wanted and own is not None:
                target_cases.start(bench, own.restart)
            if "stalls" in wanted:
                stalls(bench, options.case)
            if "testkit" in wanted:
                testkit(bench)
            bench.clean()
        finally:
            if own is not None:
                own.stop()
    if "workers" in wanted and not options.server:
        target_cases.workers(partial(with_workers, options), bench.add)
    if "crds" in wanted and not options.server:
        for one_group in (False, True):
            definitions(options, bench, one_group)
    return bench.rows


def pair(options: argparse.Namespace) -> list[Row]:
    """The first one's figures as a share of the second's."""
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
        one, other = (Path(spec).resolve().name if "://" not in spec else spec.split(",")[0] for spec in options.pair)
        rows = compare_pair(*benches, (one, other), options.case)
    if not any("://" in spec for spec in options.pair) and any(
        part in "start to ready" for part in options.case.split(",")
    ):
        rows.append(pair_start(options, (one, other)))
    return rows


def pair_start(options: argparse.Namespace, names: tuple[str, str]) -> Row:
    with contextlib.ExitStack() as stack:
        starts = []
        for spec in options.pair:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-bench-")))
            starts.append(partial(start_once, OwnServer(scratch, options.flag, spec)))
        for start in starts:
            start()  # the first one makes the data directory
        row = compare_start(*starts, options.runs, names)
        print(f"{row.name:34} {row.value:8.2f} x  {row.note}")
        return row


def start_once(own: OwnServer) -> tuple[float, float]:
    """Seconds until ready, and the CPU-seconds that were used until then."""
    target, took = own.start()
    used = target.cpu()
    own.stop()
    return took, used


def with_workers(options: argparse.Namespace, count: int) -> tuple[Bench, Callable[[], None]]:
    """A server with so many workers, and what stops it."""
    stack = contextlib.ExitStack()
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-bench-")))
    own = OwnServer(scratch, [*options.flag, f"--workers={count}"])
    target, _ = own.start()
    stack.callback(own.stop)
    bench = Bench(target, seconds=options.seconds, runs=options.runs, pods=options.pods, say=print)
    bench.prepare()
    return bench, stack.close


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
