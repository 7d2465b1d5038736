"""The recordings of a real kube-apiserver, replayed; each area has a floor that must not be lost again."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT.parent / "shared" / "golden"
#: percent of steps that must be the same but for texts
FLOORS = {
    "admission": 99,
    "admissionpolicy": 98,
    "apiservice": 99,
    "apply": 99,
    "apps": 98,
    "authn": 99,
    "authorization": 99,
    "autoscaling": 98,
    "batch": 99,
    "cluster": 99,
    "config": 99,
    "configmaps": 99,
    "crd": 98,
    "discovery": 99,
    "fieldvalidation": 99,
    "limitranger": 99,
    "lists": 99,
    "negotiation": 99,
    "networking": 99,
    "node": 99,
    "objects": 99,
    "patch": 99,
    "pods": 99,
    "podsecurity": 99,
    "policy": 99,
    "quota": 99,
    "rbac": 99,
    "services": 99,
    "storage": 99,
    "watch": 99,
}

pytestmark = [
    pytest.mark.skipif(
        not (GOLDEN / "golden.py").exists(), reason="the golden recordings are not beside this checkout"
    ),
    pytest.mark.xdist_group("golden"),
]


def _server_process() -> type:
    path = ROOT / "tests" / "integration" / "server_process.py"
    spec = importlib.util.spec_from_file_location("kapi_server_process", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("kapi_server_process", module)
    spec.loader.exec_module(module)
    found: type = module.ServerProcess
    return found


@pytest.mark.parametrize("area", FLOORS)
def test_area_keeps_its_floor(area: str) -> None:
    recordings = sorted(str(path) for path in (GOLDEN / "recordings" / area).glob("*.json"))
    server = _server_process()(
        "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc", "--enable-bootstrap-token-auth", "--controllers=",
    )  # fmt: skip
    server.start()
    try:
        done = subprocess.run(
            [sys.executable, str(GOLDEN / "golden.py"), "replay", "--server", server.url, "--area", area, *recordings],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    finally:
        server.stop()
    match = re.search(r"same but for texts ([\d.]+) %", done.stdout)
    assert match is not None, done.stdout[-2000:] + done.stderr[-2000:]
    assert float(match[1]) >= FLOORS[area], done.stdout[-3000:]
