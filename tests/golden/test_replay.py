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
    "configmaps": 99,
    "discovery": 92,
    "negotiation": 92,
    "lists": 85,
    "watch": 85,
    "objects": 85,
    "patch": 85,
    "apply": 85,
    "authn": 85,
    "rbac": 85,
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
