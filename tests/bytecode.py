"""Keeps the bytecode of what this run imports, for its workers and for the servers that it starts.

Some hundred processes of a run import kapi's thousand modules: compiled anew, they cost each of them a second of
processor.  Where the environment wants no bytecode beside the sources (``PYTHONDONTWRITEBYTECODE``), none is left
when the run has ended.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_UNWANTED = "PYTHONDONTWRITEBYTECODE"
_PACKAGES = ("kapi", "tests", "twisted")


class Bytecode:
    """Of the packages of a checkout, kept from ``keep`` to ``clear`` where it is not wanted for longer."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._before: set[Path] | None = None

    def keep(self) -> None:
        if os.environ.pop(_UNWANTED, None) or sys.dont_write_bytecode:
            self._before = self._directories()
            sys.dont_write_bytecode = False

    def clear(self) -> None:
        """Removes the directories that were not there before."""
        if self._before is not None:
            for directory in self._directories() - self._before:
                shutil.rmtree(directory, ignore_errors=True)
            self._before = None

    def _directories(self) -> set[Path]:
        return {found for package in _PACKAGES for found in (self._checkout / package).rglob("__pycache__")}
