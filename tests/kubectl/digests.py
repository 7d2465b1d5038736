"""Digests of what kubectl said of command lines, so that it need not say it again in each run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

#: standard output, errors, and an exit code for each command of a line
Outcome = tuple[str, str, list[int]]


class Digests:
    """Of one version of kubectl; with another one installed, none is known.

    ``of_this_run`` are texts that differ from run to run, such as directories and addresses, with the words that the
    digests have in their places.
    """

    def __init__(self, file: Path, version: str, of_this_run: Mapping[str, str]) -> None:
        self._file, self._version, self._of_this_run = file, version, of_this_run
        recorded = json.loads(file.read_text()) if file.exists() else {}
        self._known: dict[str, str] = recorded["digests"] if recorded.get("kubectl") == version else {}
        self._noted: dict[str, str] = {}

    def known(self, line: str) -> bool:
        return line in self._known

    def agree(self, line: str, outcome: Outcome) -> bool:
        """Whether kubectl said just this."""
        return self._known[line] == self._digest(outcome)

    def note(self, line: str, outcome: Outcome) -> None:
        self._noted[line] = self._digest(outcome)

    def write(self) -> None:
        """The noted ones.  Those that differ from what the file had are left out: other runs say something else."""
        kept = {line: digest for line, digest in self._noted.items() if self._known.get(line, digest) == digest}
        text = json.dumps({"kubectl": self._version, "digests": kept}, indent=1, ensure_ascii=False)
        self._file.write_text(text + "\n")

    def _digest(self, outcome: Outcome) -> str:
        text = json.dumps(outcome)
        for found, word in self._of_this_run.items():
            text = text.replace(found, word)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
