"""``python -m tests.mutants``: changes one place of the code at a time and tells which changes no test notices.

    python -m tests.mutants --sample 20                      # of validation, admission, authorization, storage and protocols
    python -m tests.mutants --only admission --only wire --sample 50 --seed 3
    python -m tests.mutants --rules --only resources/networking --sample 200    # each rule once, which is left out

It needs ``pip install .[mutants]``.  The tests that start no kapi run once, so that it knows which functions each of them calls;
``--calls FILE`` keeps that for the next time.  Then a mutation costs about a second.  It is noticed when a test fails, hangs or
crashes that passes without it: hanging is to take ten times as long and ``--patience`` seconds more.  With ``--near`` only tests
around the changed files run: those near it, then those of its package; a survivor of the near ones counts when the others have
not noticed it either.  The exit code is 1
when fewer than ``--least`` percent of those that are not equivalent (``equivalent.txt``) are noticed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from tests.mutants.forks import Calls, Fate, Forks
from tests.mutants.killing import Checkout
from tests.mutants.mutations import PACKAGES, Mutation, all_rules, sample

ROOT = Path(__file__).parents[2]
_PYTEST = (
    "-n0", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:timeout", "-o", "markers=timeout",
    "-o", "addopts=--import-mode=importlib", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--ignore=tests/mutants",
    "--ignore=tests/typing", "--ignore=tests/integration", "--ignore=tests/test_fork_server.py",
)  # fmt: skip


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=20, help="how many mutations")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the sample")
    parser.add_argument("--rules", action="store_true", help="each rule once, which is left out, instead of a sample")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first one of the sample that is tried")
    parser.add_argument("--only", action="append", default=[], help="a package of kapi, such as admission/webhook")
    parser.add_argument(
        "--tests", action="append", default=[], help="a directory of tests, such as tests/wire, instead of all"
    )
    parser.add_argument("--near", action="store_true", help="only by the tests of the package of each mutation")
    parser.add_argument("--calls", type=Path, help="which functions the tests call: read if it exists, else written")
    parser.add_argument("--least", type=float, default=90.0, help="percent that should be noticed")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds that a test may take longer")
    options = parser.parse_args(arguments)
    packages = options.only or PACKAGES
    found = all_rules(root, packages) if options.rules else sample(root, random.Random(options.seed), packages)
    chosen = list(islice(found, options.first - 1, options.sample))
    fates: Counter[str] = Counter()

    equivalent = equivalent_places()

    def decided(number: int, mutation: Mutation, tests: list[str] | None, forks: Forks, copy: Checkout) -> bool:
        """Whether it is equivalent, or noticed by these tests (None: all)."""
        if _place(root, mutation) in equivalent:
            fate, test = "equivalent", ""
        else:
            fate, test = _fate(mutation, forks, copy, tests)
        print(
            f"{number} {fate} {mutation.path}:{mutation.line} {mutation.operator} {test}", file=sys.stderr, flush=True
        )
        fates[fate] += fate != Fate.SURVIVED
        return fate != Fate.SURVIVED

    def try_all(forks: Forks) -> None:
        copy = Checkout(root, Path(directory, "copy"))
        if options.calls and options.calls.exists():
            forks.load(options.calls)
        left = list(enumerate(chosen, options.first))
        # first all by the tests nearest to each, which are soon known; then what these have not noticed by more and more others
        steps = (partial(copy.near, beside=False), copy.near, copy.around, lambda path: None)[
            : 3 if options.near else 4
        ]
        if options.calls and not options.near:
            forks.learn()
            forks.save(options.calls)
            steps = steps[-1:]  # what each test calls is known
        for chosen_tests in steps:
            left = [each for each in left if not decided(*each, chosen_tests(each[1].path), forks, copy)]
        fates[Fate.SURVIVED] = len(left)
        for _, mutation in left:
            _, before, after = _place(root, mutation)
            print(f"{mutation.path}:{mutation.line}: {mutation.operator}\n    {before}\n    {after}", flush=True)
        if options.calls:
            forks.save(options.calls)

    with tempfile.TemporaryDirectory(prefix="kapi-mutants-") as directory:
        calls = Calls(root)
        forks = Forks(root, calls, try_all, options.patience)
        sys.settrace(calls)
        code = pytest.main(
            [
                *_PYTEST,
                f"--basetemp={directory}/tmp",
                f"--rootdir={root}",
                *(str(root / each) for each in options.tests or ["tests"]),
            ],
            [forks],
        )
    if code:
        return int(code)  # pytest has said why
    tried = sum(fates.values())
    share = 100 * (fates[Fate.KILLED] + fates[Fate.TIMED_OUT]) / max(1, tried - fates["equivalent"])
    told = ", ".join(f"{number} {fate}" for fate, number in sorted(fates.items()))
    print(f"seed {options.seed}: {tried} drawn, {told}; {share:.0f} % noticed of those that are not equivalent")
    return int(share < options.least)


def _fate(mutation: Mutation, forks: Forks, copy: Checkout, tests: list[str] | None) -> tuple[str, str]:
    """By these tests, and those that have run for others."""
    forks.learn(tests)
    near = copy.near(mutation.path)
    if forks.can_change(mutation):
        return forks.fate(mutation, near)
    listed = forks.tests_of_module(mutation, near)
    return copy.fate(mutation, listed, forks.wall(listed))


def _place(root: Path, mutation: Mutation) -> tuple[str, str, str]:
    """Its file, and its line before and after."""
    source = (root / mutation.path).read_text()
    for old, new in zip(source.splitlines(), mutation.applied(source).splitlines(), strict=False):
        if old != new:
            return mutation.path.as_posix(), f"- {old.strip()}", f"+ {new.strip()}"
    raise ValueError(mutation)


def equivalent_places() -> frozenset[tuple[str, ...]]:
    """The places of ``equivalent.txt``: blocks of a file, its two lines, and why no test can tell them apart."""
    blocks = Path(__file__).with_name("equivalent.txt").read_text().split("\n\n")[1:]
    return frozenset(tuple(block.strip().split("\n")[:3]) for block in blocks if block.strip())


if __name__ == "__main__":
    sys.exit(main())
