"""Bursts of clients that do not read, of every kind of answer and stream, for ``--only memory --case unread:``.

The streams of other servers come from one that sends without end (``tests/security/flood.py``).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from tests.bench.load import Target
from tests.bench.memory_clients import MAPS, ask, body, seven_megabytes, unread
from tests.security.flood import Flood, Stream, objects

_SECONDS = 10.0  # that they stay
_MERGE = "application/merge-patch+json"


@functools.cache
def _flood() -> Flood:
    """One for all bursts, until the program ends."""
    return Flood()


def prepare(target: Target) -> None:
    seven_megabytes(target)
    for method, path, one in objects(_flood()):
        kind = _MERGE if method == "PATCH" else "application/json"
        codes = ask(target, [target.request(method, path, body(**one), kind)], 1)
        assert set(codes) <= {200, 201}, (path, codes)
    time.sleep(3)  # until the aggregated API is available


def burst(stream: Stream) -> Callable[[Target, int, int], None]:
    def run(target: Target, count: int, turn: int) -> None:
        opened = unread(target, _request(target, stream), count)
        time.sleep(_SECONDS)
        for connection in opened:
            connection.close()

    return run


def _request(target: Target, stream: Stream) -> bytes:
    lines = [
        f"{stream.method} {stream.path.replace('PORT', str(_flood().port))} HTTP/1.1",
        f"Host: {target.host}",
        f"Authorization: Bearer {target.token}",
        *stream.headers,
    ]
    sent = "{}" if "Content-Length: 2" in stream.headers else ""
    return ("\r\n".join(lines) + f"\r\n\r\n{sent}").encode()


def events(target: Target, count: int, turn: int) -> None:
    """Watches that are not read while 25 objects of 0.9 MB are made."""
    opened = unread(target, target.request("GET", f"{MAPS}?watch=1&resourceVersion=0"), count)
    names = [f"event{turn}-{number}" for number in range(25)]
    made = ({"metadata": {"name": name}, "data": {"text": name[-1] * 900_000}} for name in names)
    ask(target, (target.request("POST", MAPS, body(**one)) for one in made), 1)
    time.sleep(_SECONDS)
    for connection in opened:
        connection.close()
    ask(target, (target.request("DELETE", f"{MAPS}/{name}") for name in names))
