"""What the documentation is built to: the manual page that is shipped, and the files that belong into a package."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kapi.kubectl.commands import GROUPS

ROOT = Path(__file__).parents[2]
#: as ``python -m sphinx``, without looking for garbage: a fifth of the time
SPHINX = "import gc, sys, sphinx.cmd.build as build; gc.disable(); sys.exit(build.main(sys.argv[1:]))"
Manual = tuple[Path, tuple[int, str]]


def build(builder: str, trees: Path, directory: Path) -> tuple[int, str]:
    """Exit code and complaints.  ``trees`` are the sources as Sphinx has read them."""
    flags = ["-q", "-W", "--keep-going", "-b", builder, "-d", str(trees), "docs", str(directory)]
    done = subprocess.run([sys.executable, "-c", SPHINX, *flags], cwd=ROOT, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Manual:
    """All sources have been read, and the manual page is written: where, and what was complained about."""
    pytest.importorskip("sphinx")
    directory = tmp_path_factory.mktemp("manual")
    return directory, build("man", directory / "trees", directory)


def test_the_manual_page_is_that_of_its_source(manual: Manual) -> None:
    directory, _ = manual
    made, shipped = (
        file.read_text().partition("\n.TH ")[2] for file in (directory / "kapi.8", ROOT / "etc" / "kapi.8")
    )
    assert made == shipped  # what is before names the version of the writer


def test_the_pages_are_built_without_a_warning(manual: Manual, tmp_path: Path) -> None:
    directory, complaints = manual
    assert complaints == (0, "")  # of what is read
    assert build("html", directory / "trees", tmp_path) == (0, "")  # of what refers to it, and of what is written


def test_the_manual_page_names_flags_that_exist() -> None:
    named = set(re.findall(r"\*\*(--[a-z-]+)\*\*", (ROOT / "docs" / "man" / "kapi.rst").read_text()))
    known = ""
    for command in (["--help-server"], ["restore", "--help"]):
        helped = [sys.executable, "-m", "kapi", *command]
        known += subprocess.run(helped, capture_output=True, text=True, timeout=120).stdout
    assert len(named) > 8
    assert [flag for flag in sorted(named) if not re.search(rf"{flag}\b", known + "--help")] == []


def test_the_manual_page_lists_all_commands() -> None:
    """Each with its group and its summary, as ``kapi help``."""
    text = (
        (ROOT / "docs" / "man" / "kapi.rst")
        .read_text()
        .partition("\nCommands\n--------\n")[2]
        .partition("\n-----\n")[0]
    )
    listed = re.findall(r"^([A-Z].*)\n\^+\n|^\*\*(\S+)\*\*\n   (.*)\.$", text, re.MULTILINE)
    wanted = []
    for title, entries in GROUPS.items():
        wanted += [(title, "", ""), *(("", entry.name, entry.summary) for entry in entries)]
    assert listed == wanted


def test_data_files_of_the_package_exist() -> None:
    text = (ROOT / "pyproject.toml").read_text().split("[tool.setuptools.data-files]")[1].split("\n[")[0]
    files = re.findall(r'"(etc/[^"]+)"', text)
    assert "etc/kapi.8" in files
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_the_clients_reference_names_what_there_is() -> None:
    text = (ROOT / "docs" / "client.rst").read_text()
    names = re.findall(r"``(kapi(?:\.\w+)+)``", text)
    assert len(names) > 15
    for name in names:
        assert pkgutil.resolve_name(name).__doc__, name
