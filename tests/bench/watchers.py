"""Receives watch streams in a process of its own, so that counting does not slow the writer down."""

from __future__ import annotations

import json
import multiprocessing
import re
import time
from typing import Any

from tests.bench.http2 import watch_http2
from tests.bench.load import Answer, Connection, Polled, Target, arrived

_STAMP = re.compile(rb'"sent":"([0-9.]+)"')


def receive(target: Target, path: str, count: int, expected: int, pipe: Any, http2: bool = False) -> None:
    """Opens ``count`` watches, each on a connection of its own, and says "ready".

    Reports once every one has ``expected`` events (or 60 s passed).
    """
    context = target.context()
    streams: list[Connection] = []
    for _ in range(count):
        if http2:
            connection: Connection = watch_http2(target, context, path)
        else:
            connection = Connection(target, context)
            connection.send(target.request("GET", path))
        streams.append(connection)
    polled = Polled(streams)
    time.sleep(1.0 + count / 2000)
    pipe.send("ready")
    total = expected * count
    seen = 0
    delays: list[float] = []
    last = time.time()
    end = last + 60
    while seen < total and time.time() < end:
        for connection in polled.ready(1):
            for data in arrived(connection):
                if not data:
                    polled.forget(connection)
                    break
                found = data.count(b'{"type":"')
                if found:
                    last = time.time()
                    seen += found
                    stamp = _STAMP.search(data)
                    if stamp and len(delays) < 200_000 and (sent := float(stamp[1])):  # not of the first state
                        delays.append(last - sent)
                if not connection.socket.pending():
                    break
    pipe.send((seen, last, sorted(delays)))
    for connection in streams:
        connection.close()


def _type(path: str) -> dict[str, str]:
    """What a custom resource's body must say, and a built-in one's need not."""
    _, api, group, version, *_ = path.split("/")
    return {"apiVersion": f"{group}/{version}", "kind": "Map"} if api == "apis" else {}


def fan_out(
    target: Target, path: str, watchers: int, writes: int, *, http2: bool = False, pause: float = 0.0
) -> dict[str, float]:
    """As ``timed_fan_out``, without the delay of each event."""
    return timed_fan_out(target, path, watchers, writes, http2=http2, pause=pause)[0]


def timed_fan_out(
    target: Target, path: str, watchers: int, writes: int, *, http2: bool = False, pause: float = 0.0
) -> tuple[dict[str, float], list[float]]:
    """Writes ``writes`` times to an object with ``data`` under ``path`` that ``watchers`` watch, every ``pause`` seconds.

    Answers events a second, delays in milliseconds, CPU-microseconds for each event; and the delays in seconds, sorted.
    """
    writer = Connection(target)
    name = f"fan-{watchers}-{time.time_ns()}"
    body = {**_type(path), "metadata": {"name": name}, "data": {"sent": "0"}}
    assert writer.roundtrip(target.request("POST", path, json.dumps(body).encode()))[0] == 201
    here, there = multiprocessing.Pipe()
    query = f"{path}?watch=1&resourceVersion=&fieldSelector=metadata.name%3D{name}&timeoutSeconds=300"
    arguments = (target, query, watchers, writes + 1, there, http2)
    process = multiprocessing.Process(target=receive, args=arguments, daemon=True)
    process.start()
    there.close()  # so that the end of the process is seen
    assert here.recv() == "ready"
    before, begin = target.cpu(), time.time()
    url = f"{path}/{name}"
    for number in range(writes):
        if pause:
            time.sleep(max(0.0, begin + number * pause - time.time()))
        patch = json.dumps({"data": {"sent": f"{time.time():.6f}"}}).encode()
        code, _ = writer.roundtrip(target.request("PATCH", url, patch, "application/merge-patch+json"))
        assert code == 200, code
    seen, last, delays = here.recv()
    process.join(30)
    used = target.cpu() - before
    writer.close()
    events = seen - watchers  # the initial one of each
    found = {
        "events": events,
        "lost": watchers * (writes + 1) - seen,
        "rate": events / max(1e-6, last - begin),
        "cpu": used * 1e6 / max(1, events),
        "p50": delays[len(delays) // 2] * 1000 if delays else 0.0,
        "p99": delays[int(len(delays) * 0.99)] * 1000 if delays else 0.0,
    }
    return found, delays


def burst(target: Target, path: str, watchers: int, writes: int, writers: int) -> dict[str, float]:
    """``writers`` keep a write each in flight, ``writes`` in all, to objects under ``path`` that ``watchers`` watch.

    Answers events and writes a second, lost events, CPU-microseconds for each event.
    """
    part = f"burst-{time.time_ns()}"
    connections = [Connection(target) for _ in range(writers)]
    for number, connection in enumerate(connections):
        body = {"metadata": {"name": f"{part}-{number}", "labels": {"part": part}}, "data": {"sent": "0"}}
        assert connection.roundtrip(target.request("POST", path, json.dumps(body).encode()))[0] == 201
    here, there = multiprocessing.Pipe()
    query = f"{path}?watch=1&resourceVersion=&labelSelector=part%3D{part}&timeoutSeconds=300"
    process = multiprocessing.Process(
        target=receive, args=(target, query, watchers, writes + writers, there), daemon=True
    )
    process.start()
    there.close()  # so that the end of the process is seen
    assert here.recv() == "ready"
    urls = {connection: f"{path}/{part}-{number}" for number, connection in enumerate(connections)}
    left = writes

    def send(connection: Connection) -> None:
        nonlocal left
        left -= 1
        patch = b'{"data":{"sent":"%.6f"}}' % time.time()
        connection.send(target.request("PATCH", urls[connection], patch, "application/merge-patch+json"))

    before, begin = target.cpu(), time.time()
    polled = Polled(connections)
    for connection in connections:
        send(connection)
    running = writers
    while running:
        for connection in polled.ready(30):
            for data in arrived(connection):
                assert data, "the server closed the connection"
                if not connection.answer.feed(data):
                    continue
                assert connection.answer.status == 200, connection.answer.status
                connection.answer = Answer()
                if left > 0:
                    send(connection)
                else:
                    running -= 1
                break
    written = time.time() - begin
    seen, last, _ = here.recv()
    process.join(30)
    used = target.cpu() - before
    for connection in connections:
        connection.close()
    events = seen - watchers * writers  # the initial ones
    return {
        "lost": watchers * (writes + writers) - seen,
        "rate": events / max(1e-6, last - begin),
        "writes": writes / written,
        "cpu": used * 1e6 / max(1, events),
    }
