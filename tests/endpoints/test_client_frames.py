"""Frames of a watch's client: pings and the close are found wherever reads cut them, the rest is skipped, whatever its size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.testing import StringTransport
from wsproto.frame_protocol import CloseReason, FrameProtocol

from kapi.endpoints.watch_form import message
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
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

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


def begun(early: bytes = b"") -> tuple[WatchSocket, Taken, Events]:
    transport, events = Taken(), Events()
    http: Any = SimpleNamespace(channel=SimpleNamespace(transport=transport, unread=lambda: early))
    socket = WatchSocket(http, b"", False, 0)
    socket.registerProducer(events, True)  # type: ignore[arg-type]  # as much of one as is needed
    return socket, transport, events


PING, PONG = bytes(CLIENT.ping(b"x")), bytes(FrameProtocol(client=False, extensions=[]).pong(b"x"))


def closed(reason: CloseReason) -> bytes:
    return bytes(FrameProtocol(client=False, extensions=[]).close(reason))


@pytest.mark.parametrize(
    ("received", "sent", "ended"),
    [
        ([PING], PONG, False), ([PING[:3], PING[3:]], PONG, False), ([b"\x81\x81\0\0\0\0x"], b"", False),
        ([bytes(CLIENT.close(CloseReason.NORMAL_CLOSURE)), PING], closed(CloseReason.NORMAL_CLOSURE), True),
        ([b"\x81\x01x", PING], closed(CloseReason.PROTOCOL_ERROR), True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("early", [False, True])
def test_pings_are_answered_and_a_close_ends_the_watch(
    received: list[bytes], sent: bytes, ended: bool, early: bool
) -> None:
    """Also those that came before the watch began."""
    socket, transport, events = begun(received[0] if early else b"")
    for data in received[early:]:
        socket.dataReceived(data)
    assert (transport.value(), transport.disconnecting, events.stopped) == (sent, ended, int(ended))
    socket.write(b"{}")
    assert (transport.value() == sent) is ended
    assert (transport.producer is None) is ended


def test_while_the_client_does_not_read_nothing_is_read_from_it() -> None:
    socket, transport, events = begun()
    assert transport.producerState == "producing"
    socket.pauseProducing()
    assert (transport.producerState, events.told) == ("paused", ["pause"])
    socket.resumeProducing()
    assert (transport.producerState, events.told) == ("producing", ["pause", "resume"])
    socket.stopProducing()
    assert events.stopped == 1
    socket.unregisterProducer()
    for call in (socket.pauseProducing, socket.resumeProducing, socket.stopProducing):
        call()
    assert (events.told, events.stopped, transport.producer) == (["pause", "resume"], 1, None)


@pytest.mark.parametrize(("server", "reason"), [(False, CloseReason.NORMAL_CLOSURE), (True, CloseReason.GOING_AWAY)])
def test_the_end_of_a_watch_is_told_once(server: bool, reason: CloseReason) -> None:
    """A server that ends stops the watch, too."""
    socket, transport, events = begun()
    for call in (socket.close_when_idle if server else socket.finish, socket.finish):
        call()
    assert (transport.value(), transport.disconnecting, events.stopped) == (closed(reason), True, int(server))


@pytest.mark.parametrize("size", [1, 125, 126, 127, 65_535, 65_536, 70_000])
@pytest.mark.parametrize("binary", [False, True])
def test_a_message_of_any_size_is_read_by_another_s_parser(size: int, binary: bool) -> None:
    data = b"x" * size
    reader = FrameProtocol(client=True, extensions=[])
    for head in (0, 1):
        reader.receive_bytes(message(b"h" * head + data, binary, head))
        [frame] = reader.received_frames()
        payload = frame.payload if binary else frame.payload.encode()
        assert (frame.opcode.value, payload, frame.message_finished) == (2 if binary else 1, data, True)
    assert message(b"", binary) == b""
