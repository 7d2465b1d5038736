"""kopf's own admission server: it puts its webhooks into kapi, is asked, changes objects, warns and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.admission.certificates import make_certificate
from tests.integration.operators import operator
from tests.integration.server_process import Kubectl, ServerProcess, api_request
from tests.waiting import until

OPERATOR = """
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", certfile={certificate!r}, pkeyfile={key!r}, cafile={certificate!r}
    )
    settings.admission.managed = "auto.kopf.dev"

@kopf.on.mutate("kopfhooks")
def fill(spec, patch, warnings, dryrun, userinfo, **_):
    if "size" not in spec:
        patch.spec["size"] = 3
        warnings.append(f"size was set for {{userinfo['username']}}")
    patch.metadata.annotations["seen"] = "dry" if dryrun else "wet"

@kopf.on.validate("kopfhooks", operation="UPDATE")
def grow_only(old, spec, **_):
    if spec["size"] < old["spec"]["size"]:
        raise kopf.AdmissionError("it only grows", code=409)

@kopf.on.validate("kopfhooks", operation="DELETE", labels={{"locked": kopf.PRESENT}})
def locked(name, **_):
    raise kopf.AdmissionError(f"{{name}} is locked")

@kopf.on.mutate("pods", labels={{"kopf-hooks": "yes"}})
def pods(spec, patch, **_):
    patch.metadata.labels["containers"] = str(len(spec["containers"]))
"""
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kopfhooks.kopf.dev"},
    "spec": {
        "scope": "Namespaced",
        "group": "kopf.dev",
        "names": {"kind": "KopfHook", "plural": "kopfhooks", "singular": "kopfhook"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


def test_kopf_is_asked(server: ServerProcess, kubectl: Kubectl, tmp_path: Path) -> None:
    pytest.importorskip("kopf")
    certificate, key = make_certificate("127.0.0.1")
    files = {"certificate": tmp_path / "tls.crt", "key": tmp_path / "tls.key"}
    files["certificate"].write_bytes(certificate)
    files["key"].write_bytes(key)
    source = tmp_path / "operator.py"
    source.write_text(OPERATOR.format(**{name: str(path) for name, path in files.items()}))
    kubectl.run("apply", "-f", "-", stdin=json.dumps(DEFINITION))
    kubectl.run("wait", "--for=condition=Established", "crd/kopfhooks.kopf.dev", "--timeout=120s")

    def webhooks(kind: str) -> list[Any]:
        path = f"apis/admissionregistration.k8s.io/v1/{kind}s/auto.kopf.dev"
        code, found = api_request(server, "GET", path)
        assert code in (200, 404)
        return list(json.loads(found).get("webhooks") or [])

    def apply(name: str, **spec: Any) -> None:
        obj = {"apiVersion": "kopf.dev/v1", "kind": "KopfHook", "metadata": {"name": name}, "spec": spec}
        kubectl.run("apply", "-f", "-", stdin=json.dumps(obj))

    def created_dry(name: str) -> Any:
        obj = {"apiVersion": "kopf.dev/v1", "kind": "KopfHook", "metadata": {"name": name}}
        return json.loads(kubectl.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(obj)))

    def stored(kind: str, name: str) -> Any:
        return json.loads(kubectl.run("get", kind, name, "-o", "json"))

    kinds = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
    try:
        with operator(server, source, "-A", "--standalone") as log:
            # rules appear once kopf has found the resources
            for kind in kinds:
                found = until(lambda kind=kind: webhooks(kind) and all(h["rules"] for h in webhooks(kind)))  # type: ignore[misc]
                assert found, log.read_text()
            assert webhooks(kinds[0])[0]["clientConfig"]["url"].startswith("https://127.0.0.1:")
            # a request waits a quarter of a second for a configuration that is being read
            until(lambda: "annotations" in created_dry("none")["metadata"])

            apply("one")
            assert "Warning: size was set for" in kubectl.stderr
            one = stored("kopfhook", "one")
            assert (one["spec"]["size"], one["metadata"]["annotations"]["seen"]) == (3, "wet")

            smaller = ("patch", "kopfhook", "one", "--type=merge", "-p", '{"spec":{"size":1}}')
            until(lambda: not kubectl.run(*smaller, "--dry-run=server", ok=(0, 1)))
            kubectl.run(*smaller, ok=(1,))
            assert 'admission webhook "grow-only.auto.kopf.dev" denied the request: it only grows' in kubectl.stderr
            apply("one", size=5)
            assert stored("kopfhook", "one")["spec"]["size"] == 5

            assert created_dry("two")["metadata"]["annotations"]["seen"] == "dry"

            kubectl.run("label", "kopfhook", "one", "locked=yes")
            kubectl.run("delete", "kopfhook", "one", ok=(1,))
            assert "denied the request: one is locked" in kubectl.stderr
            kubectl.run("label", "kopfhook", "one", "locked-")
            kubectl.run("delete", "kopfhook", "one", "--timeout=120s")

            kubectl.run("run", "p", "--image=i", "--labels=kopf-hooks=yes")
            kubectl.run("run", "q", "--image=i")
            assert stored("pod", "p")["metadata"]["labels"]["containers"] == "1"
            assert "containers" not in stored("pod", "q")["metadata"]["labels"]
    finally:
        left = {kind: webhooks(kind) for kind in kinds}
        kubectl.run("delete", *kinds[:1], "auto.kopf.dev", "--ignore-not-found")
        kubectl.run("delete", *kinds[1:], "auto.kopf.dev", "--ignore-not-found")
        kubectl.run("delete", "crd", "kopfhooks.kopf.dev", "--timeout=120s")
    assert left == {kind: [] for kind in kinds}  # kopf takes its webhooks out when it ends
