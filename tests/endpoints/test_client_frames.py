"""Frames of a watch's client: pings and the close are found wherever reads cut them, the rest is skipped, whatever its size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.testing import StringTransport
from wsproto.frame_protocol import CloseReason, FrameProtocol

from kapi.endpoints.watch_websocket import BadFrame, ClientFrames, WatchSocket
from kapi.testing.memory_api import MemoryAPI
from tests.growth.counting import lines

HANDSHAKE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Origin": "http://a", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "a2V5",
}  # fmt: skip
CLIENT = FrameProtocol(client=True, extensions=[])
contents = st.binary(max_size=300) | st.sampled_from([b"x" * 125, b"x" * 126, b"x" * 65535, b"x" * 65536])


@given(st.lists(st.tuples(st.booleans(), contents), max_size=8), st.lists(st.integers(1, 200_000), max_size=6))
def test_what_is_found_is_what_was_sent(frames: list[tuple[bool, bytes]], cuts: list[int]) -> None:
    sent = b"".join(
        bytes(CLIENT.ping(content[:125]) if is_ping else CLIENT.send_data(content, fin=True))
        for is_ping, content in frames
    )
    sent += bytes(CLIENT.close(CloseReason.NORMAL_CLOSURE))
    received = ClientFrames()
    found = [received.receive(bytes([byte])) for byte in sent[:3000]] if not cuts else []
    rest = sent[3000:] if not cuts else sent
    for cut in cuts:
        found.append(received.receive(rest[:cut]))
        rest = rest[cut:]
    found.append(received.receive(rest))
    assert received.closed
    pings = [content[:125] for is_ping, content in frames if is_ping]
    seen = [content for content in found if content is not None]
    assert set(seen) <= set(pings)
    if pings:
        assert seen[-1] == pings[-1]


@pytest.mark.parametrize(
    ("header", "value", "code", "why"),
    [
        ("Sec-WebSocket-Version", "8", 400, "missing or bad WebSocket Version"),
        ("Sec-WebSocket-Key", "", 400, "mismatch challenge/response"),
        ("Origin", "", 403, "null origin"),
        ("Sec-WebSocket-Protocol", "a, b", 400, "missing or bad WebSocket-Protocol"),
    ],
)
def test_handshakes_that_are_refused(api: MemoryAPI, header: str, value: str, code: int, why: str) -> None:
    answer = api.ask("GET", "/api/v1/configmaps?watch=1", headers={**HANDSHAKE, header: value})
    assert (answer.code, answer.json["message"]) == (code, why)


def test_a_client_whose_connection_is_not_its_own_gets_the_events_of_any_watch(api: MemoryAPI) -> None:
    """As in HTTP/2, which has no upgrade."""
    answer = api.ask("GET", "/api/v1/configmaps?watch=1&timeoutSeconds=9", headers=HANDSHAKE)
    api.ask("POST", "/api/v1/namespaces/n/configmaps", {"metadata": {"name": "a"}})
    api.turn()
    assert (answer.code, [event["type"] for event in answer.events]) == (200, ["ADDED"])


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x01x",  # not masked
        b"\xc1\x80\0\0\0\0",  # an extension that was not agreed on
        b"\x83\x80\0\0\0\0",  # an unknown opcode
        b"\x09\x80\0\0\0\0",  # a ping in parts
        b"\x89\xfe\x00\x7e\0\0\0\0",  # a ping that is too long
    ],
)
def test_what_breaks_the_protocol(data: bytes) -> None:
    with pytest.raises(BadFrame):
        ClientFrames().receive(data)


def test_thousands_of_frames_in_one_read_cost_little_each() -> None:
    for frame in (b"\x81\x80\0\0\0\0", b"\x00\x81\0\0\0\0x", b"\x89\x80\0\0\0\0"):
        assert sum(lines(lambda frame=frame: ClientFrames().receive(frame * 1000)).values()) < 20_000  # type: ignore[misc]


class Taken(StringTransport):
    """A connection that is taken over."""

    def __init__(self) -> None:
        super().__init__()
        self.wrappedProtocol = SimpleNamespace()
        self.registerProducer(self, True)


class Events:
    """The producer of the events of a watch."""

    def __init__(self) -> None:
        self.stopped = 0

    def stopProducing(self) -> None:
        self.stopped += 1


def test_a_client_that_goes_stops_its_watch() -> None:
    for begun in (False, True):
        transport, events = Taken(), Events()
        http: Any = SimpleNamespace(channel=SimpleNamespace(transport=transport, unread=lambda: b""))
        socket = WatchSocket(http, b"101", False, 0)
        if begun:
            socket.registerProducer(events, True)  # type: ignore[arg-type]  # as much of one as is needed
        socket.connectionLost()
        socket.connectionLost()
        socket.write(b"{}")
        assert (events.stopped, transport.value()) == (begun, b"101")
