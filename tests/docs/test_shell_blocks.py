"""The commands that README and tutorials tell to type, typed: in a copy of the checkout, with a package index at hand.

They install everything anew, which takes a minute: ``.ci/run`` asks for them with KAPI_TEST_SHELL_BLOCKS=1.  What runs the
tests is typed by ``.ci/run`` itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
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
TESTS = 'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/pytest'
_SECONDS = 600  # of one block
#: where built types are, which the build of this checkout has derived; another one would take as long as all the rest
_DERIVED = "kapi/schema/data"

pytestmark = [
    pytest.mark.skipif(not os.environ.get("KAPI_TEST_SHELL_BLOCKS"), reason="takes a minute and a package index"),
    pytest.mark.timeout(4 * _SECONDS),
]


_VENV = "python3 -m venv .venv && "
_INSTALLATION = re.compile(r"python3 -m venv \.venv && \.venv/bin/pip install ([^&\n]+)(&& )?")
_SERVER = re.compile(r"\.venv/bin/kapi( --data-dir=\w+)?$")
_BLOCK = re.compile(r"::\n\n((?: +.*\n|\n)+)(?:answers ``(.+?)``)?")


def blocks(document: str) -> list[tuple[str, str]]:
    """The literal blocks that are commands, each with the error that the text says it is answered by."""
    text = (ROOT / document).read_text()
    found = [(re.sub("^ +", "", block, flags=re.M).strip(), error) for block, error in _BLOCK.findall(text)]
    return [(block, error) for block, error in found if block.startswith(_SHELL)]


def test_there_are_commands_to_type() -> None:
    assert {document: len(blocks(document)) for document in DOCUMENTS} == DOCUMENTS


def test_ci_types_what_runs_the_tests() -> None:
    """In a venv of another name, with more extras."""
    assert (TESTS, "") in blocks("README.rst")
    script = (ROOT / ".ci" / "run").read_text()
    lines = [r'^"\$python" -m venv "\$VENV"$', r'^install_into "\$VENV" -e "\.\[test,', r'"\$VENV/bin/pytest"(?= >)']
    found = [re.search(line, script, re.M) for line in lines]
    assert None not in found
    places = [each.start() for each in found if each is not None]
    assert places == sorted(places)


def test_what_the_documents_say_works_in_this_order(tmp_path: Path) -> None:
    copy = tmp_path / "kapi"
    copy.mkdir()
    subprocess.run(f"git ls-files -z | xargs -0 cp --parents -t '{copy}'", shell=True, cwd=ROOT, check=True)
    shutil.copytree(ROOT / _DERIVED, copy / _DERIVED, dirs_exist_ok=True)
    installed: set[str] = set()
    for document in DOCUMENTS:
        with contextlib.ExitStack() as stack:  # what is started in other terminals ends with the document
            terminal = Terminal(copy, stack)
            for block, error in blocks(document):
                if block != TESTS and (rest := without_installation(block, installed)):
                    terminal.type(rest, error)


def without_installation(block: str, installed: set[str]) -> str:
    """What is to be typed of a block where the blocks before have installed some of what it asks for."""
    found = _INSTALLATION.match(block)
    if found is None:
        return block
    packages = found[1].split()
    missing = [package for package in packages if package not in installed]
    if len(missing) < len(packages):
        install = f".venv/bin/pip install {' '.join(missing)} {found[2] or ''}" if missing else ""
        block = install + block[found.end() :]
    installed.update(packages)
    return block


def test_what_is_installed_is_not_installed_again() -> None:
    install, installed = "python3 -m venv .venv && .venv/bin/pip install .", set[str]()
    typed = [f"{install} && kapi", f"{install} b", f"{install} b", f"{install} && kapi", f"{install} c && kapi", "ls"]
    assert [without_installation(block, installed) for block in typed] == [
        typed[0], ".venv/bin/pip install b ", "", "kapi", ".venv/bin/pip install c && kapi", "ls",
    ]  # fmt: skip


class Terminal:
    """Types blocks; what serves or controls goes on in terminals of its own."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        # what is imported is compiled then; pip would compile all modules of all packages
        self._environment = {**os.environ, "PIP_NO_COMPILE": "1"}

    def type(self, block: str, error: str) -> None:
        # the pip that comes with a Python may be years old: today's takes half of the processor time for the same packages
        block = block.replace(_VENV, f"{_VENV}.venv/bin/pip install --quiet --upgrade pip && ", 1)
        if _SERVER.search(block):
            # a port of its own, so that nothing that runs here is in the way
            self._environment["KUBECONFIG"] = self._beside(f"{block} --secure-port=0", "export KUBECONFIG=")
        elif block.endswith("_controller.py"):
            self._beside(block, "")
        else:
            done = subprocess.run(
                ["sh", "-e", "-c", block], cwd=self._directory, env=self._environment, timeout=_SECONDS,
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
