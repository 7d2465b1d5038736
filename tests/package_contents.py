"""Whether wheel and source distribution are complete: ``python -m tests.package_contents DIRECTORY`` looks at those in it.

The wheel is made of the source distribution, so what is missing there is found there.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: what the build makes, and where data files and the licence are in a wheel (ends of names)
MADE = (
    "kapi/schema/data/types.json", "kapi/schema/data/descriptions.json", ".dist-info/licenses/LICENSE",
    ".data/data/share/man/man8/kapi.8", ".data/data/share/kapi/kapi.service", ".dist-info/entry_points.txt",
)  # fmt: skip
_SECONDS = 120


def tracked() -> set[str]:
    """The files of the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name}


def missing(archive: set[str], wanted: set[str]) -> list[str]:
    return sorted(wanted - archive)


def problems_of(source: Path, wheel: Path) -> list[str]:
    """A line for each."""
    checkout = tracked()
    with tarfile.open(source) as packed:
        there = {member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()}
    with zipfile.ZipFile(wheel) as packed_wheel:
        installed = set(packed_wheel.namelist())
    package = {name for name in checkout if name.startswith(("kapi/", "twisted/"))}
    return [
        *(f"{source.name} lacks {name}" for name in missing(there, checkout)),
        *(f"{wheel.name} lacks {name}" for name in missing(installed, package)),
        *(f"{wheel.name} lacks {end}" for end in MADE if not any(name.endswith(end) for name in installed)),
    ]


def starts(wheel: Path) -> bool:
    """Whether what is in the wheel can say which flags it has, away from the checkout."""
    with tempfile.TemporaryDirectory() as directory:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(directory)
        asked = f"import kapi, sys; sys.exit(not kapi.__file__.startswith({directory!r}))"
        commands = (["-c", asked], ["-m", "kapi", "--help"], ["-m", "kapi", "completion", "bash"])
        return not any(
            subprocess.run(
                [sys.executable, *command], cwd=directory, env={"PYTHONPATH": directory, "HOME": directory},
                stdout=subprocess.DEVNULL, timeout=_SECONDS,
            ).returncode
            for command in commands
        )  # fmt: skip


def main(directory: str) -> int:
    (source,) = Path(directory).glob("*.tar.gz")
    (wheel,) = Path(directory).glob("*.whl")
    problems = problems_of(source, wheel)
    if not starts(wheel):
        problems.append(f"{wheel.name} does not start")
    print("\n".join(problems) or "complete")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
