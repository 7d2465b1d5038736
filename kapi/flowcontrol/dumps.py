"""The state of levels, queues and requests as text tables (upstream: ``util/flowcontrol/apf_controller_debug.go``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.fair_queues import CANCELLED, TIME_OUT
from kapi.flowcontrol.level import PriorityLevel
from kapi.flowcontrol.queue import Queue, Request
from kapi.machinery.gvk import GroupVersion

_MAX_UNUSED_ROWS = 4096  # queues of a level
_MIN_COLUMN_WIDTH = 8  # characters of a column
_LEVELS = (
    "PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
    "DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests",
)  # fmt: skip
_QUEUES = (
    "PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR",
    "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum",
)  # fmt: skip
_REQUESTS = (
    "PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
    "InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime",
)  # fmt: skip
_DETAILS = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")


def dump_levels(controller: FlowController) -> str:
    """One row for each priority level."""
    return _table(_LEVELS, (_level_row(level, controller) for level in _levels(controller)))


def dump_queues(controller: FlowController) -> str:
    """One row for each queue; for a level with very many queues only the queues that were used."""
    return _table(_QUEUES, (row for level in _levels(controller) for row in _queue_rows(level)))


def dump_requests(controller: FlowController, wall: Callable[[float], float], details: bool) -> str:
    """One row for each request; ``wall`` converts reactor seconds to unix seconds."""
    heads = (*_REQUESTS, *_DETAILS) if details else _REQUESTS
    rows = (row for level in _levels(controller) for row in _request_rows(level, wall, details))
    return _table(heads, rows)


def _levels(controller: FlowController) -> list[PriorityLevel]:
    return [controller.levels[name] for name in sorted(controller.levels)]


def _level_row(level: PriorityLevel, controller: FlowController) -> tuple[object, ...]:
    queues, meter = level.queues, controller.meter
    rejected = {TIME_OUT: 0.0, CANCELLED: 0.0, "": 0.0}
    for (name, _, reason), count in meter.rejections.items():
        if name == level.name:
            rejected[reason if reason in rejected else ""] += count
    dispatched = sum(count for (name, _), count in meter.dispatches.items() if name == level.name)
    return (
        level.name,
        sum(1 for queue in queues.queues.values() if queue.requests),
        str(queues.idle).lower(),
        str(level.quiescing).lower(),
        queues.waiting,
        queues.executing,
        int(dispatched),
        int(rejected[""]),
        int(rejected[TIME_OUT]),
        int(rejected[CANCELLED]),
    )


def _queue_rows(level: PriorityLevel) -> Iterator[tuple[object, ...]]:
    queues, unused = level.queues.queues, Queue()
    for index in range(level.queues.count) if level.queues.count <= _MAX_UNUSED_ROWS else sorted(queues):
        queue = queues.get(index, unused)
        running = [request for request in level.queues.running if request.queue is queue]
        yield (
            level.name,
            index,
            len(queue.requests),
            queue.executing,
            sum(request.max_seats for request in running),
            _seat_seconds(queue.served),
            sum(request.initial_seats for request in queue.requests),
            queue.waiting_seats,
            _seat_seconds(sum(request.final_seats * request.additional_latency for request in queue.requests)),
        )


def _request_rows(level: PriorityLevel, wall: Callable[[float], float], details: bool) -> Iterator[tuple[object, ...]]:
    places: list[tuple[int, int, Request]] = []
    queues = level.queues.queues
    numbers = {id(queue): index for index, queue in queues.items()}
    for index, queue in sorted(queues.items()):
        places += [(index, position, request) for position, request in enumerate(queue.requests)]
    running = sorted(level.queues.running, key=lambda request: request.started)
    places += [(numbers.get(id(request.queue), -1), -1, request) for request in running]
    for index, position, request in places:
        row = (
            level.name,
            request.schema,
            index,
            position,
            request.distinguisher,
            _time(wall(request.arrived)),
            request.initial_seats,
            request.final_seats,
            _milliseconds(request.additional_latency),
            _time(wall(request.started)) if position < 0 else _NEVER,
        )
        yield (*row, *_details(request)) if details else row


def _details(request: Request) -> tuple[str, ...]:
    user, info = request.user, request.info
    if user is None or info is None:
        return ("",) * len(_DETAILS)
    version = str(GroupVersion(info.group, info.version))
    return (user.name, info.verb, info.path, info.namespace, info.name, version, info.resource, info.subresource)


_NEVER = "0001-01-01T00:00:00Z"


def _time(seconds: float) -> str:
    """RFC 3339 in UTC, without trailing zeros."""
    whole = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")
    part = f"{seconds % 1:.9f}"[1:].rstrip("0").rstrip(".")
    return f"{whole}{part}Z"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if seconds else "0s"


def _seat_seconds(work: float) -> str:
    return f"{work:.8f}ss"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """A table with columns as wide as their widest cell, each except the last followed by a comma."""
    lines = [[str(cell) for cell in row] for row in (heads, *rows)]
    cells = [[f"{cell}," for cell in line[:-1]] + line[-1:] for line in lines]
    widths = [max(_MIN_COLUMN_WIDTH, 1 + max(len(line[column]) for line in cells)) for column in range(len(heads) - 1)]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)) + line[-1] + "\n"
        for line in cells
    )
