"""Two servers on one store: one port, one set of keys, and controllers that run in one of them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, kubectl_path
from tests.store.servers import Server, free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
LEASE = "kapi-controller-manager"


@pytest.fixture
def store() -> Iterator[Server]:
    server = Server(appendonly="yes", appendfsync="always")
    try:
        yield server
    finally:
        server.stop()


def kubectl(server: ServerProcess) -> Kubectl:
    binary = kubectl_path()
    if binary is None:
        pytest.skip("no kubectl")
    return Kubectl(server, binary)


def test_servers_share_keys_and_port_and_another_one_takes_over_the_controllers(store: Server, tmp_path: Path) -> None:
    port = free_port()
    flags = [
        f"--redis-servers={store.url}", f"--cert-dir={tmp_path / 'pki'}", f"--secure-port={port}", "--permit-port-sharing",
        "--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=250ms", "-v=2",
    ]  # fmt: skip
    # not forked: forked ones find a signing key in their own directory
    first = ServerProcess(*flags, directory=tmp_path / "first")
    second = ServerProcess(*flags, directory=tmp_path / "second")
    try:
        first.start()
        run = kubectl(first).run

        def lease() -> Any:
            return json.loads(run("get", "lease", "-n", "kube-system", LEASE, "-o", "json"))["spec"]

        until(lambda: lease()["holderIdentity"])
        leader = lease()["holderIdentity"]
        second.start()
        assert (tmp_path / "pki" / "ca.crt").exists() and not (first.data / "pki").exists()
        # the kubeconfig of the one works with the other: same CA, same user
        assert kubectl(second).run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "kubernetes-admin"
        assert lease()["holderIdentity"] == leader and not any("runs the controllers" in line for line in second.output)

        first.end(signal.SIGKILL)
        run = kubectl(second).run
        until(lambda: lease()["holderIdentity"] not in ("", leader))
        assert lease()["leaseTransitions"] == 1
        run("create", "namespace", "short")
        until(lambda: "default" in run("get", "serviceaccounts", "-n", "short", "-o", "name", ok=(0, 1)))
        run("delete", "namespace", "short", "--timeout=120s")

        # a server that stops properly hands over without a wait
        first.start()
        second.end()
        run = kubectl(first).run
        assert until(lambda: lease()["holderIdentity"])
        assert lease()["leaseTransitions"] == 2
    finally:
        first.stop()
        second.stop()


@pytest.mark.skipif(not shutil.which("haproxy"), reason="no haproxy")
def test_haproxy_understands_the_example(tmp_path: Path) -> None:
    text = (ROOT / "etc" / "haproxy.cfg").read_text()
    with ForkedServer(directory=tmp_path / "kapi") as server:
        config = tmp_path / "haproxy.cfg"
        config.write_text(text.replace("/etc/haproxy/kapi-ca.crt", str(server.authority)))
        done = subprocess.run(["haproxy", "-c", "-f", str(config)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
