"""A page of somebody else, in the browser of a user with a client certificate (cross-site request forgery)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.server_process import ForkedServer
from tests.security.attacker import JSON, Attacker

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{MAPS}?watch=1&timeoutSeconds=1"
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
EVIL = "https://evil.example.com"


@pytest.fixture(scope="module")
def shown() -> Iterator[ForkedServer]:
    server = ForkedServer("--enable-console", "--cors-allowed-origins=^https://friend\\.example\\.com$").start()
    yield server
    assert server.stop() == 0


@pytest.fixture
def browser(shown: ForkedServer) -> Attacker:
    """Has the administrator's certificate, and shows it to whom it is connected."""
    attacker = Attacker(shown)
    attacker.context.load_cert_chain(shown.data / "pki" / "admin.crt", shown.data / "pki" / "admin.key")
    return attacker


def first(browser: Attacker, head: bytes) -> bytes:
    """The beginning of the answer; the connection may stay."""
    with browser.connect() as connection:
        connection.sendall(head)
        return connection.recv(65536)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": EVIL}, {"Sec-Fetch-Site": "same-site"}, {"Origin": EVIL}, {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [JSON, "text/plain", ""])
def test_a_page_of_another_origin_does_not_write(browser: Attacker, headers: dict[str, str], kind: str) -> None:
    """Without a content type, a body is JSON; a page may send this without asking first."""
    body = b'{"metadata": {"name": "forged"}}'
    for method, path in (("POST", MAPS), ("PUT", f"{MAPS}/forged"), ("DELETE", MAPS), ("PATCH", f"{MAPS}/forged")):
        answer = browser.ask(method, path, body, kind, headers=headers)
        assert answer.status == 403, (method, answer)
        assert "other origins" in answer.message
    assert browser.ask("GET", f"{MAPS}/forged").status == 404


@pytest.mark.parametrize(
    "headers", [("Sec-Fetch-Site: cross-site", f"Origin: {EVIL}"), (f"Origin: {EVIL}",), ("Origin: null",)]
)
def test_a_page_of_another_origin_does_not_watch(browser: Attacker, headers: tuple[str, ...]) -> None:
    """Any page may read a WebSocket."""
    received = first(browser, browser.head(WATCH, *WEBSOCKET, *headers))
    assert received.startswith(b"HTTP/1.1 403 ") and b"other origins" in received


def test_others_do(shown: ForkedServer, browser: Attacker) -> None:
    own = f"https://{browser.host}:{browser.port}"
    for number, headers in enumerate(
        (
            {}, {"Sec-Fetch-Site": "same-origin", "Origin": own}, {"Origin": own}, {"Sec-Fetch-Site": "none"},
            {"Origin": "https://friend.example.com", "Sec-Fetch-Site": "cross-site"},
        )
    ):  # fmt: skip
        browser.create(MAPS, {"metadata": {"name": f"own-{number}"}}, headers=headers)
    forged = {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}
    Attacker(shown, "admintoken").create(MAPS, {"metadata": {"name": "by-token"}}, headers=forged)
    assert browser.ask("GET", MAPS, headers=forged).status == 200  # which the page cannot read
    received = first(browser, browser.head(WATCH, *WEBSOCKET, f"Origin: {own}"))
    assert received.startswith(b"HTTP/1.1 101 "), received
