"""Flame graphs of the server while it is measured: an SVG for each measurement, drawn by py-spy."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_RATE = "200"  # samples a second
_END = 30.0  # seconds that drawing may take


class Flames:
    """Writes into a directory; without one nothing is drawn.  Raises SystemExit when py-spy is not there or may not look."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory) if directory else None
        if self._directory is not None:
            beside = Path(sys.executable).with_name("py-spy")
            found = str(beside) if beside.exists() else shutil.which("py-spy")
            if found is None:
                raise SystemExit("--profile needs py-spy: pip install py-spy")
            self._program = found
            self._directory.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def of(self, name: str, pids: tuple[int, ...]) -> Iterator[None]:
        """What the first of the processes does meanwhile."""
        if self._directory is None or not pids:
            yield
            return
        file = self._directory / (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".svg")
        command = [self._program, "record", "--rate", _RATE, "--pid", str(pids[0]), "--output", str(file)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)  # it draws what it has
            try:
                _, errors = process.communicate(timeout=_END)
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors = process.communicate()
        if not file.exists():
            if errors.strip():
                raise SystemExit(f"py-spy: {errors.strip()}")
            print(f"{name}: over before py-spy began", flush=True)
