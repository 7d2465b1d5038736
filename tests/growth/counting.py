"""How often each line runs, how often texts are compared, and how many lines run between two checkpoints: what grows with
a body, and what holds the thread, is seen without a clock."""

from __future__ import annotations

import contextlib
import difflib
import functools
import gc
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from kapi.machinery import checkpoint, each, memo

Counts = dict[tuple[str, str, int], int]  # by file, function and line


@functools.cache
def _cached_functions(modules: int) -> list[Any]:
    """Functions of kapi with a cache that has a bound, in so many modules that are imported now.

    A cache without a bound is of what every server has.
    """
    names = [vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "kapi"]
    classes = [vars(value) for each in names for value in each.values() if isinstance(value, type)]
    values = [value for each in names + classes for value in each.values()] + [each for each, _ in memo._functions]
    wrappers = {id(each): each for each in values if isinstance(each, functools._lru_cache_wrapper)}
    return [each for each in wrappers.values() if each.cache_parameters()["maxsize"] is not None]


def _forget() -> None:
    """What is remembered of one run would hide lines of the next."""
    for function in _cached_functions(len(sys.modules)):
        function.cache_clear()
    for cache, _ in memo._caches:
        cache.clear()


class Text(str):
    """A text whose comparisons are lines of Python, so that ``in`` on a list of texts or objects is counted, too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def texts(value: Any) -> Any:
    """A copy of a tree with such texts."""
    if isinstance(value, dict):
        return {name: texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [texts(item) for item in value]
    return Text(value) if type(value) is str else value


#: differences are only asked of a bounded number of lines; a walk's own lines belong to many loops, whose lines are counted
_UNCOUNTED = frozenset([__file__, checkpoint.__file__, each.__file__, difflib.__file__])
Tracer = Callable[[FrameType, str, Any], Any]


def lines(work: Callable[[], Any]) -> Counts:
    """How often each line ran."""
    counted: list[tuple[CodeType, dict[int, int]]] = []

    def counter(code: CodeType) -> Tracer:
        counted.append((code, defaultdict(int)))
        return _line_counter(counted[-1][1])

    _trace(work, _by_code(counter))
    counts: Counts = {}
    for code, runs in counted:
        for line, count in runs.items():
            key = (code.co_filename, code.co_qualname, line)
            counts[key] = counts.get(key, 0) + count
    return counts


def _by_code(make: Callable[[CodeType], Tracer]) -> Tracer:
    """Has a tracer of the lines of each function that is counted."""
    # by identity: the hash of a code object is computed anew from all that it consists of
    found: dict[int, Tracer | None] = {}
    kept: list[CodeType] = []

    def on_call(frame: FrameType, event: str, argument: Any) -> Tracer | None:
        code = frame.f_code
        try:
            return found[id(code)]
        except KeyError:
            kept.append(code)
            tracer = found[id(code)] = make(code) if _is_counted(code) else None
            return tracer

    return on_call


def _line_counter(runs: dict[int, int]) -> Tracer:
    def on_line(frame: FrameType, event: str, argument: Any) -> None:  # it stays the tracer of the frame
        if event == "line":
            runs[frame.f_lineno] += 1

    return on_line


def _counter() -> tuple[Tracer, Callable[[], int]]:
    """A tracer of lines, and what answers how many have run since it was last asked.

    One number for all functions: a counter for each takes twice as long.
    """
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event == "line":
            count += 1

    def take() -> int:
        nonlocal count
        taken, count = count, 0
        return taken

    return on_line, take


def _trace(work: Callable[[], Any], on_call: Tracer) -> None:
    _forget()
    with _without_garbage():
        before = sys.gettrace()
        sys.settrace(on_call)
        try:
            work()
        finally:
            sys.settrace(before)


@contextlib.contextmanager
def _without_garbage() -> Iterator[None]:
    """What other tests have left has finalizers, whose lines are not those of the work."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def steepest(few: Counts, many: Counts, least: int) -> tuple[float, str]:
    """The largest growth of a line that ran in both, at least ``least`` times in ``many``, and where it is."""
    worst, where = 0.0, ""
    for key, count in many.items():
        before = few.get(key, 0)
        if before and count >= least and count / before > worst:
            worst, where = count / before, f"{key[0]}:{key[2]} ran {before}, then {count} times"
    return worst, where


_Point = str | tuple[str, int]  # in words, or file and line


class Stretches:
    """A slice that is always used up: counts the lines between its checkpoints."""

    until = float("-inf")

    def __init__(self) -> None:
        self.on_line, self._take = _counter()
        self.longest = 0
        self._between: tuple[_Point, _Point] = ("", "")
        self._last: _Point = "the beginning"

    def pause(self) -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename in (__file__, checkpoint.__file__):
            frame = frame.f_back
        self.end("" if frame is None else (frame.f_code.co_filename, frame.f_lineno))

    def end(self, where: _Point = "the end") -> None:
        length = self._take()
        if length > self.longest:
            self.longest, self._between = length, (self._last, where)
        self._last = where

    @property
    def where(self) -> str:
        """Between which two lines the longest stretch is."""
        return " -> ".join(point if isinstance(point, str) else f"{point[0]}:{point[1]}" for point in self._between)

    def commit(self) -> None: ...

    def engage(self) -> bool:
        return True

    def expect_tree(self, size: int) -> None: ...


def stretches(work: Callable[[], Any]) -> Stretches:
    """How many lines a computation that may be suspended runs from one checkpoint to the next."""
    found = Stretches()
    before = checkpoint.current, checkpoint.running
    checkpoint.current = checkpoint.running = found
    try:
        _trace(work, _by_code(lambda code: found.on_line))
    finally:
        checkpoint.current, checkpoint.running = before
    found.end()
    return found


def _is_counted(code: CodeType) -> bool:
    return code is Text.__eq__.__code__ or code.co_filename not in _UNCOUNTED


def effort(work: Callable[[], Any]) -> int:
    """How many lines run."""
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Tracer:
        nonlocal count
        if event == "line":
            count += 1
        return on_line

    _trace(work, lambda frame, event, argument: None if frame.f_code.co_filename == difflib.__file__ else on_line)
    return count
