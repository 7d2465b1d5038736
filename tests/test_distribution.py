"""Which tests run together in one worker, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

from tests.distribution import DURATIONS, Durations, pieces, shares_fixtures

_UNKNOWN = Durations({})


def test_what_takes_long_begins_first_and_files_are_cut_but_those_with_shared_fixtures_are_not() -> None:
    tests = [f"a.py::{number}" for number in range(100)] + ["b.py::1[c.py::x]", "c.py::1", "b.py::Case::2"]
    found = pieces(tests, 2, Durations({"b.py": 3.0}), lambda file: file == "b.py")
    assert found[0] == [100, 102]
    assert sorted(index for piece in found for index in piece) == list(range(103))
    assert len(found) > 10 and all(piece == sorted(piece) for piece in found)


def test_files_with_fixtures_for_all_their_tests(tmp_path: Path) -> None:
    for name, text in (("a/conftest.py", ""), ("b/conftest.py", '@pytest.fixture(scope="module")\n')):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    for name in ("a/test_one.py", "b/test_one.py"):
        (tmp_path / name).write_text("@pytest.fixture\n")
    (tmp_path / "a" / "test_two.py").write_text('@pytest.fixture(scope="module", autouse=True)\n')
    shared = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("test_*.py") if shares_fixtures(file)]
    assert sorted(shared) == ["a/test_two.py", "b/test_one.py"]


def test_a_file_that_takes_little_of_the_whole_stays_in_one_worker() -> None:
    tests = [f"{file}.py::{number}" for file in range(200) for number in range(10)]
    assert len(pieces(tests, 4, _UNKNOWN)) == 200


def test_the_listed_files_are_there() -> None:
    """A file that is moved takes its seconds along."""
    listed = json.loads(DURATIONS.read_text())
    assert [name for name in listed if not (DURATIONS.parents[1] / name).exists()] == []
