"""``python -m tests.bench.pieces [words]``: how long the worst bodies hold the reactor in one piece, in CPU time of the thread.

The deterministic complement of ``--only stalls``: the same cases, sent to an API server in memory.  For each case: the code,
the CPU time of all its pieces in seconds, the longest piece in milliseconds, and the lines of kapi between which it lies.
Admission plugins and controllers are not there.  A case whose name contains one of the words is run.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from time import thread_time
from types import FrameType
from typing import Any

from kapi.process.slices import Slices, Suspended
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.bench.stall_cases import all_cases
from tests.bench.stall_cases.case import Case, Place, Request, compact

_LENGTH = 0.001  # seconds of a slice
_TURNS = 100_000  # of a request
_FRAMES = 3  # innermost frames that are shown


class Measured(Slices):
    """Notes each slice; a slice ends at the first checkpoint after a millisecond."""

    def __init__(self, reactor: Any) -> None:
        super().__init__(reactor, length=_LENGTH, turn=0.0)
        self.longest = 0.0  # seconds
        self.where = ""
        self._before: dict[int, str] = {}  # worker -> where it stands

    def length(self) -> float:
        return _LENGTH

    def _go(self, worker: Any, value: Any) -> Any:
        began = thread_time()
        result = super()._go(worker, value)
        used = thread_time() - began
        before = self._before.pop(id(worker), "the beginning")
        after = "the end"
        if isinstance(result, Suspended):
            after = self._before[id(worker)] = _shown(worker.gr_frame)
        if used > self.longest:
            self.longest, self.where = used, f"{before} -> {after}"
        return result


def _shown(frame: FrameType | None) -> str:
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES:
        name = frame.f_code.co_filename
        if "/kapi/" in name and not name.endswith(("/checkpoint.py", "/slices.py")):
            places.append(f"{name.rpartition('/')[2]}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(places)


class Meter:
    """An API server whose pieces are measured."""

    def __init__(self) -> None:
        self.api: MemoryAPI = succeed(MemoryAPI.started())
        self.slices = self.api.runner._slices = Measured(self.api.clock)
        self.total = self.longest = 0.0  # seconds
        self.where = ""

    def send(self, request: Request) -> MemoryRequest:
        """The answer; or what there is of it, when it is a watch or waits for somebody outside."""
        self.total = self.longest = self.slices.longest = 0.0
        self.where = self.slices.where = ""
        body = request.body if isinstance(request.body, bytes) else compact(request.body)
        headers = {name.replace("_", "-"): value for name, value in request.headers.items()}
        clock = self.api.clock
        sent = self._measure(
            "the first step",
            lambda: self.api.ask(request.method, request.path, body or None, headers=headers, type=request.kind),
        )
        for _ in range(_TURNS):
            due = [call for call in clock.calls if call.time <= clock.rightNow]
            if not due:
                break
            for call in due:
                if call.active():
                    clock.calls.remove(call)
                    call.called = 1
                    self._measure(getattr(call.func, "__qualname__", "a call"), call.func, *call.args, **call.kw)
        if self.slices.where and self.slices.longest >= 0.9 * self.longest:
            self.where = self.slices.where
        return sent

    def _measure(self, name: str, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        began = thread_time()
        result = function(*arguments, **more)
        used = thread_time() - began
        self.total += used
        if used > self.longest:
            self.longest, self.where = used, name
        return result


def _hook(kind: str, path: str, namespace: str) -> dict[str, Any]:
    """Nobody calls it."""
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {}, "webhooks": [webhook]}


def pieces(wanted: str = "") -> dict[str, float]:
    """By case the longest piece in milliseconds."""
    meter = Meter()
    place = Place("default", _hook)
    found: dict[str, float] = {}
    gc.collect()
    gc.freeze()  # as the server does: collections have their own measurements
    gc.disable()
    print(f"{'case':44} {'code':>5} {'CPU s':>7} {'piece ms':>9}", flush=True)
    for name, make in all_cases():
        if "gzip" in name or wanted and not any(word in name for word in wanted.split(",") if word):
            continue  # compression works in threads
        case: Case = make(place)
        note = ""
        for request in case.before:
            answer = meter.send(request)
            if answer.code not in request.expected:
                note = f"not prepared: {answer.code} "
        answer = meter.send(case.request)
        code = answer.code if answer.finished else 0
        found[name] = meter.longest * 1000
        print(f"{name:44} {code:5} {meter.total:7.2f} {found[name]:9.1f}  {note}{meter.where}", flush=True)
        for request in case.after:
            meter.send(request)
        gc.collect()
    return found


if __name__ == "__main__":
    pieces(sys.argv[1] if len(sys.argv) > 1 else "")
