"""Unmodified kubectl does its daily work against a real server process."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from tests.integration.server_process import Kubectl
from tests.waiting import MAX_WAIT

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1.27", ports: [{containerPort: 80}]}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec: {containers: [{name: c, image: busybox}]}
"""


def as_json(text: str) -> Any:
    return json.loads(text)


def test_api_resources_lists_every_kind_with_short_names(kubectl: Kubectl) -> None:
    text = kubectl.run("api-resources", "--no-headers")
    assert len(text.splitlines()) >= 60
    line = next(line for line in text.splitlines() if line.startswith("deployments "))
    assert line.split() == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert "configmaps" in kubectl.run("api-resources", "--api-group=", "-o", "name")


def test_api_versions(kubectl: Kubectl) -> None:
    versions = kubectl.run("api-versions").split()
    assert {"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1", "events.k8s.io/v1"} <= set(versions)


def test_cluster_info(kubectl: Kubectl) -> None:
    assert "Kubernetes control plane" in kubectl.run("cluster-info")


def test_version(kubectl: Kubectl) -> None:
    assert as_json(kubectl.run("version", "-o", "json"))["serverVersion"]["minor"] == "36"


def test_create_get_describe(kubectl: Kubectl) -> None:
    kubectl.run("create", "configmap", "a", "--from-literal=k=v")
    assert kubectl.run("get", "configmap", "a", "-o", "jsonpath={.data.k}") == "v"
    assert "k:\n----\nv\n" in kubectl.run("describe", "configmap", "a")
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    assert "Replicas:" in kubectl.run("describe", "deployment", "web")
    assert "already exists" in _error(kubectl, "create", "configmap", "a")


def _error(kubectl: Kubectl, *arguments: str, stdin: str | None = None) -> str:
    kubectl.run(*arguments, stdin=stdin, ok=(1,))
    return kubectl.stderr


def test_create_of_many_kinds(kubectl: Kubectl) -> None:
    """The generators of `kubectl create` make objects that the server takes."""
    for arguments in (
        ("secret", "generic", "s", "--from-literal=a=b"),
        ("service", "clusterip", "svc", "--tcp=80:8080"),
        ("serviceaccount", "robot"),
        ("role", "reader", "--verb=get,list", "--resource=pods"),
        ("rolebinding", "readers", "--role=reader", "--serviceaccount=default:robot"),
        ("job", "once", "--image=busybox"),
        ("cronjob", "often", "--image=busybox", "--schedule=*/5 * * * *"),
        ("quota", "q", "--hard=pods=10"),
        ("ingress", "ing", "--rule=example.com/*=svc:80"),
        ("poddisruptionbudget", "pdb", "--selector=app=web", "--min-available=1"),
    ):
        kubectl.run("create", *arguments)
    for kind in (
        "secret/s",
        "service/svc",
        "serviceaccount/robot",
        "role/reader",
        "job/once",
        "cronjob/often",
        "ingress/ing",
    ):
        assert kubectl.run("get", kind, "-o", "name").strip().endswith("/" + kind.split("/")[1])


def test_edit_with_a_scripted_editor(kubectl: Kubectl) -> None:
    kubectl.run("create", "configmap", "a", "--from-literal=k=before")
    kubectl.run("edit", "configmap", "a", EDITOR="sed -i s/before/after/")
    assert kubectl.run("get", "configmap", "a", "-o", "jsonpath={.data.k}") == "after"


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl.run("create", "configmap", "a")
    kubectl.run("label", "configmap", "a", "tier=back")
    kubectl.run("annotate", "configmap", "a", "note=x y")
    assert kubectl.run("get", "configmap", "-l", "tier=back", "-o", "name") == "configmap/a\n"
    assert kubectl.run("get", "configmap", "a", "-o", "jsonpath={.metadata.annotations.note}") == "x y"
    kubectl.run("label", "configmap", "a", "tier-")
    assert kubectl.run("get", "configmap", "-l", "tier", "-o", "name") == ""


def test_client_side_apply(kubectl: Kubectl) -> None:
    assert "created" in kubectl.run("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "unchanged" in kubectl.run("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "configured" in kubectl.run("apply", "-f", "-", stdin=DEPLOYMENT.replace("nginx:1.27", "nginx:1.28"))
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl.run("get", "deployment", "web", "-o", image) == "nginx:1.28"


def test_server_side_apply_with_a_conflict(kubectl: Kubectl) -> None:
    kubectl.run("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=DEPLOYMENT)
    changed = DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    error = _error(kubectl, "apply", "--server-side", "--field-manager=two", "-f", "-", stdin=changed)
    assert 'conflict with "one"' in error and ".spec.replicas" in error
    kubectl.run("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", stdin=changed)
    assert kubectl.run("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"


def test_validation_refuses_an_unknown_field(kubectl: Kubectl) -> None:
    error = _error(kubectl, "create", "-f", "-", stdin=POD.replace("image: busybox", "image: busybox, imagine: x"))
    assert 'unknown field "spec.containers[0].imagine"' in error


REVIEW = """
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: nobody, resourceAttributes: {verb: get, resource: pods}%s}
"""


def test_validation_of_what_cannot_be_patched(kubectl: Kubectl) -> None:
    """kubectl checks such kinds itself, by version 2 of OpenAPI in protobuf."""
    assert kubectl.run("create", "-f", "-", "-o", "jsonpath={.status.allowed}", stdin=REVIEW % "") == "false"
    kubectl.run("create", "-f", "-", stdin=REVIEW % ", nosuch: 1", ok=(1,))
    assert 'unknown field "nosuch" in io.k8s.api.authorization.v1.SubjectAccessReviewSpec' in kubectl.stderr


def test_diff(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT) == ""
    text = kubectl.run("diff", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 5"), ok=(1,))
    assert "-  replicas: 2" in text and "+  replicas: 5" in text


def test_replace(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl.run("replace", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 4"))
    assert kubectl.run("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "4"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", '[{"op":"replace","path":"/spec/replicas","value":7}]'),
        ("merge", '{"spec":{"replicas":7}}'),
        ("strategic", '{"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"d","image":"busybox"}]}}}}'),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl.run("patch", "deployment", "web", "--type", kind, "-p", patch)
    found = as_json(kubectl.run("get", "deployment", "web", "-o", "json"))
    assert found["spec"]["replicas"] == 7
    names = [container["name"] for container in found["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == (["c", "d"] if kind == "strategic" else ["c"])


def test_patch_of_the_status_subresource(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl.run("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":2}}')
    assert kubectl.run("get", "deployment", "web", "-o", "jsonpath={.status.replicas}") == "2"


def test_scale(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl.run("scale", "deployment", "web", "--replicas=6", "--current-replicas=2")
    assert kubectl.run("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "6"


def test_set_image(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl.run("set", "image", "deployment/web", "c=nginx:2")
    assert "nginx:2" in kubectl.run("get", "deployment", "web", "-o", "wide")


def test_delete(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        kubectl.run("create", "configmap", name)
    kubectl.run("delete", "configmap", "a")
    assert "NotFound" in _error(kubectl, "get", "configmap", "a")
    kubectl.run("delete", "configmap", "--all")
    assert "configmap/b" not in kubectl.run("get", "configmap", "-o", "name")


def _lines(process: subprocess.Popen[str], count: int, seconds: float = MAX_WAIT) -> list[str]:
    assert process.stdout is not None
    found: list[str] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        found.append(process.stdout.readline().strip())
    return found


def test_get_watch(kubectl: Kubectl) -> None:
    """`get -w` shows what happens after it began."""
    kubectl.run("create", "configmap", "first")
    watch = kubectl.popen("get", "configmap", "-w", "-o", "name", "--field-selector=metadata.name!=kube-root-ca.crt")
    try:
        assert _lines(watch, 1) == ["configmap/first"]
        kubectl.run("create", "configmap", "second")
        kubectl.run("label", "configmap", "first", "a=b")
        assert _lines(watch, 2) == ["configmap/second", "configmap/first"]
    finally:
        watch.terminate()
        watch.communicate(timeout=120)


def test_wait_for_a_condition_a_field_and_deletion(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    waiting = kubectl.popen("wait", "deployment/web", "--for=jsonpath={.spec.replicas}=9", "--timeout=120s")
    kubectl.run("scale", "deployment", "web", "--replicas=9")
    assert waiting.wait(120) == 0
    waiting.communicate()
    status = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
    kubectl.run("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    assert "condition met" in kubectl.run("wait", "deployment/web", "--for=condition=Available", "--timeout=120s")
    gone = kubectl.popen("wait", "deployment/web", "--for=delete", "--timeout=120s")
    kubectl.run("delete", "deployment", "web")
    assert gone.wait(120) == 0
    gone.communicate()


def test_output_formats(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=POD)
    wide = kubectl.run("get", "pods", "-o", "wide").splitlines()
    assert wide[0].split() == [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "NODE",
        "NOMINATED",
        "NODE",
        "READINESS",
        "GATES",
    ]
    assert wide[1].split()[:3] == ["p", "0/1", "Pending"]
    assert "name: p" in kubectl.run("get", "pod", "p", "-o", "yaml")
    columns = kubectl.run("get", "pods", "-o", "custom-columns=N:.metadata.name,I:.spec.containers[0].image")
    assert columns.split() == ["N", "I", "p", "busybox"]
    assert kubectl.run("get", "pods", "-o", "jsonpath={.items[*].metadata.name}") == "p"


def test_sort_by_and_chunks(kubectl: Kubectl) -> None:
    for name, rank in (("a", "3"), ("b", "1"), ("c", "2"), ("d", "5"), ("e", "4")):
        kubectl.run("create", "configmap", name, f"--from-literal=rank={rank}")
        kubectl.run("label", "configmap", name, "mine=yes")
    text = kubectl.run("get", "configmap", "-l", "mine", "--sort-by={.data.rank}", "-o", "name")
    assert [line[-1] for line in text.split()] == ["b", "c", "a", "e", "d"]
    text = kubectl.run("get", "configmap", "-l", "mine", "--chunk-size=2", "-o", "name")
    assert [line[-1] for line in text.split()] == ["a", "b", "c", "d", "e"]


def test_explain_recursive(kubectl: Kubectl) -> None:
    text = kubectl.run("explain", "deployment.spec.template", "--recursive")
    assert "containers" in text and "livenessProbe" in text
    assert "Pod is a collection of containers" in kubectl.run("explain", "pod")


def test_explain_by_version_2(kubectl: Kubectl) -> None:
    said = kubectl.run("explain", "pod.spec.containers", "--output=plaintext-openapiv2")
    assert "RESOURCE: containers <[]Object>" in said and "image\t<string>" in said


def test_events(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning", "reason": "Because",
        "message": "it happened", "involvedObject": {"kind": "Pod", "name": "p", "namespace": kubectl.namespace},
    }  # fmt: skip
    kubectl.run("create", "-f", "-", stdin=json.dumps(event))
    assert "it happened" in kubectl.run("get", "events")
    assert "Because" in kubectl.run("events", "--types=Warning")


def test_delete_namespace_finishes(kubectl: Kubectl) -> None:
    """The namespace controller empties it and lets it go; its default objects were made before."""
    kubectl.run("wait", "serviceaccount/default", "--for=create", "--timeout=120s")
    kubectl.run("wait", "configmap/kube-root-ca.crt", "--for=create", "--timeout=120s")
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl.run("create", "-f", "-", stdin=POD)
    kubectl.run("delete", "namespace", kubectl.namespace, "--timeout=120s")
    assert "NotFound" in _error(kubectl, "get", "namespace", kubectl.namespace)


def test_authorization_commands(kubectl: Kubectl) -> None:
    assert kubectl.run("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl.run("auth", "can-i", "create", "pods", "--as=nobody", ok=(1,)) == "no\n"
    assert "kubernetes-admin" in kubectl.run("auth", "whoami")
    assert "*.*" in kubectl.run("auth", "can-i", "--list")
    kubectl.run("create", "serviceaccount", "robot")
    token = kubectl.run("create", "token", "robot").strip()
    assert token.count(".") == 2
    who = kubectl.run("auth", "whoami", "--kubeconfig=/dev/null", f"--server={kubectl.server.url}", f"--token={token}",
                      f"--certificate-authority={kubectl.server.authority}")  # fmt: skip
    assert f"system:serviceaccount:{kubectl.namespace}:robot" in who
    role = {**ROLE, "metadata": {"name": "viewer", "namespace": kubectl.namespace}}
    reconciled = kubectl.run("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
    assert "role.rbac.authorization.k8s.io/viewer reconciled" in reconciled


ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "viewer"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}  # fmt: skip


def test_raw_and_dry_run(kubectl: Kubectl) -> None:
    assert kubectl.run("get", "--raw=/readyz") == "ok"
    kubectl.run("create", "configmap", "a", "--dry-run=server")
    assert "NotFound" in _error(kubectl, "get", "configmap", "a")
