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
_INITIAL = "&".join(
    ("watch=1", "timeoutSeconds=8", "sendInitialEvents=true", "allowWatchBookmarks=true")
    + ("resourceVersionMatch=NotOlderThan", "resourceVersion=")
)
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_UNREAD = 8  # watches whose clients read nothing
_unread: list[Connection] = []


def _initial(query: str = "", accept: str = "application/json", unread: int = 0) -> Callable[[Place], Case]:
    """A watch that begins with all objects, beside others whose clients do not read."""

    def fill(target: Target) -> None:
        _fill(target)
        while _unread:
            _unread.pop().close()
        for _ in range(unread):
            _unread.append(Connection(target))
            _unread[-1].send(request.data(target))

    request = Request("GET", f"{_MAPS}?{_INITIAL}{query}", headers={"Accept": accept})
    return lambda place: Case(request, before=[_WRITE], fill=fill)


CASES: dict[str, Callable[[Place], Case]] = {
    "100,000 objects: first list by label": _case("GET", f"{_MAPS}?labelSelector=part%3D7", _WRITE),
    "100,000 objects: list by field": _case("GET", f"{_MAPS}?fieldSelector=metadata.name%3Dm000007", _WRITE),
    "100,000 objects: page by label": _case("GET", f"{_NEVER}&limit=500", _WRITE),
    "100,000 objects: list": _case("GET", _MAPS, _WRITE),
    "100,000 objects: watch": _case("GET", f"{_MAPS}?watch=1&timeoutSeconds=3", _WRITE),
    "100,000 objects: watch by label": _case("GET", f"{_NEVER}&watch=1&timeoutSeconds=3", _WRITE),
    "100,000 objects: watch list": _initial(),
    "100,000 objects: watch list by label": _initial("&labelSelector=part%3D7"),
    "100,000 objects: watch list by no label": _initial("&labelSelector=part%3Dnone"),
    "100,000 objects: watch list by field": _initial("&fieldSelector=metadata.name%3Dm000007"),
    "100,000 objects: watch list as tables": _initial(accept=_TABLE),
    "100,000 objects: watch list of metadata": _initial(accept=_METADATA),
    "100,000 objects: watch list in protobuf": _initial(accept=_PROTOBUF),
    "100,000 objects: watch list, compressed": lambda place: Case(
        Request("GET", f"{_MAPS}?{_INITIAL}", headers={"Accept-Encoding": "gzip"}), before=[_WRITE], fill=_fill
    ),
    "100,000 objects: watch list beside unread ones": _initial(unread=_UNREAD),
    "100,000 objects: tables beside unread ones": _initial(accept=_TABLE, unread=_UNREAD),
    "100,000 objects: watch list again": _initial(),
    "100,000 objects: some deleted": _case("DELETE", f"{_MAPS}?labelSelector=part%3D8", _WRITE, settle=1.0),
    "100,000 objects: quota made": lambda place: Case(
        Request("POST", f"{_NAMESPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1"}}}),
        after=[Request("DELETE", f"{_NAMESPACE}/resourcequotas/q")], settle=5.0, fill=_fill),
    "100,000 objects: namespace deleted": _case("DELETE", _NAMESPACE, settle=60.0),
}  # fmt: skip
