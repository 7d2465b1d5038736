"""A server whose tokens a program behind a socket signs: a token made, used, and refused when its key is gone."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.authentication.token_signer import TokenSigner
from tests.integration.server_process import ForkedServer, ServerProcess, api_request, connect

pytest.importorskip("grpc")

TOKENS = "api/v1/namespaces/default/serviceaccounts/app/token"


@pytest.fixture
def program() -> Iterator[TokenSigner]:
    with tempfile.TemporaryDirectory() as directory:
        made = TokenSigner(f"unix:{directory}/signer.sock").start()
        yield made
        made.stop()


def who(server: ServerProcess, token: str) -> tuple[int, str]:
    """Status and user name of a SelfSubjectReview."""
    connection = connect(server)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        return answer.status, body.get("status", {}).get("userInfo", {}).get("username", "") if body else ""
    finally:
        connection.close()


def made(server: ServerProcess, seconds: int = 600) -> tuple[int, Any]:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    code, body = api_request(server, "POST", TOKENS, request)
    return code, json.loads(body)


def test_tokens_are_signed_by_the_program(tmp_path: Path, program: TokenSigner) -> None:
    program.keys["old"] = program.keys["one"]
    program.excluded = {"old"}
    path = program.address.removeprefix("unix:")
    server = ForkedServer(
        f"--service-account-signing-endpoint={path}",
        "--service-account-issuer=https://issuer.example.com",
        directory=tmp_path,
    ).start()
    try:
        accounts = "api/v1/namespaces/default/serviceaccounts"
        assert api_request(server, "POST", accounts, {"metadata": {"name": "app"}})[0] == 201
        code, body = made(server)
        assert code == 201, body
        token = body["status"]["token"]
        assert who(server, token) == (201, "system:serviceaccount:default:app")
        code, body = made(server, 100_000)
        assert (code, body["spec"]["expirationSeconds"]) == (201, 7200)

        code, keys = api_request(server, "GET", "openid/v1/jwks")
        assert code == 200 and [key["kid"] for key in json.loads(keys)["keys"]] == ["one"]
        code, document = api_request(server, "GET", ".well-known/openid-configuration")
        assert json.loads(document)["id_token_signing_alg_values_supported"] == ["ES256"]
        assert b'apiserver_externaljwt_sign_request_total{code="OK"} 2\n' in api_request(server, "GET", "metrics")[1]

        program.rotate("two")
        assert made(server)[0] == 201
        code, keys = api_request(server, "GET", "openid/v1/jwks")
        assert [key["kid"] for key in json.loads(keys)["keys"]] == ["one", "two"]

        program.failing = "the vault is sealed"
        code, body = made(server)
        assert (code, body["message"]) == (
            500,
            "Internal error occurred: failed to generate token: while signing jwt: rpc error: code = Internal desc = "
            "the vault is sealed",
        )
        assert who(server, token) == (201, "system:serviceaccount:default:app")
    finally:
        assert server.stop() == 0


def test_a_server_does_not_start_with_a_signer_that_fails(tmp_path: Path, program: TokenSigner) -> None:
    program.failing = "the vault is sealed"
    path = program.address.removeprefix("unix:")
    server = ForkedServer(f"--service-account-signing-endpoint={path}", directory=tmp_path)
    try:
        why = "--service-account-signing-endpoint: while fetching token verification keys: rpc error"
        with pytest.raises(RuntimeError, match=why):
            server.start()
    finally:
        server.stop()
