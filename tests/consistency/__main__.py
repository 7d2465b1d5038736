"""``python -m tests.consistency``: rounds of faults until the time is over; totals, and a line of JSON a round."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.consistency.round_ import SCENARIOS, Result, Round
from tests.consistency.topology import Unsupported


def run_round(
    scenario: str,
    seed: int,
    seconds: float,
    logs: Path | None = None,
    *,
    keep: bool = False,
    without: Sequence[str] = (),
    pause: float = 0.0,
) -> tuple[Result, Path | None]:
    """The result, and where its logs are when it found something.  Raises Unsupported."""
    directory = Path(tempfile.mkdtemp(prefix=f"kapi-{scenario}-{seed}-", dir=logs))
    kept: Path | None = directory
    try:
        result = asyncio.run(Round(scenario, seed, seconds, directory, without, pause).run())
        (directory / "result.json").write_text(json.dumps({**result.summary(), "told": result.told}, indent=1))
        if not result.violations and not keep:
            kept = None
        return result, kept
    except Unsupported:
        kept = None
        raise
    except BaseException:
        print(f"scenario {scenario} seed {seed}: logs in {directory}", file=sys.stderr)
        raise
    finally:
        if kept is None:
            shutil.rmtree(directory, ignore_errors=True)


def show(rounds: list[dict[str, Any]]) -> str:
    """The totals of some rounds."""
    totals: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    recoveries: list[float] = []
    slow: list[str] = []
    errors: list[str] = []
    violations = 0
    for made in rounds:
        totals.update(made["totals"])
        faults.update(made["faults"])
        statuses.update(made["statuses"])
        scenarios[made["scenario"]] += 1
        recoveries += made["recoveries"]
        where = f"{made['scenario']} seed {made['seed']}"
        slow += [f"  slow recovery: {where}: {text}" for text in made.get("slow recoveries", ())]
        errors += [f"  500: {where}: {text}" for text in made.get("errors", ())]
        violations += len(made["violations"])
    kills = totals["kills of kapi"] + totals["kills of the store"]
    lines = [
        f"{len(rounds)} rounds in {sum(made['seconds'] for made in rounds):.0f} s: {_told(scenarios)}",
        f"operations {totals['operations']:,}, watch events {totals['watch events']:,}, kills {kills:,}, "
        f"fail-overs {totals['fail-overs']:,}",
        f"totals: {_told(totals)}",
        f"faults: {sum(faults.values()):,}: {_told(faults)}",
        f"answers: {_told(statuses)}",
    ]
    if recoveries:
        lines.append(f"recovery: p50 {statistics.median(recoveries):.2f} s, max {max(recoveries):.2f} s")
    return "\n".join([*lines, *slow, *errors, f"violations: {violations}"])


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.consistency", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long; a round that has begun is finished")
    parser.add_argument("--once", action="store_true", help="one round of each scenario, however long that takes")
    parser.add_argument("--round-seconds", type=float, default=40.0, help="how long faults come in a round")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; the next has the next")
    parser.add_argument("--scenario", default="all", help=f"{', '.join(SCENARIOS)}, several with commas, or all")
    parser.add_argument("--results", type=Path, default=None, help="file to which a line of JSON a round is appended")
    parser.add_argument("--logs", type=Path, default=None, help="directory for the logs of failed rounds")
    parser.add_argument("--without", default="", help="faults and failpoints to leave out, with commas")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds, on average, between two requests of a client"
    )
    parser.add_argument("--keep", action="store_true", help="keeps the logs of good rounds, too")
    parser.add_argument("--show", type=Path, default=None, help="shows the totals of such a file and does nothing else")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended
    if options.show is not None:
        print(show([json.loads(line) for line in options.show.read_text().splitlines()]))
        return 0
    names = list(SCENARIOS) if options.scenario == "all" else options.scenario.split(",")
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    without = options.without.split(",")
    begin, rounds, position = time.monotonic(), list[dict[str, Any]](), 0
    while position < len(names) if options.once else names and time.monotonic() - begin < options.minutes * 60:
        scenario = names[position % len(names)]
        try:
            result, logs = run_round(
                scenario,
                seed,
                options.round_seconds,
                options.logs,
                keep=options.keep,
                without=without,
                pause=options.pause,
            )
        except KeyboardInterrupt:
            break
        except Unsupported as reason:
            print(f"{scenario}: skipped: {reason}", flush=True)
            names.remove(scenario)
            continue
        rounds.append(result.summary())
        if options.results is not None:
            with options.results.open("a") as file:
                file.write(json.dumps(rounds[-1]) + "\n")
        print(
            f"{scenario} seed {seed}: {result.totals['operations']} operations, {sum(result.faults.values())} faults, "
            f"{len(result.violations)} violations in {result.seconds:.0f} s",
            flush=True,
        )
        if result.violations:
            print(f"  faults: {'; '.join(result.told)}\n  logs: {logs}")
            for violation in result.violations[:10]:
                print(f"  VIOLATION {violation[:1500]}", flush=True)
        seed += 1
        position += 1
    print(show(rounds) if rounds else "nothing was run")
    return 1 if not rounds or any(made["violations"] for made in rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
