"""What a program adds to its server, in whole servers: of its own, under twistd, in the site of another application."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fork_server
from tests.integration.added_server import PROGRAM
from tests.integration.embedded_site import EmbeddedSite
from tests.waiting import lines_until, until

FLAGS = ("--bind-address=127.0.0.1", "--secure-port=0", "--disable-admission-plugins=ServiceAccount")
TAC = """
import os, shlex
from twisted.application.service import Application
from kapi.tap import Options, makeService
from tests.integration.added_server import additions

options = Options()
options.parseOptions(shlex.split(os.environ["FLAGS"]))
application = Application("added")
makeService(options, additions("garden")).setServiceParent(application)
"""
PLUGIN = """
from twisted.application.service import ServiceMaker

added = ServiceMaker("added", "added_service", "A server with a group of its own", "added")
"""
SERVICE = """
from kapi import tap
from kapi.tap import Options
from tests.integration.added_server import additions

def makeService(options):
    return tap.makeService(options, additions("garden"))
"""
BEDS = "/apis/garden.example.com/v1/namespaces/default/beds"


@contextlib.contextmanager
def garden_site() -> Iterator[EmbeddedSite]:
    with EmbeddedSite("--authorization-mode=RBAC", FLAGS[2], mount="cluster", additions="garden") as running:
        yield running


def test_a_hook_that_fails_ends_the_server(tmp_path: Path) -> None:
    done = fork_server.run(["broken", f"--data-dir={tmp_path}", *FLAGS], PROGRAM)
    assert done.returncode == 1
    assert "kapi: post-start hook broken: it is broken" in done.stderr
    assert "export KUBECONFIG" not in done.stdout


def test_several_processes_are_refused(tmp_path: Path) -> None:
    done = fork_server.run(["garden", f"--data-dir={tmp_path}", "--workers=2", *FLAGS], PROGRAM)
    assert (done.returncode, done.stderr.strip()) == (1, "kapi: --workers: a server with additions is one process")


def test_a_hook_that_fails_leaves_the_application_running() -> None:
    with pytest.raises(AssertionError, match="failed: post-start hook broken: it is broken"):
        EmbeddedSite(FLAGS[2], additions="broken").start()


def test_a_group_in_the_site_of_another_application() -> None:
    with garden_site() as site:
        bed = {
            "apiVersion": "garden.example.com/v1", "kind": "Bed", "metadata": {"name": "a"}, "spec": {"rows": ["rose"]}
        }  # fmt: skip
        assert site.ask("POST", f"/cluster{BEDS}", bed)[0] == 201
        assert site.ask("GET", f"/cluster{BEDS}/a")[1]["spec"]["length"] == 100
        assert site.ask("GET", f"/cluster{BEDS}", token="carolintoken")[0] == 403
        assert site.ask("DELETE", f"/cluster{BEDS}")[1]["message"] == "beds are removed one by one"
        document = site.ask("GET", "/cluster/openapi/v3/apis/garden.example.com/v1")[1]
        schema = document["components"]["schemas"]["com.example.garden.v1.Bed"]["properties"]["spec"]
        assert schema["description"] == "What grows in a bed."
        swagger = site.ask("GET", "/cluster/openapi/v2")[1]
        assert "com.example.garden.v1alpha1.Bed" in swagger["definitions"]
        found = site.ask(
            "GET", "/cluster/apis", Accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        )
        group = next(item for item in found[1]["items"] if item["metadata"]["name"] == "garden.example.com")
        assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
        kinds = {item["resource"]: item for item in group["versions"][0]["resources"]}
        assert kinds["beds"]["subresources"][0]["subresource"] == "status" and kinds["plants"]["scope"] == "Cluster"
        space = "/cluster/api/v1/namespaces"
        assert (
            site.ask("POST", space, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "park"}})[0] == 201
        )
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/beds.garden.example.com": "1"}}}
        assert site.ask("POST", f"{space}/park/resourcequotas", quota)[0] == 201
        park = f"/cluster{BEDS}".replace("default", "park")
        until(lambda: "used" in site.ask("GET", f"{space}/park/resourcequotas/few")[1]["status"])
        assert site.ask("POST", park, bed)[0] == 201
        over = {**bed, "metadata": {"name": "b"}}
        assert "exceeded quota: few" in site.ask("POST", park, over)[1]["message"]
        assert site.ask("DELETE", f"{space}/park")[0] == 200
        until(lambda: site.ask("GET", f"{space}/park")[0] == 404)
        assert (
            site.ask("GET", f"/cluster{BEDS}".replace("/namespaces/default", ""))[1]["items"][0]["metadata"]["name"]
            == "a"
        )
        assert site.ask("GET", f"{park}/a")[0] == 404
        unknown = site.ask("GET", "/cluster/apis/garden.example.com/v1/ponds")
        assert (unknown[0], unknown[1]["kind"]) == (404, "Status")


def test_a_definition_does_not_take_the_place_of_a_kind_of_the_program() -> None:
    with garden_site() as site:
        versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]
        names = {"kind": "Bed", "plural": "beds"}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "beds.garden.example.com"},
            "spec": {"group": "garden.example.com", "scope": "Namespaced", "names": names, "versions": versions},
        }
        place = "/cluster/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert site.ask("POST", place, definition)[0] == 201
        until(lambda: "conditions" in site.ask("GET", f"{place}/beds.garden.example.com")[1]["status"])
        bed = {"apiVersion": "garden.example.com/v1", "kind": "Bed", "metadata": {"name": "a"}}
        assert site.ask("POST", f"/cluster{BEDS}", bed)[0] == 422  # by the program's schema


def test_filters_routes_and_a_hook_at_the_stop() -> None:
    with EmbeddedSite("--authorization-mode=RBAC", FLAGS[2], additions="filters") as site:
        assert site.ask("GET", "/healthz", token="wrong", X_Outer="1")[:2] == (418, "outer\n")
        assert site.ask("GET", "/pages", X_Inner="1")[:2] == (418, "admin")
        assert site.ask("GET", "/pages", token="carolintoken", X_Inner="1")[0] == 403
        assert site.ask("GET", "/pages/one/two")[:2] == (200, "/pages/one/two")
        code, refusal, _ = site.ask("POST", "/pages")
        assert (code, refusal["reason"]) == (405, "MethodNotAllowed")
        assert site.ask("GET", "/hidden")[0] == 500  # and the server goes on
        paths = site.ask("GET", "/")[1]["paths"]
        assert "/pages" in paths and "/hidden" not in paths
        site.process.send_signal(signal.SIGTERM)
        assert site.process.stdout is not None
        assert "stopping beside kube-system\n" in site.process.stdout.read()


@pytest.mark.parametrize("way", ["tac", "plugin"])
def test_under_twistd(tmp_path: Path, way: str) -> None:
    (tmp_path / "added.tac").write_text(TAC)
    (tmp_path / "added_service.py").write_text(SERVICE)
    plugins = tmp_path / "twisted" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "added_plugin.py").write_text(PLUGIN)
    root = Path(__file__).parents[2]
    flags = [f"--data-dir={tmp_path / 'data'}", *FLAGS]
    what = ["--python", str(tmp_path / "added.tac")] if way == "tac" else ["added", *flags]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{tmp_path}", "FLAGS": shlex.join(flags)}
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
    process = subprocess.Popen(
        [*command, *what], env=environment, cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said = lines_until(process, "export KUBECONFIG=")
        arguments = ["--kubeconfig", said[-1].partition("=")[2].strip(), "get", "plants", "-o", "name"]
        done = fork_server.run(arguments)
        assert done.stdout == "plant.garden.example.com/rose\n", (done, said)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0


def test_logical_clusters_have_the_groups_too() -> None:
    flags = ("--authorization-mode=RBAC", FLAGS[2], "--testbed", "--enable-logical-clusters")
    with EmbeddedSite(*flags, additions="garden") as site:
        assert site.ask("PUT", "/clusters/one")[0] == 201
        plants = "/clusters/one/apis/garden.example.com/v1/plants"
        assert site.ask("GET", plants)[1]["items"] == []  # hooks run for the server's own
        plant = {"apiVersion": "garden.example.com/v1", "kind": "Plant", "metadata": {"name": "fern"}}
        assert site.ask("POST", plants, {**plant, "spec": {"light": "moon"}})[0] == 422
        assert site.ask("POST", plants, {**plant, "spec": {"light": "shade"}})[0] == 201
        place = f"/clusters/one{BEDS}"
        bed = {"apiVersion": "garden.example.com/v1", "kind": "Bed", "metadata": {"name": "a"}}
        refused = site.ask("POST", place, {**bed, "spec": {"rows": ["rose"]}})
        assert refused[0] == 422 and "there is no such plant" in refused[1]["message"]  # it is in another cluster
        assert site.ask("POST", place, {**bed, "spec": {"rows": ["fern"]}})[0] == 201
        old = place.replace("/v1/", "/v1alpha1/")
        assert site.ask("GET", f"{old}/a")[1]["spec"] == {"length": 100, "plant": "fern"}
        assert site.ask("DELETE", place)[1]["message"] == "beds are removed one by one"
