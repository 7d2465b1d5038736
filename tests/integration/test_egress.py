"""Egress selections: who is reached through which proxy, over each transport, and what happens when a proxy fails."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapi.foundation import Foundation
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from tests.authentication.identities import Authority
from tests.integration.server_process import ForkedServer, ServerProcess, api_request
from tests.integration.test_backup import done
from tests.integration.test_outgoing_identity import Backend, client_pair
from tests.store.servers import Server
from tests.waiting import until
from tests.wire.connect_proxy import ConnectProxy
from tests.wire.konnectivity_server import KonnectivityServer

MAPS = "api/v1/namespaces/default/configmaps"
HOOKS = "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def write(path: Path, **connections: Any) -> str:
    selections = [{"name": network, "connection": connection} for network, connection in connections.items()]
    tree = {
        "apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": selections,
    }  # fmt: skip
    path.write_text(json.dumps(tree))
    return f"--egress-selector-config-file={path}"


def connect(**transport: Any) -> Any:
    return {"proxyProtocol": "HTTPConnect", "transport": transport}


def call(path: Path) -> Any:
    return {"proxyProtocol": "GRPC", "transport": {"uds": {"udsName": str(path)}}}


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    made = Backend(tmp_path, "hook.only-the-proxy-knows")

    def answer(path: str, body: Any) -> Any:
        if body is None:
            return {}
        response = {"uid": body["request"]["uid"], "allowed": True}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    made.answer = answer
    yield made
    made.close()


@pytest.fixture
def proxies() -> Iterator[Callable[..., ConnectProxy]]:
    made: list[ConnectProxy] = []

    def make(**more: Any) -> ConnectProxy:
        made.append(ConnectProxy(**more))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


MINE = {"name": "one", "labels": {"of": "test"}}


def hook(backend: Backend) -> Any:
    """Not for kube-root-ca.crt, which the server makes in each namespace, at any time."""
    config = {"url": f"https://hook.only-the-proxy-knows:{backend.port}/hook", "caBundle": backend.bundle}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    webhook = {
        "name": "hook.example.com", "clientConfig": config, "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 30, "objectSelector": {"matchLabels": MINE["labels"]},
    }  # fmt: skip
    return {"metadata": {"name": "hook"}, "webhooks": [webhook]}


def make_pod(server: ServerProcess, backend: Backend) -> None:
    state = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": backend.port}},
    }
    assert api_request(server, "POST", "api/v1/nodes", {"metadata": {"name": "node"}, "status": state})[0] == 201
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}}
    until(lambda: api_request(server, "POST", "api/v1/namespaces/default/pods", pod)[0] == 201)


def test_each_network_takes_its_proxy(tmp_path: Path, backend: Backend, proxies: Callable[..., ConnectProxy]) -> None:
    """The cluster over TLS with a client certificate, the control plane over a unix socket; TLS to the target is inside."""
    with tempfile.TemporaryDirectory() as short:
        authority = Authority()
        socket = Path(short) / "proxy.sock"
        certificate, key = client_pair(authority)
        for file, content in (("own.crt", certificate), ("own.key", key)):
            (tmp_path / file).write_bytes(content)
        from tests.admission.certificates import make_certificate

        serving = make_certificate("127.0.0.1")
        (tmp_path / "ca.crt").write_bytes(serving[0])
        cluster = proxies(certificate=serving, authority=authority.pem)
        control = proxies(path=socket)
        control.hosts["hook.only-the-proxy-knows"] = "127.0.0.1"
        tls = {
            "caBundle": f"{tmp_path}/ca.crt",
            "clientCert": f"{tmp_path}/own.crt",
            "clientKey": f"{tmp_path}/own.key",
        }
        flag = write(
            tmp_path / "egress.json",
            cluster=connect(tcp={"url": f"https://127.0.0.1:{cluster.port}", "tlsConfig": tls}),
            controlplane=connect(uds={"udsName": str(socket)}),
            etcd={"proxyProtocol": "Direct"},
        )
        server = ForkedServer(flag).start()
        try:
            assert api_request(server, "POST", HOOKS, hook(backend))[0] == 201

            def created() -> bool:
                api_request(server, "DELETE", f"{MAPS}/one")
                code, answer = api_request(server, "POST", MAPS, {"metadata": MINE})
                assert code == 201, answer
                return bool(control.asked)

            until(created)
            assert control.asked[0].split(b"\r\n")[:2] == [
                f"CONNECT hook.only-the-proxy-knows:{backend.port} HTTP/1.1".encode(), b"Host: 127.0.0.1",
            ]  # fmt: skip
            assert [path for path, _, _ in backend.requests if path.startswith("/hook")]
            assert not cluster.asked
            make_pod(server, backend)
            assert api_request(server, "GET", "api/v1/namespaces/default/pods/p/log") == (200, b"{}")
            assert cluster.asked[0].startswith(f"CONNECT 127.0.0.1:{backend.port} HTTP/1.1\r\n".encode())
            metrics = api_request(server, "GET", "metrics")[1].decode()
            for transport in ("tcp", "uds"):
                labels = f'{{protocol="http_connect",transport="{transport}"}}'
                assert f"apiserver_egress_dialer_dial_start_total{labels} " in metrics
                assert f"apiserver_egress_dialer_dial_duration_seconds_count{labels} " in metrics
        finally:
            assert server.stop() == 0


def test_a_proxy_that_fails_is_told(tmp_path: Path, backend: Backend, proxies: Callable[..., ConnectProxy]) -> None:
    proxy = proxies(answer=b"HTTP/1.1 403 Forbidden\r\n\r\n")
    server = ForkedServer(
        write(tmp_path / "egress.json", cluster=connect(tcp={"url": f"http://127.0.0.1:{proxy.port}"}))
    ).start()
    try:
        make_pod(server, backend)

        def log() -> str:
            code, answer = api_request(server, "GET", "api/v1/namespaces/default/pods/p/log")
            assert code == 500
            return str(json.loads(answer)["message"])

        dialing = f"proxy error from 127.0.0.1:{proxy.port} while dialing 127.0.0.1:{backend.port}: "
        assert dialing + "proxyconnect tcp: 403 Forbidden" in log()
        proxy.answer = b"HTTP/1.1 200 OK\r\n\r\nmore"
        assert "unexpected 4 bytes of buffered data from CONNECT proxy" in log()
        proxy.answer = b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100_000
        assert "the proxy's answer is too long" in log()
        proxy.answer = b"nonsense"
        assert "the proxy has closed the connection" in log()
        proxy.hangs = True
        assert "i/o timeout" in log()  # after --kubelet-timeout
        proxy.close()
        assert "connection refused" in log()
        metrics = api_request(server, "GET", "metrics")[1].decode()
        for stage, count in (("proxy", 4), ("connect", 2)):
            labels = f'{{protocol="http_connect",stage="{stage}",transport="tcp"}}'
            assert f"apiserver_egress_dialer_dial_failure_count{labels} {count}\n" in metrics
        assert not backend.requests
    finally:
        assert server.stop() == 0


def test_the_store_may_be_behind_a_proxy(tmp_path: Path, proxies: Callable[..., ConnectProxy]) -> None:
    store, proxy = Server(), proxies()
    try:
        store.wait()
        proxy.hosts["redis.only-the-proxy-knows"] = "127.0.0.1"
        flag = write(tmp_path / "egress.json", etcd=connect(tcp={"url": f"http://127.0.0.1:{proxy.port}"}))
        server = ForkedServer(flag, f"--redis-servers=redis://redis.only-the-proxy-knows:{store.port}").start()
        try:
            assert api_request(server, "POST", MAPS, {"metadata": {"name": "one"}})[0] == 201
            asked = {head.split(b"\r\n")[0].decode() for head in proxy.asked}
            assert asked == {f"CONNECT redis.only-the-proxy-knows:{store.port} HTTP/1.1"}
        finally:
            assert server.stop() == 0
    finally:
        store.stop()


@pytest.fixture
def konnectivity() -> Iterator[KonnectivityServer]:
    with tempfile.TemporaryDirectory() as short:
        made = KonnectivityServer(Path(short) / "proxy.sock")
        yield made
        made.close()


def test_konnectivity_leads_to_each_network(tmp_path: Path, backend: Backend, konnectivity: KonnectivityServer) -> None:
    """TLS to the target is inside of the call; the log of the pod is larger than all windows."""
    backend_answer, log = backend.answer, {"log": "x" * 3_000_000}
    backend.answer = lambda path, body: backend_answer(path, body) or log
    konnectivity.hosts["hook.only-the-proxy-knows"] = "127.0.0.1"
    connection = call(konnectivity.path)
    server = ForkedServer(write(tmp_path / "egress.json", cluster=connection, controlplane=connection)).start()
    try:
        assert api_request(server, "POST", HOOKS, hook(backend))[0] == 201

        def created() -> bool:
            api_request(server, "DELETE", f"{MAPS}/one")
            body = {"metadata": MINE, "data": {"a": "x" * 500_000}}
            code, answer = api_request(server, "POST", MAPS, body)
            assert code == 201, answer
            return bool(konnectivity.asked)

        until(created)
        assert konnectivity.asked == [f"hook.only-the-proxy-knows:{backend.port}"]
        assert [path for path, _, _ in backend.requests if path.startswith("/hook")]
        make_pod(server, backend)
        konnectivity.error = "dial tcp 127.0.0.1:10250: connect: connection refused"
        code, answer = api_request(server, "GET", "api/v1/namespaces/default/pods/p/log")
        assert code == 500 and konnectivity.error in json.loads(answer)["message"]
        konnectivity.error = ""
        code, answer = api_request(server, "GET", "api/v1/namespaces/default/pods/p/log")
        assert (code, json.loads(answer)) == (200, log)
        assert konnectivity.asked[-1] == f"127.0.0.1:{backend.port}"
        metrics = api_request(server, "GET", "metrics")[1].decode()
        assert 'apiserver_egress_dialer_dial_duration_seconds_count{protocol="grpc",transport="uds"} ' in metrics
        assert 'apiserver_egress_dialer_dial_failure_count{protocol="grpc",stage="proxy",transport="uds"} ' in metrics
    finally:
        assert server.stop() == 0
    until(lambda: konnectivity.connected == 0)


def test_the_store_may_be_behind_konnectivity(tmp_path: Path, konnectivity: KonnectivityServer) -> None:
    store = Server()
    try:
        store.wait()
        konnectivity.hosts["redis.only-the-proxy-knows"] = "127.0.0.1"
        flag = write(tmp_path / "egress.json", etcd=call(konnectivity.path))
        server = ForkedServer(flag, f"--redis-servers=redis://redis.only-the-proxy-knows:{store.port}").start()
        try:
            large = {"metadata": {"name": "one"}, "data": {"a": "x" * 1_000_000}}
            assert api_request(server, "POST", MAPS, large)[0] == 201
            code, answer = api_request(server, "GET", f"{MAPS}/one")
            assert (code, json.loads(answer)["data"]) == (200, large["data"])
            assert set(konnectivity.asked) == {f"redis.only-the-proxy-knows:{store.port}"}
        finally:
            assert server.stop() == 0
    finally:
        store.stop()


def test_a_backup_takes_the_way_of_the_server(tmp_path: Path, proxies: Callable[..., ConnectProxy]) -> None:
    store, proxy = Server(), proxies()
    try:
        store.wait()
        proxy.hosts["redis.only-the-proxy-knows"] = "127.0.0.1"
        flags = (
            write(tmp_path / "egress.json", etcd=connect(tcp={"url": f"http://127.0.0.1:{proxy.port}"})),
            f"--redis-servers=redis://redis.only-the-proxy-knows:{store.port}",
        )
        server = ForkedServer(*flags).start()
        try:
            assert api_request(server, "POST", MAPS, {"metadata": {"name": "one"}})[0] == 201
            asked = len(proxy.asked)
            done("backup", tmp_path / "backup.tgz", f"--data-dir={server.data}", *flags)
            assert len(proxy.asked) > asked
        finally:
            assert server.stop() == 0
    finally:
        store.stop()


def test_no_proxy_leads_to_the_embedded_store(tmp_path: Path) -> None:
    flag = write(tmp_path / "egress.json", etcd=UDS)
    options = Options.from_command_line([flag, f"--data-dir={tmp_path}/data"])
    with pytest.raises(ConfigError, match="no proxy leads to the embedded store"):
        Foundation(options, None)


UDS = connect(uds={"udsName": "/x"})


@pytest.mark.parametrize(
    ("connections", "says"),
    [
        ({"cluster": {"proxyProtocol": "GRPC"}}, "transport must be set for GRPC"),
        ({"cluster": connect(tcp={"url": "http://x"}) | {"proxyProtocol": "GRPC"}}, "UDS must be set with GRPC"),
        ({"cluster": connect(uds={}) | {"proxyProtocol": "GRPC"}}, "must be present for UDS connections"),
        ({"elsewhere": UDS}, 'Unsupported value: "elsewhere"'),
        ({"cluster": UDS, "Cluster": UDS}, 'Duplicate value: "cluster"'),
        ({"cluster": {"proxyProtocol": "SOCKS"}}, 'Unsupported value: "SOCKS"'),
        ({"cluster": {"proxyProtocol": "Direct", "transport": {}}}, "config must be absent for direct connect"),
        ({"cluster": {"proxyProtocol": "HTTPConnect"}}, "transport must be set for HTTPConnect"),
        ({"cluster": connect()}, "One of TCP or UDS must be set"),
        ({"cluster": connect(tcp={}, uds={})}, "TCP and UDS cannot both be set"),
        ({"cluster": connect(uds={})}, "must be present for UDS connections"),
        ({"cluster": connect(tcp={"url": "ftp://x"})}, "supported connection protocols are http:// and https://"),
        ({"cluster": connect(tcp={"url": "http://x:99999"})}, "no host, or a port that is none"),
        ({"cluster": connect(tcp={"url": "http://[::1"})}, "no host, or a port that is none"),
        ({"cluster": connect(tcp={"url": "http://"})}, "no host, or a port that is none"),
        ({"cluster": connect(tcp={"url": "https://x"})}, "TLSConfig must be present when using HTTPS"),
        ({"cluster": connect(tcp={"url": "https://x", "tlsConfig": {}})}, "Using TLS requires clientCert"),
        ({"cluster": connect(tcp={"url": "http://x", "tlsConfig": {}})}, "config must not be present when using HTTP"),
        ({"cluster": {**UDS, "more": 1}}, 'unknown field "egressSelections[0].connection.more"'),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_at_the_start(tmp_path: Path, connections: Any, says: str) -> None:
    options = Options.from_command_line([write(tmp_path / "egress.json", **connections)])
    with pytest.raises(ConfigError) as caught:
        options.egress.selections()
    assert says in str(caught.value) and str(caught.value).startswith("--egress-selector-config-file: ")


def test_a_field_without_a_value_is_as_if_absent(tmp_path: Path) -> None:
    tls = {"clientCert": "c", "clientKey": "k", "caBundle": None, "tlsServerName": None}
    connection = connect(tcp={"url": "https://x", "tlsConfig": tls})
    (found,) = Options.from_command_line([write(tmp_path / "egress.json", cluster=connection)]).egress.selections()
    assert (found.ca, found.server_name, found.certificate) == ("", "", "c")


@pytest.mark.parametrize("text", ["{", "kind: Other", "[]"])
def test_another_file_is_told_at_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    options = Options.from_command_line([f"--egress-selector-config-file={tmp_path / 'file'}"])
    with pytest.raises(ConfigError, match="--egress-selector-config-file: "):
        options.egress.selections()
