"""The program that mutates code: what a test notices is killed, what none notices is told; the checkout stays as it is."""

from __future__ import annotations

import random
import subprocess
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="needs the extra 'mutants'")

from tests.mutants.__main__ import ROOT, main
from tests.mutants.killing import Checkout
from tests.mutants.mutations import Mutation, mutations_of, sample

SOURCE = """
from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    import os


def larger(one, other):
    return one > other


def untested(one):
    return one == 1
"""
TESTS = """
from kapi.admission.rules import larger


def test_larger():
    assert larger(2, 1)
    assert not larger(1, 1)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout of a small package and its tests, as far as the program looks at one."""
    for name, text in (
        ("kapi/__init__.py", ""), ("kapi/admission/__init__.py", ""), ("kapi/admission/rules.py", SOURCE),
        ("tests/admission/test_rules.py", TESTS), ("tests/golden/test_replay.py", "def test_none(): pass"),
        ("conftest.py", "def pytest_addoption(parser): parser.addoption('--quick', action='store_true')"),
        ("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n"),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    return tmp_path


def test_each_place_is_listed_once_and_changes_its_line() -> None:
    found = mutations_of(Path("rules.py"), SOURCE)
    assert {SOURCE.splitlines()[each.line - 1].strip() for each in found} == {"return one > other", "return one == 1"}
    assert len({each.applied(SOURCE) for each in found}) == len(found)


def test_what_a_test_notices_is_killed_and_what_none_notices_is_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = mutations_of(Path("kapi/admission/rules.py"), SOURCE)
    assert main(["--sample", str(len(known)), "--only", "admission", "--seed", "1"], project) == 1
    told = capsys.readouterr().out
    assert "    - return one == 1\n    + return one != 1" in told
    assert "return one > other" not in told
    assert (project / "kapi/admission/rules.py").read_text() == SOURCE


def test_the_sample_is_that_of_its_seed_and_has_nothing_twice() -> None:
    first, again = (list(islice(sample(ROOT, random.Random(4), ["authorization"]), 20)) for _ in range(2))
    assert first == again
    assert len(set(first)) == 20


def test_an_unknown_package_is_refused(project: Path) -> None:
    with pytest.raises(LookupError):
        main(["--only", "nothing"], project)


def test_tests_that_name_a_module_are_near_it(tmp_path: Path) -> None:
    near = Checkout(ROOT, tmp_path).near(Path("kapi/wire/dial.py"))
    assert any(name.startswith("tests/wire/") for name in near), near
    assert any(not name.startswith("tests/wire/") for name in near), near
    assert not any(name.startswith("tests/kubectl/") for name in near), near


def test_a_mutation_names_where_it_is() -> None:
    path = Path("kapi/authorization/fixed.py")
    found = mutations_of(path, (ROOT / path).read_text())
    assert all(isinstance(each, Mutation) and each.path == path and each.line > 0 for each in found)
