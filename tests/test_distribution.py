"""Which tests run together in one worker, and in which order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.distribution import DURATIONS, Distribution, Durations, pieces, shares_fixtures

_UNKNOWN = Durations({})


class _Worker:
    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.sent.append(list(indices))

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def tests(self) -> list[int]:
        return [index for piece in self.sent for index in piece]


def _started(nodeids: list[str], count: int, durations: Durations = _UNKNOWN) -> tuple[Any, list[_Worker]]:
    workers = [_Worker() for _ in range(count)]
    distribution = cast(Any, Distribution(count, durations, Path()))
    for worker in workers:
        distribution.add_node(worker)
    for worker in workers:
        assert not distribution.collection_is_completed
        distribution.add_node_collection(worker, nodeids)
    assert distribution.collection_is_completed
    distribution.schedule()
    return distribution, workers


def _run_all(distribution: Any, workers: list[_Worker]) -> None:
    """As the workers would: each begins a test when it knows the next, or that there is none."""
    done: dict[_Worker, int] = dict.fromkeys(workers, 0)
    while True:
        ready = [each for each in workers if len(each.tests) - done[each] >= (1 if each.shutting_down else 2)]
        if not ready:
            return
        worker = min(ready, key=lambda each: done[each])
        index = worker.tests[done[worker]]
        done[worker] += 1
        distribution.mark_test_complete(worker, index)


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


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_each_test_runs_once(count: int, workers: int) -> None:
    distribution, started = _started([f"a.py::{number}" for number in range(count)], workers)
    _run_all(distribution, started)
    assert sorted(index for worker in started for index in worker.tests) == list(range(count))
    assert all(worker.shutting_down for worker in started)
    assert distribution.tests_finished and not distribution.has_pending


def test_few_tests_run_on_as_many_workers() -> None:
    _, workers = _started(["a.py::1", "a.py::2", "a.py::3"], 3)
    assert [len(worker.tests) for worker in workers] == [1, 1, 1]


def test_what_a_worker_that_crashed_had_still_to_run_is_run_by_others_and_by_another() -> None:
    nodeids = [f"a.py::{number}" for number in range(9)]
    distribution, (first, second) = _started(nodeids, 2)
    distribution.mark_test_complete(first, first.tests[0])
    crashed = first.tests[1]
    assert distribution.remove_node(first) == nodeids[crashed]
    instead = _Worker()
    distribution.add_node(instead)
    distribution.add_node_collection(instead, nodeids)
    distribution.schedule()
    _run_all(distribution, [second, instead])
    ran = sorted([first.tests[0], *second.tests, *instead.tests])
    assert ran == [index for index in range(9) if index != crashed] and instead.tests


def test_a_worker_that_has_collected_other_tests_is_told_of() -> None:
    distribution = cast(Any, Distribution(2, _UNKNOWN, Path()))
    first, second = _Worker(), _Worker()
    second.gateway = type("Gateway", (), {"id": "gw1"})  # type: ignore[attr-defined]
    for worker in (first, second):
        distribution.add_node(worker)
    distribution.add_node_collection(first, ["a.py::1"])
    with pytest.raises(RuntimeError, match=r"gw1 has collected other tests.*a\.py::2"):
        distribution.add_node_collection(second, ["a.py::2"])


def test_the_listed_files_are_there() -> None:
    """A file that is moved takes its seconds along."""
    listed = json.loads(DURATIONS.read_text())
    assert [name for name in listed if not (DURATIONS.parents[1] / name).exists()] == []
