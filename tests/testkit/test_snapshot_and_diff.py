"""``kapi snapshot`` and ``kapi changes``: states and changes of logical clusters, from the command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kapi.kubectl.snapshot import parts_of
from kapi.testing.cluster import Cluster, LogicalCluster
from kapi.testing.process import KapiProcess
from tests import fork_server

MAPS = "/api/v1/namespaces/default/configmaps"


def kapi(cluster: LogicalCluster | KapiProcess, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return fork_server.run(list(arguments), env=cluster.environment(), stdin=stdin)


def put(cluster: Cluster, name: str) -> int:
    made = cluster.request("POST", MAPS, {"metadata": {"name": name}})
    return int(made["metadata"]["resourceVersion"])


def names(cluster: LogicalCluster) -> list[str]:
    items = cluster.request("GET", MAPS)["items"]
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"] != "kube-root-ca.crt"]


def test_a_state_is_named_listed_brought_back_and_forgotten(cluster: LogicalCluster) -> None:
    put(cluster, "one")
    cluster.settled()
    made = kapi(cluster, "snapshot", "create", "base")
    assert (made.stderr, made.returncode) == ("", 0)
    assert made.stdout.startswith('snapshot "base" created with ')
    objects, revision = made.stdout.split()[4], made.stdout.split()[-1]
    put(cluster, "two")
    rows = [line.split() for line in kapi(cluster, "snapshot", "list").stdout.splitlines()]
    assert rows[0] == ["NAME", "REVISION", "OBJECTS"] and ["base", revision, objects] in rows
    done = kapi(cluster, "snapshot", "reset", "base")
    assert done.stdout == f'logical cluster "{cluster.name}" reset to snapshot "base"\n', done.stderr
    assert names(cluster) == ["one"]
    assert kapi(cluster, "snapshot", "delete", "base").stdout == 'snapshot "base" deleted\n'
    assert "base" not in kapi(cluster, "snapshot", "list", "--no-headers").stdout


def test_a_state_goes_through_a_file(cluster: LogicalCluster, server: KapiProcess, tmp_path: Path) -> None:
    put(cluster, "kept")
    cluster.settled()
    file = tmp_path / "state"
    kapi(cluster, "snapshot", "create", "first")
    assert kapi(cluster, "snapshot", "save", "first", "-f", str(file)).returncode == 0
    piped = kapi(cluster, "snapshot", "save", "first", "-f", "-").stdout
    assert piped == file.read_text()
    loaded = kapi(cluster, "snapshot", "load", "second", f"--filename={file}").stdout
    assert loaded.startswith('snapshot "second" loaded with ')
    assert kapi(cluster, "snapshot", "load", "third", "-f", "-", stdin=piped).stdout == loaded.replace(
        "second", "third"
    )
    cluster.request("DELETE", f"{MAPS}/kept")
    named = kapi(
        server, "snapshot", "reset", "third", f"--logical-cluster={cluster.name}"
    )  # by the server's kubeconfig
    assert named.returncode == 0, named.stderr
    assert names(cluster) == ["kept"]


def test_what_changed_between_two_revisions(cluster: LogicalCluster) -> None:
    begin = cluster.settled()
    put(cluster, "one")
    middle = put(cluster, "two")
    cluster.request("DELETE", f"{MAPS}/one")
    last = put(cluster, "three")
    shown = kapi(cluster, "changes", str(begin), str(middle))
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[0] == ["CHANGE", "RESOURCE", "NAMESPACE", "NAME", "REVISION"], shown.stderr
    assert [row[:4] for row in rows[1:]] == [
        ["created", "configmaps", "default", "one"],
        ["created", "configmaps", "default", "two"],
    ]
    newest = json.loads(kapi(cluster, "changes", str(middle), "-o", "json").stdout)
    assert [(one["change"], one["name"]) for one in newest["changes"]] == [("deleted", "one"), ("created", "three")]
    assert newest["to"] >= last
    assert kapi(cluster, "changes", str(last), str(last)).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["changes"], "a revision is needed"),
        (["changes", "1", "two"], "a revision is needed"),
        (["changes", "1", "-o", "wide"], "unable to match a printer"),
        (["snapshot"], "one of create, save, load, list, reset, delete"),
        (["snapshot", "reset"], "reset takes the name of one snapshot"),
        (["snapshot", "list", "base"], "list takes no arguments"),
        (["snapshot", "save", "base"], "save needs a file"),
        (["snapshot", "create", "base", "-f", "x"], "create takes no file"),
        (["snapshot", "load", "base", "-f", "/nowhere/state"], "/nowhere/state: No such file or directory"),
        (["snapshot", "save", "none", "-f", "-"], 'Error from server (NotFound): there is no snapshot "none"'),
    ],
)
def test_what_cannot_be_done(cluster: LogicalCluster, arguments: list[str], message: str) -> None:
    done = kapi(cluster, *arguments)
    assert message in done.stderr
    assert (done.stdout, done.returncode) == ("", 1)


@pytest.mark.parametrize("arguments", [["snapshot", "create", "base"], ["snapshot", "reset", "base"]])
def test_a_logical_cluster_has_to_be_named(server: KapiProcess, arguments: list[str]) -> None:
    done = kapi(server, *arguments)
    assert "names no logical cluster" in done.stderr
    assert done.returncode == 1


def test_the_difference_is_that_of_the_server_when_no_cluster_is_named(server: KapiProcess, tmp_path: Path) -> None:
    root = Cluster(server, tmp_path)
    begin = root.settled()
    put(root, "of-the-server")
    shown = json.loads(kapi(server, "changes", str(begin), "-o", "json").stdout)
    assert ("created", "of-the-server") in [(one["change"], one["name"]) for one in shown["changes"]]


def test_a_file_is_sent_in_parts_of_whole_lines() -> None:
    lines = [b"aaaa\n", b"bb\n", b"c\n", b"dddddddd\n", b"e\n"]
    assert list(parts_of(lines, 8)) == [b"aaaa\nbb\n", b"c\n", b"dddddddd\n", b"e\n"]
    assert list(parts_of([])) == []
