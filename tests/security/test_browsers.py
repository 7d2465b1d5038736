"""A page of somebody else, in the browser of a user with a client certificate (cross-site request forgery)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.integration.server_process import ForkedServer
from tests.security.attacker import JSON, Attacker
from tests.security.backends import Backend, http
from tests.security.test_aggregated_servers import APISERVICES, RESOURCES, SERVICES, condition, register
from tests.waiting import until

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


def available(attacker: Attacker, name: str) -> bool:
    return bool(condition(attacker, name).get("status") == "True")


def test_a_page_of_another_server_is_not_of_this_origin(
    shown: ForkedServer, browser: Attacker, admin: Attacker
) -> None:
    """Else a script of a pod or of an extension server acts as the user, and reads the token that the console keeps."""

    def speak(head: bytes, body: bytes) -> bytes:
        if b"/apis/pages.example.com/v1/page" in head:
            return http(b"<script>", b"200 OK", b"text/html", b"Content-Security-Policy: img-src 'none'")
        return http(RESOURCES)

    policies = []
    with Backend(speak) as backend:
        for attacker in (browser, admin):
            name = register(attacker, "pages.example.com", backend.port)
            until(partial(available, attacker, name))
            received = first(attacker, attacker.head("/apis/pages.example.com/v1/page"))
            lines = received.lower().partition(b"\r\n\r\n")[0].split(b"\r\n")
            policies.append(
                [line.partition(b": ")[2] for line in lines if line.startswith(b"content-security-policy:")]
            )
            attacker.ask("DELETE", f"{APISERVICES}/{name}")
            attacker.ask("DELETE", f"{SERVICES}/pages")
    assert policies[1] == [b"img-src 'none'"], "without the console an answer is as upstream's"
    own, sandbox = policies[0]
    assert own == b"img-src 'none'" and sandbox.startswith(b"sandbox ")
    assert b"allow-scripts" in sandbox and b"allow-same-origin" not in sandbox
    page = browser.ask("GET", "/kapi/console/")
    assert page.status == 200 and "sandbox" not in page.headers["Content-Security-Policy"]


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
