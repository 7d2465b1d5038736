"""What bursts leave behind: the server's memory before, at its peak and some time after, and the same once and twice again.

Each burst has a server of its own, and a small one of its kind comes before, so that modules that are loaded with their first use
are not counted. Memory of the store's server is not counted. Changes are kept for five minutes or up to 128 MB, so that watches
can go back, and here for five seconds: what is left of that history would hide what is left of the burst.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.cases import Row
from tests.bench.load import resident
from tests.bench.memory_bursts import BURSTS, Burst
from tests.bench.own_server import OwnServer

TURNS = 3
_REST = 20.0  # seconds after a burst; the server looks at its memory every 5
_FLAGS = (
    "--redis-compaction-interval=5s",
    "--service-cluster-ip-range=10.96.0.0/16",
    "--enable-console",
)  # addresses for 2,000 services
_WARM_UP = 50  # a burst is so many times as large as the one before it


class Peak:
    """The most that a process has had while this is open, in MB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.most = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.05):
            self.most = max(self.most, resident(self._pid))


def memory(add: Callable[[Row], None], flags: list[str], wanted: str) -> None:
    """All bursts whose names contain one of the comma-separated texts."""
    for burst in BURSTS:
        if any(text in burst.name for text in wanted.split(",")):
            add(measure(burst, flags))


def measure(burst: Burst, flags: list[str]) -> Row:
    """MB after the first burst by before, and all figures as a note."""
    with tempfile.TemporaryDirectory(prefix="kapi-bench-") as scratch:
        own = OwnServer(Path(scratch), [*_FLAGS, *flags])
        target, _ = own.start()
        pid = target.pids[0]
        try:
            time.sleep(_REST / 2)
            idle = resident(pid)
            burst.prepare(target)
            burst.run(target, max(1, burst.count // _WARM_UP), 0)
            time.sleep(_REST)
            before = resident(pid)
            after, peaks = [], []
            for turn in range(1, TURNS + 1):
                with Peak(pid) as peak:
                    burst.run(target, burst.count, turn)
                peaks.append(peak.most)
                time.sleep(_REST)
                after.append(resident(pid))
        finally:
            own.stop()
    note = f"{idle:.0f} idle, {before:.0f} before"
    for most, rest in zip(peaks, after, strict=True):
        note += f"; {most:.0f} -> {rest:.0f}"
    return Row(f"after {burst.count} {burst.name}", max(after) / before, "x", note=f"{note} MB")
