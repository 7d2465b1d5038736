"""The tests in one process that has imported everything: each mutation costs a fork, and the tests that come by it.

A function is mutated by giving the imported one the code of the mutated source; a module that is imported only when it is
used is made of that source.  What an import has executed cannot be changed: ``Checkout`` (``killing.py``) has new processes
for that.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import pytest

from tests.distribution import Durations
from tests.mutants.fate import Fate
from tests.mutants.mutations import Mutation
from tests.quick import leaves_out
from tests.workers import new_reactor

_PATIENCE = 10.0  # times as long as without a mutation may a test take, and so many seconds of processor more
_MIN_PROCESSOR = 2.0
_MAX_SECONDS = 30.0  # of processor and while calls are recorded, for the tests of one mutation


class Calls:
    """Which functions of a package are called, from ``sys.settrace(calls)`` on."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._codes: dict[int, CodeType] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        self._codes[id(frame.f_code)] = frame.f_code

    def taken(self) -> frozenset[str]:
        """Since the last time."""
        codes, self._codes = list(self._codes.values()), {}
        package = f"{self._root}kapi/"
        return frozenset(
            f"{code.co_filename.removeprefix(self._root)}:{code.co_qualname}"
            for code in codes
            if code.co_filename.startswith(package)
        )


class Forks:
    """A plugin of pytest whose loop runs the collected tests for one mutation after another, each in a fork."""

    def __init__(self, root: Path, calls: Calls, loop: Callable[[Forks], None], patience: float) -> None:
        """A test may wait ``patience`` seconds longer than ``_PATIENCE`` times what it takes: machines have other work."""
        self._root, self._calls, self._loop, self._min_wall = root, calls, loop, patience
        self._learned: set[str] = set()
        self.seconds: dict[str, float] = {}  # of processor, of each test without a mutation
        self._walls: dict[str, float] = {}  # and by the clock
        self._calling: dict[str, list[str]] = {}  # path:qualified name of a function -> the tests that call it
        self.imported: frozenset[str] = frozenset()
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[FunctionType]] = {}  # of kapi, by their file
        self._failed = False

    # -- pytest's hooks

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leaves out directories whose tests start kapi and programs, but not the long files of others."""
        return leaves_out(collection_path, Durations({})) or None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        sys.settrace(None)
        self.imported = self._calls.taken()
        self._items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # what the tests have frozen is not among the objects
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{self._root}/kapi/"):
                self._functions.setdefault(each.__code__.co_filename, []).append(each)
        gc.freeze()  # a collection in a fork would copy all memory

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool:
        self._loop(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    # -- what each test calls

    def learn(self, files: Collection[str] | None = None) -> bool:
        """Runs the tests of these files, or all of them, once.  One that fails without a mutation tells nothing of one.

        Returns whether there were any.
        """
        unknown = [
            item
            for test, item in self._items.items()
            if (file := _file(test)) not in self._learned and (files is None or file in files)
        ]
        for file, items in groupby(unknown, lambda item: _file(item.nodeid)):
            self._learned.add(file)
            self._learn(list(items))
        return bool(unknown)

    def load(self, known: Path) -> None:
        """What was saved at another time, of the files of tests that have not changed since."""
        stored = json.loads(known.read_text())
        self._learned |= {file for file, digest in stored["files"].items() if digest == self._digest(file)}
        tests = [test if test in self._items and _file(test) in self._learned else "" for test, *_ in stored["tests"]]
        for test, (_, seconds, wall) in zip(tests, stored["tests"], strict=True):
            if test:
                self.seconds[test], self._walls[test] = seconds, wall
        for function, numbers in stored["functions"].items():
            self._calling[function] = [tests[number] for number in numbers if tests[number]]

    def save(self, known: Path) -> None:
        numbers = {test: number for number, test in enumerate(self.seconds)}
        functions = {
            function: [numbers[test] for test in tests if test in numbers] for function, tests in self._calling.items()
        }
        files = {file: self._digest(file) for file in sorted(self._learned)}
        listed = [(test, seconds, self._walls[test]) for test, seconds in self.seconds.items()]
        known.write_text(json.dumps({"tests": listed, "functions": functions, "files": files}))

    def _digest(self, file: str) -> str | None:
        path = self._root / file
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None

    def _learn(self, items: Sequence[pytest.Item]) -> None:
        with _Fork() as fork:
            if fork.child:
                threading.settrace(self._calls)
                sys.settrace(self._calls)
                for item, seconds, wall in self._run(items):
                    if not self._failed:
                        fork.tell([item.nodeid, seconds, wall, sorted(self._calls.taken())])
                    self._failed = False
                fork.leave()
            for test, seconds, wall, functions in fork.told():
                self.seconds[test], self._walls[test] = seconds, wall
                for function in functions:
                    self._calling.setdefault(function, []).append(test)

    # -- mutations

    def can_change(self, mutation: Mutation) -> bool:
        """Whether it is of what no import has executed yet."""
        executed = mutation.function is None or f"{mutation.path.as_posix()}:{mutation.function}" in self.imported
        return not executed or _module(mutation) not in sys.modules

    def tests_of(self, mutation: Mutation, near: Collection[str] = ()) -> list[str]:
        """Those that call its function, those of the files ``near`` it first, and the short ones before the long ones."""
        if mutation.function is None:
            return self.tests_of_module(mutation, near)
        return self._first(self._calling.get(f"{mutation.path.as_posix()}:{mutation.function}", ()), near)

    def wall(self, tests: Iterable[str]) -> float:
        """The seconds by the clock that these take together without a mutation."""
        return sum(self._walls[test] for test in tests)

    def tests_of_module(self, mutation: Mutation, near: Collection[str]) -> list[str]:
        """The same for what an import executes: tests that call any function of its module, and those of its package, which
        may read its tables.
        """
        module, package = f"{mutation.path.as_posix()}:", "/".join(("tests", *mutation.path.parts[1:2], ""))
        calling = {test for test in self.seconds if _file(test) in near or test.startswith(package)}
        for function, tests in self._calling.items():
            if function.startswith(module):
                calling.update(tests)
        return self._first(calling, near)

    def _first(self, tests: Iterable[str], near: Collection[str]) -> list[str]:
        chosen, seconds = [], 0.0
        known = [test for test in tests if test in self.seconds]
        for test in sorted(known, key=lambda test: (_file(test) not in near, self.seconds[test])):
            seconds += self.seconds[test]
            if seconds > _MAX_SECONDS and chosen:
                break
            chosen.append(test)
        return chosen

    def fate(self, mutation: Mutation, near: Collection[str]) -> tuple[Fate, str]:
        """With the test that decides it.  One that fails without the mutation, too, decides nothing."""
        tests = self.tests_of(mutation, near)
        while True:
            fate, test = self._fate(mutation, tests)
            if fate is Fate.SURVIVED or self._fate(None, [test])[0] is Fate.SURVIVED:
                return fate, test
            tests.remove(test)
            del self.seconds[test]

    def _fate(self, mutation: Mutation | None, tests: Sequence[str]) -> tuple[Fate, str]:
        if not tests:
            return Fate.SURVIVED, "(no test calls it)"
        with _Fork() as fork:
            if fork.child:
                if mutation is not None:
                    try:
                        self._apply(mutation)
                    except Exception:  # raised by what an import executes
                        fork.tell([tests[0], str(Fate.KILLED)])
                        fork.leave()
                for item, *_ in self._run([self._items[test] for test in tests], fork):
                    if self._failed:
                        fork.tell([item.nodeid, str(Fate.KILLED)])
                        item.session._setupstate.teardown_exact(None)  # ends what its fixtures have started
                        break
                fork.leave()
            test = tests[0]
            for test, *fate in fork.told():
                fork.patience = self._min_wall + _PATIENCE * self._walls[test]
                if fate:
                    return Fate(fate[0]), test
            return (Fate.SURVIVED if fork.ended_well() else Fate.TIMED_OUT), test

    def _apply(self, mutation: Mutation) -> None:
        path = self._root / mutation.path
        source = path.read_text()
        if _module(mutation) in sys.modules:
            replace_code(self._functions.get(str(path), ()), path, source, mutation.applied(source))
        else:  # some function imports it later
            import_source(_module(mutation), path, mutation.applied(source))

    def _run(
        self, items: Sequence[pytest.Item], fork: _Fork | None = None
    ) -> Iterator[tuple[pytest.Item, float, float]]:
        """With the seconds that each took, of processor and by the clock."""
        for item, after in zip(items, [*items[1:], None], strict=True):
            if fork is not None:
                fork.tell([item.nodeid])
                limit = _MIN_PROCESSOR + _PATIENCE * self.seconds[item.nodeid]
                signal.setitimer(signal.ITIMER_PROF, limit)
            processor, wall = time.process_time(), time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            yield item, time.process_time() - processor, time.monotonic() - wall


def _module(mutation: Mutation) -> str:
    return ".".join(mutation.path.with_suffix("").parts).removesuffix(".__init__")


def _file(test: str) -> str:
    return test.partition("::")[0]


class _Fork:
    """A process like this, which tells lines of JSON to it."""

    def __enter__(self) -> _Fork:
        self._read, self._write = os.pipe()
        self._pid = os.fork()
        self.child = not self._pid
        self.patience = 3600.0  # seconds
        self._status: int | None = None
        if self.child:
            os.setsid()
            os.close(self._read)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            new_reactor()
        else:
            os.close(self._write)
        return self

    def tell(self, message: object) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(self._write, data) :]

    def leave(self) -> NoReturn:
        os._exit(0)

    def told(self) -> Iterator[Any]:
        """Until it ends, or tells nothing for as long as its ``patience``."""
        rest = b""
        while select.select([self._read], [], [], self.patience)[0]:
            data = os.read(self._read, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from map(json.loads, lines)

    def ended_well(self) -> bool:
        return self._end() == 0

    def _end(self) -> int:
        if self._status is None:
            try:
                if not select.select([self._read], [], [], 0)[0]:  # nothing more is told, and it has not ended
                    os.killpg(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._status = os.waitpid(self._pid, 0)[1]
        return self._status

    def __exit__(self, *_: object) -> None:
        if self.child:
            os._exit(1)
        try:
            os.killpg(self._pid, signal.SIGKILL)  # with what it has started
        except ProcessLookupError:
            pass
        self._end()
        os.close(self._read)


def import_source(name: str, path: Path, source: str) -> None:
    """Imports a module as if its file had this source."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, name
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    package, _, last = name.rpartition(".")
    setattr(sys.modules[package], last, module)


def replace_code(functions: Iterable[FunctionType], path: Path, old: str, new: str) -> None:
    """Those that were made of the old source of a file get the code of the new one."""
    changed = {}
    before, after = (compile(source, str(path), "exec", dont_inherit=True) for source in (old, new))
    for one, other in zip(_codes(before), _codes(after), strict=True):
        if one != other:
            changed[one.co_qualname, one.co_firstlineno] = other
    for each in functions:
        code = changed.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
        if code is not None:
            each.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
