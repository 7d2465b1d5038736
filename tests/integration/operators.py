"""kopf operators in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.server_process import ServerProcess


@contextmanager
def operator(server: ServerProcess, source: Path, *flags: str) -> Iterator[Path]:
    """Runs the operator in ``source`` for the length of a block; yields the path of its log."""
    log = source.with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", *flags, str(source)],
            env=server.environment(), stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield log
    finally:
        process.terminate()
        process.wait(120)
