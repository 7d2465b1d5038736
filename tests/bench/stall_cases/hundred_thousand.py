"""Requests that look at each of 100,000 small objects: lists, selections, watches, collections.

The objects are made by the first case that runs, and stay for the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.bench.load import Connection, Target
from tests.bench.stall_cases.case import Case, Place, Request

_COUNT = 100_000
_CONNECTIONS = 16
_PARTS = 100  # labels tell so many parts apart
_NAMESPACE = "/api/v1/namespaces/hundred-thousand"
_MAPS = f"{_NAMESPACE}/configmaps"


def _fill(target: Target) -> None:
    connections = [Connection(target) for _ in range(_CONNECTIONS)]
    first = connections[0]
    first.roundtrip(target.request("POST", "/api/v1/namespaces", b'{"metadata":{"name":"hundred-thousand"}}'))
    if first.roundtrip(target.request("GET", f"{_MAPS}/m{_COUNT - 1:06}"))[0] != 200:
        for start in range(0, _COUNT, _CONNECTIONS):
            for number, connection in enumerate(connections, start):
                connection.send(target.request("POST", _MAPS, _map(number)))
            for connection in connections:
                code, answer = connection.receive()
                assert code in (201, 409), answer
    for connection in connections:
        connection.close()


def _map(number: int) -> bytes:
    metadata = {"name": f"m{number:06}", "labels": {"part": str(number % _PARTS)}}
    return json.dumps({"metadata": metadata, "data": {"value": "x" * 200}}).encode()


def _case(method: str, path: str, *before: Request, settle: float = 0.0) -> Callable[[Place], Case]:
    return lambda place: Case(Request(method, path), before=list(before), settle=settle, fill=_fill)


#: so that no list that was gathered before is there
_WRITE = Request("PATCH", f"{_MAPS}/m000001", {"data": {"value": "y"}}, "application/merge-patch+json")
_NEVER = f"{_MAPS}?labelSelector=part%3Dnone"
CASES: dict[str, Callable[[Place], Case]] = {
    "100,000 objects: first list by label": _case("GET", f"{_MAPS}?labelSelector=part%3D7", _WRITE),
    "100,000 objects: list by field": _case("GET", f"{_MAPS}?fieldSelector=metadata.name%3Dm000007", _WRITE),
    "100,000 objects: page by label": _case("GET", f"{_NEVER}&limit=500", _WRITE),
    "100,000 objects: list": _case("GET", _MAPS, _WRITE),
    "100,000 objects: watch": _case("GET", f"{_MAPS}?watch=1&timeoutSeconds=3", _WRITE),
    "100,000 objects: watch by label": _case("GET", f"{_NEVER}&watch=1&timeoutSeconds=3", _WRITE),
    "100,000 objects: some deleted": _case("DELETE", f"{_MAPS}?labelSelector=part%3D8", _WRITE, settle=1.0),
    "100,000 objects: quota made": lambda place: Case(
        Request("POST", f"{_NAMESPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1"}}}),
        after=[Request("DELETE", f"{_NAMESPACE}/resourcequotas/q")], settle=5.0, fill=_fill),
    "100,000 objects: namespace deleted": _case("DELETE", _NAMESPACE, settle=60.0),
}  # fmt: skip
