"""What a request costs beside few and beside many objects: GET, CREATE, a page, a selective LIST, and memory.

Upstream measured the same for KEP-2340 (consistent reads from the cache): 300,000 ConfigMaps of 1 kB, and one LIST a second that
selects a part of them.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator

from tests.bench.cases import Bench, Row, _cpu, _spread
from tests.bench.load import Connection, Outcome, Target, cpu_seconds
from tests.bench.own_server import children

_PARTS = 1000  # of all objects; the selective LIST asks for one of them
PAGE = 500
_PAGES = 20  # measured in one run
IN_FLIGHT = 16
_LISTS = 20  # selective ones, one a second
_CONNECTIONS = 16
_LOOK = 2.0  # seconds between two looks at what the server still does
_AT_REST = 0.05  # seconds of CPU a second that it uses when nobody asks it anything, and some more
_MAX_REST = 120  # seconds
_UNSEEN = 10  # seconds


def growth(bench: Bench, sizes: list[int]) -> None:
    """``sizes``: numbers of objects, rising."""
    there = 0
    for size in sizes:
        fill(bench, there, size)
        there = size
        rest(bench)
        bench.add(Row(f"memory with {size:,} ConfigMaps", bench.target.memory(), "MB", note="1 kB each"))
        if size in (
            sizes[0],
            sizes[-1],
        ):  # before others select, and not in between: whoever has read a label may keep it
            _selective(bench, size)
        _single(bench, size)
        _pages(bench, size)


def rest(bench: Bench) -> None:
    """Until the server has nothing left to do of what was asked before.

    After many writes a store writes its file anew, in a process of its own and for many seconds, or compacts it: what is
    measured beside that has less of the machine.
    """
    if not bench.target.pids:  # what they do cannot be seen
        time.sleep(_UNSEEN)
        return
    end = time.monotonic() + _MAX_REST
    while time.monotonic() < end:
        before = _used(bench.target)
        time.sleep(_LOOK)
        if _used(bench.target) - before < _AT_REST * _LOOK:
            return
    bench.say(f"not at rest after {_MAX_REST} s")


def _used(target: Target) -> float:
    """Seconds of CPU of the server's processes and of those that they have started."""
    pids = {pid for each in target.pids for pid in (each, *children(each))}
    used = 0.0
    for pid in pids:
        try:
            used += cpu_seconds(pid)
        except OSError:  # it has ended
            continue
    return used


def kilobyte(name: str, part: str) -> bytes:
    """A ConfigMap of 1 kB that is in one of the parts."""
    metadata = {"name": name, "labels": {"part": part}}
    return json.dumps({"metadata": metadata, "data": {"value": "x" * 700}}).encode()


def fill(bench: Bench, first: int, end: int) -> None:
    request, path = bench.target.request, f"{bench.base}/configmaps"
    numbers = range(first, end)
    ask_all(
        bench, (request("POST", path, kilobyte(f"g-{number:07d}", str(number % _PARTS))) for number in numbers), 201
    )


def ask_all(bench: Bench, requests: Iterator[bytes], wanted: int) -> None:
    """Each once, over a few connections; all are answered with the status ``wanted``."""
    connections = [Connection(bench.target) for _ in range(_CONNECTIONS)]
    while True:
        busy = list(zip(connections, requests, strict=False))
        for connection, request in busy:
            connection.send(request)
        for connection, _ in busy:
            code, answer = connection.receive()
            assert code == wanted, answer
        if len(busy) < len(connections):
            break
    for connection in connections:
        connection.close()


def gets(bench: Bench, size: int) -> Callable[[int], bytes]:
    """Requests for a thousand of so many objects, one after the other."""
    path = f"{bench.base}/configmaps"
    made = [bench.target.request("GET", f"{path}/g-{number:07d}") for number in range(0, size, max(1, size // 997))]
    return lambda number: made[number % len(made)]


def creates(bench: Bench, names: list[str]) -> Callable[[int], bytes]:
    """Requests that make objects; their names are added to ``names``."""

    def create(_: int) -> bytes:
        names.append(bench.number())
        return bench.target.request("POST", f"{bench.base}/configmaps", kilobyte(names[-1], "made"))

    return create


def remove(bench: Bench, names: list[str]) -> None:
    """By name, for a selection reads the labels of all."""
    request, path = bench.target.request, f"{bench.base}/configmaps"
    ask_all(bench, (request("DELETE", f"{path}/{name}") for name in names), 200)
    names.clear()


def _single(bench: Bench, size: int) -> None:
    bench.throughput(f"GET beside {size:,}", gets(bench, size), (IN_FLIGHT,))
    made: list[str] = []
    bench.throughput(f"CREATE beside {size:,}", creates(bench, made), (IN_FLIGHT,))
    remove(bench, made)  # so that what follows is beside as many as it says
    rest(bench)


def _pages(bench: Bench, size: int) -> None:
    """The first pages, from the most recent state; each as a client asks for them."""
    runs = [pages(bench) for _ in range(bench.runs)]
    times = [1000 / run.rate for run in runs]
    cpu = _cpu(bench.target, [run.cpu for run in runs])
    bench.add(Row(f"page of {PAGE} of {size:,}", statistics.median(times), "ms", _spread(times), cpu))


def pages(bench: Bench, distinct: int = _PAGES) -> Outcome:
    """Twenty pages, from the first one on; where there are fewer than ``distinct``, some of them several times."""
    connection, token = Connection(bench.target), ""
    before, begin = bench.target.cpu(), time.perf_counter()
    for number in range(_PAGES):
        token = token if number % distinct else ""
        more = f"&continue={token}" if token else ""
        request = bench.target.request("GET", f"{bench.base}/configmaps?limit={PAGE}{more}")
        code, body = connection.roundtrip(request)
        assert code == 200, body[:300]
        token = json.loads(body)["metadata"].get("continue", "")
    took, used = time.perf_counter() - begin, bench.target.cpu() - before
    connection.close()
    return Outcome(_PAGES / took, used / _PAGES * 1e6, [])


def _selective(bench: Bench, size: int) -> None:
    """A LIST of one part, once a second, while somebody else GETs as fast as answers come."""
    others = _Others(bench.target, bench.target.request("GET", f"{bench.base}/configmaps/g-0000000"))
    connection = Connection(bench.target)
    times: list[float] = []
    others.start()
    before, begin = bench.target.cpu(), time.perf_counter()
    for number in range(_LISTS):
        time.sleep(max(0.0, begin + number - time.perf_counter()))
        query = f"{bench.base}/configmaps?labelSelector=part%3D{number * 37 % _PARTS}"
        sent = time.perf_counter()
        code, body = connection.roundtrip(bench.target.request("GET", query))
        times.append((time.perf_counter() - sent) * 1000)
        assert code == 200, body[:300]
    used = bench.target.cpu() - before
    gets = sorted(others.stop())
    connection.close()
    times.sort()
    longest = gets[-1] * 1000
    p99 = times[int(len(times) * 0.99)]
    bench.add(
        Row(
            f"LIST 1/{_PARTS} of {size:,}, once a second",
            statistics.median(times),
            "ms",
            _spread(times),
            note=f"p99 {p99:.0f} ms, {used / _LISTS * 1000:.0f} ms CPU a second with "
            f"{len(gets) / _LISTS:.0f} GETs, the longest {longest:.0f} ms",
        )
    )
    bench.add(Row(f"LIST 1/{_PARTS} of {size:,}, p99", p99, "ms"))


class _Others(threading.Thread):
    """One client that sends a request every few milliseconds and notes how long each took."""

    _PAUSE = 0.005

    def __init__(self, target: Target, request: bytes) -> None:
        super().__init__(daemon=True)
        self._target = target
        self._request = request
        self._took: list[float] = []
        self._stopping = threading.Event()

    def run(self) -> None:
        connection = Connection(self._target)
        while not self._stopping.wait(self._PAUSE):
            begin = time.perf_counter()
            connection.roundtrip(self._request)
            self._took.append(time.perf_counter() - begin)
        connection.close()

    def stop(self) -> list[float]:
        """Seconds that each request took."""
        self._stopping.set()
        self.join()
        return self._took
