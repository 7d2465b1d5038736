"""Pods, services and nodes reached through the server: what is passed on, and where it may lead."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.error import DNSLookupError

from kapi.endpoints.componentstatuses import probe_https
from kapi.endpoints.connect import proxy
from kapi.endpoints.connect.proxy import check_address, split_name
from kapi.filters.chain import FilterChain
from kapi.filters.cross_origin import cross_origin
from kapi.machinery.status import StatusError
from kapi.wire import dial as dialer
from tests.endpoints.connect.kubelet_case import (
    OK,
    PODS,
    SERVICES,
    UPGRADE,
    ConnectCase,
)

SANDBOX = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"


class ProxyTests(ConnectCase):
    @inlineCallbacks
    def test_a_node_on_this_machine_is_not_reached(self) -> Any:
        for path in ("node/proxy/x", "node:80/proxy/x"):
            request = yield self.ask("GET", f"/api/v1/nodes/{path}")
            self.assertEqual((request.code, request.json["message"]), (400, "address not allowed"))
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_what_a_backend_learns_and_tells(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        dropped = [f"access-control-allow-{name}" for name in ("credentials", "headers", "methods", "origin")]
        dropped += ["keep-alive", "proxy-authenticate", "te", "trailer", "upgrade"]
        told = "".join(f"{name}: x\r\n" for name in (*dropped, "x-own")).encode()
        answer = OK.replace(b"\r\n", b"\r\n" + told, 1)
        headers = {"Host": "api.example", "X-Forwarded-For": "1.2.3.4"}
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/a/b?q=1", headers, answer)
        self.assertEqual((request.code, request.written), (200, b"hello"))
        self.assertEqual(request.header("x-own"), "x")
        self.assertEqual([request.header(name) for name in dropped], [""] * len(dropped))
        head = self.factory.received.lower()
        self.assertIn(b"\r\nhost: api.example\r\n", head)
        self.assertIn(b"\r\nx-forwarded-uri: /api/v1/nodes/node/proxy/a/b\r\n", head)
        self.assertIn(b"\r\nx-forwarded-for: 1.2.3.4", head)

    @inlineCallbacks
    def test_a_node_proxy_hands_redirects_to_the_client(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        found = b"HTTP/1.1 302 Found\r\nLocation: /other?x=1\r\nContent-Length: 0\r\n\r\n"
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/a%2Fb?q=1", None, found)
        self.assertEqual((request.code, request.header("location")), (302, "/api/v1/nodes/node/proxy/other?x=1"))
        self.assertTrue(self.factory.received.startswith(b"GET /a%2Fb?q=1 HTTP/1.1\r\n"))
        self.assertEqual(len(self.factory.connections), 1)

    @inlineCallbacks
    def test_a_redirect_to_elsewhere_is_not_followed(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        found = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x", None, found)
        self.assertEqual((request.code, request.header("location")), (302, "http://elsewhere.example/"))

    @inlineCallbacks
    def test_a_proxied_page_is_of_no_origin_beside_the_console(self) -> Any:
        """Its own policy stays; what it says of the whole origin does not."""
        self.patch(dialer, "is_proxyable", lambda text: True)
        dropped = ("alt-svc", "clear-site-data", "nel", "report-to", "strict-transport-security")
        own = "".join(f"{name}: 1\r\n" for name in ("x-own", *dropped)).encode()
        own += b"Content-Security-Policy: default-src 'self'\r\n"
        page = OK.replace(b"\r\n", b"\r\n" + own, 1).replace(b"text/plain", b"text/html")
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x", None, page)
        self.assertEqual(request.responseHeaders.getRawHeaders("content-security-policy"), ["default-src 'self'"])
        self.assertEqual([request.header(name) for name in dropped], ["1"] * len(dropped))
        chain = self.api.runner.chain
        self.api.runner.chain = FilterChain([cross_origin(), *chain.filters], chain.handler)
        self.factory.received = b""
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x", None, page)
        policies = request.responseHeaders.getRawHeaders("content-security-policy")
        self.assertEqual(policies, ["default-src 'self'", SANDBOX])
        self.assertEqual([request.header(name) for name in ("x-own", *dropped)], ["1", *[""] * len(dropped)])
        self.factory.received = b""
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x", UPGRADE, page.replace(b"200 OK", b"404 No"))
        self.assertEqual((request.code, request.header("content-security-policy")), (404, SANDBOX))

    @inlineCallbacks
    def test_a_proxy_without_a_path_asks_for_a_slash(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy?a=b")
        self.assertEqual((request.code, request.header("location")), (301, "/api/v1/nodes/node/proxy/?a=b"))

    @inlineCallbacks
    def test_pods_on_this_machine_are_not_reached(self) -> Any:
        patch = {"Content-Type": "application/merge-patch+json"}
        for address in ("127.0.0.1", "64:ff9b::7f00:1"):
            status = {"status": {"podIPs": [{"ip": address}], "podIP": address}}
            answer = self.api.ask("PATCH", f"{PODS}/p/status", json.dumps(status).encode(), headers=patch)
            self.assertEqual(answer.code, 200, answer.written)
            request = yield self.ask("GET", f"{PODS}/p:{self.port.getHost().port}/proxy/x")
            self.assertEqual((request.code, request.json["message"]), (400, "address not allowed"), address)
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_nodes_on_this_machine_are_not_reached_by_another_notation(self) -> Any:
        patch = {"Content-Type": "application/merge-patch+json"}
        here = "address not allowed"
        for address, why in (
            ("::ffff:127.0.0.1", here), ("::ffff:7f00:1", here), ("2002:7f00:1::", here), ("localhost", here),
            ("127.1", "lookup 127.1: no such host"), ("0", "lookup 0: no such host"),
        ):  # fmt: skip
            status = {"status": {"addresses": [{"type": "InternalIP", "address": address}]}}
            answer = self.api.ask("PATCH", "/api/v1/nodes/node/status", json.dumps(status).encode(), headers=patch)
            self.assertEqual(answer.code, 200, answer.written)
            for path in ("node/proxy/x", "node:80/proxy/x"):
                request = yield self.ask("GET", f"/api/v1/nodes/{path}")
                number = address in ("127.1", "0")  # an address for C's library, but no name for Go
                why = f"lookup {address}: no such host" if number else "address not allowed"
                self.assertEqual((request.code, request.json["message"]), (400, why), address)
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_a_node_whose_name_leads_elsewhere_the_second_time_is_not_reached_there(self) -> Any:
        """DNS rebinding: the address that was judged is dialled, and nobody asks again."""
        asked = []

        async def resolve(dialer: Any, host: str) -> list[str]:
            asked.append(host)
            return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

        self.patch(dialer, "is_proxyable", lambda text: text == "127.0.0.2")
        self.patch(dialer.Dialer, "resolve", resolve)
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x", None, OK)
        self.assertEqual((request.code, request.json["reason"]), (503, "ServiceUnavailable"))
        self.assertEqual((asked, self.factory.received), (["127.0.0.1"], b""))

    @inlineCallbacks
    def test_a_node_whose_name_nobody_knows(self) -> Any:
        async def resolve(dialer: Any, host: str) -> list[str]:
            raise DNSLookupError

        self.patch(dialer.Dialer, "resolve", resolve)
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x")
        self.assertEqual((request.code, request.json["message"]), (400, "lookup 127.0.0.1: no such host"))

    @inlineCallbacks
    def test_ports_are_ascii(self) -> Any:
        placed = b'{"status":{"podIPs":[{"ip":"10.1.2.3"}],"podIP":"10.1.2.3"}}'
        merge = {"Content-Type": "application/merge-patch+json"}
        self.assertEqual(self.api.ask("PATCH", f"{PODS}/p/status", placed, headers=merge).code, 200)
        for port in ("%C2%B2", "%D9%A8%D9%A0", "-1", "+80", "8_0", "0", "65536", "9999999999"):
            request = yield self.ask("GET", f"{PODS}/p:{port}/proxy/x")
            self.assertEqual((request.code, request.json["message"]), (400, f'invalid port "{unquote(port)}"'))

    @inlineCallbacks
    def test_a_component_is_asked_once_and_for_little(self) -> Any:
        port = self.port.getHost().port
        probe = probe_https(port, reactor)
        self.factory.answer = OK
        self.assertEqual((yield Deferred.fromCoroutine(probe())), (True, "hello"))
        self.factory.answer = b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        self.assertEqual((yield Deferred.fromCoroutine(probe())), (False, ""))
        self.factory.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000
        self.assertEqual((yield Deferred.fromCoroutine(probe())), (True, "x" * 1024))
        yield self.port.stopListening()
        url = f"https://127.0.0.1:{port}/healthz"
        refused = f'Get "{url}": dial tcp 127.0.0.1:{port}: connect: connection refused'
        self.assertEqual((yield Deferred.fromCoroutine(probe())), (False, refused))

    @inlineCallbacks
    def test_a_service_leads_to_its_pods_only(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        port = self.port.getHost().port
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}}
        self.api.ask("POST", SERVICES, {"kind": "Service", "apiVersion": "v1", **service})
        self.api.ask("POST", SERVICES.replace("services", "endpoints"), {"metadata": {"name": "e"}})
        for path, code, text in (
            ("s:81/proxy/", 503, 'no service port 81 found for service "s"'),
            ("t:80/proxy/", 404, 'services "t" not found'),
            ("s:80/proxy/", 404, 'services "s" not found'),
            ("e:web/proxy/", 503, 'no endpoints available for service "e"'),
            ("ftp:s:80/proxy/", 400, 'invalid service request "ftp:s:80"'),
        ):
            request = yield self.ask("GET", f"{SERVICES}/{path}")
            self.assertEqual((request.code, request.json["message"]), (code, text))
        pod = {"kind": "Pod", "name": "p", "namespace": "default"}
        subset = {"addresses": [{"ip": "10.1.2.3", "targetRef": pod}], "ports": [{"name": "web", "port": port}]}
        endpoints: dict[str, Any] = {"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "s"}}
        made = self.api.ask("POST", SERVICES.replace("services", "endpoints"), {**endpoints, "subsets": [subset]})
        self.assertEqual(made.code, 201)
        for name in ("s:80", "s:web", "https:s:web"):
            request = yield self.ask("GET", f"{SERVICES}/{name}/proxy/")
            message = f'no endpoints available for service "{name}"'
            self.assertEqual((request.code, request.json["message"]), (503, message), "the pod has no such address")
        lister = self.api.registry.environment.listers[proxy._PODS]
        merge = {"Content-Type": "application/merge-patch+json"}
        ips = b'{"status":{"podIPs":[{"ip":"10.1.2.3"}],"podIP":"10.1.2.3"}}'
        self.api.ask("PATCH", f"{PODS}/p/status", ips, headers=merge)
        address = {"ip": "10.1.2.3", "targetRef": pod}
        self.assertTrue(proxy._is_of_pod(address, "default", lister))
        self.assertFalse(proxy._is_of_pod(address, "other", lister))
        self.assertFalse(proxy._is_of_pod({"ip": "10.1.2.3"}, "default", lister))
        self.assertFalse(proxy._is_of_pod({**address, "ip": "10.1.2.4"}, "default", lister))
        # a request without a path is answered when it is known where it would lead
        for name, code in (("s:80", 301), ("s:web", 301), ("https:s:web", 301), ("s:other", 503), ("s", 503)):
            request = yield self.ask("GET", f"{SERVICES}/{name}/proxy")
            self.assertEqual(request.code, code, name)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("http", "a", "")),
        ("a:80", ("http", "a", "80")),
        ("https:a:", ("https", "a", "")),
        ("http:a:web", ("http", "a", "web")),
        (":a:1", ("http", "a", "1")),
    ],
)
def test_names_of_what_is_proxied(text: str, parts: tuple[str, str, str]) -> None:
    assert split_name(text, "pod") == parts


@pytest.mark.parametrize("text", ["", ":", "ftp:a:1", "a:b:c:d"])
def test_names_that_mean_nothing(text: str) -> None:
    with pytest.raises(StatusError):
        split_name(text, "pod")


@pytest.mark.parametrize("text", ["", "0.0.0.0", "127.0.0.1", "::1", "169.254.169.254", "fe80::1", "224.0.0.1", "name"])
def test_addresses_that_are_not_reached(text: str) -> None:
    with pytest.raises(StatusError):
        check_address(text)


@pytest.mark.parametrize(
    ("text", "scheme", "port"),
    [
        ("", "http", 80), ("", "https", 443), ("1", "https", 1), ("65535", "http", 65535), ("65536", "http", None),
        ("0", "http", None), ("-1", "http", None), ("web", "http", None), ("080", "http", 80),
    ],
)  # fmt: skip
def test_the_port_of_a_target(text: str, scheme: str, port: int | None) -> None:
    if port is not None:
        assert proxy._port(text, scheme) == port
    else:
        with pytest.raises(StatusError) as caught:
            proxy._port(text, scheme)
        assert (caught.value.code, caught.value.message) == (400, f'invalid port "{text}"')


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ({"ip": "10.0.0.1", "targetRef": {"namespace": "n", "name": "p"}}, True),
        ({"ip": "10.0.0.2", "targetRef": {"namespace": "n", "name": "p"}}, True),
        ({"ip": "10.0.0.3", "targetRef": {"namespace": "n", "name": "p"}}, False),
        ({"ip": "10.0.0.1", "targetRef": {"namespace": "m", "name": "p"}}, False),
        ({"ip": "10.0.0.1", "targetRef": {"name": "p"}}, False), ({"ip": "10.0.0.1"}, False),
        ({"ip": "10.0.0.1", "targetRef": {"namespace": "n", "name": "other"}}, False),
        ({"ip": "10.0.0.1", "targetRef": {"namespace": "n", "name": "new"}}, False),
    ],
)  # fmt: skip
def test_only_addresses_of_pods_of_the_namespace_are_reached(address: Any, known: bool) -> None:
    pods = {"p": {"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}}, "new": {"metadata": {}}}
    lister: Any = SimpleNamespace(get=lambda namespace, name: pods.get(name) if namespace == "n" else None)
    assert proxy._is_of_pod(address, "n", lister) == known


@pytest.mark.parametrize(
    ("uri", "proxied"),
    [
        (b"/api/v1/namespaces/n/pods/p/proxy", True), (b"/api/v1/namespaces/n/services/s/proxy/x", True),
        (b"/api/v1/nodes/n/proxy?x", True), (b"/clusters/c/api/v1/nodes/n/proxy", True), (b"/api/v1/nodes/n/proxyx", False),
        (b"/api/v1/namespaces/n/configmaps/c/proxy", False), (b"/api/v1/nodes/proxy", False),
        (b"/x?/api/v1/nodes/n/proxy", False),
    ],
)  # fmt: skip
def test_what_is_a_request_to_another_server(uri: bytes, proxied: bool) -> None:
    assert proxy.is_proxied(uri) == proxied
