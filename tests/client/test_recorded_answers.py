"""The client library against what a real kube-apiserver answered: the recordings of ``tests/golden``, byte for byte on a wire.

Bodies come whole or chunked, in pieces that begin and end anywhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from kapi.client.connections import Connections
from kapi.client.rest import RESTClient
from kapi.client.session import Session
from kapi.client.watching import WatchEvent
from kapi.machinery.status import StatusError

RECORDINGS = Path(__file__).parents[1] / "golden" / "recordings"
FILES = sorted(RECORDINGS.rglob("*.json"))


class Server(StringTransport):
    """Answers the next request with bytes, in pieces."""

    def __init__(self, answer: bytes, rng: random.Random) -> None:
        super().__init__()
        self.answer, self.rng = answer, rng
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        super().write(data)
        rest = self.answer
        while rest:
            size = self.rng.choice((1, 7, 100, 1000, len(rest)))
            self.protocol.dataReceived(rest[:size])
            rest = rest[size:]


def wire(answer: dict[str, Any], rng: random.Random) -> bytes:
    """The answer as a server sends it."""
    if "events" in answer:
        body = b"".join(json.dumps(event).encode() + b"\n" for event in answer["events"])
    elif isinstance(answer.get("body"), str):
        body = answer["body"].encode()
    else:
        body = json.dumps(answer["body"]).encode() if answer.get("body") is not None else b""
    head = f"HTTP/1.1 {answer['status']} Whatever\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in (answer.get("headers") or {}).items())
    if answer["status"] in (204, 304):
        return f"{head}\r\n".encode()
    if "events" in answer or rng.random() < 0.5:
        middle = len(body) // 2
        parts = [part for part in (body[:middle], body[middle:]) if part]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answers() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in FILES:
        for step in json.loads(file.read_text())["steps"]:
            if step.get("answer") and "status" in step["answer"]:
                yield f"{file.stem} {step['name']}", step


def asked(step: dict[str, Any], rng: random.Random) -> tuple[Deferred[Any], Server]:
    server = Server(wire(step["answer"], rng), rng)

    def connect(factory: Any) -> Deferred[Any]:
        server.protocol = factory.buildProtocol(None)
        server.protocol.makeConnection(server)
        return succeed(server.protocol)

    clock = Clock()
    client = RESTClient(Session(clock, Connections(clock, "http://server", connect), warnings=lambda *_: None))
    request = client.verb("GET").abs_path("/x").retries(0)
    if "events" in step["answer"]:
        return Deferred.fromCoroutine(_events(request)), server
    return Deferred.fromCoroutine(request.response()), server


async def _events(request: Any) -> list[WatchEvent]:
    return [event async for event in await request.watch()]


def result_of(done: Deferred[Any]) -> Any:
    """What it has fired with; a failure is returned as its exception."""
    found: list[Any] = []
    done.addCallbacks(found.append, lambda failure: found.append(failure.value))
    assert found, "the answer is not understood to be whole"
    return found[0]


def check(step: dict[str, Any], result: Any) -> None:
    answer = step["answer"]
    body = answer.get("body")
    if answer["status"] >= 400:
        assert isinstance(result, StatusError), result
        assert result.code == answer["status"]
        if isinstance(body, dict) and body.get("kind") == "Status":
            assert (result.reason, result.message) == (body.get("reason", ""), body.get("message", ""))
            assert (result.details or None) == (body.get("details") or None)
    elif "events" in answer:
        check_events(answer["events"], result)
    elif isinstance(body, str):
        assert result.body.decode() == body
    else:
        assert (json.loads(result.body) if result.body else None) == body


def check_events(events: list[dict[str, Any]], result: Any) -> None:
    """An ERROR ends a watch as the error that it says."""
    if events and events[-1]["type"] == "ERROR":
        assert isinstance(result, StatusError)
        assert (result.code, result.message) == (events[-1]["object"]["code"], events[-1]["object"]["message"])
    else:
        assert [event._asdict() for event in result] == events


def test_recorded_answers_are_understood() -> None:
    count = errors = streams = 0
    for number, (name, step) in enumerate(answers()):
        done, _ = asked(step, random.Random(number))
        try:
            check(step, result_of(done))
        except AssertionError as problem:
            pytest.fail(f"{name}: {problem}")
        count += 1
        errors += step["answer"]["status"] >= 400
        streams += "events" in step["answer"]
    assert (count, errors, streams) > (2000, 1000, 4)


def test_each_reason_has_its_class() -> None:
    """``except NotFound`` catches what the server calls NotFound."""
    seen = set()
    for number, (_, step) in enumerate(answers()):
        body = step["answer"].get("body")
        if step["answer"]["status"] >= 400 and isinstance(body, dict) and body.get("reason"):
            error = result_of(asked(step, random.Random(number))[0])
            seen.add(body["reason"])
            assert type(error) is not StatusError, body["reason"]
            assert type(error).reason == body["reason"]
    assert {"AlreadyExists", "BadRequest", "Conflict", "Forbidden", "Invalid", "NotFound"} <= seen
