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

from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, api_request, kubectl_path
from tests.store.servers import Server, free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
LEASES, LEASE = "apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "kapi-controller-manager"


class Sharing(ServerProcess):
    """Its CA is in a directory that others have, too."""

    @property
    def authority(self) -> Path:
        (directory,) = (flag.partition("=")[2] for flag in self.flags if flag.startswith("--cert-dir="))
        return Path(directory) / "ca.crt"


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
    first = Sharing(*flags, directory=tmp_path / "first")
    second = Sharing(*flags, directory=tmp_path / "second")
    try:
        first.start()

        def lease(server: ServerProcess) -> Any:
            code, found = api_request(server, "GET", f"{LEASES}/{LEASE}")
            assert code in (200, 404), found
            return json.loads(found).get("spec") or {"holderIdentity": ""}

        leader = until(lambda: lease(first)["holderIdentity"])
        second.start()
        assert (tmp_path / "pki" / "ca.crt").exists() and not (first.data / "pki").exists()
        # the kubeconfig of the one works with the other: same CA, same user
        assert kubectl(second).run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "kubernetes-admin"
        assert lease(second)["holderIdentity"] == leader and not any(
            "runs the controllers" in line for line in second.output
        )

        first.end(signal.SIGKILL)
        run = kubectl(second).run
        until(lambda: lease(second)["holderIdentity"] not in ("", leader))
        assert lease(second)["leaseTransitions"] == 1
        run("create", "namespace", "short")
        account = "api/v1/namespaces/short/serviceaccounts/default"
        until(lambda: api_request(second, "GET", account)[0] == 200)
        run("delete", "namespace", "short", "--timeout=120s")

        # a server that stops properly hands over without a wait
        first.start()
        second.end()
        assert until(lambda: lease(first)["holderIdentity"])
        assert lease(first)["leaseTransitions"] == 2
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
