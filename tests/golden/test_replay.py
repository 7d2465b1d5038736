"""The recordings of a real kube-apiserver, replayed; each area has a floor that must not be lost again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT.parent / "shared" / "golden"
#: percent of steps that must be the same, whole and but for texts; one answer of ``services`` names the recorded server's port
IDENTICAL, SAME = 99, 99
AREAS = sorted(path.name for path in (GOLDEN / "recordings").glob("*") if path.is_dir()) or ["none"]

pytestmark = [
    pytest.mark.skipif(
        not (GOLDEN / "golden.py").exists(), reason="the golden recordings are not beside this checkout"
    ),
    pytest.mark.xdist_group("golden"),
]


@pytest.mark.parametrize("area", AREAS)
def test_area_keeps_its_floor(area: str) -> None:
    recordings = sorted(str(path) for path in (GOLDEN / "recordings" / area).glob("*.json"))
    server = ServerProcess(
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
    match = re.search(r"identical ([\d.]+) %, same but for texts ([\d.]+) %", done.stdout)
    assert match is not None, done.stdout[-2000:] + done.stderr[-2000:]
    assert float(match[1]) >= IDENTICAL, done.stdout[-3000:]
    assert float(match[2]) >= SAME, done.stdout[-3000:]
