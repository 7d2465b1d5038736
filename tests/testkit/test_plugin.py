"""The pytest plugin, as a test suite of somebody else uses it."""

from __future__ import annotations

import re
import socket
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kapi.testing.audit import AuditTrail, requests_text
from kapi.testing.cluster import Cluster, objects_of
from kapi.testing.kubectl import answers_object, kubectl_path
from kapi.testing.process import KapiProcess
from kapi.testing.servers import SharedProcess
from tests.testkit.inner import run

ROOT = Path(__file__).parents[2]
INI = """[pytest]
filterwarnings = error
addopts = --strict-markers
kapi_flags = --event-ttl=11m
kapi_manifests = shared.yaml
"""
SHARED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {from: ini}\n"
CRD = (ROOT / "docs" / "testing" / "examples" / "widgets.yaml").read_text()

PASSING = """
import os
from pathlib import Path
import pytest

CLUSTERS = []

@pytest.mark.kapi(crds="widgets.yaml")
@pytest.mark.parametrize("number", [1, 2])
def test_each_has_its_own(kapi, kapi_server, kapi_namespace, number):
    assert kapi.server is kapi_server and kapi.namespace == kapi_namespace
    assert kapi_namespace not in CLUSTERS
    CLUSTERS.append(kapi_namespace)
    widgets = f"/apis/example.com/v1/namespaces/{kapi_namespace}/widgets"
    assert kapi.request("GET", widgets)["items"] == []
    kapi.request("POST", widgets, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "same"}})
    kapi.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "same"}})

def test_nothing_is_left(kapi):
    assert "widgets.example.com" not in str(kapi.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"))
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert "same" not in [item["metadata"]["name"] for item in kapi.request("GET", roles)["items"]]
    for name in CLUSTERS:
        kapi.wait(lambda: kapi.request("GET", f"/api/v1/namespaces/{name}", expect=(404,))["kind"] == "Status")

def test_the_ini_file_says_what_nobody_else_does(kapi):
    assert "--event-ttl=11m" in kapi.server.flags
    assert kapi.request("GET", f"/api/v1/namespaces/{kapi.namespace}/configmaps/shared")["data"] == {"from": "ini"}

@pytest.mark.kapi(flags=["--event-ttl=33m"], manifests=[{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}])
def test_the_marker_is_heard_first(kapi, kapi_server):
    assert kapi.server is not kapi_server and "--event-ttl=33m" in kapi.server.flags
    assert kapi.request("GET", f"/api/v1/namespaces/{kapi.namespace}/configmaps/shared", expect=(404,))["code"] == 404
    assert kapi.request("GET", f"/api/v1/namespaces/{kapi.namespace}/secrets/s")["kind"] == "Secret"

def test_clients_with_default_settings_find_it(kapi):
    assert os.environ["KUBECONFIG"] == str(kapi.kubeconfig) and "KUBERNETES_SERVICE_HOST" not in os.environ
    assert kapi.namespace in kapi.kubeconfig.read_text()
    assert kapi.kubeconfig.stat().st_mode & 0o077 == 0

def test_afterwards_the_environment_is_what_it_was():
    assert os.environ["KUBECONFIG"] == "/nowhere"

def test_kubectl_answers_trees(kapi, kubectl):
    made = kubectl("create", "configmap", "one", "--from-literal=a=1")
    assert made["data"] == {"a": "1"}
    assert "one" in [item["metadata"]["name"] for item in kubectl("get", "configmaps")["items"]]
    assert kubectl("get", "configmap", "one", "-o", "jsonpath={.data.a}") == "1"
    assert kubectl("delete", "configmap", "one").startswith("configmap")
    with pytest.raises(AssertionError, match="NotFound"):
        kubectl("get", "configmap", "one")

def test_further_clusters(kapi, kapi_factory):
    other = kapi_factory()
    assert other.server is kapi.server and other.namespace != kapi.namespace
    assert other.kubeconfig != kapi.kubeconfig
"""

FAILING = """
import pytest

def test_fails(kapi):
    kapi.request("POST", f"/api/v1/namespaces/{kapi.namespace}/events", {
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": kapi.namespace},
        "type": "Warning", "reason": "Bad", "message": "it was seen",
    })
    kapi.request("GET", "/api/v1/namespaces/no-such-one")

def test_passes(kapi):
    kapi.request("GET", "/api/v1/namespaces/kube-system")

@pytest.mark.kapi(flag="x")
def test_is_wrong(kapi):
    pass
"""


@pytest.mark.skipif(kubectl_path() is None, reason="no kubectl")
def test_what_the_fixtures_give(tmp_path: Path) -> None:
    suite, home = tmp_path / "suite", tmp_path / "home"
    suite.mkdir()
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text("the user's own")
    for name, text in (("pytest.ini", INI), ("shared.yaml", SHARED), ("widgets.yaml", CRD), ("test_suite.py", PASSING)):
        (suite / name).write_text(text)
    outcome, text = run(suite, KUBECONFIG="/nowhere", KUBERNETES_SERVICE_HOST="10.0.0.1", HOME=str(home))
    assert outcome == {"passed": 9}, text
    assert [path.name for path in home.rglob("*")] == [".kube", "config"]
    assert (home / ".kube" / "config").read_text() == "the user's own"


def test_a_report_tells_what_the_server_was_asked(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(FAILING)
    outcome, text = run(tmp_path, "--kapi-flags=--event-ttl=22m")
    assert outcome in ({"failed": 1, "passed": 1, "error": 1}, {"failed": 1, "passed": 1, "errors": 1}), text
    assert "pytest.mark.kapi takes flags, crds, manifests and seed, not {'flag'}" in text
    assert "get /api/v1/namespaces/no-such-one -> 404 (kubernetes-admin, kapi-testing)" in text
    assert "Warning Bad Pod/p: it was seen" in text
    assert "kube-system" not in text


def test_each_worker_has_a_server(tmp_path: Path) -> None:
    source = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(kapi_server, n, record_property):\n"
    source += "    assert '--event-ttl=22m' in kapi_server.flags\n    record_property('url', kapi_server.url)\n"
    (tmp_path / "test_suite.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkapi_flags = --event-ttl=11m\njunit_family = xunit1\n")
    outcome, text = run(tmp_path, "-n2", "--kapi-flags=--event-ttl=22m", "--junitxml=report.xml")
    assert outcome == {"passed": 4}, text
    assert len(set(re.findall(r'value="(https://[^"]+)"', (tmp_path / "report.xml").read_text()))) == 2


SHARED_SUITE = """
import pytest

@pytest.mark.parametrize("n", range(6))
def test_it(kapi, n, worker_id, record_property):
    path = f"/api/v1/namespaces/default/configmaps"
    assert [item for item in kapi.request("GET", path)["items"] if item["metadata"]["name"] == "same"] == []
    kapi.request("POST", path, {"metadata": {"name": "same"}})
    record_property("server", f"{kapi.server.url} {worker_id} {kapi.server.root}")
"""


def test_workers_share_a_server_and_no_cluster(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_suite.py").write_text(SHARED_SUITE)
    (suite / "pytest.ini").write_text("[pytest]\njunit_family = xunit1\nfilterwarnings = error\n")
    base = f"--basetemp={tmp_path / 'base'}"
    outcome, text = run(suite, "-n2", "--dist=each", "--kapi-shared", "--junitxml=report.xml", base)
    assert outcome == {"passed": 12}, text
    used = re.findall(r'value="(https://\S+) (gw\d) (/[^"]+)"', (suite / "report.xml").read_text())
    assert {worker for _, worker, _ in used} == {"gw0", "gw1"}
    [(url, root)] = {(url, root) for url, _, root in used}
    assert Path(root).is_relative_to(tmp_path / "base") and not (Path(root) / "data").exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 1)


def test_the_first_starts_a_shared_server_and_the_last_ends_it(tmp_path: Path) -> None:
    first, second = (SharedProcess("--controllers=", directory=tmp_path / "shared") for _ in range(2))
    first.start()
    second.start()
    try:
        assert first.url == second.url
        with pytest.raises(RuntimeError, match="shared"):
            second.end()
        first.stop()
        assert second.running
        assert Cluster(second, tmp_path).request("GET", "/readyz") == "ok"
    finally:
        second.stop()
    assert not second.running and not second.data.exists()


def test_a_shared_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = SharedProcess("--no-such-flag", directory=tmp_path / "shared")
    with pytest.raises(RuntimeError, match="no-such-flag"):
        server.start()
    assert not server.running


def test_pytest_finds_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"kapi": "kapi.testing.pytest_plugin"}


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "log")
    assert trail.here() == 0 and trail.since(0) == []
    trail.path.write_text('{"verb":"get"}\n')
    position = trail.here()
    with trail.path.open("a") as log:
        log.write('{"verb":"list","requestURI":"/x","responseStatus":{"code":409,"message":"no"}}\n{"verb":"wa')
    assert requests_text(trail.since(position)) == " list /x -> 409 (, ): no"


def test_the_event_of_the_last_answer_may_be_written_after_it(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "log")
    trail.path.write_text('{"verb":"before"}\n')

    class Writing(Cluster):
        """Its server writes the event of a request at the latest before it reads the next one."""

        def _ask(self, *_: object, **__: object) -> tuple[int, str]:
            with trail.path.open("a") as log:
                log.write('{"verb":"last"}\n')
            return 200, "ok"

    assert Writing(KapiProcess(directory=tmp_path), tmp_path, trail).requests() == [{"verb": "last"}]


def test_manifests_are_trees_text_or_files(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("kind: A\n---\nkind: ConfigMapList\nitems: [{kind: B}, {kind: C}]\n---\n")
    wanted = [{"kind": "A"}, {"kind": "B"}, {"kind": "C"}]
    assert objects_of("m.yaml", tmp_path) == objects_of(tmp_path / "m.yaml") == wanted
    assert objects_of("kind: A\n---\nkind: B\n") == wanted[:2]
    assert objects_of({"kind": "A"}) == wanted[:1]


@pytest.mark.parametrize(
    ("arguments", "tree"),
    [
        ("get pods", True), ("get pods -o yaml", False), ("get pods -w", False), ("delete pod x", False),
        ("create token default", False), ("get --raw /version", False), ("apply -f x", True), ("logs p", False), ("", False),
    ],
)  # fmt: skip
def test_which_commands_answer_objects(arguments: str, tree: bool) -> None:
    assert answers_object(tuple(arguments.split())) is tree
