"""The tests' own surroundings."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

_ASK = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
_INNER = f"""
import subprocess, sys

def test_inner():
    assert subprocess.check_output([sys.executable, "-c", {_ASK!r}]) == b"False\\n"
"""


def test_children_can_be_interrupted_when_pytest_cannot(tmp_path: Path) -> None:
    """Shells start what runs in the background with SIGINT ignored."""
    inner = tmp_path / "test_inner.py"
    inner.write_text(_INNER)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-p", "tests.conftest", str(inner)],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=240,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_kapi_is_tested_as_it_is() -> None:
    """Its asserts are not rewritten, in no worker."""
    from kapi.store import confirmation

    assert type(confirmation.__loader__) is SourceFileLoader
