"""Webhooks of a whole server: other versions of what they asked for, slow ones beside quick ones, and what is counted."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from kapi.machinery.tree import Object
from tests.admission.certificates import make_certificate
from tests.admission.webhook_server import WebhookServer, patch
from tests.integration.server_process import ServerProcess, connect
from tests.waiting import until

GROUP = "/apis/admissionregistration.k8s.io/v1"


class Api:
    """Requests of an administrator over one connection."""

    def __init__(self, server: ServerProcess) -> None:
        self._connection = connect(server)

    def send(self, method: str, path: str, body: Object | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def ask(self, method: str, path: str, body: Object | None = None, code: int = 0) -> Any:
        status, answer = self.send(method, path, body)
        assert status == code or not code and status < 300, (method, path, status, answer)
        return json.loads(answer)

    def metrics(self) -> dict[str, float]:
        """Value by series."""
        lines = self.send("GET", "/metrics")[1].decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and line[0] != "#")
        return {series: float(value) for series, _, value in pairs}

    def configure(self, kind: str, name: str, *webhooks: Object) -> None:
        plural = f"{kind.lower()}webhookconfigurations"
        self.ask("POST", f"{GROUP}/{plural}", {"metadata": {"name": name}, "webhooks": list(webhooks)})

    def unconfigure(self, name: str) -> None:
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            self.send("DELETE", f"{GROUP}/{plural}/{name}")

    def namespace(self, name: str, **labels: str) -> str:
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        return f"/api/v1/namespaces/{name}/configmaps"


class Http2Webhook:
    """Allows everything over HTTP/2, once ``at_once`` requests have come; ``connections`` is how many there were."""

    def __init__(self) -> None:
        certificate, key = make_certificate("127.0.0.1")
        self.bundle = base64.b64encode(certificate).decode()
        self.connections = self.asked = 0
        self.at_once = 1
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.set_alpn_protocols(["h2"])
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(certificate + key)
            self._context.load_cert_chain(file.name)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                accepted, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        state.initiate_connection()
        bodies: dict[int, bytes] = {}
        with suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as connection:
            connection.sendall(state.data_to_send())
            while data := connection.recv(65536):
                for event in state.receive_data(data):
                    if isinstance(event, h2.events.DataReceived):
                        bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                        state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.asked = max(self.asked, len(bodies))
                if len(bodies) >= self.at_once:
                    for number, body in bodies.items():
                        response = {"uid": json.loads(body)["request"]["uid"], "allowed": True}
                        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
                        state.send_headers(number, [(b":status", b"200")])
                        state.send_data(number, json.dumps(review).encode(), end_stream=True)
                    bodies.clear()
                connection.sendall(state.data_to_send())

    def close(self) -> None:
        self._listener.close()


def until_heeded(hooks: WebhookServer, which: str, write: Callable[[int], Any]) -> Any:
    """What the first write returns of which the webhook was asked; each write gets a number.

    A request waits a quarter of a second for a configuration that is being read; on a busy machine that may be too short.
    """
    numbers = itertools.count()
    written = []

    def asked() -> bool:
        written.append(write(next(numbers)))
        return bool(hooks.requests(which))

    until(asked)
    return written[-1]


@pytest.fixture
def api(server: ServerProcess) -> Api:
    return Api(server)


def add_one(request: Object) -> Object:
    return patch({"op": "add", "path": "/spec/seen", "value": request["object"]["apiVersion"]})


@pytest.fixture
def widgets(api: Api) -> Iterator[str]:
    """A custom resource in two versions, the first of which is stored."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
    spec: Object = schema["properties"]["spec"]  # type: ignore[index]
    spec["properties"] = {
        "seen": {"type": "string"},
        "size": {"type": "integer", "default": 7},
    }
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    names = {"kind": "Hooked", "plural": "hooked", "singular": "hooked", "listKind": "HookedList"}
    definition = {"group": "hooks.example.com", "scope": "Cluster", "names": names, "versions": versions}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.ask("POST", path, {"metadata": {"name": "hooked.hooks.example.com"}, "spec": definition})
    until(lambda: api.send("GET", "/apis/hooks.example.com/v2/hooked")[0] == 200)
    yield "/apis/hooks.example.com"
    api.ask("DELETE", f"{path}/hooked.hooks.example.com")
    until(lambda: api.send("GET", f"{path}/hooked.hooks.example.com")[0] == 404)  # the next test makes it anew


def test_a_webhook_sees_custom_resources_in_the_version_it_asked_for(api: Api, widgets: str) -> None:
    hooks = WebhookServer(old=add_one, exact=add_one)
    rule = {"apiGroups": ["hooks.example.com"], "apiVersions": ["v1"], "resources": ["hooked"]}
    api.configure("Mutating", "versions", hooks.webhook("old", rule), hooks.webhook("exact", rule, matchPolicy="Exact"))
    try:
        body = {"apiVersion": "hooks.example.com/v2", "kind": "Hooked", "spec": {}}
        path = f"{widgets}/v2/hooked"
        made = until_heeded(hooks, "old", lambda i: api.ask("POST", path, {**body, "metadata": {"name": f"x{i}"}}))
        assert (made["apiVersion"], made["spec"]) == (
            "hooks.example.com/v2",
            {"seen": "hooks.example.com/v1", "size": 7},
        )
        asked = hooks.requests("old")[-1]
        assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
        assert (asked["resource"]["version"], asked["requestResource"]["version"]) == ("v1", "v2")
        assert hooks.requests("exact") == []
    finally:
        api.unconfigure("versions")
        hooks.close()


def test_what_a_webhook_makes_of_a_custom_resource_is_defaulted(api: Api, widgets: str) -> None:
    hooks = WebhookServer(drop=lambda request: patch({"op": "remove", "path": "/spec/size"}))
    rule = {"apiGroups": ["hooks.example.com"], "apiVersions": ["v2"], "resources": ["hooked"]}
    api.configure("Mutating", "defaults", hooks.webhook("drop", rule))
    try:
        body = {"apiVersion": "hooks.example.com/v2", "kind": "Hooked", "spec": {"size": 1}}
        path = f"{widgets}/v2/hooked"
        made = until_heeded(hooks, "drop", lambda i: api.ask("POST", path, {**body, "metadata": {"name": f"y{i}"}}))
        assert made["spec"]["size"] == 7
    finally:
        api.unconfigure("defaults")
        hooks.close()


def test_unknown_fields_that_a_webhook_adds_to_a_custom_resource_are_not_stored(api: Api, widgets: str) -> None:
    def add(request: Object) -> Object:
        return patch({"op": "add", "path": "/spec/unknown", "value": True})

    hooks = WebhookServer(add=add, later=lambda request: {})
    rule = {"apiGroups": ["hooks.example.com"], "apiVersions": ["v1"], "resources": ["hooked"]}
    api.configure("Mutating", "unknown", hooks.webhook("add", rule))
    api.configure("Validating", "unknown", hooks.webhook("later", rule))
    try:
        body: Object = {"apiVersion": "hooks.example.com/v1", "kind": "Hooked", "spec": {"size": 1}}
        path = f"{widgets}/v1/hooked"
        made = until_heeded(hooks, "add", lambda i: api.ask("POST", path, {**body, "metadata": {"name": f"z{i}"}}))
        changed = api.ask("PUT", f"{path}/{made['metadata']['name']}", {**made, "spec": {"size": 2}})
        tried = api.ask("POST", f"{path}?dryRun=All", {**body, "metadata": {"name": "tried"}})
        read = api.ask("GET", f"{path}/{made['metadata']['name']}")
        assert [obj["spec"] for obj in (made, changed, tried, read)] == [{"size": n} for n in (1, 2, 1, 2)]
        assert all(request["object"]["spec"]["unknown"] for request in hooks.requests("later"))
    finally:
        api.unconfigure("unknown")
        hooks.close()


def test_a_review_is_named_to_webhooks_as_its_body_is(api: Api) -> None:
    hooks = WebhookServer(named=lambda request: {})
    rule = {"apiGroups": ["authentication.k8s.io"], "apiVersions": ["v1"], "resources": ["selfsubjectreviews"]}
    api.configure("Validating", "reviews", hooks.webhook("named", rule))
    try:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        until_heeded(hooks, "named", lambda i: api.ask("POST", path, {"metadata": {"name": "me"}}))
        assert hooks.requests("named")[-1]["name"] == "me"
    finally:
        api.unconfigure("reviews")
        hooks.close()


def test_a_webhook_sees_built_in_kinds_in_the_version_it_asked_for(api: Api) -> None:
    hooks = WebhookServer(old=lambda request: {})
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    api.configure("Validating", "builtin", hooks.webhook("old", rule))
    api.namespace("hook-versions")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    try:
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [metric]}
        path = "/apis/autoscaling/v2/namespaces/hook-versions/horizontalpodautoscalers"
        until_heeded(hooks, "old", lambda i: api.ask("POST", path, {"metadata": {"name": f"h{i}"}, "spec": spec}))
        shown = hooks.requests("old")[0]["object"]
        assert (shown["apiVersion"], shown["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 80)
        assert "metrics" not in shown["spec"]
    finally:
        api.unconfigure("builtin")
        api.send("DELETE", "/api/v1/namespaces/hook-versions")
        hooks.close()


def test_what_a_webhook_is_told_of_namespaces_and_evictions(api: Api) -> None:
    hooks = WebhookServer(all=lambda request: {})
    # no other resources without a namespace: those of everybody would come here, whatever namespaces are selected
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["namespaces", "pods", "pods/*"],
        "operations": ["*"],
    }
    mine = {"namespaceSelector": {"matchLabels": {"hooks": "told"}}, "rules": [rule]}
    api.configure("Validating", "told", {**hooks.webhook("all", rule), **mine})
    try:
        path = until_heeded(hooks, "all", lambda i: api.namespace(f"hook-told-{i}", hooks="told"))
        path = path.removesuffix("/configmaps")
        name = path.rpartition("/")[2]
        made = hooks.requests("all")[0]
        assert (made["name"], made["namespace"], made["operation"]) == (name, name, "CREATE")
        until(lambda: api.send("GET", f"{path}/serviceaccounts/default")[0] == 200)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        api.ask("POST", f"{path}/pods", pod)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        api.ask("POST", f"{path}/pods/p/eviction", eviction)
        asked = [(r["operation"], r.get("subResource")) for r in hooks.requests("all") if r.get("name") == "p"]
        assert asked == [("CREATE", None), ("CREATE", "eviction")]  # that it is deleted is part of the eviction
    finally:
        api.unconfigure("told")
        api.send("DELETE", path)
        hooks.close()


def test_a_webhook_that_hangs_costs_nobody_else_anything(api: Api, server: ServerProcess) -> None:
    hanging, release, end = threading.Event(), threading.Event(), threading.Event()

    def hang(request: Object) -> Object:
        hanging.set()
        release.wait(120)
        return {}

    def never(request: Object) -> Object:
        end.wait(120)
        return {}

    hooks = WebhookServer(hang=hang, quick=lambda request: {}, never=never)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}

    labels = {"of": "test"}

    def of(which: str, seconds: int) -> Object:
        """Not for kube-root-ca.crt, which the server makes in each namespace, at any time."""
        here, mine = {"matchLabels": {"hooks": which}}, {"matchLabels": labels}
        return {
            "namespaceSelector": here, "objectSelector": mine, "timeoutSeconds": seconds, "failurePolicy": "Fail"
        }  # fmt: skip

    api.configure(
        "Validating",
        "slow",
        hooks.webhook("hang", rule, **of("slow", 30)),
        hooks.webhook("quick", rule, **of("quick", 30)),
        hooks.webhook("never", rule, **of("late", 1)),
    )
    names = ("slow", "quick", "late")
    stuck_path, path, late_path = (api.namespace(f"hook-{name}", hooks=name) for name in names)
    answers: list[int] = []

    def create_stuck() -> None:
        while not release.is_set():  # those that come before the configuration is heeded are not stuck
            answers.append(
                Api(server).send("POST", stuck_path, {"metadata": {"generateName": "s-", "labels": labels}})[0]
            )

    stuck = threading.Thread(target=create_stuck)
    stuck.start()
    try:
        assert hanging.wait(120)
        before = len(answers)
        for i in range(30):
            api.ask("POST", path, {"metadata": {"name": f"c{i}", "labels": labels}})
        assert len(hooks.requests("quick")) >= 30
        assert len(answers) == before, "the hanging webhook was not waited for"
        release.set()
        stuck.join(120)
        assert set(answers) == {201}
        late = {"metadata": {"generateName": "l-", "labels": labels}}
        code, body = until_heeded(hooks, "never", lambda _: api.send("POST", late_path, late))
        assert code == 500
        assert b'failed calling webhook \\"never.example.com\\": failed to call webhook: Post' in body
        assert b"context deadline exceeded" in body
    finally:
        release.set()
        end.set()
        api.unconfigure("slow")
        for name in names:
            api.send("DELETE", f"/api/v1/namespaces/hook-{name}")
        hooks.close()


def test_calls_are_counted_under_upstreams_names(api: Api) -> None:
    hooks = WebhookServer(
        yes=lambda request: {},
        no=lambda request: {"allowed": False, "status": {"code": 418, "message": "no"}},
        broken=lambda request: {"uid": "wrong"},
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}

    def of(name: str) -> Object:
        return {"objectSelector": {"matchLabels": {"which": name}}}

    open_ = {"failurePolicy": "Ignore"}
    api.configure("Mutating", "counted", hooks.webhook("yes", rule, **of("yes")))
    api.configure(
        "Validating",
        "counted",
        hooks.webhook("no", rule, **of("no")),
        hooks.webhook("broken", rule, **of("broken"), **open_),
    )
    path = api.namespace("hook-metrics")
    name = "apiserver_admission_webhook_"
    try:
        for which in ("yes", "no", "broken"):
            metadata = {"generateName": f"{which}-", "labels": {"which": which}}
            code, _ = until_heeded(hooks, which, lambda _, of=metadata: api.send("POST", path, {"metadata": of}))
            assert code == (418 if which == "no" else 201)
        found = api.metrics()
        labels = '{{name="{}.example.com",operation="CREATE",rejected="{}",type="{}"}}'
        count = f"{name}admission_duration_seconds_count"
        assert found[count + labels.format("yes", "false", "admit")] == 1
        assert found[count + labels.format("no", "true", "validating")] == 1

        def requests(code: int, name: str, rejected: str, kind: str) -> str:
            labels = f'code="{code}",name="{name}.example.com",operation="CREATE",rejected="{rejected}",type="{kind}"'
            return f"apiserver_admission_webhook_request_total{{{labels}}}"

        assert found[requests(200, "yes", "false", "admit")] == 1
        assert found[requests(418, "no", "true", "validating")] == 1
        rejected = f'{name}rejection_count{{error_type="no_error",name="no.example.com",operation="CREATE",'
        assert found[rejected + 'rejection_code="418",type="validating"}'] == 1
        assert found[f'{name}fail_open_count{{name="broken.example.com",type="validating"}}'] == 1
    finally:
        api.unconfigure("counted")
        api.send("DELETE", "/api/v1/namespaces/hook-metrics")
        hooks.close()


def test_requests_at_once_share_one_connection_to_a_webhook_of_http2(server: ServerProcess, api: Api) -> None:
    many, labels = 10, {"of": "test"}
    hook = Http2Webhook()
    path = api.namespace("multiplexed", multiplexed="yes")
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    webhook = {
        "name": "http2.example.com",
        "clientConfig": {"url": hook.url, "caBundle": hook.bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"multiplexed": "yes"}},
        "objectSelector": {"matchLabels": labels},  # not kube-root-ca.crt, which the server makes at any time
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    codes: list[int] = []

    def write(api: Api) -> bool:
        codes.append(api.send("POST", path, {"metadata": {"generateName": "c-", "labels": labels}})[0])
        return hook.asked > 0

    api.configure("Validating", "multiplexed", webhook)
    try:
        until(lambda: write(api))
        hook.at_once = many
        codes.clear()
        writers = [threading.Thread(target=write, args=(Api(server),)) for _ in range(many)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert codes == [201] * many
        assert (hook.asked, hook.connections) == (many, 1)
    finally:
        api.unconfigure("multiplexed")
        hook.close()
