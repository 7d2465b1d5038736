"""Paths and methods at the edges of what is routed, asked of a server of its own."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.integration.server_process import ForkedServer, ServerProcess


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    process = ForkedServer()
    process.start()
    yield process
    process.stop()


def ask(
    server: ServerProcess, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, str, bytes]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, context=context, timeout=120)
    sent = {"Authorization": "Bearer admintoken", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.request(method, path, body=body, headers=sent)
        answer = connection.getresponse()
        return answer.status, answer.getheader("content-type") or "", answer.read()
    finally:
        connection.close()


def message(answer: tuple[int, str, bytes]) -> Any:
    return orjson.loads(answer[2])["message"]


@pytest.mark.parametrize("path", ["//api/v1/namespaces/default/configmaps", "//apis/apps/v1/deployments", "//apis"])
def test_two_slashes_at_the_beginning_lead_nowhere(server: ServerProcess, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert ask(server, method, path) == (404, "text/plain; charset=utf-8", b"404 page not found\n")


@pytest.mark.parametrize("path", ["/api/v1/namespaces/%zz", "/healthz%", "/api/v1/pods/%2?watch=1"])
def test_a_path_with_a_broken_escape_is_no_request(server: ServerProcess, path: str) -> None:
    assert ask(server, "GET", path) == (400, "text/plain; charset=utf-8", b"400 Bad Request")


@pytest.mark.parametrize("path", ["/openid/v1/jwks", "/.well-known/openid-configuration", "/version"])
def test_what_lies_below_a_document_is_not_there(server: ServerProcess, path: str) -> None:
    assert ask(server, "GET", path + "/")[0] == ask(server, "GET", path)[0] == 200
    assert message(ask(server, "POST", path + "/")) == "the server does not allow this method on the requested resource"
    assert message(ask(server, "GET", path + "/../c")) == "the server could not find the requested resource"


def test_media_types_of_bodies_are_compared_without_case(server: ServerProcess) -> None:
    body = orjson.dumps({"metadata": {"name": "c"}})
    answer = ask(server, "POST", "/api/v1/namespaces/default/configmaps", body, Content_Type="application/JSON")
    assert answer[0] == 201


def test_groups_are_answered_without_a_route(server: ServerProcess) -> None:
    """So what is accepted is looked at where the answer is written, which has other words."""
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    route = f"406: Not Acceptable\n\nAvailable representations: {types}"
    writer = f"only the following media types are accepted: {types}"
    for path, words in {"/apis": writer, "/apis/apps": writer, "/api": route, "/apis/apps/v1": route}.items():
        assert message(ask(server, "GET", path, Accept="text/plain")) == words


def test_a_review_has_metadata_but_no_table(server: ServerProcess) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = orjson.dumps({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}})
    kinds = {"PartialObjectMetadata": 201, "Table": 406}
    for kind, code in kinds.items():
        accept = f"application/json;as={kind};v=v1;g=meta.k8s.io"
        assert ask(server, "POST", path, body, Content_Type="application/json", Accept=accept)[0] == code


def test_a_pod_may_not_name_an_account_that_cannot_be(server: ServerProcess) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "a/b"}
    body = orjson.dumps({"metadata": {"name": "p"}, "spec": spec})
    answer = ask(server, "POST", "/api/v1/namespaces/default/pods", body, Content_Type="application/json")
    why = "error looking up service account default/a/b: invalid resource name \"a/b\": [may not contain '/']"
    assert (answer[0], message(answer)) == (403, f'pods "p" is forbidden: {why}')
