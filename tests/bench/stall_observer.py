"""The second client of ``--only stalls``: a process of its own that asks for a small object all the time.

It GETs the object every few milliseconds, writes it now and then, and watches it, each on a connection of its own.
"""

from __future__ import annotations

import collections
import json
import multiprocessing
import re
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tests.bench.load import Connection, Target

_PAUSE = 0.005  # seconds between two GETs
_WRITE = 0.05  # seconds between two writes
_PATIENCE = 300.0  # seconds that an answer may take
_KEPT = 200_000  # spans of each kind
_STAMP = re.compile(rb'"sent":"([0-9.]+)"')


@dataclass(slots=True)
class Spans:
    """What took how long: (begin, end) by the monotonic clock, which all processes of a machine share."""

    ended: collections.deque[tuple[float, float]] = field(default_factory=lambda: collections.deque(maxlen=_KEPT))

    def longest(self, begin: float, end: float) -> float:
        """Milliseconds of the longest that was under way between the two."""
        return max((till - since for since, till in self.ended if till >= begin and since <= end), default=0.0) * 1000


class Observer:
    """Observes while the block runs; ``path`` is that of a ConfigMap."""

    def __init__(self, target: Target, path: str) -> None:
        self._target, self._path = target, path

    def __enter__(self) -> Observer:
        self._pipe, there = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_observe, args=(self._target, self._path, there), daemon=True)
        self._process.start()
        there.close()  # so that the end of the process is seen
        assert self._pipe.recv() == "ready"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join(10)

    def longest(self, begin: float, end: float) -> tuple[float, float]:
        """Milliseconds of the longest GET, and of the longest way of a write to the watch, between two monotonic times."""
        self._pipe.send((begin, end))
        gap, delay = self._pipe.recv()
        return gap, delay


def _observe(target: Target, path: str, pipe: Any) -> None:
    target.pids = ()
    gets, events = Spans(), Spans()
    reached = threading.Event()
    for work in (_read, _write, _watch):
        threading.Thread(
            target=work, args=(target, path, events if work is _watch else gets, reached), daemon=True
        ).start()
    assert reached.wait(60)
    pipe.send("ready")
    while True:
        begin, end = pipe.recv()
        while not (gets.ended and gets.ended[-1][0] > end and events.ended and events.ended[-1][0] > end):
            time.sleep(_PAUSE)  # what was under way at the end counts whole
        pipe.send((gets.longest(begin, end), events.longest(begin, end)))


def _connect(target: Target) -> Connection:
    connection = Connection(target)
    connection.socket.settimeout(_PATIENCE)
    return connection


def _read(target: Target, path: str, spans: Spans, reached: threading.Event) -> None:
    request = target.request("GET", path)
    begin = time.monotonic()
    while True:
        try:
            connection = _connect(target)
            while True:
                connection.roundtrip(request)
                spans.ended.append((begin, time.monotonic()))
                time.sleep(_PAUSE)
                begin = time.monotonic()
        except OSError:
            time.sleep(_PAUSE)  # a new connection, as a client makes; it has been waiting since ``begin``


def _write(target: Target, path: str, spans: Spans, reached: threading.Event) -> None:
    reached.wait()
    while True:
        try:
            connection = _connect(target)
            while True:
                body = json.dumps({"data": {"sent": f"{time.monotonic():.6f}"}}).encode()
                connection.roundtrip(target.request("PATCH", path, body, "application/merge-patch+json"))
                time.sleep(_WRITE)
        except OSError:
            time.sleep(_WRITE)


def _watch(target: Target, path: str, spans: Spans, reached: threading.Event) -> None:
    collection, _, name = path.rpartition("/")
    query = f"{collection}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}&timeoutSeconds=3000"
    request = target.request("GET", query)
    while True:
        try:
            connection = _connect(target)
            connection.send(request)
            while data := connection.socket.recv(1 << 16):
                reached.set()
                now = time.monotonic()
                spans.ended.extend((float(stamp), now) for stamp in _STAMP.findall(data) if stamp != b"0")
        except OSError:
            time.sleep(_WRITE)
