"""Certificates, an authenticating proxy and their reload, against a real server process over TLS."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.authentication.identities import Authority, name
from tests.integration.server_process import ForkedServer, ServerProcess
from tests.waiting import until

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
    server = ForkedServer(
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


def connect(server: ServerProcess, certificate: str = "") -> http.client.HTTPSConnection:
    """A connection that may serve several requests."""
    context = ssl.create_default_context(cafile=str(server.authority))
    if certificate:
        context.load_cert_chain(certificate)
    return http.client.HTTPSConnection(server.url.removeprefix("https://"), context=context, timeout=120)


def ask(connection: http.client.HTTPSConnection, **headers: str) -> tuple[int, Any]:
    """(status, user information) of a SelfSubjectReview."""
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        "{}",
        {"Content-Type": "application/json", **given},
    )
    answer = connection.getresponse()
    body = json.loads(answer.read())
    return answer.status, body.get("status", {}).get("userInfo") if answer.status == 201 else body


def whoami(server: ServerProcess, certificate: str = "", **headers: str) -> tuple[int, Any]:
    """The same over a connection of its own."""
    connection = connect(server, certificate)
    try:
        return ask(connection, **headers)
    finally:
        connection.close()


def reload(server: ServerProcess) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)


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
    """A connection that is open stays open, and every request on it is judged by the CA of the moment."""
    bundle_file = secured.root / "clients.crt"
    early, late = bundle(tmp_path, CLIENTS, "early"), bundle(tmp_path, LATER, "late")
    one, two = connect(secured, early), connect(secured, late)
    assert [ask(one)[0], ask(two)[0]] == [201, 401]
    sockets = [one.sock, two.sock]
    try:
        bundle_file.write_bytes(CLIENTS.pem + LATER.pem)
        reload(secured)
        assert until(lambda: ask(two)[0] == 201) and ask(one)[0] == 201
        bundle_file.write_text("half a file")
        reload(secured)
        assert [ask(one)[0], ask(two)[0]] == [201, 201]
        bundle_file.write_bytes(LATER.pem)
        reload(secured)
        assert until(lambda: ask(one)[0] == 401) and ask(two)[0] == 201
        assert [one.sock, two.sock] == sockets, "no connection was dropped"
    finally:
        bundle_file.write_bytes(CLIENTS.pem)
        reload(secured)
        one.close()
        two.close()
    assert until(lambda: whoami(secured, early)[0] == 201)


def test_a_front_proxy_ca_is_exchanged_while_the_server_runs(secured: ServerProcess, tmp_path: Path) -> None:
    bundle_file, other = secured.root / "proxies.crt", Authority("other-proxies")
    proxy = connect(secured, bundle(tmp_path, PROXIES, "front-proxy"))
    assert ask(proxy, X_Remote_User="joe")[1]["username"] == "joe"
    kept = proxy.sock
    try:
        bundle_file.write_bytes(other.pem)
        reload(secured)
        assert until(lambda: ask(proxy, X_Remote_User="joe")[0] == 401)
        assert proxy.sock is kept
        code, user = whoami(secured, bundle(tmp_path, other, "front-proxy"), X_Remote_User="ann")
        assert (code, user["username"]) == (201, "ann")
    finally:
        bundle_file.write_bytes(PROXIES.pem)
        reload(secured)
    assert until(lambda: ask(proxy, X_Remote_User="joe")[0] == 201)
    proxy.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_resumed_session_carries_no_identity_over(
    secured: ServerProcess, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=str(secured.authority))
    context.load_cert_chain(bundle(tmp_path, CLIENTS, "jane"))
    context.minimum_version = context.maximum_version = version
    host, port = secured.url.removeprefix("https://").split(":")

    def request(session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None, bool | None]:
        with socket.create_connection((host, int(port)), timeout=120) as plain:
            with context.wrap_socket(plain, server_hostname=host, session=session) as secure:
                secure.sendall(b"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = b""
                while chunk := secure.recv(65536):
                    answer += chunk
                return answer, secure.session, secure.session_reused

    answer, session, _ = request(None)
    assert b'User \\"jane\\" cannot list' in answer
    (secured.root / "clients.crt").write_bytes(LATER.pem)
    reload(secured)
    try:
        assert until(lambda: request(session)[0].startswith(b"HTTP/1.1 401"))
        assert request(session)[2] is False
    finally:
        (secured.root / "clients.crt").write_bytes(CLIENTS.pem)
        reload(secured)
    assert until(lambda: b"jane" in request(None)[0])


def test_handshakes_that_fail_are_counted(secured: ServerProcess) -> None:
    def failed() -> float:
        connection = connect(secured)
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer admintoken"})
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return float(
            next(line.split()[1] for line in lines if line.startswith("apiserver_tls_handshake_errors_total "))
        )

    before = failed()
    host, port = secured.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = plain.recv(200)
        assert answer.endswith(b"400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
    context = ssl.create_default_context()  # does not trust the server
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection(secured.url.removeprefix("https://"), context=context, timeout=120).connect()
    assert until(lambda: failed() == before + 2)


def test_a_generated_certificate_suits_the_configured_cipher_suites(tmp_path: Path) -> None:
    server = ForkedServer("--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256", directory=tmp_path).start()
    try:
        context = ssl.create_default_context(cafile=str(server.authority))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AES128-GCM-SHA256")
        host = server.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(host, context=context, timeout=120)
        assert ask(connection, Authorization="Bearer admintoken")[1]["username"] == "admin"
        connection.close()
    finally:
        assert server.stop() == 0


def test_a_serving_certificate_is_exchanged_while_the_server_runs(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    certificate, key = tmp_path / "serving.crt", tmp_path / "serving.key"

    def write(authority: Authority) -> None:
        made, private = authority.issue(name("localhost"), hosts=True, usage=ExtendedKeyUsageOID.SERVER_AUTH)
        key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        certificate.write_bytes(made.public_bytes(Encoding.PEM))

    write(old)
    server = ForkedServer(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", directory=tmp_path).start()
    try:

        def trusting(authority: Authority) -> http.client.HTTPSConnection:
            context = ssl.create_default_context(cadata=authority.pem.decode())
            return http.client.HTTPSConnection(server.url.removeprefix("https://"), context=context, timeout=120)

        def served(authority: Authority) -> bool:
            connection = trusting(authority)
            try:
                return ask(connection, Authorization="Bearer admintoken")[0] == 201
            except ssl.SSLCertVerificationError:
                return False
            finally:
                connection.close()

        open_before = trusting(old)
        assert ask(open_before, Authorization="Bearer admintoken")[0] == 201
        kept = open_before.sock
        assert not served(new)
        write(new)
        reload(server)
        assert until(lambda: served(new)) and not served(old)
        assert ask(open_before, Authorization="Bearer admintoken")[0] == 201
        assert open_before.sock is kept, "who is connected stays so"
        open_before.close()
    finally:
        assert server.stop() == 0


def test_no_secret_is_in_any_log_at_any_verbosity(tmp_path: Path) -> None:
    """CVE-2019-11250, CVE-2020-8563 .. 8566: neither tokens nor Secrets, whatever is asked for."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n"
        '- {level: Metadata, resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}\n'
        "- {level: Metadata, resources: [{group: authentication.k8s.io, resources: [tokenreviews]}]}\n"
        "- {level: RequestResponse}\n"
    )
    server = ForkedServer("-v=10", f"--audit-policy-file={policy}", f"--audit-log-path={log}", directory=tmp_path)
    server.tokens.write_text('sesame-of-the-admin,admin,admin,"system:masters"\n')
    server.start()
    secrets = ["sesame-of-the-admin", "sesame-guessed", "c2VzYW1lLWluLWEtc2VjcmV0", "sesame-in-a-cookie"]
    base = "/api/v1/namespaces/default"
    try:
        connection = connect(server)

        def send(method: str, uri: str, body: Any = None, token: str = secrets[0]) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {token}", "Cookie": f"session={secrets[3]}"}
            connection.request(method, uri, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")

        assert send("GET", base, token=secrets[1])[0] == 401
        secret = {"metadata": {"name": "s"}, "data": {"k": secrets[2]}}
        assert send("POST", f"{base}/secrets", secret)[0] == 201
        assert send("POST", f"{base}/secrets", {**secret, "metadata": {"name": "S!"}})[0] == 422
        assert send("PATCH", f"{base}/secrets/s", {"data": {"k": secrets[2]}})[0] == 415
        assert send("GET", f"{base}/secrets")[0] == 200
        account = {"metadata": {"name": "app"}}
        assert send("POST", f"{base}/serviceaccounts", account)[0] == 201
        code, made = send("POST", f"{base}/serviceaccounts/app/token", {"spec": {}})
        assert code == 201
        secrets.append(made["status"]["token"])
        review = {"spec": {"token": secrets[-1]}}
        assert send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)[0] == 201
        assert send("GET", base, token=secrets[-1])[0] == 403
        connection.close()
    finally:
        assert server.stop() == 0
    written = {"output": "".join(server.output), "audit": log.read_text()}
    assert "tokenreviews" in written["audit"] and written["audit"].count("\n") > 10
    for where, text in written.items():
        for each in secrets:
            assert each not in text, f"{each[:12]} in the {where}"
