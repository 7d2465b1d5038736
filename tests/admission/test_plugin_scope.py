"""What a plugin refuses of its own resource it lets pass of one of that name in another group, and of other subresources."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Plugin
from kapi.admission.plugins import (
    certificates,
    deny_service_external_ips,
    limit_ranger,
    pod_groups,
    priority,
    runtime_class,
    service_account,
    storage,
    topology,
)
from kapi.machinery import tree
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.admission.certificates import make_request
from tests.admission.fakes import FakeClient, attributes, initializer, pod
from tests.admission.plugin_kit import Rules, admit, namespace

SIGNER = "example.com/signer"
SIGNED: Object = {"metadata": {"name": "r"}, "spec": {"signerName": SIGNER}}
MASTERS = base64.b64encode(make_request("jane", "system:masters")).decode()
OF_MASTERS = {
    "metadata": {"name": "r"},
    "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "request": MASTERS},
}
CERTIFICATES, SCHEDULING = "certificates.k8s.io", "scheduling.k8s.io"
GROUP = {"metadata": {"name": "g", "namespace": "n"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
GROUP["metadata"]["ownerReferences"] = [{"uid": "other"}, {"uid": "u", "controller": True}]
ANTI: Object = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


def claim(size: str) -> Object:
    spec = {"storageClassName": "c", "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "c", "namespace": "n"}, "spec": spec, "status": {"phase": "Pending"}}


def job(parallelism: int, **spec: Any) -> Object:
    return {"metadata": {"name": "j", "uid": "u"}, "spec": {"parallelism": parallelism, **spec}}


REFUSED: list[tuple[Callable[[Initializer], Plugin], dict[str, Any], str]] = [
    (certificates.CertificateApproval, {"obj": SIGNED, "old": SIGNED, "group": CERTIFICATES,
        "resource": "certificatesigningrequests", "subresource": "approval"}, "not permitted to approve"),
    (certificates.CertificateSigning, {"obj": {**SIGNED, "status": {"certificate": "c"}}, "old": SIGNED, "group": CERTIFICATES,
        "resource": "certificatesigningrequests", "subresource": "status"}, "not permitted to sign"),
    (lambda _: certificates.CertificateSubjectRestriction(), {"obj": OF_MASTERS, "group": CERTIFICATES,
        "resource": "certificatesigningrequests"}, "system:masters group is not allowed"),
    (certificates.ClusterTrustBundleAttest, {"obj": SIGNED, "group": CERTIFICATES, "resource": "clustertrustbundles"},
     "not permitted to attest"),
    (certificates.ClusterTrustBundleAttest, {"obj": {**SIGNED, "a": 1}, "old": SIGNED, "group": CERTIFICATES,
        "resource": "clustertrustbundles"}, "not permitted to attest"),
    (lambda _: deny_service_external_ips.DenyServiceExternalIPs(), {"obj": {"metadata": {"name": "s"}, "spec": {
        "externalIPs": ["1.2.3.4"]}}, "resource": "services"}, "Use of external IPs is denied"),
    (pod_groups.PodGroupWorkloadExists, {"obj": {"metadata": {"name": "g"}, "spec": {"podGroupTemplateRef": {"workload": {
        "workloadName": "x"}}}}, "group": SCHEDULING, "resource": "podgroups"}, 'Workload "x" not found'),
    (pod_groups.JobValidation, {"obj": job(2), "old": job(1), "group": "batch", "resource": "jobs"},
     'gang-scheduled PodGroup "g"'),
    (pod_groups.JobValidation, {
        "obj": job(2), "old": job(1, template={"spec": {"schedulingGroup": {"podGroupName": "g"}}}), "group": "batch",
        "resource": "jobs"}, 'gang-scheduled PodGroup "g"'),
    (storage.PersistentVolumeClaimResize, {"obj": claim("2"), "old": claim("1"), "resource": "persistentvolumeclaims"},
     "Only bound persistent volume claims"),
    (limit_ranger.LimitRanger, {"obj": claim("2"), "resource": "persistentvolumeclaims", "kind": "PersistentVolumeClaim"},
     "maximum storage usage"),
    (limit_ranger.LimitRanger, {"obj": pod()}, "maximum cpu usage per Pod is 1.  No limit is specified"),
    (priority.Priority, {"obj": pod(priorityClassName="x")}, "no PriorityClass with name x was found"),
    (runtime_class.RuntimeClass, {"obj": pod(runtimeClassName="x")}, 'RuntimeClass "x" not found'),
    (service_account.ServiceAccount, {"obj": pod(serviceAccountName="x")}, "error looking up service account n/x"),
    (lambda _: topology.LimitPodHardAntiAffinityTopology(), {"obj": pod(affinity=ANTI)}, "has TopologyKey zone"),
]  # fmt: skip


def answer(made: Callable[[Initializer], Plugin], asked: dict[str, Any], **other: Any) -> str:
    client = FakeClient()
    client.put("", "namespaces", namespace())
    limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}]
    client.put("", "limitranges", {"metadata": {"name": "l", "namespace": "n"}, "spec": {"limits": limits}})
    client.put(SCHEDULING, "podgroups", GROUP)
    given = {"operation": UPDATE if "old" in asked else CREATE, **tree.copy(asked), **other}
    obj, old = given.pop("obj"), given.pop("old", None)
    try:
        admit(made(initializer(client, authorizer=Rules())), attributes(obj, old, **given))
    except StatusError as error:
        return error.message
    return ""


@pytest.mark.parametrize(("made", "asked", "text"), REFUSED)
def test_it_is_for_its_own_resource(made: Callable[[Initializer], Plugin], asked: dict[str, Any], text: str) -> None:
    assert text in answer(made, asked)
    other = {"group": "example.com"} if made is not limit_ranger.LimitRanger else {"group": "example.com", "kind": "X"}
    assert answer(made, asked, **other) == ""
    if made is not certificates.ClusterTrustBundleAttest:  # which has no subresources
        assert answer(made, asked, subresource="other") == ""


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        # only the owners, finalizers and managed fields have changed
        (certificates.ClusterTrustBundleAttest, {
            "obj": {**SIGNED, "metadata": {"name": "r", "finalizers": ["a"], "ownerReferences": [{}], "managedFields": [{}]}},
            "old": SIGNED, "group": CERTIFICATES, "resource": "clustertrustbundles"}),
        (certificates.ClusterTrustBundleAttest, {"obj": {"metadata": {"name": "r"}, "spec": {}}, "group": CERTIFICATES,
            "resource": "clustertrustbundles"}),
        (certificates.CertificateSigning, {"obj": {**SIGNED, "status": {"conditions": []}}, "old": SIGNED,
            "group": CERTIFICATES, "resource": "certificatesigningrequests", "subresource": "status"}),
        (pod_groups.PodGroupWorkloadExists, {"obj": {"metadata": {"name": "g"}, "spec": {"podGroupTemplateRef": {}}},
            "group": SCHEDULING, "resource": "podgroups"}),
        (pod_groups.JobValidation, {"obj": job(1, suspend=True), "old": job(1), "group": "batch", "resource": "jobs"}),
        (pod_groups.JobValidation, {"obj": job(2), "old": {**job(1), "metadata": {"name": "j", "uid": "v"}}, "group": "batch",
            "resource": "jobs"}),
        (pod_groups.JobValidation, {
            "obj": job(2), "old": job(1, template={"spec": {"schedulingGroup": {"podGroupName": "x"}}}), "group": "batch",
            "resource": "jobs"}),
        (limit_ranger.LimitRanger, {"obj": pod(), "old": {"metadata": {"name": "p", "deletionTimestamp": "x"}},
            "subresource": "resize"}),
        (limit_ranger.LimitRanger, {"obj": pod(), "namespace": "other"}),
    ],
)  # fmt: skip
def test_what_it_has_no_need_to_look_at(made: Callable[[Initializer], Plugin], asked: dict[str, Any]) -> None:
    assert answer(made, asked) == ""
