"""The second client of ``--only stalls``: a process of its own that asks for a small object all the time.

It GETs the object every few milliseconds, writes it now and then, and watches it, each on a connection of its own.  What of
the time the server's threads have stood in line for a core, since other processes of the machine had it, is told apart.
"""

from __future__ import annotations

import collections
import json
import multiprocessing
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.bench.load import Connection, Target

_PAUSE = 0.005  # seconds between two GETs
_WRITE = 0.05  # seconds between two writes
_PATIENCE = 300.0  # seconds that an answer may take
_KEPT = 200_000  # spans of each kind
_STAMP = re.compile(rb'"sent":"([0-9.]+) ([0-9.]+)"')


class Moment(NamedTuple):
    """A time by the monotonic clock, which all processes of a machine share, and what the server had waited for cores by then.

    Both in seconds.
    """

    time: float
    waited: float


class Waits:
    """How long the main threads of some processes have stood in line for a core; 0 where the system does not say."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        self._files = [Path(f"/proc/{pid}/schedstat") for pid in pids]

    def now(self) -> Moment:
        return Moment(time.monotonic(), sum(map(self._of, self._files)))

    def _of(self, file: Path) -> float:
        try:
            return int(file.read_bytes().split()[1]) / 1e9
        except OSError:
            return 0.0  # it has ended, or this is not Linux


@dataclass(slots=True)
class Spans:
    """What took how long: its begin and its end."""

    ended: collections.deque[tuple[Moment, Moment]] = field(default_factory=lambda: collections.deque(maxlen=_KEPT))

    def longest(self, begin: float, end: float) -> tuple[float, float]:
        """Milliseconds of the longest that was under way between the two; and without the waits for cores, of any of them."""
        ended = list(self.ended)  # another thread adds to it
        found = [(since, till) for since, till in ended if till.time >= begin and since.time <= end]
        whole = max((till.time - since.time for since, till in found), default=0.0)
        own = max((till.time - since.time - till.waited + since.waited for since, till in found), default=0.0)
        return whole * 1000, max(own, 0.0) * 1000


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

    def longest(self, begin: float, end: float) -> tuple[float, float, float, float]:
        """Milliseconds of the longest GET, of the longest way of a write to the watch, and both without waits for cores;
        between two monotonic times."""
        self._pipe.send((begin, end))
        (gap, own_gap), (delay, own_delay) = self._pipe.recv()
        return gap, delay, own_gap, own_delay


def _observe(target: Target, path: str, pipe: Any) -> None:
    waits = Waits(target.pids)
    target.pids = ()
    gets, events = Spans(), Spans()
    reached = threading.Event()
    for work in (_read, _write, _watch):
        threading.Thread(
            target=work, args=(target, path, events if work is _watch else gets, reached, waits), daemon=True
        ).start()
    assert reached.wait(60)
    pipe.send("ready")
    while True:
        begin, end = pipe.recv()
        while not all(spans.ended and spans.ended[-1][0].time > end for spans in (gets, events)):
            time.sleep(_PAUSE)  # what was under way at the end counts whole
        pipe.send((gets.longest(begin, end), events.longest(begin, end)))


def _connect(target: Target) -> Connection:
    connection = Connection(target)
    connection.socket.settimeout(_PATIENCE)
    return connection


def _read(target: Target, path: str, spans: Spans, reached: threading.Event, waits: Waits) -> None:
    request = target.request("GET", path)
    begin = waits.now()
    while True:
        try:
            connection = _connect(target)
            while True:
                connection.roundtrip(request)
                spans.ended.append((begin, waits.now()))
                time.sleep(_PAUSE)
                begin = waits.now()
        except OSError:
            time.sleep(_PAUSE)  # a new connection, as a client makes; it has been waiting since ``begin``


def _write(target: Target, path: str, spans: Spans, reached: threading.Event, waits: Waits) -> None:
    reached.wait()
    while True:
        try:
            connection = _connect(target)
            while True:
                now = waits.now()
                body = json.dumps({"data": {"sent": f"{now.time:.6f} {now.waited:.6f}"}}).encode()
                connection.roundtrip(target.request("PATCH", path, body, "application/merge-patch+json"))
                time.sleep(_WRITE)
        except OSError:
            time.sleep(_WRITE)


def _watch(target: Target, path: str, spans: Spans, reached: threading.Event, waits: Waits) -> None:
    collection, _, name = path.rpartition("/")
    query = f"{collection}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}&timeoutSeconds=3000"
    request = target.request("GET", query)
    while True:
        try:
            connection = _connect(target)
            connection.send(request)
            while data := connection.socket.recv(1 << 16):
                reached.set()
                now = waits.now()
                spans.ended.extend((Moment(float(sent), float(waited)), now) for sent, waited in _STAMP.findall(data))
        except OSError:
            time.sleep(_WRITE)
