"""Bursts of OpenAPI documents for ``--only memory``: the reads of one client, beside none and beside many definitions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import cycle, islice

from tests.bench.definitions import definition
from tests.bench.load import Connection, Target
from tests.bench.memory_clients import ask, body

DEFINITIONS = 1557  # their document of v2 has 80 MB
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JSON = b"Accept: application/json"
_FORMS = {
    version: (
        _JSON,
        _JSON + b"\r\nAccept-Encoding: gzip",
        b"Accept: application/com.github.proto-openapi.spec.%b@v1.0+protobuf" % version.encode(),
        b"Accept: application/com.github.proto-openapi.spec.%b@v1.0+protobuf\r\nAccept-Encoding: gzip"
        % version.encode(),
    )
    for version in ("v2", "v3")
}


def read_v2(target: Target) -> None:
    """Reads the document of v2, as JSON."""
    connection = Connection(target)
    connection.socket.settimeout(300)
    status, _ = connection.roundtrip(target.request("GET", "/openapi/v2"))
    connection.close()
    assert status == 200


def read_large_v2(target: Target, count: int, turn: int) -> None:
    """As ``read_v2``; the small burst is left out, since it would read the same document."""
    if turn:
        read_v2(target)


def read_all(target: Target, count: int, turn: int) -> None:
    """Reads so many documents of both versions, in all forms; each is read equally often."""
    found = ask(target, islice(cycle(list(_requests(target))), count))
    assert found == {200: count}, found


def _requests(target: Target) -> Iterator[bytes]:
    connection = Connection(target)
    _, answer = connection.roundtrip(target.request("GET", "/openapi/v3"))
    connection.close()
    places = [("v2", "/openapi/v2"), *(("v3", f"/openapi/v3/{key}") for key in json.loads(answer)["paths"])]
    for version, path in places:
        for form in _FORMS[version]:
            yield target.request("GET", path).replace(_JSON, form, 1)


def define(target: Target, count: int, turn: int = 0) -> list[str]:
    """Creates definitions in groups of their own, and returns their names when the last one is served."""
    made = [definition(f"group{turn}-{number}.bench.example.com", number) for number in range(count)]
    found = ask(target, (target.request("POST", _CRDS, body(**one)) for one in made), 4)
    assert found == {201: count}, found
    for one in (made[0], made[-1]):
        names = one["spec"]["names"]
        served = target.request("GET", f"/apis/{one['spec']['group']}/v1/{names['plural']}")
        while ask(target, [served], 1) != {200: 1}:
            time.sleep(0.1)
    return [one["metadata"]["name"] for one in made]


def beside_definitions(target: Target) -> None:
    """Reads the document while it is small, so that what is loaded with its first use is not counted; then makes it large."""
    read_v2(target)
    define(target, DEFINITIONS)


def defined_and_read(target: Target, count: int, turn: int) -> None:
    """Definitions that are created, documented and deleted."""
    names = define(target, count, turn)
    read_v2(target)
    ask(target, (target.request("DELETE", f"{_CRDS}/{name}") for name in names), 4)
    while _exist(target):
        time.sleep(0.5)


def _exist(target: Target) -> bool:
    connection = Connection(target)
    _, answer = connection.roundtrip(target.request("GET", f"{_CRDS}?limit=1"))
    connection.close()
    return bool(json.loads(answer)["items"])
