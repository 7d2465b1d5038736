"""The commands that README and tutorial tell to type, typed: in a copy of the checkout, with a package index at hand.

They install everything anew, which takes minutes: ``.ci/run`` asks for them with KAPI_TEST_SHELL_BLOCKS=1.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.rst", "docs/testing/tutorial.rst")
_SHELL = ("python3 ", ".venv/bin/")
_SECONDS = 600  # of one block

pytestmark = [
    pytest.mark.skipif(not os.environ.get("KAPI_TEST_SHELL_BLOCKS"), reason="takes minutes and a package index"),
    pytest.mark.xdist_group("shell blocks"),
    pytest.mark.timeout(4 * _SECONDS),
]


def blocks(document: str) -> list[str]:
    """The literal blocks that are commands."""
    text = (ROOT / document).read_text()
    found = (re.sub("^ +", "", block, flags=re.M).strip() for block in re.findall(r"::\n\n((?: +.*\n|\n)+)", text))
    return [block for block in found if block.startswith(_SHELL)]


def test_there_are_commands_to_type() -> None:
    assert [len(blocks(document)) for document in DOCUMENTS] == [2, 2]


def test_what_the_documents_say_works_in_this_order(tmp_path: Path) -> None:
    copy = tmp_path / "kapi"
    copy.mkdir()
    subprocess.run(f"git ls-files -z | xargs -0 cp --parents -t '{copy}'", shell=True, cwd=ROOT, check=True)
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.endswith("/kapi"):
                _serves(block, copy)
            else:
                # of "all tests" a few will do: they are what is running just now
                few = "tests/machinery" if block.endswith("pytest") else ""
                done = _run(f"{block} {few}", copy)
                assert done.returncode == 0, done.stdout[-3000:]


def _run(block: str, copy: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", block], cwd=copy, timeout=_SECONDS, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _serves(block: str, copy: Path) -> None:
    """A server starts, says how to use it, and ends by an interrupt."""
    # a port of its own, so that nothing that runs here is in the way
    with subprocess.Popen(
        ["sh", "-c", f"{block} --secure-port=0"], cwd=copy, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        lines = []
        try:
            for line in server.stdout:
                lines.append(line)
                if line.startswith("export KUBECONFIG="):
                    break
            assert lines and lines[-1].startswith("export KUBECONFIG="), "".join(lines)[-3000:]
        finally:
            os.killpg(server.pid, signal.SIGINT)
    assert "Traceback" not in "".join(lines)
