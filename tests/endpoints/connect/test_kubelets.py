"""log, exec, attach, portforward and proxy against a fake kubelet on a real socket."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.testing import MemoryReactorClock

from kapi.authorization.fixed import AlwaysDeny
from kapi.endpoints.connect.kubelet import Kubelets, KubeletSettings, container_of
from kapi.endpoints.connect.transport import TLS, Target, Transport
from kapi.machinery.feature_gates import resolve
from kapi.machinery.status import StatusError
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import succeed
from kapi.wire import dial as dialer
from tests.certificates import self_signed
from tests.endpoints.connect.kubelet_case import (
    OK,
    PODS,
    UPGRADE,
    Channel,
    ConnectCase,
)
from tests.filters.requests import request


class ConnectTests(ConnectCase):
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
        port = self.port.getHost().port
        message = f'Get "https://127.0.0.1:{port}/containerLogs/default/p/c": redirects forbidden'
        for code in (301, 302, 303, 307, 308):
            self.factory.received = b""
            found = b"HTTP/1.1 %d Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n" % code
            request = yield self.ask("GET", f"{PODS}/p/log", None, found)
            self.assertEqual((request.code, request.json["message"]), (500, message), code)

    @inlineCallbacks
    def test_logs_that_cannot_be(self) -> Any:
        address = {"type": "Pigeon", "address": "north"}
        self.api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "far"}, "status": {"addresses": [address]}})
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "far"}
        self.api.ask("POST", PODS, {"metadata": {"name": "far"}, "spec": spec})
        for path, code, text in (
            ("p/log?container=x", 400, "container x is not valid for pod p"),
            ("p/log?tailLines=-1", 422, "tailLines: Invalid value: -1"),
            ("p/log?limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
            ("p/log?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
            ("p/log?tailLines=many", 400, "strconv.ParseInt"),
            ("p/log?tailLines=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
            ("p/log?limitBytes=9999999999999999999", 400, "value out of range"),
            ("p/log?sinceTime=2024-13-01T00:00:00Z", 400, 'parsing time "2024-13-01T00:00:00Z": month out of range'),
            ("p/log?sinceTime=x&tailLines=y", 400, 'parsing time "x" as'),
            ("p/log?sinceTime=&sinceSeconds=1", 422, "at most one of `sinceTime` or `sinceSeconds`"),
            ("p/log?stream=", 422, "stream: Forbidden: may not be specified"),
            ("nope/log", 404, 'pods "nope" not found'),
            ("lost/log", 404, 'pods "gone" not found'),
            ("far/log", 500, "no preferred addresses found; known addresses: [{Pigeon north}]"),
        ):
            request = yield self.ask("GET", f"{PODS}/{path}")
            self.assertEqual(request.code, code, path)
            self.assertIn(text, request.json["message"])
        for accept, text in (
            ("text/html", "406: Not Acceptable\n\nAvailable representations: text/plain, application/json, "),
            ("text/plain", "only the following media types are accepted: application/json, application/yaml, "),
            ("application/json;as=Table;g=meta.k8s.io;v=v1", "only the following media types are accepted: "),
        ):
            request = yield self.ask("GET", f"{PODS}/p/log", headers={"Accept": accept})
            self.assertEqual(request.code, 406)
            self.assertIn(text, request.json["message"])
        request = yield self.ask("GET", f"{PODS}/unplaced/log")
        self.assertEqual((request.code, request.written), (204, b""))
        self.assertEqual(self.factory.received, b"")

    @inlineCallbacks
    def test_one_stream_of_a_log_behind_its_gate(self) -> Any:
        self.api.environment.features = resolve({"PodLogsQuerySplitStreams": True})
        for query, asked in (
            ("", b"?stream=All "),
            ("?stream=Stderr&limitBytes=7", b"?limitBytes=7&stream=Stderr "),
            ("?stream=All&tailLines=1", b"?stream=All&tailLines=1 "),
        ):
            self.factory.received = b""
            request = yield self.ask("GET", f"{PODS}/p/log{query}", None, OK)
            self.assertEqual(request.code, 200)
            self.assertIn(b"GET /containerLogs/default/p/c" + asked, self.factory.received)
        for query, text in (
            ("stream=stdout", 'stream: Unsupported value: "stdout": supported values: "All", "Stderr", "Stdout"'),
            ("stream=Stdout&tailLines=1", "`tailLines` and specific `stream` are mutually exclusive for now"),
        ):
            request = yield self.ask("GET", f"{PODS}/p/log?{query}")
            self.assertEqual(request.code, 422)
            self.assertIn(text, request.json["message"])

    @inlineCallbacks
    def test_a_kubelet_that_cannot_prove_itself_gets_nothing(self) -> Any:
        other, _ = self_signed("127.0.0.1")
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
        channel = Channel()
        request = MemoryRequest(
            "POST", f"{PODS}/p/exec?command=sh&command=-c&stdin=1&stdout=true", UPGRADE, channel=channel
        )
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
            request = MemoryRequest(method, f"{PODS}/p/exec?command=sh&stdin=1", UPGRADE, channel=Channel())
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
        channel = Channel()
        request = MemoryRequest("POST", f"{PODS}/p/exec?command=sh&stdin=1", UPGRADE, channel=channel)
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
        self.assertEqual(request.transport.value(), b"")
        while self.factory.connections[0].connected:
            yield self.pause()

    @inlineCallbacks
    def test_an_answer_that_is_no_upgrade(self) -> Any:
        request = yield self.ask("POST", f"{PODS}/p/exec?command=sh&stdout=true", UPGRADE, OK)
        self.assertEqual((request.code, request.json["message"]), (500, "invalid upgrade response: status code 200"))

    @inlineCallbacks
    def test_only_errors_refuse_an_upgrade(self) -> Any:
        for status, code in ((299, 500), (302, 500), (399, 500), (400, 400), (599, 599), (600, 500)):
            self.factory.received = b""
            head = b"HTTP/1.1 %d X\r\nContent-Type: text/plain\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nno" % status
            request = yield self.ask("POST", f"{PODS}/p/exec?command=sh&stdout=true", UPGRADE, head)
            self.assertEqual(request.code, code, status)
            if code == 500:
                self.assertEqual(request.json["message"], f"invalid upgrade response: status code {status}")
            else:
                self.assertEqual(request.written, b"no")

    @inlineCallbacks
    def test_an_upgrade_is_one_of_the_connection(self) -> Any:
        refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"
        request = yield self.ask("POST", f"{PODS}/p/exec?command=sh&stdout=1", {"Upgrade": "SPDY/3.1"}, refusal)
        self.assertEqual((request.code, request.json["message"]), (400, "Upgrade request required"))
        several = {"Connection": "keep-alive, upgrade", "Upgrade": "SPDY/3.1"}
        request = yield self.ask("POST", f"{PODS}/p/exec?command=sh&stdout=1", several, refusal)
        self.assertEqual((request.code, request.written), (403, b"no"))

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
    def test_a_get_needs_the_right_to_create_while_its_gate_is_on(self) -> Any:
        self.api.environment.authorizer = AlwaysDeny()
        for on, code in ((True, 403), (False, 400)):
            self.api.environment.features = resolve({"AuthorizePodWebsocketUpgradeCreatePermission": on})
            request = yield self.ask("GET", f"{PODS}/unplaced/exec?command=sh&stdout=1", UPGRADE)
            self.assertEqual(request.code, code, request.json)

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


def test_without_nodes_there_is_no_kubelet() -> None:
    with pytest.raises(StatusError, match='nodes "one" not found'):
        succeed(Kubelets(None, KubeletSettings()).target("one", b"/"))


def test_a_client_that_goes_ends_the_question() -> None:
    errors: list[Any] = []
    transport = Transport(MemoryReactorClock())  # type: ignore[arg-type]
    asking = Deferred.fromCoroutine(transport.get(request(), Target("https", "127.0.0.1", 1, b"/")))
    asking.addErrback(errors.append).cancel()
    assert [error.type for error in errors] == [CancelledError]


def test_a_certificate_that_cannot_be_read_is_no_fault_of_the_kubelet() -> None:
    with pytest.raises(ValueError, match="cannot read certificates: "):
        TLS(certificate=b"x", key=b"y").creator("node")
    TLS(ca=b"no certificate").creator("node")  # that verifies no node


def test_which_container_is_meant() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
    }
    assert container_of(pod, "i") == "i"
    with pytest.raises(StatusError, match=r"a container name must be specified for pod p, choose one of: \[i a b\]"):
        container_of(pod, "")
