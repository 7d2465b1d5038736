"""A value in a Secret, through every refusal of every verb: it is in no log, trace, metric or event, nor in an audit event but
where the policy's level records bodies.

ConfigMaps have no such protection: what clients are told of them is recorded, as upstream does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from kapi.filters.panic_recovery import recover
from kapi.filters.tracing import RequestTracing
from tests.filters.requests import request
from tests.integration.server_process import ForkedServer
from tests.security.attacker import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Attacker
from tests.security.backends import Backend, http
from tests.waiting import until

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Request, namespaces: [request]}
- {level: RequestResponse, namespaces: [response]}
- {level: Metadata}
"""
CANARY, NUMBER = "canary7yUq", 7316250918
ENCODED = base64.b64encode(CANARY.encode()).decode()
WORDS = (CANARY, ENCODED, CANARY.encode().hex(), ENCODED.encode().hex(), str(NUMBER))
YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": ENCODED}}

#: what each kind of body has in the place of the good fields
WRONG_FIELDS: list[dict[str, Any]] = [
    *({"data": data} for data in (CANARY, [CANARY], {"a": [CANARY]}, {"a": {"b": CANARY}}, {"a": NUMBER}, {"a/": ENCODED})),
    {"data": {"a": CANARY + "!"}},
    {"stringData": {"a": [CANARY]}},
    {"stringData": {"a" * 300: CANARY}},
    {"immutable": CANARY},
    {"type": CANARY},
    {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": ENCODED}},
    {"kind": CANARY},
    {"apiVersion": f"{CANARY}/a/b"},
    {"metadata": CANARY},
    {"metadata": {"name": "s", "labels": {"a": f"{CANARY}!"}}},
    {"metadata": {"name": "s", "annotations": {"a": NUMBER}}},
    {"metadata": {"name": "s", "creationTimestamp": CANARY}},
    {"metadata": {"name": "s", "finalizers": [CANARY]}},
    {"unknown": CANARY},
    {"$patch": CANARY},
    {"data": {"$patch": CANARY}},
]  # fmt: skip
#: bodies that cannot be parsed
WRONG_TEXTS = [
    json.dumps(SECRET)[:-1],
    json.dumps(SECRET) + CANARY,
    f'{{"data":{{"a":"{ENCODED}"',  # in the beginning of the body, which messages quote
    f'{{"data": {{"a": 1e{NUMBER}}}}}',
    f'"{CANARY}"',
]
WRONG_YAML = [
    f"a: *{CANARY}",
    f"data: {{a: !!int {CANARY}}}",
    f"data: {{? [{CANARY}] : 2}}",
    f"data:\n  a: {CANARY}\n b: c",
    f"data: {{a: {CANARY}, a: b}}",
    f"data: {{a: '{CANARY}",
]
WRONG_OPERATIONS: list[Any] = [
    [{"op": "test", "path": "/data/a", "value": CANARY}],
    [{"op": CANARY, "path": "/a"}],
    [{"op": "copy", "from": "/data/a", "path": "/immutable"}],
    [{"op": "copy", "from": "/data", "path": "/metadata/generation"}],
    [{"op": "copy", "from": "/data/a", "path": "/metadata/labels"}],
    [CANARY],
    {"a": CANARY},
]


class Case(NamedTuple):
    method: str
    path: str
    body: Any
    content_type: str = JSON


def cases(namespace: str) -> Iterator[Case]:
    """All but the first five are refused."""
    many = f"/api/v1/namespaces/{namespace}/secrets"
    one, strict = f"{many}/s", "?fieldValidation=Strict"
    apply = f"{one}{strict}&fieldManager=canary"
    yield Case("POST", many, SECRET)
    yield Case("POST", many, {**SECRET, "metadata": {"name": "fixed"}, "immutable": True})
    yield Case("POST", many, {"metadata": {"name": "other"}, "stringData": {"a": CANARY}})
    yield Case("PATCH", f"{many}/other", {"stringData": {"b": CANARY}}, MERGE)
    yield Case("PATCH", f"{many}/applied?fieldManager=x", {**SECRET, "metadata": {"name": "applied"}}, APPLY)
    yield Case("POST", many, SECRET)
    yield Case("POST", many, {**SECRET, "metadata": {"name": "large"}, "data": {"a": ENCODED * 80_000}})
    yield Case("POST", many, {**SECRET, "data": {"a": ENCODED * 200_000}})
    yield Case("PUT", f"{many}/none", {**SECRET, "metadata": {"name": "none", "uid": CANARY}})
    yield Case("PUT", one, {**SECRET, "metadata": {"name": "s", "resourceVersion": "1"}})
    yield Case("PUT", one, {**SECRET, "metadata": {"name": "s", "uid": CANARY}})
    yield Case("PUT", f"{many}/fixed", {**SECRET, "metadata": {"name": "fixed"}, "data": {"a": ENCODED, "b": ENCODED}})
    yield Case("PATCH", f"{many}/fixed", {"stringData": {"a": CANARY * 2}}, MERGE)
    yield Case(
        "PATCH",
        f"{many}/applied?fieldManager=y",
        {**SECRET, "metadata": {"name": "applied"}, "data": {"a": "YQ=="}},
        APPLY,
    )
    yield Case("DELETE", one, {"preconditions": {"uid": CANARY}})
    yield Case("DELETE", one, {"gracePeriodSeconds": CANARY})
    yield Case("DELETE", many, {"propagationPolicy": CANARY})
    for wrong in WRONG_FIELDS:
        whole = {**SECRET, **wrong}
        yield Case("POST", many + strict, whole)
        yield Case("PUT", f"{one}{strict}&dryRun=All", whole)
        yield Case("PATCH", one + strict, wrong, MERGE)
        yield Case("PATCH", one + strict, wrong, STRATEGIC)
        yield Case("PATCH", apply, whole, APPLY)
        operations = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in wrong.items()]
        yield Case("PATCH", one + strict, operations, JSON_PATCH)
    for text in WRONG_TEXTS:
        for case in (
            ("POST", many, JSON), ("PUT", one, PROTOBUF), ("PATCH", one, MERGE), ("PATCH", one, JSON_PATCH),
            ("PATCH", apply, APPLY), ("DELETE", one, JSON), ("POST", many, "application/cbor"),
        ):  # fmt: skip
            yield Case(case[0], case[1], text.encode(), case[2])
    for text in WRONG_YAML:
        body = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n{text}\n".encode()
        yield Case("POST", many + strict, body, YAML)
        yield Case("PATCH", apply, body, APPLY)
    envelope = b"k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret"
    for raw in (b"\x12\x10", b"\x12\x0c\x12\x0a", b"\x12\xff"):
        yield Case("POST", many, envelope + raw + CANARY.encode(), PROTOBUF)
    for patch in WRONG_OPERATIONS:
        yield Case("PATCH", one + strict, patch, JSON_PATCH)


def echo(head: bytes, body: bytes) -> bytes:
    """A webhook that denies, and says what it was asked about; or fails, and says that."""
    asked = json.loads(body)["request"]
    words = json.dumps(asked["object"])
    if b"/fails" in head:
        return http(words.encode(), b"500 Internal Server Error", b"text/plain")
    status = {"message": words, "code": 403, "details": {"causes": [{"message": words}]}}
    response = {"uid": asked["uid"], "allowed": False, "status": status}
    return http(
        json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
    )


def watched(name: str, policy: str, backend: Backend) -> Any:
    """A configuration for the Secrets of the namespace ``name``."""
    bundle = base64.b64encode(backend.certificate).decode()
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"https://localhost:{backend.port}/{name}", "caBundle": bundle},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": policy,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def count_refused(attacker: Attacker, all_cases: Iterator[Case]) -> int:
    """Over one connection."""
    refused = 0
    with closing(HTTPSConnection(attacker.host, attacker.port, context=attacker.context, timeout=120)) as connection:
        for case in all_cases:
            data = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
            headers = {
                "Content-Type": case.content_type,
                "Authorization": f"Bearer {attacker.token}",
                "Audit-ID": "case",
            }
            connection.request(case.method, case.path, data, headers)
            answer = connection.getresponse()
            answer.read()
            refused += answer.status >= 400
    return refused


def test_a_value_of_a_secret_stays_in_it(tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--v=10")
    with ForkedServer(*flags, directory=tmp_path) as server, Backend(echo) as backend:
        admin = Attacker(server, "admintoken")
        for name in ("metadata", "request", "response", "denies", "fails"):
            admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
        refused = sum(count_refused(admin, cases(name)) for name in ("metadata", "request", "response"))
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        admin.create(hooks, watched("denies", "Fail", backend))
        admin.create(hooks, watched("fails", "Ignore", backend))
        secrets = "/api/v1/namespaces/%s/secrets"
        until(lambda: admin.ask("POST", secrets % "denies" + "?dryRun=All", SECRET).status == 403)
        until(lambda: admin.ask("POST", secrets % "fails" + "?dryRun=All", SECRET) and len(backend.requests) > 1)
        review = f"apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {{token: !!int {CANARY}}}\n"
        assert admin.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review.encode(), YAML).status == 400
        metrics = admin.ask("GET", "/metrics").body.decode()
        occurred = admin.ask("GET", "/api/v1/events").body.decode()
        admin.ask("GET", "/api/v1/nodes/last")
        until(lambda: b"nodes/last" in log.read_bytes())
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [event for event in events if event["stage"] == "ResponseComplete" and event["auditID"] == "case"]
    assert len([event for event in ends if event["responseStatus"]["code"] >= 400]) == refused > 400
    for event in events:
        for body in ("requestObject", "responseObject"):
            if event["level"] != "Metadata":
                event.pop(body, None)
        # names and versions of objects are no secrets
        for known in ("name", "uid", "resourceVersion"):
            event.get("objectRef", {}).pop(known, None)
        event.get("responseStatus", {}).get("details", {}).pop("name", None)
    for event in events:
        assert not [word for word in WORDS if word in json.dumps(event)], event
    said = [line for line in server.output if any(word in line for word in WORDS)]
    assert said == []
    assert not [word for word in WORDS if word in metrics or word in occurred]
    assert any("failing open" in line for line in server.output)


def test_clients_are_told_as_before(server: ForkedServer, admin: Attacker, namespace: str) -> None:
    """Upstream's text quotes the patch; who may patch a Secret sees it in every answer."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    admin.create(path, SECRET)
    answer = admin.ask("PATCH", f"{path}/s", {"data": {"a": NUMBER}}, STRATEGIC)
    assert (answer.status, answer.tree["reason"]) == (422, "Invalid")
    assert (
        answer.message
        == f' "" is invalid: patch: Invalid value: "map[data:map[a:{NUMBER}]]": cannot restore slice from int64'
    )


@pytest.mark.parametrize(("resource", "shown"), [("secrets", False), ("configmaps", True)])
def test_an_unexpected_error_is_logged_without_a_secret(resource: str, shown: bool) -> None:
    events: list[Any] = []
    globalLogPublisher.addObserver(events.append)
    try:
        try:
            raise ValueError(CANARY) from KeyError(CANARY)
        except ValueError:
            assert CANARY not in recover(request(f"/api/v1/namespaces/x/{resource}/s"), Failure()).message
    finally:
        globalLogPublisher.removeObserver(events.append)
    text = formatEvent(events[-1]) + events[-1]["log_failure"].getTraceback()
    assert (CANARY in text) == shown
    assert "test_canary.py" in text and "ValueError" in text


@pytest.mark.parametrize(("resource", "shown"), [("secrets", False), ("configmaps", True)])
def test_a_failed_call_is_traced_without_a_secret(resource: str, shown: bool) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ctx = request(f"/api/v1/namespaces/x/{resource}/s")
    RequestTracing(provider.get_tracer("test"), lambda: 0.0).filter(ctx)
    assert ctx.trace is not None
    with pytest.raises(ValueError), ctx.trace.call("Call webhook", {}):
        raise ValueError(CANARY)
    ctx.trace.end(500)
    assert (CANARY in "".join(span.to_json() for span in exporter.get_finished_spans())) == shown
