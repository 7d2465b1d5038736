"""A pytest of its own for tests of the plugin."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

#: plugins of other packages, which take half of the time of a start
_UNUSED = ["-p", "no:hypothesispytest", "-p", "no:valkey", "-p", "no:anyio"]
_OUTCOMES = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


@functools.cache
def _installed() -> bool:
    """Whether pytest finds the plugin by itself; asked elsewhere, for here the checkout's own metadata is in the way."""
    code = "import importlib.metadata as m; print('kapi' in m.entry_points(group='pytest11').names)"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


def run(directory: Path, *arguments: str, **environment: str) -> tuple[dict[str, int], str]:
    """How many tests of a directory have passed, failed ...; and what was printed."""
    plugin = (
        [] if _installed() else ["-p", "kapi.testing.pytest_plugin"]
    )  # an installation that is older than the plugin
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "KUBE"))}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_UNUSED, *plugin,
            "--rootdir", str(directory), *arguments, ".",
        ],
        cwd=directory, capture_output=True, text=True, timeout=800, env={**inherited, **environment},
    )  # fmt: skip
    counted = _OUTCOMES.findall(done.stdout.strip().rpartition("\n")[2])
    return {outcome: int(number) for number, outcome in counted}, done.stdout + done.stderr
