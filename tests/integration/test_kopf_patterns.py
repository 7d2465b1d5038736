"""kopf operators of the usual patterns against kapi: children, retries, fields, subhandlers, events, daemons, timers, indices,
filters, built-in resources, resuming, peering."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapi.machinery.tree import Object
from tests.integration.operators import operator
from tests.integration.server_process import Kubectl, ServerProcess, api_request
from tests.waiting import until

GROUP = "patterns.kapi.example"
_LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

OPERATOR = """
import kopf, kubernetes

RESOURCE = ("patterns.kapi.example", "v1", "robots")

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.level = 0
    settings.watching.server_timeout = 5  # streams end and begin anew while the test runs

@kopf.on.create(*RESOURCE)
def child(name, namespace, spec, **_):
    body = {"metadata": {"name": f"{name}-child"}, "data": {"field": spec.get("field", "")}}
    kopf.adopt(body)
    kubernetes.config.load_kube_config()
    made = kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, body)
    return {"uid": made.metadata.uid}

@kopf.on.create(*RESOURCE, backoff=0.2)
def stubborn(retry, **_):
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.2)
    return {"retries": retry}

@kopf.on.create(*RESOURCE)
def hopeless(**_):
    raise kopf.PermanentError("never")

@kopf.on.field(*RESOURCE, field="spec.field")
def moved(old, new, **_):
    return {"from": old, "to": new}

@kopf.on.create(*RESOURCE)
def parts(spec, **_):
    for part in spec.get("parts", ()):
        @kopf.subhandler(id=part)
        def one(part=part, **_):
            return part.upper()

@kopf.on.create(*RESOURCE)
def told(body, **_):
    kopf.info(body, reason="Greeting", message="an event of the operator")

@kopf.daemon(*RESOURCE, cancellation_timeout=2)
async def watchman(stopped, retry, patch, **_):
    patch.status["watched"] = True  # written when the daemon gives way for the first time
    if not retry:
        raise kopf.TemporaryError("a pause", delay=0.2)
    await stopped.wait()

@kopf.timer(*RESOURCE, interval=0.3)
def tick(patch, status, **_):
    patch.status["ticks"] = status.get("ticks", 0) + 1

@kopf.index(*RESOURCE)
def team(name, spec, **_):
    return {spec.get("team", ""): name}

@kopf.timer(*RESOURCE, interval=0.3, annotations={"wants-team": kopf.PRESENT})
def members(spec, team, patch, **_):
    patch.status["team"] = sorted(team.get(spec.get("team", ""), []))

@kopf.on.update(*RESOURCE, labels={"colour": "red"}, when=lambda spec, **_: spec.get("field") == "filtered")
def selected(**_):
    return {"yes": True}

@kopf.on.resume(*RESOURCE)
def resumed(patch, status, **_):
    patch.status["resumed"] = status.get("resumed", 0) + 1

@kopf.on.create("configmaps", labels={"robots": "yes"})
def seen(patch, **_):
    patch.metadata.annotations["robots/seen"] = "true"
"""

PEER = """
import kopf

@kopf.on.create("patterns.kapi.example", "v1", "robots")
def handled(patch, **_):
    patch.status["by"] = "{name}"
"""


def _definition(plural: str, kind: str, group: str = GROUP, status: bool = True) -> Object:
    properties = {"spec": _LOOSE, "status": _LOOSE}
    version: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    if status:
        version["subresources"] = {"status": {}}
    else:
        version["schema"]["openAPIV3Schema"] = _LOOSE
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "scope": "Namespaced",
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.fixture
def apply(kubectl: Kubectl, tmp_path: Path) -> Callable[[Object], None]:
    def run(obj: Object) -> None:
        path = tmp_path / "object.json"
        path.write_text(json.dumps(obj))
        kubectl.run("apply", "-f", str(path))

    return run


@pytest.fixture
def robots(kubectl: Kubectl, apply: Callable[[Object], None]) -> Iterator[Callable[..., None]]:
    """Creates one, or changes it."""
    pytest.importorskip("kopf")
    apply(_definition("robots", "Robot"))
    kubectl.run("wait", "--for=condition=Established", f"crd/robots.{GROUP}", "--timeout=120s")

    def create(name: str, spec: Object, **metadata: Any) -> None:
        apply({"apiVersion": f"{GROUP}/v1", "kind": "Robot", "metadata": {"name": name, **metadata}, "spec": spec})

    yield create
    for obj in json.loads(kubectl.run("get", "robots", "-o", "json"))["items"]:
        kubectl.run("patch", "robot", obj["metadata"]["name"], "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl.run("delete", "crd", f"robots.{GROUP}", "--timeout=120s")


_PATHS = {
    "robot": f"apis/{GROUP}/v1/namespaces/{{}}/robots",
    "kopfpeering": "apis/kopf.dev/v1/namespaces/{}/kopfpeerings",
    "configmap": "api/v1/namespaces/{}/configmaps",
}


def _get(kubectl: Kubectl, kind: str, name: str) -> Object:
    code, found = api_request(kubectl.server, "GET", f"{_PATHS[kind].format(kubectl.namespace)}/{name}")
    assert code == 200, found
    obj: Object = json.loads(found)
    return obj


def _created(obj: Object) -> bool:
    """Whether all handlers of the creation are done: until then a change is no update."""
    return "kopf.zalando.org/last-handled-configuration" in (obj["metadata"].get("annotations") or {})


def test_an_operator_of_all_patterns(
    server: ServerProcess, kubectl: Kubectl, robots: Callable[..., None], tmp_path: Path
) -> None:
    source = tmp_path / "operator.py"
    source.write_text(OPERATOR)

    def status(name: str, key: str) -> Any:
        return until(lambda: (_get(kubectl, "robot", name).get("status") or {}).get(key))

    with operator(server, source, "--standalone", "-n", kubectl.namespace):
        robots("r1", {"field": "a", "parts": ["head", "arm"], "team": "t"}, annotations={"wants-team": ""})
        child = status("r1", "child")
        found = _get(kubectl, "configmap", "r1-child")
        assert found["metadata"]["uid"] == child["uid"]
        assert found["metadata"]["ownerReferences"][0]["name"] == "r1"
        assert status("r1", "stubborn") == {"retries": 2}
        assert status("r1", "parts/head") == "HEAD" and status("r1", "parts/arm") == "ARM"
        assert status("r1", "watched") is True
        assert until(lambda: (_get(kubectl, "robot", "r1")["status"].get("ticks") or 0) >= 2)
        events = json.loads(kubectl.run("get", "events", "-o", "json"))["items"]
        assert "Greeting" in {event["reason"] for event in events}

        robots("r2", {"field": "b", "team": "t"}, labels={"colour": "red"})
        assert status("r2", "child")
        assert until(lambda: _get(kubectl, "robot", "r1")["status"].get("team") == ["r1", "r2"])
        for name in ("r1", "r2"):  # only one of them is red
            assert until(lambda name=name: _created(_get(kubectl, "robot", name)))  # type: ignore[misc]
            kubectl.run("patch", "robot", name, "--type=merge", "-p", '{"spec":{"field":"filtered"}}')
        assert status("r2", "selected") == {"yes": True}
        assert until(
            lambda: _get(kubectl, "robot", "r1")["status"].get("moved/spec.field") == {"from": "a", "to": "filtered"}
        )
        assert "selected" not in _get(kubectl, "robot", "r1")["status"]

        kubectl.run("create", "configmap", "plain")
        kubectl.run("create", "configmap", "labelled")
        kubectl.run("label", "configmap", "labelled", "robots=yes")

        def annotated(name: str) -> Any:
            return (_get(kubectl, "configmap", name)["metadata"].get("annotations") or {}).get("robots/seen")

        assert until(lambda: annotated("labelled")) == "true"
        assert annotated("plain") is None
        kubectl.run("delete", "robot", "r1", "--timeout=120s")  # the daemon ends, the finalizer goes
        assert "hopeless" not in _get(kubectl, "robot", "r2")["status"]
    before = _get(kubectl, "robot", "r2")["status"].get("resumed", 0)
    with operator(server, source, "--standalone", "-n", kubectl.namespace):
        assert until(lambda: _get(kubectl, "robot", "r2")["status"].get("resumed", 0) > before)
        kubectl.run("delete", "robot", "r2", "--timeout=120s")


def test_of_two_operators_the_one_of_higher_priority_works(
    server: ServerProcess,
    kubectl: Kubectl,
    robots: Callable[..., None],
    apply: Callable[[Object], None],
    tmp_path: Path,
) -> None:
    apply(_definition("kopfpeerings", "KopfPeering", "kopf.dev", status=False))
    kubectl.run("wait", "--for=condition=Established", "crd/kopfpeerings.kopf.dev", "--timeout=120s")
    apply({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "shift"}})

    def peers() -> list[int]:
        state = _get(kubectl, "kopfpeering", "shift").get("status") or {}
        return sorted(peer["priority"] for peer in state.values() if peer)

    def handled_by(name: str) -> Any:
        return until(lambda: (_get(kubectl, "robot", name).get("status") or {}).get("by"))

    sources = {}
    for name in ("low", "high"):
        sources[name] = tmp_path / f"{name}.py"
        sources[name].write_text(PEER.replace("{name}", name))
    flags = ("--peering=shift", "-n", kubectl.namespace)
    try:
        with operator(server, sources["low"], *flags, "--priority=10") as log:
            assert until(lambda: peers() == [10])
            robots("first", {})
            assert handled_by("first") == "low"
            with operator(server, sources["high"], *flags, "--priority=100"):
                assert until(lambda: peers() == [10, 100])
                until(lambda: "Pausing operations" in log.read_text())  # the other one has heard of it
                robots("second", {})
                assert handled_by("second") == "high"
            assert until(lambda: peers() == [10])
            robots("third", {})
            assert handled_by("third") == "low"
    finally:
        kubectl.run("delete", "crd", "kopfpeerings.kopf.dev", "--timeout=120s")
