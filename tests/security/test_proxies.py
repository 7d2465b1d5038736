"""Proxies to nodes, pods and services do not lead back to this machine (class 10), and follow no redirect (class 8)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.attacker import MERGE, Attacker
from tests.security.backends import Backend, http

LOCAL = [
    "127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "2002:7f00:1::1",
    "64:ff9b::7f00:1",
    "0.0.0.0",
    "::",
    "127.1",
    "localhost",
    "0x7f.1",
]


@pytest.fixture
def node(admin: Attacker) -> Iterator[str]:
    admin.create("/api/v1/nodes", {"metadata": {"name": "victim"}})
    yield "/api/v1/nodes/victim"
    admin.ask("DELETE", "/api/v1/nodes/victim")


def place(admin: Attacker, node: str, kind: str, address: str, port: int) -> None:
    status = {"addresses": [{"type": kind, "address": address}], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    answer = admin.ask("PATCH", f"{node}/status", {"status": status}, MERGE)
    assert answer.status == 200, answer


@pytest.mark.parametrize("address", LOCAL)
def test_a_node_does_not_lead_here(admin: Attacker, node: str, address: str) -> None:
    """CVE-2020-8562, CVE-2022-3294: in whatever notation, with and without a port."""
    with Backend(lambda head, body: http(b"reached")) as backend:
        place(admin, node, "Hostname" if address[0] == "l" else "InternalIP", address, backend.port)
        for name in ("victim", f"victim:{backend.port}", f"https:victim:{backend.port}"):
            for headers in ({}, {"Connection": "Upgrade", "Upgrade": "x"}):
                answer = admin.ask("GET", f"/api/v1/nodes/{name}/proxy/x", headers=headers)
                wanted = "lookup 127.1: no such host" if address == "127.1" else "address not allowed"
                assert (answer.status, answer.message) == (400, wanted), answer
        assert backend.connections == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "64:ff9b::7f00:1", "::1", "fe80::1"])
def test_a_pod_does_not_lead_here(admin: Attacker, namespace: str, address: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    admin.create(f"{base}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    assert admin.ask("PATCH", f"{base}/pods/p/status", status, MERGE).status == 200
    with Backend(lambda head, body: http(b"reached")) as backend:
        for name in (f"p:{backend.port}", f"https:p:{backend.port}"):
            answer = admin.ask("GET", f"{base}/pods/{name}/proxy/x")
            assert (answer.status, answer.message) == (400, "address not allowed"), answer
        assert backend.connections == []


def test_a_kubelet_that_redirects_is_not_followed(admin: Attacker, node: str, namespace: str) -> None:
    """CVE-2020-8559: an upgrade is the kubelet's own 101, or none."""
    base = f"/api/v1/namespaces/{namespace}"
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "victim"}
    admin.create(f"{base}/pods", {"metadata": {"name": "p"}, "spec": spec})
    with Backend(lambda head, body: http(b"inner")) as inner:
        location = b"Location: https://127.0.0.1:%d/inner" % inner.port
        with Backend(lambda head, body: http(b"", b"302 Found", b"text/plain", location)) as kubelet:
            place(admin, node, "InternalIP", "127.0.0.1", kubelet.port)
            for path in ("exec?command=sh&stdout=1", "attach?stdout=1", "portforward", "log"):
                upgrade = {} if path == "log" else {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
                answer = admin.ask("GET" if path == "log" else "POST", f"{base}/pods/p/{path}", headers=upgrade)
                assert answer.status == 500, answer
                assert "Location" not in answer.headers
            assert len(kubelet.requests) == 4
            assert inner.connections == []
            assert not any(b"admintoken" in head for head, _ in kubelet.requests)


@pytest.mark.parametrize(
    "status", [b"200 OK", b"101 Switching Protocols", b"403 Forbidden", b"404 Not Found", b"500 Oops"]
)
def test_a_kubelet_that_does_not_upgrade_leaves_no_tunnel(
    admin: Attacker, node: str, namespace: str, status: bytes
) -> None:
    """CVE-2018-1002105: what follows on the client's connection must not reach the kubelet, as which the server is trusted."""
    base = f"/api/v1/namespaces/{namespace}"
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "victim"}
    admin.create(f"{base}/pods", {"metadata": {"name": "p"}, "spec": spec})
    smuggled = b"POST /run/kube-system/other/c HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    websocket = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                 "Sec-WebSocket-Protocol: v4.channel.k8s.io")  # fmt: skip
    answer = http(b"no", status, b"text/plain").replace(b"Connection: close", b"Connection: keep-alive")
    with Backend(lambda head, body: answer) as kubelet:
        place(admin, node, "InternalIP", "127.0.0.1", kubelet.port)
        for path in ("exec?command=sh&stdout=1", "attach?stdout=1", "portforward"):
            for method, headers in (("POST", ("Upgrade: SPDY/3.1",)), ("GET", websocket)):
                head = admin.head(f"{base}/pods/p/{path}", "Connection: Upgrade", *headers, method=method)
                received = admin.raw(head + smuggled)
                first = received.partition(b"\r\n")[0]
                assert status.startswith(b"101") or not first.startswith(b"HTTP/1.1 101"), (path, received)
                assert received.count(b"HTTP/1.1 ") == 1, (path, received)
        if not status.startswith(b"101"):
            assert not any(b"/run/" in head + body for head, body in kubelet.requests)
