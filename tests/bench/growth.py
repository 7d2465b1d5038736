"""What a request costs beside few and beside many objects: GET, CREATE, a page, a selective LIST, and memory.

Upstream measured the same for KEP-2340 (consistent reads from the cache): 300,000 ConfigMaps of 1 kB, and one LIST a second that
selects a part of them.
"""

from __future__ import annotations

import json
import statistics
import threading
import time

from tests.bench.cases import Bench, Row, _cpu, _spread
from tests.bench.load import Connection, Target

_PARTS = 1000  # of all objects; the selective LIST asks for one of them
_MADE = "made"  # of those that measuring creates made
_PAGE = 500
_PAGES = 20  # measured in one run
_IN_FLIGHT = 16
_LISTS = 20  # selective ones, one a second
_FILLERS = 16
_REST = 10  # seconds after so many creates: the store writes its file anew then


def growth(bench: Bench, sizes: list[int]) -> None:
    """``sizes``: numbers of objects, rising."""
    there = 0
    for size in sizes:
        fill(bench, there, size)
        there = size
        time.sleep(_REST)
        bench.add(Row(f"memory with {size:,} ConfigMaps", bench.target.memory(), "MB", note="1 kB each"))
        _single(bench, size)
        _pages(bench, size)
        _selective(bench, size)


def kilobyte(name: str, part: str) -> bytes:
    """A ConfigMap of 1 kB that is in one of the parts."""
    metadata = {"name": name, "labels": {"part": part}}
    return json.dumps({"metadata": metadata, "data": {"value": "x" * 700}}).encode()


def fill(bench: Bench, first: int, end: int) -> None:
    numbers = iter(range(first, end))
    request, path = bench.target.request, f"{bench.base}/configmaps"
    connections = [Connection(bench.target) for _ in range(_FILLERS)]
    while True:
        busy = [(connection, number) for connection, number in zip(connections, numbers, strict=False)]
        for connection, number in busy:
            connection.send(request("POST", path, kilobyte(f"g-{number:07d}", str(number % _PARTS))))
        for connection, _ in busy:
            code, answer = connection.receive()
            assert code == 201, answer
        if len(busy) < len(connections):
            break
    for connection in connections:
        connection.close()


def _single(bench: Bench, size: int) -> None:
    request, path = bench.target.request, f"{bench.base}/configmaps"
    gets = [request("GET", f"{path}/g-{number:07d}") for number in range(0, size, max(1, size // 997))]
    bench.throughput(f"GET beside {size:,}", lambda number: gets[number % len(gets)], (_IN_FLIGHT,))
    bench.throughput(
        f"CREATE beside {size:,}", lambda _: request("POST", path, kilobyte(bench.number(), _MADE)), (_IN_FLIGHT,)
    )
    connection = Connection(bench.target)  # so that what follows is beside as many as it says
    code, answer = connection.roundtrip(request("DELETE", f"{path}?labelSelector=part%3D{_MADE}"))
    assert code == 200, answer[:300]
    connection.close()


def _pages(bench: Bench, size: int) -> None:
    """The first pages, from the most recent state; each as a client asks for them."""
    connection = Connection(bench.target)
    times: list[float] = []
    cpus: list[float] = []
    for _ in range(bench.runs):
        token, pages = "", 0
        before, begin = bench.target.cpu(), time.perf_counter()
        while pages < _PAGES:
            more = f"&continue={token}" if token else ""
            request = bench.target.request("GET", f"{bench.base}/configmaps?limit={_PAGE}{more}")
            code, body = connection.roundtrip(request)
            assert code == 200, body[:300]
            pages += 1
            token = json.loads(body)["metadata"].get("continue", "")
            if not token:
                break
        times.append((time.perf_counter() - begin) / pages * 1000)
        cpus.append((bench.target.cpu() - before) / pages * 1e6)
    connection.close()
    cpu = _cpu(bench.target, cpus)
    bench.add(Row(f"page of {_PAGE} of {size:,}", statistics.median(times), "ms", _spread(times), cpu))


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
