"""Which tests run together in one worker (``workers.py``), and in which order workers get them.

The tests of a file stay together, so that they share what its fixtures make, and what takes long by ``durations.json``
begins first.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

#: seconds of the files that take longer than others of as many tests, with all that ``.ci/run`` asks for;
#: ``KAPI_TEST_SHELL_BLOCKS=1 pytest --record-durations`` writes it
DURATIONS = Path(__file__).with_name("durations.json")
_MIN_LISTED = 2  # seconds of a file
_SECONDS_OF_TEST = 0.02  # of one that is not listed
_PIECES = 16  # for each worker: so many pieces at least, where the tests can be cut into them


class Durations:
    """Seconds by file."""

    def __init__(self, listed: dict[str, float]) -> None:
        self.listed = listed

    @classmethod
    @functools.cache
    def recorded(cls) -> Durations:
        return cls(json.loads(DURATIONS.read_text()))

    def of(self, name: str, count: int) -> float:
        return self.listed.get(name, count * _SECONDS_OF_TEST)


class Recorder:
    """A plugin of the controlling process: writes what the files of this run have taken."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        listed = {name: round(each) for name, each in sorted(self._seconds.items()) if each >= _MIN_LISTED}
        DURATIONS.write_text(json.dumps(listed, indent=1) + "\n")


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def shares_fixtures(file: Path) -> bool:
    """Whether its tests have fixtures for all of them, as a server, which each worker would make anew."""
    sources = (each for each in (file, file.with_name("conftest.py")) if each.exists())
    return any('scope="module"' in source.read_text() for source in sources)


def pieces(
    nodeids: Sequence[str], workers: int, durations: Durations, whole: Callable[[str], bool] = lambda file: False
) -> list[list[int]]:
    """Indices of tests that run one after the other in one worker, the longest pieces first.

    Files are cut where they take more than a share of the whole, unless they must stay ``whole``.
    """
    files: dict[str, list[int]] = {}
    for index, nodeid in enumerate(nodeids):
        files.setdefault(file_of(nodeid), []).append(index)
    seconds = {name: durations.of(name, len(tests)) for name, tests in files.items()}
    share = sum(seconds.values()) / (_PIECES * workers)
    found: list[tuple[float, list[int]]] = []
    for name, tests in files.items():
        each = seconds[name] / len(tests)
        size = len(tests) if whole(name) else max(1, int(share / each))
        found.extend((each * len(piece), piece) for piece in _cut(tests, size))
    found.sort(key=lambda piece: -piece[0])
    return [tests for _, tests in found]


def _cut(tests: list[int], size: int) -> Iterable[list[int]]:
    return (tests[start : start + size] for start in range(0, len(tests), size))
