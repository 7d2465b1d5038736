"""Which tests run together in one worker of pytest-xdist, and in which order workers get them.

The tests of a file stay together, so that they share what its fixtures make, and what takes long by ``durations.json``
begins first.  xdist's own ways send each test by itself, or pieces of any file to any worker, in the order of their
names; its marks of groups have no effect with pytest 9.2: a server of a module was started by each worker, and each of
twelve thousand tests was looked up in a list of all.
"""

from __future__ import annotations

import functools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

#: seconds of the files that take longer than others of as many tests, with all that ``.ci/run`` asks for;
#: ``KAPI_TEST_SHELL_BLOCKS=1 pytest --record-durations`` writes it
DURATIONS = Path(__file__).with_name("durations.json")
_MIN_LISTED = 2  # seconds of a file
_SECONDS_OF_TEST = 0.02  # of one that is not listed
_PIECES = 16  # for each worker: so many pieces at least, where the tests can be cut into them
_MIN_PENDING = 2  # a worker begins a test when it knows the next


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


class Distribution:
    """A scheduler of pytest-xdist (``xdist.scheduler.Scheduling``)."""

    def __init__(self, workers: int, durations: Durations, root: Path) -> None:
        self._workers = workers
        self._root = root
        self._durations = durations
        self._collection: list[str] | None = None  # what all workers have collected
        self._collected: set[WorkerController] = set()
        self._waiting: deque[list[int]] | None = None  # pieces; None until all have collected
        self._pending: dict[WorkerController, dict[int, None]] = {}  # in order

    @property
    def nodes(self) -> list[WorkerController]:
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        return self._waiting is not None or len(self._collected) >= self._workers

    @property
    def tests_finished(self) -> bool:
        """Whether each worker has got its last test."""
        if self._waiting is None or self._waiting:
            return False
        return all(len(pending) < _MIN_PENDING for pending in self._pending.values())

    @property
    def has_pending(self) -> bool:
        return bool(self._waiting) or any(self._pending.values())

    def add_node(self, node: WorkerController) -> None:
        self._pending[node] = {}

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        if self._collection is None:
            self._collection = list(collection)
        elif self._collection != list(collection):
            difference = sorted(set(self._collection).symmetric_difference(collection))
            raise RuntimeError(f"{node.gateway.id} has collected other tests, or in another order: {difference[:5]}")
        self._collected.add(node)

    def schedule(self) -> None:
        """All have collected, or one that takes the place of another."""
        if self._waiting is None:
            self._waiting = deque(pieces(self._collection or [], self._workers, self._durations, self._is_whole))
            for node in self._pending:  # one each before any gets a second
                if self._waiting:
                    self._send(node, self._waiting.popleft())
        for node in self._pending:
            self._feed(node)

    def _is_whole(self, file: str) -> bool:
        return shares_fixtures(self._root / file)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        self._pending[node].pop(item_index, None)
        self._feed(node)

    def _feed(self, node: WorkerController) -> None:
        pending = self._pending[node]
        while len(pending) < _MIN_PENDING and not node.shutting_down:
            if not self._waiting:
                node.shutdown()  # it runs its last test, and ends
                return
            self._send(node, self._waiting.popleft())

    def _send(self, node: WorkerController, piece: list[int]) -> None:
        self._pending[node].update(dict.fromkeys(piece))
        node.send_runtest_some(piece)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that ended the worker; others take the rest."""
        pending = list(self._pending.pop(node))
        self._collected.discard(node)
        if not pending:
            return None
        assert self._collection is not None and self._waiting is not None
        if len(pending) > 1:
            self._waiting.appendleft(pending[1:])
        for other in self._pending:
            self._feed(other)
        return self._collection[pending[0]]

    def mark_test_pending(self, item: str) -> NoReturn:
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> NoReturn:
        raise NotImplementedError
