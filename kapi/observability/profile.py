"""A profile of the thread that serves, in pprof's format: ``go tool pprof`` and speedscope read it.

Another thread samples the stack a hundred times a second; a sample counts as a hundredth of a second of work, unless the reactor
is waiting.  Format: github.com/google/pprof ``proto/profile.proto``.
"""

from __future__ import annotations

import gzip
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import CodeType, FrameType

from kapi.schema.protobuf_writing import varint

RATE = 100  # samples a second
_MAX_FRAMES = 200  # innermost frames of a stack
_WAITING = ("poll", "doPoll", "doIteration")  # in which the reactor waits for something to do

#: innermost first: code and line
Stack = tuple[tuple[CodeType, int], ...]


def stack_of(frame: FrameType | None) -> Stack:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _MAX_FRAMES:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


class Sampler:
    """Collects stacks of a thread for some time."""

    def __init__(self, thread: int, frames: Callable[[], dict[int, FrameType]] = sys._current_frames) -> None:
        self._thread = thread
        self._frames = frames
        self.counts: dict[Stack, int] = {}

    def look(self) -> None:
        stack = stack_of(self._frames().get(self._thread))
        if stack and stack[0][0].co_name not in _WAITING:
            self.counts[stack] = self.counts.get(stack, 0) + 1

    def run(self, seconds: float, stopped: threading.Event) -> None:
        """Samples until the time is over or ``stopped`` is set; runs in another thread."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and not stopped.wait(1 / RATE):
            self.look()


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _text(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _text(field, b"".join(map(varint, values)))


class _Strings:
    def __init__(self) -> None:
        self.places: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))


def encode(counts: dict[Stack, int], began: float, seconds: float) -> bytes:
    """The compressed profile; ``began`` in unix seconds."""
    strings = _Strings()
    period = 1_000_000_000 // RATE
    units = [(strings("samples"), strings("count")), (strings("cpu"), strings("nanoseconds"))]
    types = b"".join(_text(1, _number(1, kind) + _number(2, unit)) for kind, unit in units)
    functions: dict[CodeType, int] = {}
    locations: dict[tuple[CodeType, int], int] = {}
    samples = []
    for stack, count in counts.items():
        for code, _ in stack:
            functions.setdefault(code, len(functions) + 1)
        places = [locations.setdefault(place, len(locations) + 1) for place in stack]
        samples.append(_text(2, _packed(1, places) + _packed(2, (count, count * period))))
    parts = [types, *samples]
    for (code, line), number in locations.items():
        parts.append(_text(4, _number(1, number) + _text(4, _number(1, functions[code]) + _number(2, line))))
    for code, number in functions.items():
        name = strings(f"{_module(code)}.{code.co_qualname}")
        function = _number(1, number) + _number(2, name) + _number(3, name)
        parts.append(_text(5, function + _number(4, strings(code.co_filename)) + _number(5, code.co_firstlineno)))
    kind, unit = units[1]
    end = [
        _number(9, int(began * 1e9)),
        _number(10, int(seconds * 1e9)),
        _text(11, _number(1, kind) + _number(2, unit)),
        _number(12, period),
    ]
    texts = [_text(6, text.encode()) for text in strings.places]
    return gzip.compress(b"".join((*parts, *texts, *end)), 6)


def _module(code: CodeType) -> str:
    """The module's name from the file's name, since a code object does not have it."""
    parts = code.co_filename.removesuffix(".py").split("/")
    return ".".join(parts[-2:]) if len(parts) > 1 else parts[-1]
