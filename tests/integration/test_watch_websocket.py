"""Watches over a WebSocket, as the Java client makes them, with a WebSocket library as the client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess, connect
from tests.waiting import until

websocket = pytest.importorskip("websocket")

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"  # nobody else watches them
ORIGIN = "https://client.example"


def ask(server: ServerProcess, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = connect(server)
    try:
        text = json.dumps(body) if body is not None else None
        connection.request(method, path, text, {"Authorization": "Bearer admintoken", **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def opened(server: ServerProcess, query: str, path: str = CONFIGMAPS, **options: Any) -> Any:
    return websocket.create_connection(
        server.url.replace("https", "wss") + path + query,
        header=["Authorization: Bearer admintoken"], origin=options.pop("origin", ORIGIN),
        sslopt={"ca_certs": str(server.authority)}, timeout=120, **options,
    )  # fmt: skip


@pytest.fixture
def labelled(server: ServerProcess) -> Iterator[str]:
    yield f"w{uuid.uuid4().hex[:8]}"


def create(server: ServerProcess, name: str, text: str = "") -> Any:
    body = {"metadata": {"name": name, "labels": {"suite": name[:9]}}, "data": {"text": text}}
    status, made = ask(server, "POST", CONFIGMAPS, body, **{"Content-Type": "application/json"})
    assert status == 201, made
    return made


def test_each_event_is_a_message(server: ServerProcess, labelled: str) -> None:
    first = create(server, f"{labelled}-0", "a\u2028b")
    socket = opened(server, f"?watch=true&labelSelector=suite%3D{labelled}")
    event = json.loads(socket.recv())
    assert (event["type"], event["object"]["metadata"]["uid"]) == ("ADDED", first["metadata"]["uid"])
    assert event["object"]["data"] == {"text": "a\u2028b"}
    for number in range(1, 4):
        create(server, f"{labelled}-{number}", "x" * 100_000)
    names = [json.loads(socket.recv())["object"]["metadata"]["name"] for _ in range(3)]
    assert names == [f"{labelled}-{number}" for number in range(1, 4)]
    socket.ping("still there?")
    assert socket.recv_data_frame(control_frame=True)[0] == websocket.ABNF.OPCODE_PONG
    socket.close()


@pytest.mark.parametrize("size", [50, 200, 70_000, 300_000])
def test_a_message_has_the_length_of_its_event(server: ServerProcess, labelled: str, size: int) -> None:
    """The length takes one, three or nine bytes, and large objects are sent as they are stored."""
    socket = opened(server, f"?watch=true&resourceVersion=0&labelSelector=suite%3D{labelled}")
    for number in range(2):
        create(server, f"{labelled}-{number}", "x" * size)
    for number in range(2):
        event = json.loads(socket.recv())
        assert (event["object"]["metadata"]["name"], len(event["object"]["data"]["text"])) == (
            f"{labelled}-{number}",
            size,
        )
    socket.close()


def test_protobuf_comes_in_binary_messages_without_a_length(server: ServerProcess, labelled: str) -> None:
    host, _, port = server.url.removeprefix("https://").partition(":")
    socket = websocket.create_connection(
        f"wss://{host}:{port}{CONFIGMAPS}?watch=true&resourceVersion=0&labelSelector=suite%3D{labelled}",
        header=["Authorization: Bearer admintoken", "Accept: application/vnd.kubernetes.protobuf;stream=watch"],
        origin=ORIGIN, sslopt={"ca_certs": str(server.authority)}, timeout=120,
    )  # fmt: skip
    create(server, f"{labelled}-0", "text")
    opcode, data = socket.recv_data()
    assert opcode == websocket.ABNF.OPCODE_BINARY
    assert data.startswith(b"\x0a\x05ADDED\x12") and labelled.encode() in data
    socket.close()


def test_the_time_limit_closes_it(server: ServerProcess, labelled: str) -> None:
    socket = opened(server, f"?watch=true&timeoutSeconds=1&labelSelector=suite%3D{labelled}")
    opcode, data = socket.recv_data(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_CLOSE and data[:2] == (1000).to_bytes(2, "big")
    socket.shutdown()


def test_a_client_that_closes_is_not_watched_for(server: ServerProcess, labelled: str) -> None:
    def watching() -> float:
        connection = connect(server)
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer admintoken"})
        text = connection.getresponse().read().decode()
        connection.close()
        lines = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if 'resource="podtemplates"' in line and "WATCH" in line
        )

    assert watching() == 0
    socket = opened(server, "?watch=true", TEMPLATES)
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": labelled}, "template": pod}
    assert ask(server, "POST", TEMPLATES, body, **{"Content-Type": "application/json"})[0] == 201
    assert json.loads(socket.recv())["type"] == "ADDED"
    assert watching() == 1
    socket.close()
    until(lambda: watching() == 0)


def test_what_is_wrong_with_the_watch_is_an_ordinary_answer(server: ServerProcess) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException) as caught:
        opened(server, "?watch=true&labelSelector=%21%21")
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"Origin": ""}, 403), ({"Sec-WebSocket-Version": "8"}, 400), ({"Sec-WebSocket-Key": ""}, 400)],
)
def test_a_handshake_that_is_none_is_refused(server: ServerProcess, changed: dict[str, str], code: int) -> None:
    headers = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Origin": ORIGIN, "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **changed,
    }  # fmt: skip
    status, answer = ask(server, "GET", f"{CONFIGMAPS}?watch=true", **{k: v for k, v in headers.items() if v})
    assert (status, answer["kind"]) == (code, "Status")
