"""Admission webhooks that lie, redirect, flood or hang: the request they were asked about fails, nothing else (class 9)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.security.attacker import Attacker
from tests.security.backends import Backend, http
from tests.waiting import until

HOOKS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Hook = Callable[..., str]


def answering(response: Any) -> Callable[[bytes, bytes], bytes]:
    """Allows, but for what ``response`` says."""

    def speak(head: bytes, body: bytes) -> bytes:
        uid = json.loads(body)["request"]["uid"]
        given = {"uid": uid, "allowed": True, **response} if isinstance(response, dict) else response
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": given}
        return http(json.dumps(review).encode())

    return speak


def patching(*operations: Any) -> Callable[[bytes, bytes], bytes]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return answering({"patch": patch, "patchType": "JSONPatch"})


@pytest.fixture
def hook(admin: Attacker, namespace: str) -> Iterator[Hook]:
    """Registers a webhook for what is created and updated in the namespace."""
    made: list[str] = []

    def register(backend: Backend, kind: str = "mutating", policy: str = "Fail", seconds: int = 30) -> str:
        bundle = base64.b64encode(backend.certificate).decode()
        webhook = {
            "name": "attack.example.com",
            "clientConfig": {"url": f"https://localhost:{backend.port}/hook", "caBundle": bundle},
            "rules": [
                {"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": policy,
            "timeoutSeconds": seconds,
        }
        path = f"{HOOKS}/{kind}webhookconfigurations"
        admin.create(path, {"metadata": {"name": namespace}, "webhooks": [webhook]})
        made.append(f"{path}/{namespace}")
        maps = f"/api/v1/namespaces/{namespace}/configmaps"

        def heeded() -> bool:
            """A request waits for a configuration that is being read, but on a busy machine not long enough."""
            admin.ask("POST", f"{maps}?dryRun=All", {"metadata": {"name": "probe"}})
            return bool(backend.connections)

        until(heeded)
        return maps

    yield register
    for path in made:
        admin.ask("DELETE", path)


def test_an_object_does_not_move_to_another_namespace(admin: Attacker, hook: Hook, namespace: str) -> None:
    """It would be stored under one namespace and say that it is in another, past that one's rights and quota."""
    with Backend(patching({"op": "add", "path": "/metadata/namespace", "value": "kube-system"})) as backend:
        path = hook(backend)
        answer = admin.ask("POST", path, {"metadata": {"name": "m"}})
        assert (answer.status, answer.tree["reason"]) == (400, "BadRequest")
        text = "the namespace of the provided object does not match the namespace sent on the request"
        assert answer.message == text
        assert admin.ask("GET", f"{path}/m").status == 404
        assert admin.ask("GET", "/api/v1/namespaces/kube-system/configmaps/m").status == 404


def test_an_update_does_not_move_either(admin: Attacker, hook: Hook, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    admin.create(path, {"metadata": {"name": "m"}})
    with Backend(patching({"op": "add", "path": "/metadata/namespace", "value": "kube-system"})) as backend:
        hook(backend)
        assert admin.ask("PUT", f"{path}/m", {"metadata": {"name": "m"}, "data": {"a": "b"}}).status == 400
        for query in ("", "?fieldManager=x"):
            applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}}
            kind = "application/apply-patch+yaml"
            assert admin.ask("PATCH", f"{path}/n?fieldManager=x", applied, kind).status == 400, query
    assert "data" not in admin.ask("GET", f"{path}/m").tree


def test_names_identities_and_kinds_are_not_exchanged(admin: Attacker, hook: Hook, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    before = admin.create(path, {"metadata": {"name": "m"}})
    operations = [{"op": "add", "path": "/metadata/name", "value": "other"}]
    with Backend(lambda head, body: patching(*operations)(head, body)) as backend:
        hook(backend)
        changed = {"metadata": {"name": "m"}, "data": {"a": "b"}}
        assert admin.ask("PUT", f"{path}/m", changed).status in (400, 422)
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}}
        assert admin.ask("PATCH", f"{path}/n?fieldManager=x", applied, "application/apply-patch+yaml").status == 400
        operations[:] = [{"op": "add", "path": "/metadata/uid", "value": "mine"}]
        assert admin.ask("PUT", f"{path}/m", changed).status in (409, 422)
        made = admin.ask("POST", path, {"metadata": {"name": "u"}})
        assert made.status != 201 or made.tree["metadata"]["uid"] != "mine"
        for field, value in (("kind", "Secret"), ("apiVersion", "v2"), ("metadata", 5), ("metadata", None)):
            operations[:] = [{"op": "replace", "path": f"/{field}", "value": value}]
            answer = admin.ask("POST", path, {"metadata": {"name": "k"}})
            assert answer.status in (400, 422, 500), (field, answer)
            assert b"panic" not in answer.body, (field, answer)
    after = admin.ask("GET", f"{path}/m").tree
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    names = {item["metadata"]["name"] for item in admin.ask("GET", path).tree["items"]}
    assert names <= {"m", "u", "kube-root-ca.crt"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, 400), (1, 400), (99, 400), (200, 400), (399, 400), (418, 418), (503, 503), (599, 599), (600, 600), (999, 999),
     (1000, 500), (99999, 500), (-5, 400), (1 << 40, 500), ("403", 500), (True, 500), (403.5, 500)],
)  # fmt: skip
def test_the_status_of_a_refusal(admin: Attacker, hook: Hook, code: Any, expected: int) -> None:
    with Backend(answering({"allowed": False, "status": {"code": code, "message": "no"}})) as backend:
        answer = admin.ask("POST", hook(backend, "validating"), {"metadata": {"name": "m"}})
        assert (answer.status, answer.tree["code"]) == (expected, expected)
        assert "attack.example.com" in answer.message


@pytest.mark.parametrize(
    "response",
    [
        "text", [], 5, {"allowed": "true"}, {"allowed": 1}, {"warnings": "many"}, {"warnings": [5]}, {"warnings": {}},
        {"auditAnnotations": ["a"]}, {"auditAnnotations": {"a": 5}}, {"status": "no", "allowed": False},
        {"status": {"details": 5}, "allowed": False}, {"status": {"reason": 5}, "allowed": False},
        {"status": {"message": ["x"]}, "allowed": False},
        {"status": {"details": {"retryAfterSeconds": "soon"}}, "allowed": False},
        {"status": {"details": {"causes": "x"}}, "allowed": False},
        {"patch": 5, "patchType": "JSONPatch"}, {"patch": "%%%", "patchType": "JSONPatch"}, {"patch": "e30=", "patchType": 5},
        {"uid": 5}, {"uid": "somebody else's"},
    ],
)  # fmt: skip
def test_an_answer_of_other_types_is_a_failed_call(admin: Attacker, hook: Hook, response: Any) -> None:
    with Backend(answering(response)) as backend:
        answer = admin.ask("POST", hook(backend), {"metadata": {"name": "m"}})
        assert (answer.status, answer.tree["reason"]) == (500, "InternalError"), answer
        assert 'failed calling webhook "attack.example.com"' in answer.message


def test_warnings_do_not_become_headers(admin: Attacker, hook: Hook) -> None:
    text = 'a\r\nX-Forged: 1\r\n\r\n"b\\ \x00ü' + "x" * 300_000
    with Backend(answering({"warnings": [text] * 3 + ["fine"]})) as backend:
        answer = admin.ask("POST", hook(backend), {"metadata": {"name": "m"}})
        assert answer.status == 201
        assert "X-Forged" not in answer.headers


def test_a_redirect_is_not_followed_and_not_shown(admin: Attacker, hook: Hook) -> None:
    """CVE-2020-8561: a webhook must not make the server ask somebody else, nor read the answer in its log."""
    with Backend(lambda head, body: http(b"inner secret")) as inner:
        location = b"Location: https://localhost:%d/inner" % inner.port
        with Backend(lambda head, body: http(b"x" * 4000, b"302 Found", b"text/html", location)) as backend:
            answer = admin.ask("POST", hook(backend), {"metadata": {"name": "m"}})
            assert answer.status == 500
            assert inner.requests == []
            assert not any("x" * 100 in line for line in admin.server.output)


def test_answers_are_bounded_in_size_and_time(admin: Attacker, hook: Hook) -> None:
    with Backend(lambda head, body: http(b"[" + b" " * 8_000_000 + b"]")) as backend:
        answer = admin.ask("POST", hook(backend), {"metadata": {"name": "m"}})
        assert answer.status == 500
    with Backend() as silent:
        path = f"{HOOKS}/mutatingwebhookconfigurations"
        name = next(iter(admin.ask("GET", path).tree["items"]))["metadata"]["name"]
        admin.ask("DELETE", f"{path}/{name}")
        answer = admin.ask("POST", hook(silent, seconds=1), {"metadata": {"name": "m"}})
        assert answer.status == 500
        assert "?timeout=1s" in answer.message and "context deadline exceeded" in answer.message


def test_a_server_with_another_certificate_is_not_asked(admin: Attacker, hook: Hook) -> None:
    with Backend(answering({}), "elsewhere.example.com") as backend:
        answer = admin.ask("POST", hook(backend), {"metadata": {"name": "m"}})
        assert answer.status == 500
        assert backend.requests == []
        assert "tls: failed to verify certificate" in answer.message


def test_patches_of_custom_resources_are_judged_as_those_of_others(admin: Attacker, hook: Hook, namespace: str) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    group = f"{namespace}.example.com"
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    admin.create(CRDS, {"metadata": {"name": f"things.{group}"}, "spec": spec})
    path = f"/apis/{group}/v1/namespaces/{namespace}/things"
    until(lambda: admin.ask("GET", path).status == 200)
    operations: list[Any] = []
    with Backend(lambda head, body: patching(*operations)(head, body)) as backend:
        hook(backend)
        for where, value in (
            ("metadata", 5), ("metadata", []), ("metadata/namespace", "kube-system"), ("metadata/namespace", 5),
            ("metadata/labels", "x"), ("metadata/annotations", {"a": 5}), ("metadata/ownerReferences", {}),
            ("metadata/finalizers", 5), ("metadata/name", {}), ("metadata/managedFields", "x"), ("kind", "Other"),
            ("metadata/ownerReferences", [5]), ("metadata/generation", "x"), ("metadata/deletionTimestamp", 5),
        ):  # fmt: skip
            operations[:] = [{"op": "add", "path": f"/{where}", "value": value}]
            body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}}
            answer = admin.ask("POST", path, body)
            assert b"panic" not in answer.body, (where, value, answer)
            if answer.status == 201:
                metadata = answer.tree["metadata"]
                assert metadata["namespace"] == namespace
                assert metadata.get(where.rpartition("/")[2]) != value, (where, value)
                assert admin.ask("DELETE", f"{path}/t").status == 200
            listed = admin.ask("GET", path)
            assert (listed.status, listed.tree["items"]) == (200, []), (where, value)
    admin.ask("DELETE", f"{CRDS}/things.{group}")


#: of converted objects that are none
_UNDECODED = ("json: cannot unmarshal number", "unexpected end of JSON input", "Object 'Kind' is missing in")


@pytest.mark.parametrize(
    "response",
    [
        {"result": "Success"}, {"result": 5}, {"result": []}, {"convertedObjects": 5}, {"convertedObjects": {"a": {}}},
        {"convertedObjects": "x"}, {"convertedObjects": [5]}, {"convertedObjects": [None]}, {"convertedObjects": []}, {"uid": 5},
        {"result": {"status": "Failure", "message": 5}}, {"result": {"status": ["x"]}}, "x", 5, [],
        {"metadata": {"namespace": "kube-system"}}, {"metadata": {"name": "other"}}, {"metadata": {"uid": "other"}},
        {"metadata": 5}, {"metadata": {"labels": "x"}}, {"metadata": {"labels": {"a": 5}}}, {"metadata": {"annotations": [1]}},
        {"kind": "Other"}, {"apiVersion": "v1"}, {"kind": 5},
    ],
)  # fmt: skip
def test_a_conversion_that_lies_is_a_failed_conversion(admin: Attacker, namespace: str, response: Any) -> None:
    """Other names, other types: the object is not shown as what it is not, and nobody panics."""
    group = f"{namespace}.example.com"

    def speak(head: bytes, body: bytes) -> bytes:
        request = json.loads(body)["request"]
        objects = [{**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]]
        honest: Any = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        if not isinstance(response, dict):
            honest = response
        elif {"metadata", "kind", "apiVersion"} & set(response):
            for obj in objects:
                metadata = response.get("metadata", {})
                obj.update(
                    {
                        **response,
                        "metadata": {**obj["metadata"], **metadata} if isinstance(metadata, dict) else metadata,
                    }
                )
        else:
            honest.update(response)
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": honest}
        return http(json.dumps(review).encode())

    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": f"v{n}", "served": True, "storage": n == 1, "schema": schema} for n in (1, 2)]
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    with Backend(speak) as backend:
        client = {
            "url": f"https://localhost:{backend.port}/convert",
            "caBundle": base64.b64encode(backend.certificate).decode(),
        }
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        conversion = {"strategy": "Webhook", "webhook": webhook}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions, "conversion": conversion}
        admin.create(CRDS, {"metadata": {"name": f"things.{group}"}, "spec": spec})
        paths = [f"/apis/{group}/v{n}/namespaces/{namespace}/things" for n in (1, 2)]
        until(lambda: admin.ask("GET", paths[0]).status == 200)
        admin.create(paths[0], {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}})
        for path in (f"{paths[1]}/t", paths[1]):
            answer = admin.ask("GET", path)
            assert answer.status == 500, answer
            assert b"panic" not in answer.body, answer
            assert any(text in answer.message for text in ("conversion webhook", *_UNDECODED)), answer
        assert admin.ask("GET", f"{paths[0]}/t").status == 200
        admin.ask("DELETE", f"{CRDS}/things.{group}")
