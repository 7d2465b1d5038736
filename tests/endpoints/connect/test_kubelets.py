"""log, exec, attach, portforward and proxy against a fake kubelet on a real socket."""

from __future__ import annotations

import datetime
import json
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from twisted.internet import reactor, ssl
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import TestCase

from kapi.client import dialer
from kapi.core.handlers import built_in_handlers
from kapi.endpoints.componentstatuses import probe_https
from kapi.endpoints.connect import proxy
from kapi.endpoints.connect.kubelet import KubeletSettings, container_of
from kapi.endpoints.connect.proxy import check_address, split_name
from kapi.endpoints.connect.transport import TLS
from kapi.machinery.status import StatusError
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


def certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem), private


class Kubelet(Protocol):
    """Answers the first request's head with the factory's answer and keeps everything it got."""

    factory: Any

    def connectionMade(self) -> None:
        self.factory.connections.append(self)

    def connectionLost(self, reason: Any = None) -> None:
        self.connected = 0

    def dataReceived(self, data: bytes) -> None:
        self.factory.received += data
        if b"\r\n\r\n" in self.factory.received and self.factory.answer:
            assert self.transport is not None
            self.transport.write(self.factory.answer)
            self.factory.answer = b""


class Owner:
    """The HTTP protocol of a client's connection, as far as a tunnel takes it over."""

    def dataReceived(self, data: bytes) -> None:
        raise AssertionError("nobody took the connection")


class Channel:
    def __init__(self) -> None:
        self.transport = StringTransport()
        self.transport.wrappedProtocol = Owner()  # type: ignore[attr-defined]
        self.transport.registerProducer(self, True)  # as twisted.web does for a request that is being answered

    def unread(self) -> bytes:
        return b"early"


class ConnectTests(TestCase):
    def setUp(self) -> None:
        self.pem, key = certificate()
        pair = ssl.PrivateCertificate.loadPEM(self.pem + key)
        self.factory: Any = Factory.forProtocol(Kubelet)
        self.factory.received, self.factory.answer, self.factory.connections = b"", b"", []
        self.port = reactor.listenSSL(0, self.factory, pair.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self._close)
        self.api: MemoryAPI = succeed(MemoryAPI.started())
        self.use(KubeletSettings())
        node = {
            "metadata": {"name": "node"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port.getHost().port}},
            },
        }
        self.api.ask("POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", **node})
        for name, node_name in (("p", "node"), ("unplaced", ""), ("lost", "gone")):
            spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "nodeName": node_name}
            pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}
            assert self.api.ask("POST", PODS, pod).code == 201

    def use(self, settings: KubeletSettings) -> None:
        self.api.table.handlers.update(built_in_handlers(self.api.registry, reactor, settings))

    @inlineCallbacks
    def _close(self) -> Any:
        for connection in self.factory.connections:
            if connection.connected:
                connection.transport.loseConnection()
        yield self.port.stopListening()
        yield self.pause()

    def pause(self, seconds: float = 0.05) -> Any:
        return deferLater(reactor, seconds)

    @inlineCallbacks
    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, answer: bytes = b"") -> Any:
        self.factory.answer = answer
        request = MemoryRequest(method, path, {"User-Agent": "tests/1", **(headers or {})})
        request.channel = Channel()  # type: ignore[attr-defined]
        done: Deferred[None] = request.notifyFinish()
        self.api.runner.serve(request)
        if not request.finished:
            yield done
        return request

    @inlineCallbacks
    def test_a_log_is_passed_on(self) -> Any:
        headers = {"Authorization": "Bearer secret"}
        request = yield self.ask("GET", f"{PODS}/p/log?tailLines=5&timestamps=true", headers, OK)
        self.assertEqual((request.code, request.written), (200, b"hello"))
        first = self.factory.received.partition(b"\r\n")[0]
        self.assertEqual(first, b"GET /containerLogs/default/p/c?tailLines=5&timestamps=true HTTP/1.1")
        self.assertNotIn(b"secret", self.factory.received)

    @inlineCallbacks
    def test_what_the_kubelet_refuses(self) -> Any:
        refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 8\r\n\r\nno such!"
        request = yield self.ask("GET", f"{PODS}/p/log", None, refusal)
        self.assertEqual((request.code, request.json["message"]), (400, "no such!"))

    @inlineCallbacks
    def test_a_long_refusal_is_cut(self) -> Any:
        refusal = b"HTTP/1.1 500 Oops\r\nContent-Length: 90000\r\n\r\n" + b"x" * 60000
        request = yield self.ask("GET", f"{PODS}/p/log", None, refusal)
        self.assertEqual((request.code, request.json["reason"]), (500, "InternalError"))
        self.assertEqual(request.json["message"], "Internal error occurred: " + "x" * 50000)

    @inlineCallbacks
    def test_refusals_are_told_as_upstream_does(self) -> Any:
        for code, text, reason, message in (
            (404, b"gone", "NotFound", "the server could not find the requested resource ( pods/log p)"),
            (403, b"no", "Forbidden", "no ( pods/log p)"),
            (
                502,
                b"a\nb",
                "InternalError",
                'an error on the server ("a\\nb") has prevented the request from succeeding',
            ),
            (418, b"tea", None, "the server responded with the status code 418 but did not return more information"),
        ):
            answer = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (code, len(text), text)
            self.factory.received = b""
            request = yield self.ask("GET", f"{PODS}/p/log", None, answer)
            self.assertEqual((request.code, request.json.get("reason")), (code, reason))
            self.assertTrue(request.json["message"].startswith(message), request.json["message"])
            self.assertEqual(request.json["details"], {"name": "p", "kind": "pods/log"})

    @inlineCallbacks
    def test_a_log_never_leads_elsewhere(self) -> Any:
        found = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        request = yield self.ask("GET", f"{PODS}/p/log", None, found)
        port = self.port.getHost().port
        message = f'Get "https://127.0.0.1:{port}/containerLogs/default/p/c": redirects forbidden'
        self.assertEqual((request.code, request.json["message"]), (500, message))

    @inlineCallbacks
    def test_logs_that_cannot_be(self) -> Any:
        for path, code, text in (
            ("p/log?container=x", 400, "container x is not valid for pod p"),
            ("p/log?tailLines=-1", 422, "tailLines: Invalid value: -1"),
            ("p/log?tailLines=many", 400, "strconv.ParseInt"),
            ("p/log?tailLines=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
            ("p/log?limitBytes=9999999999999999999", 400, "value out of range"),
            ("p/log?sinceTime=2024-13-01T00:00:00Z", 400, 'parsing time "2024-13-01T00:00:00Z": month out of range'),
            ("p/log?sinceTime=x&tailLines=y", 400, 'parsing time "x" as'),
            ("p/log?sinceTime=&sinceSeconds=1", 422, "at most one of `sinceTime` or `sinceSeconds`"),
            ("p/log?stream=", 422, "stream: Forbidden: may not be specified"),
            ("nope/log", 404, 'pods "nope" not found'),
            ("lost/log", 404, 'nodes "gone" not found'),
        ):
            request = yield self.ask("GET", f"{PODS}/{path}")
            self.assertEqual(request.code, code, path)
            self.assertIn(text, request.json["message"])
        request = yield self.ask("GET", f"{PODS}/unplaced/log")
        self.assertEqual((request.code, request.written), (204, b""))
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_a_kubelet_that_cannot_prove_itself_gets_nothing(self) -> Any:
        other, _ = certificate()
        self.use(KubeletSettings(tls=TLS(ca=other)))
        request = yield self.ask("GET", f"{PODS}/p/log", None, OK)
        self.assertEqual((request.code, self.factory.received), (500, b""))
        self.assertIn("tls: failed to verify certificate", request.json["message"])
        request = yield self.ask("GET", f"{PODS}/p/log?insecureSkipTLSVerifyBackend=true", None, OK)
        self.assertEqual((request.code, request.written), (200, b"hello"))

    @inlineCallbacks
    def test_nobody_there(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        port = self.port.getHost().port
        yield self.port.stopListening()
        refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        request = yield self.ask("GET", f"{PODS}/p/log")
        message = f'Get "https://127.0.0.1:{port}/containerLogs/default/p/c": {refused}'
        self.assertEqual((request.code, request.json["message"]), (500, message))
        request = yield self.ask("POST", f"{PODS}/p/exec?command=ls", UPGRADE)
        self.assertEqual((request.code, request.json["message"]), (500, f"error dialing backend: {refused}"))
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/x")
        self.assertEqual((request.code, request.json["reason"]), (503, "ServiceUnavailable"))
        self.assertEqual(request.json["message"], f"error trying to reach service: {refused}")

    @inlineCallbacks
    def test_exec_becomes_a_tunnel(self) -> Any:
        self.factory.answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\nhi"
        request = MemoryRequest("POST", f"{PODS}/p/exec?command=sh&command=-c&stdin=1&stdout=true", UPGRADE)
        channel = Channel()
        request.channel = channel  # type: ignore[attr-defined]
        self.api.runner.serve(request)
        while b"early" not in self.factory.received:
            yield self.pause()
        head, _, rest = self.factory.received.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"POST /exec/default/p/c?command=sh&command=-c&input=1&output=1 HTTP/1.1"))
        self.assertIn(b"\r\nUpgrade: SPDY/3.1", head)
        self.assertEqual(rest, b"early")
        self.assertTrue(channel.transport.value().startswith(b"HTTP/1.1 101 "))
        self.assertTrue(channel.transport.value().endswith(b"\r\n\r\nhi"))
        channel.transport.wrappedProtocol.dataReceived(b" and late")  # type: ignore[attr-defined]
        while not self.factory.received.endswith(b"early and late"):
            yield self.pause()
        self.factory.connections[0].transport.loseConnection()
        while not channel.transport.disconnecting:
            yield self.pause()
        channel.transport.wrappedProtocol.channel.connectionLost()  # type: ignore[attr-defined]

    @inlineCallbacks
    def test_a_kubelet_that_never_answers_is_let_go_with_the_client(self) -> Any:
        """A request to upgrade has no deadline, and a POST of one writes nothing here."""
        for method in ("GET", "POST"):
            self.factory.received = b""
            request = MemoryRequest(method, f"{PODS}/p/exec?command=sh&stdin=1", UPGRADE)
            request.channel = Channel()  # type: ignore[attr-defined]
            self.api.runner.serve(request)
            while b"/exec/" not in self.factory.received:
                yield self.pause()
            kubelet = self.factory.connections[-1]
            self.assertTrue(kubelet.connected)
            request.disconnect()
            for _ in range(100):
                if not kubelet.connected:
                    break
                yield self.pause()
            self.assertFalse(kubelet.connected, method)

    @inlineCallbacks
    def test_a_tunnel_may_have_a_limit(self) -> Any:
        self.use(KubeletSettings(tls=TLS(ca=self.pem), bytes_per_second=100))
        self.factory.answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"
        request = MemoryRequest("POST", f"{PODS}/p/exec?command=sh&stdin=1", UPGRADE)
        channel = Channel()
        request.channel = channel  # type: ignore[attr-defined]
        self.api.runner.serve(request)
        while b"early" not in self.factory.received:
            yield self.pause()
        self.assertEqual(channel.transport.producerState, "producing")
        channel.transport.wrappedProtocol.dataReceived(b"x" * 10)  # type: ignore[attr-defined]
        self.assertEqual(channel.transport.producerState, "paused")  # for a tenth of a second
        while channel.transport.producerState == "paused":
            yield self.pause()
        self.factory.connections[0].transport.write(b"y" * 1_000)
        while not channel.transport.value().endswith(b"yy"):
            yield self.pause()
        channel.transport.wrappedProtocol.channel.connectionLost()  # type: ignore[attr-defined]

    @inlineCallbacks
    def test_a_refused_upgrade_leaves_no_tunnel(self) -> Any:
        refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"
        request = yield self.ask("POST", f"{PODS}/p/exec?command=sh&stdout=true", UPGRADE, refusal)
        self.assertEqual((request.code, request.written), (403, b"no"))
        self.assertEqual(request.channel.transport.value(), b"")
        while self.factory.connections[0].connected:
            yield self.pause()

    @inlineCallbacks
    def test_an_answer_that_is_no_upgrade(self) -> Any:
        request = yield self.ask("POST", f"{PODS}/p/exec?command=sh&stdout=true", UPGRADE, OK)
        self.assertEqual((request.code, request.json["message"]), (500, "invalid upgrade response: status code 200"))

    @inlineCallbacks
    def test_ports_and_dry_runs_that_cannot_be(self) -> Any:
        wrong = "cannot convert to []int32: strconv.ParseUint: parsing"
        for path, message in (
            ("p/portforward?ports=80,x", f'{wrong} "x": invalid syntax'),
            ("p/portforward?ports=70000", f'{wrong} "70000": value out of range'),
            ("p/exec?command=x&dryRun=All", "dryRun is not supported"),
            ("p/proxy/?dryRun=All", "dryRun is not supported"),
        ):
            request = yield self.ask("POST", f"{PODS}/{path}", UPGRADE)
            self.assertEqual((request.code, request.json["message"]), (400, message))

    @inlineCallbacks
    def test_streams_that_cannot_be(self) -> Any:
        for path, code in (
            ("p/exec?command=sh&stdout=1", 400),  # no upgrade
            ("unplaced/attach?stdout=1", 400),
            ("nope/portforward", 404),
        ):
            request = yield self.ask("POST", f"{PODS}/{path}", {} if "p/exec" in path else UPGRADE)
            self.assertEqual(request.code, code, path)
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_a_node_on_this_machine_is_not_reached(self) -> Any:
        for path in ("node/proxy/x", "node:80/proxy/x"):
            request = yield self.ask("GET", f"/api/v1/nodes/{path}")
            self.assertEqual((request.code, request.json["message"]), (400, "address not allowed"))
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_what_a_backend_learns_and_tells(self) -> Any:
        self.patch(dialer, "is_proxyable", lambda text: True)
        answer = OK.replace(b"\r\n", b"\r\nAccess-Control-Allow-Origin: *\r\nX-Own: 1\r\n", 1)
        headers = {"Host": "api.example", "X-Forwarded-For": "1.2.3.4"}
        request = yield self.ask("GET", "/api/v1/nodes/node/proxy/a/b?q=1", headers, answer)
        self.assertEqual((request.code, request.written), (200, b"hello"))
        self.assertEqual((request.header("x-own"), request.header("access-control-allow-origin")), ("1", ""))
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
        for address in ("::ffff:127.0.0.1", "::ffff:7f00:1", "2002:7f00:1::", "127.1", "0", "localhost"):
            status = {"status": {"addresses": [{"type": "InternalIP", "address": address}]}}
            answer = self.api.ask("PATCH", "/api/v1/nodes/node/status", json.dumps(status).encode(), headers=patch)
            self.assertEqual(answer.code, 200, answer.written)
            for path in ("node/proxy/x", "node:80/proxy/x"):
                request = yield self.ask("GET", f"/api/v1/nodes/{path}")
                self.assertEqual((request.code, request.json["message"]), (400, "address not allowed"), address)
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
    def test_ports_are_ascii(self) -> Any:
        for port in ("%C2%B2", "%D9%A8%D9%A0", "-1", "+80", "8_0", "0", "65536", "9999999999"):
            request = yield self.ask("GET", f"{PODS}/p:{port}/proxy/x")
            self.assertEqual((request.code, request.json["reason"]), (400, "BadRequest"), port)

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
        for path, code, text in (
            ("s:81/proxy/", 503, 'no service port 81 found for service "s"'),
            ("t:80/proxy/", 404, 'services "t" not found'),
            ("s:80/proxy/", 404, 'services "s" not found'),
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


def test_which_container_is_meant() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
    }
    assert container_of(pod, "i") == "i"
    with pytest.raises(StatusError, match=r"a container name must be specified for pod p, choose one of: \[i a b\]"):
        container_of(pod, "")
