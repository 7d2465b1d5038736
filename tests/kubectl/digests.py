"""Digests of what kubectl said of command lines, so that it need not say it again in each run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

#: standard output, errors, an exit code for each command of a line, and what there is afterwards
Outcome = tuple[str, str, list[int], *tuple[str, ...]]
#: what a server chooses, after what tells it; a digest has its number among the distinct ones of an outcome
_CHOSEN = (
    re.compile(r"()([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"),  # uids
    re.compile(r"(resourceVersion\W{1,8})(\d+)"),
    re.compile(r"(kube-api-access-)(\w{5})"),  # volumes
    re.compile(r"(X509SHA256=)([0-9a-f]{64})"),
    re.compile(r"(BEGIN CERTIFICATE-----)(.*?)(?=-----END CERTIFICATE)"),
)
#: two may be the same in one run, and differ in another
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def without_choices(text: str) -> str:
    """The same for each server that has got the same objects."""
    for pattern in _CHOSEN:
        distinct: dict[str, int] = {}

        def word(found: re.Match[str], distinct: dict[str, int] = distinct) -> str:
            return f"{found[1]}<{distinct.setdefault(found[2], len(distinct))}>"

        text = pattern.sub(word, text)
    return _TIME.sub("<time>", text)


def _minor(version: str) -> str:
    """Of what ``kubectl version --client`` says, up to the patch number: with another one it says the same."""
    found = re.search(r"v\d+\.\d+", version)
    return found[0] if found else version


class Digests:
    """Of one minor version of kubectl; with another one installed, none is known.

    ``of_this_run`` are texts that differ from run to run, such as directories and addresses, with the words that the
    digests have in their places.
    """

    def __init__(self, file: Path, version: str, of_this_run: Mapping[str, str]) -> None:
        self._file, self._version, self._of_this_run = file, _minor(version), of_this_run
        recorded = json.loads(file.read_text()) if file.exists() else {}
        self._known: dict[str, str] = recorded["digests"] if recorded.get("kubectl") == self._version else {}
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
        text = without_choices(text)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
