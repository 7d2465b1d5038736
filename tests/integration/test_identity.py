"""Certificates, an authenticating proxy and their reload, against a real server process over TLS."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from kapi_server_process import ServerProcess

from tests.authentication.identities import Authority, name

CLIENTS, PROXIES, LATER = Authority("clients"), Authority("proxies"), Authority("later")


def bundle(directory: Path, authority: Authority, common: str, *organizations: str) -> str:
    """A PEM file with a client certificate and its key."""
    certificate, key = authority.issue(name(common, organizations), usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    file = directory / f"{common}-{time.monotonic_ns()}.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return str(file)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("identity")
    clients, proxies = directory / "clients.crt", directory / "proxies.crt"
    clients.write_bytes(CLIENTS.pem)
    proxies.write_bytes(PROXIES.pem)
    server = ServerProcess(
        f"--client-ca-file={clients}",
        f"--requestheader-client-ca-file={proxies}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        directory=directory,
    ).start()
    yield server
    assert server.stop() == 0


def whoami(server: ServerProcess, certificate: str = "", **headers: str) -> tuple[int, Any]:
    """(status, user information) of a SelfSubjectReview."""
    context = ssl.create_default_context(cafile=str(server.authority))
    if certificate:
        context.load_cert_chain(certificate)
    connection = http.client.HTTPSConnection(server.url.removeprefix("https://"), context=context, timeout=20)
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    try:
        connection.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            "{}",
            {"Content-Type": "application/json", **given},
        )
        answer = connection.getresponse()
        body = json.loads(answer.read())
    finally:
        connection.close()
    return answer.status, body.get("status", {}).get("userInfo") if answer.status == 201 else body


def test_a_client_certificate_names_user_and_groups(secured: ServerProcess, tmp_path: Path) -> None:
    code, user = whoami(secured, bundle(tmp_path, CLIENTS, "jane", "dev", "qa"))
    assert code == 201
    assert (user["username"], user["groups"]) == ("jane", ["dev", "qa", "system:authenticated"])


def test_a_certificate_of_a_stranger_is_worth_nothing(secured: ServerProcess, tmp_path: Path) -> None:
    certificate = bundle(tmp_path, Authority("stranger"), "root", "system:masters")
    try:
        code, _ = whoami(secured, certificate)
    except (ssl.SSLError, ConnectionError):
        return  # refused in the handshake
    assert code == 401


def test_proxy_headers_count_with_the_proxys_certificate_only(secured: ServerProcess, tmp_path: Path) -> None:
    headers = {"X_Remote_User": "joe", "X_Remote_Group": "ops", "X_Remote_Extra_Scopes": "view"}
    code, user = whoami(secured, bundle(tmp_path, PROXIES, "front-proxy"), **headers)
    assert code == 201
    assert user == {"username": "joe", "groups": ["ops", "system:authenticated"], "extra": {"scopes": ["view"]}}
    assert whoami(secured, bundle(tmp_path, PROXIES, "somebody"), **headers)[0] == 401
    code, user = whoami(secured, bundle(tmp_path, CLIENTS, "jane"), **headers)
    assert (code, user["username"]) == (201, "jane")
    assert whoami(secured, **headers)[0] == 403


def test_a_client_ca_is_exchanged_while_the_server_runs(secured: ServerProcess, tmp_path: Path) -> None:
    early, late = bundle(tmp_path, CLIENTS, "early"), bundle(tmp_path, LATER, "late")
    assert whoami(secured, early)[0] == 201
    (secured.root / "clients.crt").write_bytes(CLIENTS.pem + LATER.pem)
    assert secured.process is not None
    secured.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    code = 0
    while time.monotonic() < end:
        try:
            code = whoami(secured, late)[0]
        except (ssl.SSLError, ConnectionError):
            code = 0
        if code == 201:
            break
        time.sleep(0.1)
    assert code == 201
    assert whoami(secured, early)[0] == 201
