"""Traces: what a collector is sent, what other servers are told, and what there is of it when nobody asked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess, connect
from tests.integration.test_outgoing_identity import Backend
from tests.waiting import until

grpc = pytest.importorskip("grpc")
pytest.importorskip("opentelemetry.sdk")
service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
MAPS = "/api/v1/namespaces/default/configmaps"


class Collector:
    """Takes what exporters send over gRPC."""

    def __init__(self, wait: threading.Event | None = None) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()

        def export(request: Any, context: Any) -> Any:
            if wait is not None:
                wait.wait()
            for resource in request.resource_spans:
                self.services |= {a.value.string_value for a in resource.resource.attributes if a.key == "service.name"}
                for scope in resource.scope_spans:
                    self.spans.extend(scope.spans)
            return service.ExportTraceServiceResponse()

        method = grpc.unary_unary_rpc_method_handler(
            export, service.ExportTraceServiceRequest.FromString, service.ExportTraceServiceResponse.SerializeToString
        )
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        name = "opentelemetry.proto.collector.trace.v1.TraceService"
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Export": method}),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown(wait=False)

    def trace(self, trace: str) -> dict[str, Any]:
        return {span.name: span for span in self.spans if span.trace_id.hex() == trace}


def configuration(path: Path, port: int, rate: int | None = None) -> str:
    text = f"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: 127.0.0.1:{port}\n"
    path.write_text(text + (f"samplingRatePerMillion: {rate}\n" if rate is not None else ""))
    return f"--tracing-config-file={path}"


def ask(
    server: ServerProcess, method: str, path: str, body: Any = None, token: str = "admintoken", parent: str = PARENT
) -> tuple[int, Any]:
    connection = connect(server)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if parent:
            headers["traceparent"] = parent
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Collector]]:
    collector = Collector()
    flag = configuration(tmp_path_factory.mktemp("tracing") / "tracing.yaml", collector.port)
    server = ForkedServer(flag).start()
    yield server, collector
    assert server.stop() == 0
    collector.close()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_an_administrators_trace_goes_on_in_the_server(traced: tuple[ServerProcess, Collector]) -> None:
    server, collector = traced
    assert ask(server, "POST", MAPS, {"metadata": {"name": "one"}})[0] == 201
    name = "POST /api/v1/namespaces/{:namespace}/configmaps"
    found = until(lambda: (spans := collector.trace(TRACE)).get(name) and spans)
    root = found[name]
    assert root.parent_span_id.hex() == "b7ad6b7169203331"
    assert attributes(root)["http.target"] == MAPS
    assert attributes(root)["http.response.status_code"] == 201
    inner = ["impersonation", "priorityandfairness", "authorization", "Create"]
    assert set(inner) <= {each.replace("constrained", "") for each in found}
    chain = [root] + [next(span for each, span in found.items() if each.endswith(one)) for one in inner]
    assert [span.parent_span_id for span in chain[1:]] == [span.span_id for span in chain[:-1]]
    assert attributes(found["Create"])["resource"] == "configmaps"
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in found.values())
    assert collector.services == {"apiserver"}


def test_without_a_rate_nobody_else_is_traced(traced: tuple[ServerProcess, Collector]) -> None:
    """A user without privilege cannot have requests sampled, and the client's trace is not theirs to go on with."""
    server, collector = traced
    mine = "11111111111111111111111111111111"
    last = "22222222222222222222222222222222"
    ask(server, "GET", "/version", token="alicetoken", parent=f"00-{mine}-b7ad6b7169203331-01")
    unsampled = "/api/v1/nodes/not-traced"
    ask(server, "GET", unsampled, parent="")
    ask(server, "GET", "/version", parent=f"00-{last}-b7ad6b7169203331-01")
    until(lambda: collector.trace(last))
    assert not collector.trace(mine)
    assert not [span for span in collector.spans if attributes(span).get("http.target") == unsampled]


def test_other_servers_are_told(traced: tuple[ServerProcess, Collector], tmp_path: Path) -> None:
    """Webhooks and kubelets, each with the span that asks them; for aggregated servers see tests/servers/aggregator."""
    server, collector = traced
    backend = Backend(tmp_path)

    def answer(path: str, body: Any) -> Any:
        if path.startswith("/hook"):
            response = {"uid": body["request"]["uid"], "allowed": True}
            return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return {}

    backend.answer = answer

    def headers(path: str) -> dict[str, str]:
        """Of the last request that belongs to a trace: what the server writes by itself, as kube-root-ca.crt, belongs to none."""
        asked = [headers for asked, headers, _ in backend.requests if asked.partition("?")[0] == path]
        found = [{name.lower(): value for name, value in each.items()} for each in asked]
        return next((each for each in reversed(found) if "traceparent" in each), {})

    try:
        hook = {
            "metadata": {"name": "hook"},
            "webhooks": [
                {
                    "name": "hook.example.com",
                    "clientConfig": {"url": f"https://127.0.0.1:{backend.port}/hook", "caBundle": backend.bundle},
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["configmaps"],
                            "operations": ["CREATE"],
                        }
                    ],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }
        trace = "33333333333333333333333333333333"
        parent = f"00-{trace}-b7ad6b7169203331-01"
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        assert ask(server, "POST", path, hook)[0] == 201

        def called() -> bool:
            ask(server, "POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "hooked"}}, parent=parent)
            return bool(headers("/hook"))

        until(called)
        assert ask(server, "DELETE", f"{path}/hook")[0] == 200
        span = until(lambda: collector.trace(trace).get("Call validating webhook"))
        assert attributes(span)["webhook"] == "hook.example.com"
        calls = {each.span_id.hex() for each in collector.spans if each.name == "Call validating webhook"}
        version, told, by, flags = headers("/hook")["traceparent"].split("-")
        assert (told, flags) == (trace, "01") and by in calls

        state = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": backend.port}},
        }
        assert ask(server, "POST", "/api/v1/nodes", {"metadata": {"name": "node"}, "status": state})[0] == 201
        pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}}
        until(lambda: ask(server, "POST", "/api/v1/namespaces/default/pods", pod)[0] == 201)
        assert ask(server, "GET", "/api/v1/namespaces/default/pods/p/log", parent=parent)[0] == 200
        told = headers("/containerLogs/default/p/c")["traceparent"]
        assert told.split("-")[1] == trace and told != parent
    finally:
        backend.close()


def test_a_collector_that_hangs_or_is_away_costs_spans_only(tmp_path: Path) -> None:
    released = threading.Event()
    collector = Collector(released)
    server = ForkedServer(configuration(tmp_path / "tracing.yaml", collector.port, 1_000_000)).start()
    try:
        connection = connect(server)
        for number in range(300):
            connection.request("GET", f"/api/v1/nodes/{number}", headers={"Authorization": "Bearer admintoken"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()[:1]) == (404, b"{")
        connection.close()
    finally:
        assert server.stop() == 0
        released.set()
        collector.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Other", 'want kind TracingConfiguration of "apiserver.config.k8s.io/v1"'),
        ("kind: TracingConfiguration\napiVersion: v1", "apiVersion: one of apiserver.config.k8s.io/v1"),
        ("{", "not YAML"),
        ("samplingRatePerMillion: -1", "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
        ("samplingRatePerMillion: 1000001", "must be less than or equal to one million"),
        ("endpoint: http://x", "unsupported scheme: http.  Options are none, dns, unix, unix-abstract"),
        ('endpoint: "http://[::1"', "missing ']' in host"),
        ("other: 1", 'strict decoding error: unknown field "other"'),
    ],
)
def test_a_wrong_file_is_told_at_the_start(tmp_path: Path, text: str, says: str) -> None:
    from kapi.options.errors import ConfigError
    from kapi.options.options import Options

    path = tmp_path / "tracing.yaml"
    head = (
        "" if "kind" in text or text == "{" else "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
    )
    path.write_text(head + text)
    options = Options.from_command_line([f"--tracing-config-file={path}"])
    with pytest.raises(ConfigError, match="--tracing-config-file") as caught:
        options.tracing.configuration()
    assert says in str(caught.value)


def _run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)


def test_the_missing_extra_is_named(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['opentelemetry'] = None\nfrom kapi.tap import main\nmain(sys.argv[1:])\n"
    flag = configuration(tmp_path / "tracing.yaml", 1)
    done = _run(code, flag, f"--data-dir={tmp_path / 'data'}", "--secure-port=0", "--bind-address=127.0.0.1")
    assert done.returncode == 1
    assert "--tracing-config-file" in done.stderr and "install kapi[tracing]" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_of_it_is_there_unless_asked_for(tmp_path: Path) -> None:
    """Neither a module nor a filter; a request makes as many calls as if it had never been written."""
    code = (
        "import sys\n"
        "from twisted.internet import reactor\n"
        "from kapi.tap import make_service_from_flags\n"
        "app = make_service_from_flags(sys.argv[1:], reactor)\n"
        "chain = app.prepared.handler_chain()\n"
        "steps = [step.__module__ for step in chain.filters] + [chain.handler.__module__]\n"
        "print([name for name in steps if 'tracing' in name])\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'grpc', 'kapi.filters.tracing'))])\n"
    )
    done = _run(code, f"--data-dir={tmp_path / 'data'}", "--secure-port=0", "--bind-address=127.0.0.1")
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr
