"""What the server sets where a client sets nothing, by kind and by part (upstream: ``pkg/apis/*/*/defaults.go``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object, Tree
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.resources.previews import PREVIEWS
from tests.resources.test_every_row import JOB, RULE, STORED, WORKLOAD, bare

ROWS = {row.plural: row for row in reversed((*BUILT_IN, *PREVIEWS))}
SERVICE: Object = {"service": {"namespace": "n", "name": "s"}}
WEBHOOK: Object = {"name": "w", "clientConfig": SERVICE, "rules": [RULE]}
#: paths of templates of pods
TEMPLATES = {
    "PodTemplate": "template", "ReplicationController": "spec.template", "ReplicaSet": "spec.template",
    "Deployment": "spec.template", "DaemonSet": "spec.template", "StatefulSet": "spec.template", "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
}  # fmt: skip
#: of the least objects; other kinds have none
OF_KINDS: dict[str, dict[str, Tree]] = {
    "Namespace": {"metadata.labels.kubernetes.io/metadata.name": "x", "status.phase": "Active"},
    "PersistentVolumeClaim": {"spec.volumeMode": "Filesystem", "status.phase": "Pending"},
    "PersistentVolume": {"spec.hostPath.type": "", "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem", "status.phase": "Pending"},
    "Pod": {"spec.containers[0].imagePullPolicy": "Always",
        "spec.containers[0].terminationMessagePath": "/dev/termination-log",
        "spec.containers[0].terminationMessagePolicy": "File", "spec.enableServiceLinks": True,
        "spec.dnsPolicy": "ClusterFirst", "spec.restartPolicy": "Always", "spec.securityContext": {},
        "spec.terminationGracePeriodSeconds": 30, "spec.schedulerName": "default-scheduler"},
    "ReplicationController": {"metadata.labels.a": "b", "spec.replicas": 1},
    "Secret": {"type": "Opaque"},
    "Service": {"spec.ports[0].targetPort": 80, "spec.ports[0].protocol": "TCP", "spec.sessionAffinity": "None",
        "spec.type": "ClusterIP", "spec.internalTrafficPolicy": "Cluster"},
    "DaemonSet": {"metadata.annotations.deprecated.daemonset.template.generation": "0",
        "spec.updateStrategy.type": "RollingUpdate", "spec.updateStrategy.rollingUpdate.maxUnavailable": 1,
        "spec.updateStrategy.rollingUpdate.maxSurge": 0, "spec.revisionHistoryLimit": 10},
    "Deployment": {"spec.strategy.type": "RollingUpdate", "spec.strategy.rollingUpdate.maxUnavailable": "25%",
        "spec.strategy.rollingUpdate.maxSurge": "25%", "spec.replicas": 1, "spec.revisionHistoryLimit": 10,
        "spec.progressDeadlineSeconds": 600},
    "ReplicaSet": {"spec.replicas": 1},
    "StatefulSet": {"spec.updateStrategy.type": "RollingUpdate", "spec.updateStrategy.rollingUpdate.partition": 0,
        "spec.podManagementPolicy": "OrderedReady", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain", "spec.replicas": 1,
        "spec.revisionHistoryLimit": 10},
    "HorizontalPodAutoscaler": {"spec.minReplicas": 1, "spec.metrics[0].type": "Resource",
        "spec.metrics[0].resource.name": "cpu", "spec.metrics[0].resource.target.type": "Utilization",
        "spec.metrics[0].resource.target.averageUtilization": 80},
    "CronJob": {"spec.concurrencyPolicy": "Allow", "spec.suspend": False, "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1},
    "Job": {"spec.completions": 1, "spec.parallelism": 1, "spec.backoffLimit": 6, "spec.completionMode": "NonIndexed",
        "spec.suspend": False, "spec.podReplacementPolicy": "TerminatingOrFailed", "spec.manualSelector": False},
    "NetworkPolicy": {"spec.policyTypes[0]": "Ingress"},
    "CSIDriver": {"spec.attachRequired": True, "spec.podInfoOnMount": False, "spec.storageCapacity": False,
        "spec.fsGroupPolicy": "ReadWriteOnceWithFSType", "spec.requiresRepublish": False, "spec.seLinuxMount": False,
        "spec.volumeLifecycleModes[0]": "Persistent"},
    "StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "MutatingAdmissionPolicy": {"spec.matchConstraints.resourceRules[0].scope": "*",
        "spec.matchConstraints.matchPolicy": "Equivalent", "spec.matchConstraints.namespaceSelector": {},
        "spec.matchConstraints.objectSelector": {}, "spec.failurePolicy": "Fail"},
    "ValidatingAdmissionPolicy": {"spec.matchConstraints.resourceRules[0].scope": "*",
        "spec.matchConstraints.matchPolicy": "Equivalent", "spec.matchConstraints.namespaceSelector": {},
        "spec.matchConstraints.objectSelector": {}, "spec.failurePolicy": "Fail"},
    "CustomResourceDefinition": {"spec.conversion.strategy": "None"},
    "PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "FlowSchema": {"spec.matchingPrecedence": 1000},
    "PriorityLevelConfiguration": {"spec.limited.nominalConcurrencyShares": 30, "spec.limited.lendablePercent": 0},
}  # fmt: skip


def container(**parts: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "i:1", **parts}]}}


def volume(**source: Any) -> Object:
    return {"spec": {**container()["spec"], "volumes": [{"name": "v", **source}]}}


def persistent(**source: Any) -> Object:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, **source}}


#: what each pod and each PersistentVolume gets, which is left out below
LEAST: dict[str, Object] = {"pods": container(), "persistentvolumes": persistent()}


def leaves(value: Tree, path: str = "") -> Iterator[tuple[str, Tree]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def added(row: Resource, obj: Object) -> dict[str, Tree]:
    """What defaults set in an object, by path."""
    before, changed = dict(leaves(obj)), tree.copy(obj)
    row.strategy.default(changed)
    return {path: value for path, value in leaves(changed) if path not in before or before[path] != value}


@pytest.mark.parametrize("row", STORED)
def test_of_the_least_object(row: Resource) -> None:
    within = TEMPLATES.get(row.kind, "no template") + "."
    found = added(row, bare(row))
    assert {path: value for path, value in found.items() if not path.startswith(within)} == OF_KINDS.get(row.kind, {})


@pytest.mark.parametrize("row", [row for row in BUILT_IN if row.kind in TEMPLATES and row.to_storage is None])
def test_a_template_is_like_a_pod_but_for_the_links_to_services(row: Resource) -> None:
    within = TEMPLATES[row.kind] + "."
    found = added(row, bare(row))
    shown = {path.removeprefix(within): value for path, value in found.items() if path.startswith(within)}
    left_out = {"spec.enableServiceLinks", *(("spec.restartPolicy",) if "Job" in row.kind else ())}
    assert shown == {path: value for path, value in OF_KINDS["Pod"].items() if path not in left_out}


@pytest.mark.parametrize(
    ("plural", "parts", "wanted"),
    [
        ("pods", container(ports=[{"containerPort": 80}]), {
            "spec.containers[0].ports[0].protocol": "TCP",
        }),
        ("pods", container(livenessProbe={"httpGet": {"port": 80}}, readinessProbe={"grpc": {"port": 80}},
            startupProbe={"exec": {"command": ["a"]}}), {
            "spec.containers[0].livenessProbe.httpGet.path": "/",
            "spec.containers[0].livenessProbe.httpGet.scheme": "HTTP",
            "spec.containers[0].livenessProbe.timeoutSeconds": 1,
            "spec.containers[0].livenessProbe.periodSeconds": 10,
            "spec.containers[0].livenessProbe.successThreshold": 1,
            "spec.containers[0].livenessProbe.failureThreshold": 3,
            "spec.containers[0].readinessProbe.grpc.service": "",
            "spec.containers[0].readinessProbe.timeoutSeconds": 1,
            "spec.containers[0].readinessProbe.periodSeconds": 10,
            "spec.containers[0].readinessProbe.successThreshold": 1,
            "spec.containers[0].readinessProbe.failureThreshold": 3,
            "spec.containers[0].startupProbe.timeoutSeconds": 1,
            "spec.containers[0].startupProbe.periodSeconds": 10,
            "spec.containers[0].startupProbe.successThreshold": 1,
            "spec.containers[0].startupProbe.failureThreshold": 3,
        }),
        ("pods", container(lifecycle={"postStart": {"httpGet": {"port": 80}}, "preStop": {"httpGet": {"port": 80}}}), {
            "spec.containers[0].lifecycle.postStart.httpGet.path": "/",
            "spec.containers[0].lifecycle.postStart.httpGet.scheme": "HTTP",
            "spec.containers[0].lifecycle.preStop.httpGet.path": "/",
            "spec.containers[0].lifecycle.preStop.httpGet.scheme": "HTTP",
        }),
        ("pods", container(env=[{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]), {
            "spec.containers[0].env[0].valueFrom.fieldRef.apiVersion": "v1",
        }),
        ("pods", container(resources={"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m"}}), {
            "spec.containers[0].resources.requests.memory": "1",
        }),
        ("pods", {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i",
            "ports": [{"containerPort": 80}]}]}}, {
            "spec.containers[0].ports[0].hostPort": 80,
            "spec.containers[0].ports[0].protocol": "TCP",
            "spec.containers[0].imagePullPolicy": "Always",
        }),
        ("pods", {"spec": {"containers": [{"name": "c",
            "image": "i@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}],
            "initContainers": [{"name": "d", "image": "i:latest"}], "ephemeralContainers": [{"name": "e",
            "image": "i:2"}]}}, {
            "spec.initContainers[0].imagePullPolicy": "Always",
            "spec.initContainers[0].terminationMessagePath": "/dev/termination-log",
            "spec.initContainers[0].terminationMessagePolicy": "File",
            "spec.initContainers[0].resources": {},
            "spec.ephemeralContainers[0].imagePullPolicy": "IfNotPresent",
            "spec.ephemeralContainers[0].terminationMessagePath": "/dev/termination-log",
            "spec.ephemeralContainers[0].terminationMessagePolicy": "File",
            "spec.ephemeralContainers[0].resources": {},
        }),
        ("pods", volume(), {
            "spec.volumes[0].emptyDir": {},
        }),
        ("pods", volume(secret={"secretName": "s"}), {
            "spec.volumes[0].secret.defaultMode": 420,
        }),
        ("pods", volume(configMap={"name": "s"}), {
            "spec.volumes[0].configMap.defaultMode": 420,
        }),
        ("pods", volume(downwardAPI={"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}), {
            "spec.volumes[0].downwardAPI.items[0].fieldRef.apiVersion": "v1",
            "spec.volumes[0].downwardAPI.defaultMode": 420,
        }),
        ("pods", volume(projected={"sources": [{"serviceAccountToken": {"path": "p"}},
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}), {
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds": 3600,
            "spec.volumes[0].projected.sources[1].downwardAPI.items[0].fieldRef.apiVersion": "v1",
            "spec.volumes[0].projected.defaultMode": 420,
        }),
        ("pods", volume(hostPath={"path": "/p"}), {
            "spec.volumes[0].hostPath.type": "",
        }),
        ("pods", volume(iscsi={"targetPortal": "p", "iqn": "q"}), {
            "spec.volumes[0].iscsi.iscsiInterface": "default",
        }),
        ("pods", volume(rbd={"image": "i", "monitors": ["m"]}), {
            "spec.volumes[0].rbd.pool": "rbd",
            "spec.volumes[0].rbd.user": "admin",
            "spec.volumes[0].rbd.keyring": "/etc/ceph/keyring",
        }),
        ("pods", volume(azureDisk={"diskName": "d", "diskURI": "u"}), {
            "spec.volumes[0].azureDisk.cachingMode": "ReadWrite",
            "spec.volumes[0].azureDisk.fsType": "ext4",
            "spec.volumes[0].azureDisk.readOnly": False,
            "spec.volumes[0].azureDisk.kind": "Shared",
        }),
        ("pods", volume(scaleIO={"gateway": "g", "system": "s", "secretRef": {"name": "n"}}), {
            "spec.volumes[0].scaleIO.storageMode": "ThinProvisioned",
            "spec.volumes[0].scaleIO.fsType": "xfs",
        }),
        ("pods", volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1"}}}}}), {
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode": "Filesystem",
        }),
        ("pods", volume(image={"reference": "i"}), {
            "spec.volumes[0].image.pullPolicy": "Always",
        }),
        ("pods", volume(image={"reference": "i:1"}), {
            "spec.volumes[0].image.pullPolicy": "IfNotPresent",
        }),
        ("pods", {"spec": {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": [{"maxSkew": 1,
            "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]}}, {
            "spec.containers[0].imagePullPolicy": "Always",
        }),
        ("persistentvolumes", persistent(iscsi={"targetPortal": "p", "iqn": "q"}), {
            "spec.iscsi.iscsiInterface": "default",
        }),
        ("persistentvolumes", persistent(rbd={"image": "i", "monitors": ["m"]}), {
            "spec.rbd.pool": "rbd",
            "spec.rbd.user": "admin",
            "spec.rbd.keyring": "/etc/ceph/keyring",
        }),
        ("persistentvolumes", persistent(azureDisk={"diskName": "d", "diskURI": "u"}), {
            "spec.azureDisk.cachingMode": "ReadWrite",
            "spec.azureDisk.fsType": "ext4",
            "spec.azureDisk.readOnly": False,
            "spec.azureDisk.kind": "Shared",
        }),
        ("persistentvolumes", persistent(scaleIO={"gateway": "g", "system": "s", "secretRef": {"name": "n"}}), {
            "spec.scaleIO.storageMode": "ThinProvisioned",
            "spec.scaleIO.fsType": "xfs",
        }),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]}, {
            "subsets[0].ports[0].protocol": "TCP",
        }),
        ("endpointslices", {"addressType": "IPv4", "endpoints": [], "ports": [{"port": 1}]}, {
            "ports[0].name": "",
            "ports[0].protocol": "TCP",
        }),
        ("services", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": "x"}]}}, {
            "spec.ports[0].protocol": "TCP",
            "spec.sessionAffinity": "None",
            "spec.externalTrafficPolicy": "Cluster",
            "spec.internalTrafficPolicy": "Cluster",
            "spec.allocateLoadBalancerNodePorts": True,
            "status.loadBalancer": {},
        }),
        ("services", {"spec": {"type": "NodePort", "ports": [{"port": 80}]}}, {
            "spec.ports[0].protocol": "TCP",
            "spec.ports[0].targetPort": 80,
            "spec.sessionAffinity": "None",
            "spec.externalTrafficPolicy": "Cluster",
            "spec.internalTrafficPolicy": "Cluster",
            "status.loadBalancer": {},
        }),
        ("services", {"spec": {"type": "ExternalName", "externalName": "e", "ports": [{"port": 80}]}}, {
            "spec.ports[0].protocol": "TCP",
            "spec.ports[0].targetPort": 80,
            "spec.sessionAffinity": "None",
            "status.loadBalancer": {},
        }),
        ("services", {"spec": {"sessionAffinity": "ClientIP", "ports": [{"port": 80}]}}, {
            "spec.ports[0].protocol": "TCP",
            "spec.ports[0].targetPort": 80,
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds": 10800,
            "spec.type": "ClusterIP",
            "spec.internalTrafficPolicy": "Cluster",
            "status.loadBalancer": {},
        }),
        ("limitranges", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1"}},
            {"type": "Pod", "max": {"cpu": "2"}}]}}, {
            "spec.limits[0].default.cpu": "2",
            "spec.limits[0].defaultRequest.memory": "1",
            "spec.limits[0].defaultRequest.cpu": "2",
        }),
        ("statefulsets", {"spec": {**WORKLOAD, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}],
            "updateStrategy": {"type": "OnDelete"}}}, {
            "spec.volumeClaimTemplates[0].spec.volumeMode": "Filesystem",
            "spec.volumeClaimTemplates[0].spec.resources": {},
            "spec.volumeClaimTemplates[0].kind": "PersistentVolumeClaim",
            "spec.volumeClaimTemplates[0].apiVersion": "v1",
            "spec.volumeClaimTemplates[0].status.phase": "Pending",
            "spec.podManagementPolicy": "OrderedReady",
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
            "spec.replicas": 1,
            "spec.revisionHistoryLimit": 10,
            "spec.serviceName": "",
        }),
        ("statefulsets", {"spec": {**WORKLOAD, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}}, {
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
            "spec.podManagementPolicy": "OrderedReady",
            "spec.updateStrategy.type": "RollingUpdate",
            "spec.updateStrategy.rollingUpdate.partition": 0,
            "spec.replicas": 1,
            "spec.revisionHistoryLimit": 10,
            "spec.serviceName": "",
        }),
        ("deployments", {"spec": {**WORKLOAD, "strategy": {"type": "Recreate"}}}, {
            "spec.replicas": 1,
            "spec.revisionHistoryLimit": 10,
            "spec.progressDeadlineSeconds": 600,
        }),
        ("daemonsets", {"spec": {**WORKLOAD, "updateStrategy": {"type": "OnDelete"}}}, {
            "metadata.annotations.deprecated.daemonset.template.generation": "0",
            "spec.revisionHistoryLimit": 10,
        }),
        ("jobs", {"spec": {**JOB, "completions": 3}}, {
            "spec.parallelism": 1,
            "spec.backoffLimit": 6,
            "spec.completionMode": "NonIndexed",
            "spec.suspend": False,
            "spec.podReplacementPolicy": "TerminatingOrFailed",
            "spec.manualSelector": False,
        }),
        ("jobs", {"spec": {**JOB, "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1}}, {
            "spec.parallelism": 1,
            "spec.backoffLimit": 2147483647,
            "spec.suspend": False,
            "spec.podReplacementPolicy": "TerminatingOrFailed",
            "spec.manualSelector": False,
        }),
        ("jobs", {"spec": {**JOB, "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "T"}]}]}}}, {
            "spec.podFailurePolicy.rules[0].onPodConditions[0].status": "True",
            "spec.completions": 1,
            "spec.parallelism": 1,
            "spec.backoffLimit": 6,
            "spec.completionMode": "NonIndexed",
            "spec.suspend": False,
            "spec.podReplacementPolicy": "Failed",
            "spec.manualSelector": False,
        }),
        ("horizontalpodautoscalers", {"spec": {"maxReplicas": 1, "scaleTargetRef": {}, "behavior": {"scaleUp": {},
            "scaleDown": {}}}}, {
            "spec.behavior.scaleUp.stabilizationWindowSeconds": 0,
            "spec.behavior.scaleUp.selectPolicy": "Max",
            "spec.behavior.scaleUp.policies[0].type": "Pods",
            "spec.behavior.scaleUp.policies[0].value": 4,
            "spec.behavior.scaleUp.policies[0].periodSeconds": 15,
            "spec.behavior.scaleUp.policies[1].type": "Percent",
            "spec.behavior.scaleUp.policies[1].value": 100,
            "spec.behavior.scaleUp.policies[1].periodSeconds": 15,
            "spec.behavior.scaleDown.selectPolicy": "Max",
            "spec.behavior.scaleDown.policies[0].type": "Percent",
            "spec.behavior.scaleDown.policies[0].value": 100,
            "spec.behavior.scaleDown.policies[0].periodSeconds": 15,
            "spec.minReplicas": 1,
            "spec.metrics[0].type": "Resource",
            "spec.metrics[0].resource.name": "cpu",
            "spec.metrics[0].resource.target.type": "Utilization",
            "spec.metrics[0].resource.target.averageUtilization": 80,
        }),
        ("horizontalpodautoscalers", {"spec": {"maxReplicas": 1, "scaleTargetRef": {},
            "behavior": {"scaleUp": {"stabilizationWindowSeconds": 7}}}}, {
            "spec.behavior.scaleUp.selectPolicy": "Max",
            "spec.behavior.scaleUp.policies[0].type": "Pods",
            "spec.behavior.scaleUp.policies[0].value": 4,
            "spec.behavior.scaleUp.policies[0].periodSeconds": 15,
            "spec.behavior.scaleUp.policies[1].type": "Percent",
            "spec.behavior.scaleUp.policies[1].value": 100,
            "spec.behavior.scaleUp.policies[1].periodSeconds": 15,
            "spec.behavior.scaleDown.selectPolicy": "Max",
            "spec.behavior.scaleDown.policies[0].type": "Percent",
            "spec.behavior.scaleDown.policies[0].value": 100,
            "spec.behavior.scaleDown.policies[0].periodSeconds": 15,
            "spec.minReplicas": 1,
            "spec.metrics[0].type": "Resource",
            "spec.metrics[0].resource.name": "cpu",
            "spec.metrics[0].resource.target.type": "Utilization",
            "spec.metrics[0].resource.target.averageUtilization": 80,
        }),
        ("validatingwebhookconfigurations", {"webhooks": [WEBHOOK]}, {
            "webhooks[0].clientConfig.service.port": 443,
            "webhooks[0].rules[0].scope": "*",
            "webhooks[0].failurePolicy": "Fail",
            "webhooks[0].matchPolicy": "Equivalent",
            "webhooks[0].namespaceSelector": {},
            "webhooks[0].objectSelector": {},
            "webhooks[0].timeoutSeconds": 10,
        }),
        ("mutatingwebhookconfigurations", {"webhooks": [WEBHOOK]}, {
            "webhooks[0].clientConfig.service.port": 443,
            "webhooks[0].rules[0].scope": "*",
            "webhooks[0].failurePolicy": "Fail",
            "webhooks[0].matchPolicy": "Equivalent",
            "webhooks[0].namespaceSelector": {},
            "webhooks[0].objectSelector": {},
            "webhooks[0].timeoutSeconds": 10,
            "webhooks[0].reinvocationPolicy": "Never",
        }),
        ("validatingadmissionpolicybindings", {"spec": {"policyName": "p", "matchResources": {"resourceRules": [RULE]}}}, {
            "spec.matchResources.resourceRules[0].scope": "*",
            "spec.matchResources.matchPolicy": "Equivalent",
            "spec.matchResources.namespaceSelector": {},
            "spec.matchResources.objectSelector": {},
        }),
        ("customresourcedefinitions", {"spec": {"group": "e.com", "scope": "Cluster", "names": {"plural": "foos",
            "kind": "Foo"}, "versions": [], "conversion": {"strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "n",
            "name": "s"}}}}}}, {
            "spec.names.singular": "foo",
            "spec.names.listKind": "FooList",
            "spec.conversion.webhook.clientConfig.service.port": 443,
        }),
        ("apiservices", {"spec": {"group": "g", "version": "v1", "service": {"namespace": "n", "name": "s"}}}, {
            "spec.service.port": 443,
            "spec.groupPriorityMinimum": 0,
            "spec.versionPriority": 0,
            "status": {},
        }),
        ("ingressclasses", {"spec": {"controller": "c", "parameters": {"kind": "k", "name": "n"}}}, {
            "spec.parameters.scope": "Cluster",
        }),
        ("networkpolicies", {"spec": {"podSelector": {}, "egress": [{}]}}, {
            "spec.policyTypes[0]": "Ingress",
            "spec.policyTypes[1]": "Egress",
        }),
        ("networkpolicies", {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 1}]}]}}, {
            "spec.ingress[0].ports[0].protocol": "TCP",
            "spec.policyTypes[0]": "Ingress",
        }),
        ("prioritylevelconfigurations", {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue",
            "queuing": {}}}}}, {
            "spec.limited.limitResponse.queuing.handSize": 8,
            "spec.limited.limitResponse.queuing.queues": 64,
            "spec.limited.limitResponse.queuing.queueLengthLimit": 50,
            "spec.limited.nominalConcurrencyShares": 30,
            "spec.limited.lendablePercent": 0,
        }),
        ("prioritylevelconfigurations", {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}}}, {
            "spec.limited.nominalConcurrencyShares": 30,
            "spec.limited.lendablePercent": 0,
        }),
        ("prioritylevelconfigurations", {"spec": {"type": "Exempt"}}, {
        }),
        ("rolebindings", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
            {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}]}, {
            "roleRef.apiGroup": "rbac.authorization.k8s.io",
            "subjects[0].apiGroup": "rbac.authorization.k8s.io",
            "subjects[1].apiGroup": "rbac.authorization.k8s.io",
        }),
        ("clusterrolebindings", {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User",
            "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}, {
            "roleRef.apiGroup": "rbac.authorization.k8s.io",
            "subjects[0].apiGroup": "rbac.authorization.k8s.io",
        }),
        ("resourceclaims", {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}},
            {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "c"}]}, {"name": "u",
            "exactly": {"deviceClassName": "c", "allocationMode": "All", "tolerations": [{"key": "k"}]}}]}}}, {
            "spec.devices.requests[0].exactly.allocationMode": "ExactCount",
            "spec.devices.requests[0].exactly.count": 1,
            "spec.devices.requests[1].firstAvailable[0].allocationMode": "ExactCount",
            "spec.devices.requests[1].firstAvailable[0].count": 1,
            "spec.devices.requests[2].exactly.tolerations[0].operator": "Equal",
        }),
        ("resourceclaimtemplates", {"spec": {"spec": {"devices": {"requests": [{"name": "r",
            "exactly": {"deviceClassName": "c"}}]}}}}, {
            "spec.spec.devices.requests[0].exactly.allocationMode": "ExactCount",
            "spec.spec.devices.requests[0].exactly.count": 1,
        }),
        ("csidrivers", {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}}, {
            "spec.podInfoOnMount": False,
            "spec.storageCapacity": False,
            "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
            "spec.requiresRepublish": False,
            "spec.seLinuxMount": False,
        }),
        ("podcertificaterequests", {"spec": {}}, {
            "spec.maxExpirationSeconds": 86400,
        }),
        ("resourcepoolstatusrequests", {"spec": {"driver": "d"}}, {
            "spec.limit": 100,
        }),
    ],
)  # fmt: skip
def test_of_a_part(plural: str, parts: Object, wanted: dict[str, Tree]) -> None:
    row = ROWS[plural]
    usual = added(row, {"metadata": {"name": "x"}, **LEAST[plural]}) if plural in LEAST else {}
    found = added(row, {"metadata": {"name": "x"}, **parts})
    template = TEMPLATES.get(row.kind, "no template")
    assert {
        path: value
        for path, value in found.items()
        if not path.startswith(template) and (path not in usual or usual[path] != value)
    } == wanted
