"""``python -m tests.mutants``: changes one place of the code at a time and tells which changes no test notices.

    python -m tests.mutants --sample 20                      # of validation, admission, authorization, storage and protocols
    python -m tests.mutants --only admission --only wire --sample 50 --seed 3

It needs ``pip install .[mutants]`` and takes up to some minutes for each mutation that survives.  The exit code is 1 when fewer
than ``--least`` percent are killed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from itertools import islice
from pathlib import Path

from tests.mutants.killing import Checkout
from tests.mutants.mutations import PACKAGES, Mutation, sample

ROOT = Path(__file__).parents[2]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=20, help="how many mutations")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the sample")
    parser.add_argument("--only", action="append", default=[], help="a package of kapi, such as admission/webhook")
    parser.add_argument("--least", type=float, default=90.0, help="percent that should be killed")
    options = parser.parse_args(arguments)
    killed = 0
    with tempfile.TemporaryDirectory(prefix="kapi-mutants-") as directory:
        checkout = Checkout(root, Path(directory))
        chosen = islice(sample(root, random.Random(options.seed), options.only or PACKAGES), options.sample)
        for number, mutation in enumerate(chosen, 1):
            survives = checkout.survives(mutation)
            killed += not survives
            if survives:
                print(_told(root, mutation), flush=True)
            print(f"{killed} of {number} killed", file=sys.stderr, flush=True)
    share = 100 * killed / options.sample
    print(f"killed {killed} of {options.sample} ({share:.0f} %) with seed {options.seed}")
    return int(share < options.least)


def _told(root: Path, mutation: Mutation) -> str:
    """The place, and its lines before and after."""
    source = (root / mutation.path).read_text()
    before, after = source.splitlines(), mutation.applied(source).splitlines()
    lines = [f"{mutation.path}:{mutation.line}: {mutation.operator}"]
    for old, new in zip(before, after, strict=False):
        if old != new:
            lines += [f"    - {old.strip()}", f"    + {new.strip()}"]
            break
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
