"""What a write is warned of, and what of it an update repeats."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from tests.resources.strategy_kit import CTX, made

ROWS = {row.plural: row for row in BUILT_IN}
PORTS: list[Object] = [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}]
PLAIN: Object = {"containers": [{"name": "c", "image": "i"}]}
ODD: Object = {"containers": [{"name": "c", "image": "i", "ports": PORTS}]}
LABELS: Object = {"labels": {"a": "b"}}


def template(spec: Object) -> Object:
    return {"metadata": LABELS, "spec": spec}


def workload(spec: Object, **more: Any) -> Object:
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(spec), **more}}


def job(spec: Object) -> Object:
    return {"spec": {"template": {"spec": {**spec, "restartPolicy": "Never"}}}}


def cron(spec: Object, **more: Any) -> Object:
    return {"spec": {"schedule": "* * * * *", "jobTemplate": job(spec), **more}}


TEXT = "duplicate port definition with"


@pytest.mark.parametrize(
    ("plural", "parts", "place"),
    [
        ("deployments", workload, "spec.template.spec."),
        ("replicasets", workload, "spec.template.spec."),
        ("daemonsets", workload, "spec.template.spec."),
        ("statefulsets", workload, "spec.template.spec."),
        ("replicationcontrollers", lambda spec: {"spec": {"template": template(spec)}}, "spec.template.spec."),
        ("jobs", job, "spec.template.spec."),
        ("cronjobs", cron, "spec.jobTemplate.spec.template.spec."),
        ("podtemplates", lambda spec: {"template": template(spec)}, "template.spec."),
        ("pods", lambda spec: {"spec": spec}, "spec."),
    ],
)
def test_templates_are_looked_at_when_they_change(plural: str, parts: Any, place: str) -> None:
    strategy = ROWS[plural].strategy
    plain, odd = (made(ROWS[plural], metadata={"uid": "u"}, **parts(spec)) for spec in (PLAIN, ODD))
    [text] = strategy.warnings_on_create(odd, CTX)
    assert text.startswith(f"{place}containers[0].ports[1]: {TEXT}")
    assert strategy.warnings_on_create(plain, CTX) == []
    again = tree.copy(odd)
    again["metadata"]["generation"] = odd["metadata"].get("generation", 1) + 1
    if plural == "daemonsets":
        again["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "2"}
    assert strategy.warnings_on_update(again, odd, CTX) == ([] if plural == "pods" else [text])


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets", "statefulsets", "jobs", "cronjobs"])
def test_nothing_is_said_again_of_the_same_generation(plural: str) -> None:
    parts = {"jobs": job, "cronjobs": cron}.get(plural, workload)(ODD)
    odd = made(ROWS[plural], metadata={"uid": "u"}, **parts)
    assert ROWS[plural].strategy.warnings_on_update(tree.copy(odd), odd, CTX) == []


@pytest.mark.parametrize(
    ("plural", "parts", "texts"),
    [
        ("deployments", {"metadata": {"name": "a.b"}, **workload(PLAIN)}, [
             "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
             "label is recommended: [must not contain dots]",
         ]),
        ("statefulsets", workload(PLAIN, revisionHistoryLimit=-1), [
             "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
         ]),
        ("jobs", {"metadata": {"name": "a.b"}, **job(PLAIN)}, [
             "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
             "label is recommended: [must not contain dots]",
         ]),
        ("jobs", {"spec": {**job(PLAIN)["spec"], "completionMode": "Indexed", "completions": 100_001,
            "parallelism": 10_001}}, [
             "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
             "Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
         ]),
        ("cronjobs", {"metadata": {"name": "a.b"}, **cron(PLAIN)}, [
             "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
             "label is recommended: [must not contain dots]",
         ]),
        ("cronjobs", cron(PLAIN, schedule="TZ=UTC * * * * *"), []),
        ("statefulsets", workload(PLAIN, volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100m"}}}}]), [
             'spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "100m" is invalid, must be '
             "an integer",
         ]),
        ("resourcequotas", {"spec": {"hard": {"cpu": "2", "limits.cpu": "1", "requests.storage": "2", "limits.storage": "2"}}}, [
             "ResourceQuota cpu (2) should be less than limits.cpu (1)",
         ]),
        ("nodes", {"spec": {"podCIDRs": ["2001:DB8::/32"]}}, [
             'spec.podCIDRs[0]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")',
         ]),
        ("nodes", {"spec": {"podCIDRs": ["10.0.0.1/8"]}}, [
             'spec.podCIDRs[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or '
             '"10.0.0.1/32"?)',
         ]),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "010.0.0.1"}], "notReadyAddresses": [{"ip": "010.0.0.2"}]}]}, [
             'subsets[0].addresses[0].ip: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"',
             'subsets[0].notReadyAddresses[0].ip: non-standard IP address "010.0.0.2" is invalid: use "10.0.0.2"',
         ]),
        ("persistentvolumes", {"spec": {"hostPath": {"path": "/a"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}}}, [
             "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated "
             'since v1.14; use "kubernetes.io/os" instead',
         ]),
        ("customresourcedefinitions", {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "a": {"type": "string", "format": "odd"}, "b": {"type": "string", "format": "date"}}}}}]}}, [
             'unrecognized format "odd"',
         ]),
        ("services", {"spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"], "loadBalancerIP": "1.2.3.4"}},
            ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"]),
        ("services", {"spec": {"ports": [{"port": 80}], "clusterIP": "None", "sessionAffinity": "ClientIP",
            "externalIPs": ["010.0.0.1"]}}, [
             "spec.externalIPs is ignored for headless services",
             "spec.SessionAffinity is ignored for headless services",
             'spec.externalIPs[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"',
         ]),
        ("persistentvolumes", {"spec": {"capacity": {"storage": "100m"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/a"},
            "persistentVolumeReclaimPolicy": "Recycle"}}, [
             "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
             "approach is to use dynamic provisioning.",
         ]),
        ("persistentvolumes", {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "s"}},
            "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"],
            "cephfs": {"monitors": ["m"]}}}, [
             "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
             '"storageClassName" attribute instead',
             "spec.cephfs: deprecated in v1.28, non-functional in v1.31+",
         ]),
        ("persistentvolumeclaims", {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "s"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100m"}}}}, [
             "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
             '"storageClassName" attribute instead',
             'spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer',
         ]),
        ("storageclasses", {"provisioner": "kubernetes.io/glusterfs",
            "allowedTopologies": [{"matchLabelExpressions": [
            {"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]}]}, [
             "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use "
             '"topology.kubernetes.io/zone" instead',
         ]),
        ("csistoragecapacities", {"storageClassName": "s",
            "nodeTopology": {"matchLabels": {"beta.kubernetes.io/os": "linux"}}}, [
             'nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead',
         ]),
        ("csidrivers", {"metadata": {"name": "A.b"}, "spec": {}}, []),
        ("nodes", {"spec": {"configSource": {"configMap": {"name": "c", "namespace": "n",
            "kubeletConfigKey": "k"}}, "externalID": "x"}}, [
             "spec.externalID: this field is deprecated, and is unused by Kubernetes",
         ]),
        ("runtimeclasses", {"handler": "h", "scheduling": {"nodeSelector": {"beta.kubernetes.io/arch": "x"}}}, [
             'scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead',
         ]),
        ("serviceaccounts", {"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}, [
             "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate "
             "namespaces to isolate access to mounted secrets",
         ]),
        ("endpoints", {"subsets": []}, []),
        ("networkpolicies", {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8",
            "except": ["10.1.0.1/16"]}}]}]}}, [
             'spec.ingress[0].from[0].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be '
             '"10.0.0.0/8" or "10.0.0.1/32"?)',
             'spec.ingress[0].from[0].ipBlock.except[0]: CIDR value "10.1.0.1/16" is ambiguous in this context '
             '(should be "10.1.0.0/16" or "10.1.0.1/32"?)',
         ]),
        ("ingresses", {"metadata": {"annotations": {"kubernetes.io/ingress.class": "c"}}, "spec": {"defaultBackend": {
            "service": {"name": "s", "port": {"number": 80}}}}}, [
             "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
         ]),
        ("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}}, [
             "tls: failed to find any PEM data in certificate input",
         ]),
        ("priorityclasses", {"value": 1}, []),
        ("services", {"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "Auto"}}, "spec": {
            "ports": [{"port": 80}]}}, [
             "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
             "service.kubernetes.io/topology-mode instead",
         ]),
        ("services", {"spec": {"clusterIP": "None", "loadBalancerIP": "10.0.0.1", "externalIPs": ["10.0.0.2"],
                               "sessionAffinity": "ClientIP", "externalName": "a"}}, [
             "spec.loadBalancerIP is ignored for headless services", "spec.externalIPs is ignored for headless services",
             "spec.SessionAffinity is ignored for headless services",
             'spec.externalName is ignored when spec.type is not "ExternalName"',
         ]),
        ("services", {"spec": {"type": "ExternalName", "externalName": "a", "externalIPs": ["10.0.0.2"]}}, [
             'spec.externalIPs is ignored when spec.type is "ExternalName"',
         ]),
    ],
)  # fmt: skip
def test_new(plural: str, parts: Object, texts: list[str]) -> None:
    row = ROWS[plural]
    parts = {**parts, "metadata": {"uid": "u", **parts.get("metadata", {})}}
    assert row.strategy.warnings_on_create(made(row, **parts), CTX) == texts


@pytest.mark.parametrize(
    ("plural", "subresource", "parts", "texts"),
    [
        ("cronjobs", "", cron(PLAIN, schedule="TZ=UTC * * * * *"), [
             "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
             "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
         ]),
        ("nodes", "", {"spec": {"configSource": {}}}, ["spec.configSource: the feature is removed"]),
        ("services", "status", {"spec": {}, "status": {"loadBalancer": {"ingress": [
            {"hostname": "a"}, {"ip": "010.0.0.1"}, {"ip": "10.0.0.1"}]}}}, [
             'status.loadBalancer.ingress[1]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"',
         ]),
        ("pods", "status", {"spec": PLAIN, "status": {"podIPs": [{"ip": "010.0.0.1"}], "hostIPs": [{"ip": "010.0.0.2"}]}}, [
             'status.podIPs[0].ip: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"',
             'status.hostIPs[0].ip: non-standard IP address "010.0.0.2" is invalid: use "10.0.0.2"',
         ]),
    ],
)  # fmt: skip
def test_stored(plural: str, subresource: str, parts: Object, texts: list[str]) -> None:
    """What only a stored object can have is warned of when it changes."""
    found = ROWS[plural].subresource(subresource) if subresource else ROWS[plural]
    assert found is not None and found.strategy is not None
    old = {**made(ROWS[plural], metadata={"uid": "u"}, **parts), **tree.copy(parts)}
    assert found.strategy.warnings_on_update(tree.copy(old), old, CTX) == texts


@pytest.mark.parametrize(
    ("before", "after", "warned"), [(False, False, 0), (False, True, 1), (True, True, 0), (True, False, 0)]
)
def test_an_account_is_warned_of_its_annotation_when_it_gets_it(before: bool, after: bool, warned: int) -> None:
    row = next(row for row in BUILT_IN if row.plural == "serviceaccounts")
    name = "kubernetes.io/enforce-mountable-secrets"
    old, new = ({"metadata": {"annotations": {name: "true"} if there else None}} for there in (before, after))
    text = f"metadata.annotations[{name}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    assert row.strategy.warnings_on_update(new, old, CTX) == [text] * warned
    assert row.strategy.warnings_on_create(new, CTX) == [text] * after
