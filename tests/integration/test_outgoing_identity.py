"""How the server shows itself to others: to conversion webhooks, to kubelets and to aggregated servers."""

from __future__ import annotations

import base64
import http.server
import json
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from tests.admission.certificates import make_certificate
from tests.authentication.identities import Authority, name
from tests.integration.server_process import ForkedServer, ServerProcess, api_request
from tests.waiting import until

GROUP = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Backend:
    """An HTTPS server that keeps what it was asked, and the certificate of who asked."""

    def __init__(self, directory: Path, *names: str, authority: bytes = b"") -> None:
        certificate, key = make_certificate("127.0.0.1", *names)
        self.bundle = base64.b64encode(certificate).decode()
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.serials: list[str] = []
        self.answer: Callable[[str, Any], Any] = lambda path, body: {}
        pem = directory / f"backend{id(self)}.pem"
        pem.write_bytes(certificate + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
        if authority:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=authority.decode())
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                shown = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
                backend.serials.append(str((shown or {}).get("serialNumber", "")))
                asked = json.loads(body) if body else None
                backend.requests.append((self.path, dict(self.headers), asked))
                data = json.dumps(backend.answer(self.path, asked)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def converter(tmp_path: Path) -> Iterator[Backend]:
    backend = Backend(tmp_path, "convert.hooks.svc")

    def convert(path: str, review: Any) -> Any:
        request = review["request"]
        objects = [{**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return {"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response}

    backend.answer = convert
    yield backend
    backend.close()


def client_pair(authority: Authority) -> tuple[bytes, bytes]:
    certificate, key = authority.issue(name("kapi"))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


def definition(bundle: str) -> Any:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema},
                {"name": "v2", "served": True, "storage": False, "schema": schema},
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"namespace": "hooks", "name": "convert"}, "caBundle": bundle},
                },
            },
        },
    }


def test_conversion_webhooks_are_reached_as_admission_webhooks_are(tmp_path: Path, converter: Backend) -> None:
    (tmp_path / "users.yaml").write_text(
        json.dumps({"kind": "Config", "users": [{"name": "convert.hooks.svc", "user": {"token": "of-webhooks"}}]})
    )
    configuration = {"kubeConfigFile": str(tmp_path / "users.yaml"), "kind": "WebhookAdmissionConfiguration"}
    configuration["apiVersion"] = "apiserver.config.k8s.io/v1"
    plugins = [{"name": "MutatingAdmissionWebhook", "configuration": configuration}]
    (tmp_path / "admission.yaml").write_text(
        json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins})
    )
    server = ForkedServer(
        f"--service-address=hooks/convert=127.0.0.1:{converter.port}",
        f"--admission-control-config-file={tmp_path / 'admission.yaml'}",
    ).start()
    try:
        assert api_request(server, "POST", GROUP, definition(converter.bundle))[0] == 201
        things = "apis/example.com/v2/namespaces/default/things"
        until(lambda: api_request(server, "GET", things)[0] == 200)
        thing = {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}}
        assert api_request(server, "POST", things, thing)[0] == 201
        assert {headers.get("Authorization") for _, headers, _ in converter.requests} == {"Bearer of-webhooks"}
    finally:
        server.stop()


def logs(server: ServerProcess, kubelet: Backend, cluster: str = "") -> str:
    """The path of the log of a pod on a node whose kubelet this is; in a logical cluster, where its path is given."""
    state = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    }
    node = {"metadata": {"name": "node"}, "status": state}
    assert api_request(server, "POST", f"{cluster}api/v1/nodes", node)[0] == 201
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}}
    pods = f"{cluster}api/v1/namespaces/default/pods"
    until(lambda: api_request(server, "POST", pods, pod)[0] == 201)
    return f"{pods}/p/log"


def test_what_objects_of_a_logical_cluster_name_is_reached_without_the_credentials_of_the_process(
    tmp_path: Path, converter: Backend
) -> None:
    authority = Authority()
    kubelet = Backend(tmp_path, authority=authority.pem)
    cluster = "clusters/x/"
    extensions = {}  # one each: the server's own goes on being asked
    for where, folder in (("", "own"), (cluster, "there")):
        (tmp_path / folder).mkdir()
        extensions[where] = Backend(tmp_path / folder, "api.hooks.svc", authority=authority.pem)
    files = tmp_path / "client.crt", tmp_path / "client.key"
    for file, content in zip(files, client_pair(authority), strict=True):
        file.write_bytes(content)
    (tmp_path / "users.yaml").write_text(
        json.dumps({"kind": "Config", "users": [{"name": "convert.hooks.svc", "user": {"token": "of-webhooks"}}]})
    )
    configuration = {"kubeConfigFile": str(tmp_path / "users.yaml"), "kind": "WebhookAdmissionConfiguration"}
    configuration["apiVersion"] = "apiserver.config.k8s.io/v1"
    plugins = [{"name": "ValidatingAdmissionWebhook", "configuration": configuration}]
    (tmp_path / "admission.yaml").write_text(
        json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins})
    )
    spec = {"group": "else.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    place = {"metadata": {"name": "api"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    server = ForkedServer(
        f"--kubelet-client-certificate={files[0]}", f"--kubelet-client-key={files[1]}",
        f"--proxy-client-cert-file={files[0]}", f"--proxy-client-key-file={files[1]}",
        f"--service-address=hooks/convert=127.0.0.1:{converter.port}",
        f"--admission-control-config-file={tmp_path / 'admission.yaml'}", "--testbed", "--enable-logical-clusters",
    ).start()  # fmt: skip
    try:
        until(lambda: api_request(server, "PUT", "clusters/x")[0] in (200, 201))
        shown = {}
        for where in ("", cluster):
            assert api_request(server, "GET", logs(server, kubelet, where))[0] == 200
            assert api_request(server, "POST", f"{where}api/v1/namespaces", {"metadata": {"name": "hooks"}})[0] == 201
            assert api_request(server, "POST", f"{where}api/v1/namespaces/hooks/services", place)[0] == 201
            extension = extensions[where]
            reached = {
                "service": {"namespace": "hooks", "name": "api", "port": extension.port},
                "caBundle": extension.bundle,
            }
            service = {"metadata": {"name": "v1.else.example.com"}, "spec": {**spec, **reached}}
            path = f"{where}apis/apiregistration.k8s.io/v1/apiservices"
            assert api_request(server, "POST", path, service)[0] == 201
            until(lambda extension=extension: extension.serials)
            shown[where] = bool(kubelet.serials[-1]), bool(extension.serials[-1])
        assert shown == {"": (True, True), cluster: (False, False)}
        assert api_request(server, "POST", f"{cluster}{GROUP}", definition(converter.bundle))[0] == 201
        things = f"{cluster}apis/example.com/v2/namespaces/default/things"
        until(lambda: api_request(server, "GET", things)[0] == 200)
        thing = {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}}
        assert api_request(server, "POST", things, thing)[0] == 201
        assert {headers.get("Authorization") for _, headers, _ in converter.requests} == {None}
    finally:
        kubelet.close()
        for extension in extensions.values():
            extension.close()
        server.stop()


def test_client_certificates_are_taken_up_when_their_files_change(tmp_path: Path) -> None:
    authority = Authority()
    first, second = client_pair(authority), client_pair(authority)
    kubelet = Backend(tmp_path, authority=authority.pem)
    files = tmp_path / "client.crt", tmp_path / "client.key"

    def write(pair: tuple[bytes, bytes]) -> None:
        for file, content in zip(files, pair, strict=True):
            file.write_bytes(content)

    write(first)
    server = ForkedServer(
        f"--kubelet-client-certificate={files[0]}", f"--kubelet-client-key={files[1]}",
        f"--proxy-client-cert-file={files[0]}", f"--proxy-client-key-file={files[1]}",
    ).start()  # fmt: skip
    try:
        log = logs(server, kubelet)

        def shown() -> str:
            code, answer = api_request(server, "GET", log)
            assert code == 200, answer
            return kubelet.serials[-1]

        before = shown()
        assert before
        assert server.process is not None
        write((second[0], first[1]))  # half of the new pair: not taken
        server.process.send_signal(signal.SIGHUP)
        until(lambda: any("Not reloading --kubelet-client" in line for line in server.output))
        assert shown() == before
        write(second)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: shown() != before)
    finally:
        kubelet.close()
        server.stop()
