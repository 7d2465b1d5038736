"""The commands that README and tutorials tell to type, typed: in a copy of the checkout, with a package index at hand.

They install everything anew, which takes minutes: ``.ci/run`` asks for them with KAPI_TEST_SHELL_BLOCKS=1.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = {
    "README.rst": 2,
    "docs/testing/tutorial.rst": 2,
    "docs/tutorial/control_plane.rst": 9,
}  # and how many blocks
_SHELL = ("python3 ", ".venv/bin/")
_SECONDS = 600  # of one block

pytestmark = [
    pytest.mark.skipif(not os.environ.get("KAPI_TEST_SHELL_BLOCKS"), reason="takes minutes and a package index"),
    pytest.mark.timeout(4 * _SECONDS),
]


_SERVER = re.compile(r"\.venv/bin/kapi( --data-dir=\w+)?$")
_BLOCK = re.compile(r"::\n\n((?: +.*\n|\n)+)(?:answers ``(.+?)``)?")


def blocks(document: str) -> list[tuple[str, str]]:
    """The literal blocks that are commands, each with the error that the text says it is answered by."""
    text = (ROOT / document).read_text()
    found = [(re.sub("^ +", "", block, flags=re.M).strip(), error) for block, error in _BLOCK.findall(text)]
    return [(block, error) for block, error in found if block.startswith(_SHELL)]


def test_there_are_commands_to_type() -> None:
    assert {document: len(blocks(document)) for document in DOCUMENTS} == DOCUMENTS


def test_what_the_documents_say_works_in_this_order(tmp_path: Path) -> None:
    copy = tmp_path / "kapi"
    copy.mkdir()
    subprocess.run(f"git ls-files -z | xargs -0 cp --parents -t '{copy}'", shell=True, cwd=ROOT, check=True)
    for document in DOCUMENTS:
        with contextlib.ExitStack() as stack:  # what is started in other terminals ends with the document
            terminal = Terminal(copy, stack)
            for block, error in blocks(document):
                terminal.type(block, error)


class Terminal:
    """Types blocks; what serves or controls goes on in terminals of its own."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._environment = dict(os.environ)

    def type(self, block: str, error: str) -> None:
        if _SERVER.search(block):
            # a port of its own, so that nothing that runs here is in the way
            self._environment["KUBECONFIG"] = self._beside(f"{block} --secure-port=0", "export KUBECONFIG=")
        elif block.endswith("_controller.py"):
            self._beside(block, "")
        else:
            # of "all tests" a few will do: they are what is running just now
            few = "tests/machinery" if block.endswith("pytest") else ""
            done = subprocess.run(
                ["sh", "-e", "-c", f"{block} {few}"], cwd=self._directory, env=self._environment, timeout=_SECONDS,
                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            assert (done.returncode == 0) == (not error), done.stdout[-3000:]
            assert error in done.stdout

    def _beside(self, block: str, until: str) -> str:
        """Goes on until the end of the document, which interrupts it.  Answers what its line says that begins so."""
        process = subprocess.Popen(
            ["sh", "-c", f"exec {block}" if "&&" not in block else block], cwd=self._directory, env=self._environment,
            text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._stack.callback(self._end, process)
        assert process.stdout is not None
        lines = []
        if until:
            for line in process.stdout:
                lines.append(line)
                if line.startswith(until):
                    return line.removeprefix(until).strip()
            raise AssertionError("".join(lines)[-3000:])
        return ""

    def _end(self, process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=120)
        assert "Traceback" not in said, said[-3000:]
