"""A pytest of its own for tests of the plugin."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

_OUTCOMES = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def run(directory: Path, *arguments: str, **environment: str) -> tuple[dict[str, int], str]:
    """How many tests of a directory have passed, failed ...; and what was printed."""
    installed = any(one.name == "kapi" for one in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "kapi.testing.pytest_plugin"]  # an installation that is older than the plugin
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "KUBE"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, "--rootdir", str(directory), *arguments, "."],
        cwd=directory, capture_output=True, text=True, timeout=300, env={**inherited, **environment},
    )  # fmt: skip
    counted = _OUTCOMES.findall(done.stdout.strip().rpartition("\n")[2])
    return {outcome: int(number) for number, outcome in counted}, done.stdout + done.stderr
