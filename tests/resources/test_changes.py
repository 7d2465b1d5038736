"""What an update may change and what it may not: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from tests.resources.strategy_kit import CTX, changes, made, short

ROWS = {row.plural: row for row in (*BUILT_IN, *PREVIEWS)}
POD: Object = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOAD: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
OTHER: Object = {"selector": {"matchLabels": {"a": "c"}}, "template": {**TEMPLATE, "metadata": {"labels": {"a": "c"}}}}
JOB_POD: Object = {"spec": {**POD, "restartPolicy": "Never"}}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2"}}, "storageClassName": "s"}
VOLUME: Object = {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
FULL: Object = {"phase": "Bound", "capacity": {"storage": "2"}}
ROLE: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
ATTACHED: Object = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
REQUESTS: Object = {"spec": {"spec": {"devices": {"requests": [{"name": "R", "exactly": {"deviceClassName": "c"}}]}}}}
PORTS: Object = {"ports": [{"port": 80}]}


def deep(spec: Object, **parts: Any) -> Object:
    return {key: value for key, value in {**spec, **parts}.items() if value is not None}


@pytest.mark.parametrize(
    ("plural", "before", "after", "texts"),
    [
        ("configmaps", {"data": {"a": "b"}}, {"data": {"a": "c"}, "immutable": True}, []),
        ("configmaps", {"data": {"a": "b"}, "immutable": True}, {"data": {"a": "b"}, "immutable": True}, []),
        ("configmaps", {"data": {"a": "b"}, "immutable": True}, {"data": {"a": "c"}, "immutable": True}, [
             "data: Forbidden: field is immutable when `immutable` is set",
         ]),
        ("configmaps", {"data": {"a": "b"}, "immutable": True}, {"data": {"a": "b"}, "immutable": False}, [
             "immutable: Forbidden: field is immutable when `immutable` is set",
         ]),
        ("configmaps", {"binaryData": {"a": "YQ=="}, "immutable": True}, {"binaryData": {}, "immutable": True}, [
             "binaryData: Forbidden: field is immutable when `immutable` is set",
         ]),
        ("secrets", {"data": {"a": "YQ=="}}, {"data": {"a": "Yg=="}}, []),
        ("secrets", {"data": {"a": "YQ=="}, "immutable": True}, {"data": {"a": "Yg=="}, "immutable": True}, [
             "data: Forbidden: field is immutable when `immutable` is set",
         ]),
        ("secrets", {"data": {"a": "YQ=="}, "immutable": True}, {"data": {"a": "YQ=="}, "immutable": None}, [
             "immutable: Forbidden: field is immutable when `immutable` is set",
         ]),
        # what is new in an update is checked by the rules for new objects
        ("storageclasses", {"provisioner": ""}, {"provisioner": ""}, ["provisioner: Required value"]),
        ("volumeattributesclasses", {"driverName": ""}, {"driverName": ""}, [
             "driverName: Required value", "parameters: Required value: must contain at least one key/value pair",
         ]),
        ("csinodes", {"spec": {"drivers": None}}, {"spec": {"drivers": [{"name": "d", "nodeID": ""}]}}, [
             "spec.drivers[0].nodeID: Required value",
         ]),
        ("runtimeclasses", {"handler": "h"}, {"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}}, [
             'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
         ]),
        ("resourceclaimtemplates", REQUESTS, REQUESTS, [
             'spec.spec.devices.requests[0].name: Invalid value: "R": <label>',
         ]),
        ("storageversionmigrations", {"spec": {"resource": {"resource": ""}}}, {"spec": {"resource": {"resource": ""}}}, [
             "spec.resource.resource: Required value: resource is required to be set",
         ]),
        ("clustertrustbundles", {"spec": {"signerName": "a"}}, {"spec": {"signerName": "a"}}, [
             'metadata.name: Invalid value: "a": ClusterTrustBundle for signerName a must be named with prefix a:',
             "spec.signerName: Invalid value: \"a\": must be a fully qualified domain and path of the form "
             "'example.com/signer-name'",
         ]),
        ("podtemplates", {"template": TEMPLATE}, {"template": {"spec": {"containers": []}}}, [
             "template.spec.containers: Required value",
         ]),
        ("secrets", {"type": "a"}, {"type": "b"}, ['type: Invalid value: "b": field is immutable']),
        ("deployments", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "replicas": 2, "paused": True}}, []),
        ("deployments", {"spec": WORKLOAD}, {"spec": OTHER}, [
             'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
         ]),
        ("replicasets", {"spec": WORKLOAD}, {"spec": OTHER}, [
             'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
         ]),
        ("daemonsets", {"spec": WORKLOAD}, {"spec": OTHER}, [
             'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable',
         ]),
        ("statefulsets", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "replicas": 2, "minReadySeconds": 1}}, []),
        ("statefulsets", {"spec": WORKLOAD}, {"spec": OTHER}, [
             "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
             "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
             "are forbidden",
         ]),
        ("statefulsets", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "serviceName": "other"}}, [
             "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
             "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
             "are forbidden",
         ]),
        ("statefulsets", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "podManagementPolicy": "Parallel"}}, [
             "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
             "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
             "are forbidden",
         ]),
        ("statefulsets", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "revisionHistoryLimit": 3}}, []),
        ("jobs", {"spec": {"template": JOB_POD, "completions": 5}},
         {"spec": {"template": JOB_POD, "completions": 5, "parallelism": 3, "suspend": True}}, []),
        ("jobs", {"spec": {"template": JOB_POD}}, {"spec": {"template": JOB_POD, "completions": 3}}, [
             "spec.completions: Invalid value: 3: field is immutable",
         ]),
        ("jobs", {"spec": {"template": JOB_POD, "completionMode": "Indexed", "completions": 3, "parallelism": 3}},
         {"spec": {"template": JOB_POD, "completionMode": "Indexed", "completions": 4, "parallelism": 4}}, []),
        ("jobs", {"spec": {"template": JOB_POD}}, {"spec": {"template": JOB_POD, "completionMode": "Indexed"}}, [
             'spec.completionMode: Invalid value: "Indexed": field is immutable',
         ]),
        ("jobs", {"spec": {"template": JOB_POD}}, {"spec": {"template": JOB_POD, "managedBy": "example.com/a"}}, [
             'spec.managedBy: Invalid value: "example.com/a": field is immutable',
         ]),
        ("persistentvolumeclaims", {"spec": CLAIM}, {"spec": deep(CLAIM, volumeName="v")}, []),
        ("persistentvolumeclaims", {"spec": deep(CLAIM, volumeName="v")}, {"spec": deep(CLAIM, volumeName="w")}, [
             "spec: Forbidden: spec is immutable after creation except resources.requests and "
             "volumeAttributesClassName for bound claims",
         ]),
        ("persistentvolumeclaims", {"spec": CLAIM}, {"spec": deep(CLAIM, storageClassName="t")}, [
             "spec: Forbidden: spec is immutable after creation except resources.requests and "
             "volumeAttributesClassName for bound claims",
         ]),
        ("persistentvolumeclaims", {"spec": deep(CLAIM, storageClassName=None)}, {"spec": CLAIM}, []),
        ("persistentvolumeclaims", {"spec": CLAIM}, {"spec": deep(CLAIM, accessModes=["ReadOnlyMany"])}, [
             "spec: Forbidden: spec is immutable after creation except resources.requests and "
             "volumeAttributesClassName for bound claims",
         ]),

               ("persistentvolumeclaims", {"spec": deep(CLAIM, volumeName="v"), "status": FULL},
         {"spec": deep(CLAIM, volumeName="v", resources={"requests": {"storage": "3"}})}, []),

               ("persistentvolumeclaims", {"spec": deep(CLAIM, volumeName="v"), "status": FULL},
         {"spec": deep(CLAIM, volumeName="v", resources={"requests": {"storage": "1"}})}, [
             "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
         ]),
        ("persistentvolumeclaims", {"spec": CLAIM},
         {"spec": deep(CLAIM, resources={"requests": {"storage": "3"}})}, [
             "spec: Forbidden: spec is immutable after creation except resources.requests and "
             "volumeAttributesClassName for bound claims",
         ]),
        ("persistentvolumes", {"spec": VOLUME}, {"spec": {**VOLUME, "capacity": {"storage": "3"}}}, []),
        ("persistentvolumes", {"spec": VOLUME}, {"spec": {**VOLUME, "hostPath": {"path": "/b"}}}, [
             "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
         ]),
        ("persistentvolumes", {"spec": VOLUME}, {"spec": {**VOLUME, "volumeMode": "Block"}}, [
             'volumeMode: Invalid value: "Block": field is immutable',
         ]),
        ("persistentvolumes", {"spec": VOLUME}, {"spec": {**VOLUME, "persistentVolumeReclaimPolicy": "Delete"}}, []),
        ("storageclasses", {"provisioner": "p"}, {"provisioner": "p", "allowVolumeExpansion": True}, []),
        ("storageclasses", {"provisioner": "p"}, {"provisioner": "q"}, [
             'provisioner: Invalid value: "q": field is immutable',
         ]),
        ("storageclasses", {"provisioner": "p"}, {"provisioner": "p", "reclaimPolicy": "Retain"}, [
             'reclaimPolicy: Invalid value: "Retain": field is immutable',
         ]),
        ("storageclasses", {"provisioner": "p"}, {"provisioner": "p", "parameters": {"a": "b"}}, [
             'parameters: Invalid value: {"a":"b"}: field is immutable',
         ]),

               ("storageclasses", {"provisioner": "p"}, {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}, [
             'volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable',
         ]),
        ("volumeattributesclasses", {"driverName": "d", "parameters": {"a": "b"}},
         {"driverName": "e", "parameters": {"a": "b"}}, [
             "driverName: Forbidden: updates to driverName are forbidden.",
         ]),
        ("volumeattributesclasses", {"driverName": "d", "parameters": {"a": "b"}},
         {"driverName": "d", "parameters": {"a": "c"}}, [
             "parameters: Forbidden: updates to parameters are forbidden.",
         ]),
        ("volumeattachments", {"spec": ATTACHED}, {"spec": {**ATTACHED, "nodeName": "m"}}, [
             "spec: Invalid value: "
             '{"Attacher":"a","Source":{"PersistentVolumeName":"p","InlineVolumeSpec":null},"NodeName":"m"}: field is '
             "immutable",
         ]),
        ("csidrivers", {"spec": {}}, {"spec": {"attachRequired": False}}, [
             "spec.attachedRequired: Invalid value: false: field is immutable",
         ]),
        ("csidrivers", {"spec": {}}, {"spec": {"podInfoOnMount": True, "requiresRepublish": True}}, []),
        ("csidrivers", {"spec": {}}, {"spec": {"volumeLifecycleModes": ["Ephemeral"]}}, [
             'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable',
         ]),
        ("csidrivers", {"spec": {}},
         {"spec": {"fsGroupPolicy": "None", "storageCapacity": True, "seLinuxMount": True}}, []),
        ("csinodes", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
         {"spec": {"drivers": [{"name": "d", "nodeID": "n"}, {"name": "e", "nodeID": "n"}]}}, []),
        ("csinodes", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
         {"spec": {"drivers": [{"name": "d", "nodeID": "m"}]}}, [
             'spec.drivers: Invalid value: {"Name":"d","NodeID":"m","TopologyKeys":null,"Allocatable":null}: field is '
             "immutable",
         ]),
        ("csistoragecapacities", {"storageClassName": "s"}, {"storageClassName": "t"}, [
             'storageClassName: Invalid value: "t": field is immutable',
         ]),
        ("csistoragecapacities", {"storageClassName": "s"},
         {"storageClassName": "s", "nodeTopology": {"matchLabels": {"a": "b"}}}, [
             'nodeTopology: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable',
         ]),
        ("runtimeclasses", {"handler": "h"}, {"handler": "i"}, ['handler: Invalid value: "i": field is immutable']),
        ("priorityclasses", {}, {}, []),
        ("priorityclasses", {"value": 0}, {}, []),
        ("priorityclasses", {}, {"value": 0}, []),
        ("priorityclasses", {"value": 1}, {}, ["value: Forbidden: may not be changed in an update."]),
        ("priorityclasses", {}, {"value": 1}, ["value: Forbidden: may not be changed in an update."]),
        ("priorityclasses", {"value": 1}, {"value": 2}, ["value: Forbidden: may not be changed in an update."]),
        ("priorityclasses", {"value": 1}, {"value": 1, "preemptionPolicy": "Never"}, [
             'preemptionPolicy: Invalid value: "Never": field is immutable',
         ]),
        ("priorityclasses", {"value": 1}, {"value": 1, "globalDefault": True, "description": "d"}, []),
        ("clusterrolebindings", {"roleRef": ROLE}, {"roleRef": {**ROLE, "name": "s"}}, [
             'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"s"}: '
             "cannot change roleRef",
         ]),
        ("rolebindings", {"roleRef": ROLE}, {"roleRef": ROLE, "subjects": [{"kind": "Group"}]}, [
             "subjects[0].name: Required value",
         ]),
        ("ingressclasses", {"spec": {"controller": "a.com/b"}}, {"spec": {"controller": "a.com/c"}}, [
             'spec.controller: Invalid value: "a.com/c": field is immutable',
         ]),
        ("endpointslices", {"addressType": "IPv4"}, {"addressType": "IPv6"}, [
             'addressType: Invalid value: "IPv6": field is immutable',
         ]),
        ("services", {"spec": PORTS}, {"spec": {**PORTS, "type": "NodePort"}}, []),
        ("services", {"spec": {**PORTS, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}},
         {"spec": {**PORTS, "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}}, [
             'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set',
         ]),
        ("services", {"spec": {**PORTS, "type": "LoadBalancer", "loadBalancerClass": "a.com/b"}},
         {"spec": {**PORTS, "type": "LoadBalancer", "loadBalancerClass": "a.com/c"}}, [
             'spec.loadBalancerClass: Invalid value: "a.com/c": may not change once set',
         ]),
        ("resourcequotas", {"spec": {"hard": {"pods": "1"}}}, {"spec": {"hard": {"pods": "2"}}}, []),
        ("resourcequotas", {"spec": {"hard": {"pods": "1"}}},
         {"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}, [
             'spec.scopes: Invalid value: ["BestEffort"]: field is immutable',
         ]),
        ("servicecidrs", {"spec": {"cidrs": ["10.0.0.0/24"]}}, {"spec": {"cidrs": ["10.1.0.0/24"]}}, [
             'spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable',
         ]),
        ("servicecidrs", {"spec": {"cidrs": ["10.0.0.0/24"]}},
         {"spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}}, []),
        ("controllerrevisions", {"data": {"a": 1}, "revision": 1}, {"data": {"a": 1}, "revision": 2}, []),
        ("controllerrevisions", {"data": {"a": 1}, "revision": 1}, {"data": {"a": 2}, "revision": 1}, [
             'data: Invalid value: {"a":2}: field is immutable',
         ]),
        ("namespaces", {"spec": {"finalizers": ["kubernetes"]}}, {"spec": {"finalizers": []}}, []),
        ("nodes", {"spec": {"podCIDRs": ["10.0.0.0/24"], "podCIDR": "10.0.0.0/24"}},
         {"spec": {"podCIDRs": ["10.1.0.0/24"], "podCIDR": "10.1.0.0/24"}}, [
             'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
         ]),
        ("nodes", {"spec": {"providerID": "a"}}, {"spec": {"providerID": "b"}}, [
             'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
         ]),
        ("nodes", {"spec": {}}, {"spec": {"providerID": "b", "unschedulable": True}}, []),
        ("nodes", {"spec": {}}, {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}}, [
             'metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
             "taints must be unique by key and effect pair",
             'metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
             "taints must be unique by key and effect pair",
         ]),
        ("pods", {"spec": POD}, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, []),
        ("pods", {"spec": {**POD, "activeDeadlineSeconds": 5}}, {"spec": {**POD, "activeDeadlineSeconds": 4}}, []),
        ("pods", {"spec": {**POD, "activeDeadlineSeconds": 5}}, {"spec": {**POD, "activeDeadlineSeconds": 6}}, [
             "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
         ]),
        ("pods", {"spec": {**POD, "activeDeadlineSeconds": 5}}, {"spec": POD}, [
             "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
         ]),
        ("pods", {"spec": {**POD, "terminationGracePeriodSeconds": -1}},
         {"spec": {**POD, "terminationGracePeriodSeconds": 1}}, []),
        ("pods", {"spec": {**POD, "terminationGracePeriodSeconds": 30}},
         {"spec": {**POD, "terminationGracePeriodSeconds": 1}}, [
             "spec: Forbidden: pod updates may not change fields other than "
             "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations"
             "` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to "
             "1 if it was previously negative)",
         ]),
        ("pods", {"spec": POD}, {"spec": {**POD, "containers": [{"name": "d", "image": "i"}]}}, [
             "spec: Forbidden: pod updates may not change fields other than "
             "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations"
             "` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to "
             "1 if it was previously negative)",
         ]),
        ("pods", {"spec": POD}, {"spec": {**POD, "containers": [{"name": "c", "image": ""}]}}, [
             "spec.containers[0].image: Required value",
             "spec.containers[0].image: Required value",
             "spec: Forbidden: pod updates may not change fields other than "
             "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations"
             "` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to "
             "1 if it was previously negative)",
         ]),
        ("pods", {"spec": POD}, {"spec": {**POD, "containers": POD["containers"] * 2}}, [
             'spec.containers[1].name: Duplicate value: "c"',
             "spec.containers: Forbidden: pod updates may not add or remove containers",
         ]),
        ("pods", {"spec": {**POD, "tolerations": [{"key": "a", "operator": "Exists"}]}},
         {"spec": {**POD, "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}}, []),
        ("pods", {"spec": {**POD, "tolerations": [{"key": "a", "operator": "Exists"}]}}, {"spec": POD}, [
             "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
         ]),
        ("pods", {"spec": {**POD, "schedulingGates": [{"name": "g"}]}}, {"spec": POD}, []),
        ("pods", {"spec": POD}, {"spec": {**POD, "schedulingGates": [{"name": "g"}]}}, [
             "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
         ]),
        ("pods", {"spec": {**POD, "schedulingGates": [{"name": "g"}]}},
         {"spec": {**POD, "schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}}}, []),
        ("pods", {"spec": {**POD, "schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}}},
         {"spec": {**POD, "schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "c"}}}, [
             'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no '
             "mutations or deletions)",
         ]),
    ],
)  # fmt: skip
def test_change(plural: str, before: Object, after: Object, texts: list[str]) -> None:
    row = ROWS[plural]
    old, new = (made(row, metadata={"uid": "u"}, **parts) for parts in (before, after))
    old["status"] = before.get("status", old.get("status"))
    parts = {key: value for key, value in new.items() if key not in ("metadata", "status")}
    found = short(changes(row, {key: value for key, value in old.items() if value is not None}, **parts))
    assert [text.partition("\n")[0] for text in found] == texts


CRD: Object = {"group": "example.com", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}, "versions": []}


@pytest.mark.parametrize(
    ("plural", "before", "after"),
    [
        ("deployments", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "replicas": 2}}),
        ("statefulsets", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "replicas": 2}}),
        ("daemonsets", {"spec": WORKLOAD}, {"spec": {**WORKLOAD, "minReadySeconds": 2}}),
        ("jobs", {"spec": {"template": JOB_POD}}, {"spec": {"template": JOB_POD, "parallelism": 2}}),
        ("pods", {"spec": POD}, {"spec": {**POD, "activeDeadlineSeconds": 2}}),
        ("customresourcedefinitions", {"spec": CRD}, {"spec": {**CRD, "scope": "Namespaced"}}),
        ("endpointslices", {"addressType": "IPv4", "endpoints": []},
         {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("generation", [None, 0, 1, 7])
def test_a_change_raises_the_generation(plural: str, before: Object, after: Object, generation: int | None) -> None:
    row = ROWS[plural]
    for changed in (after, before):
        old, obj = made(row, **before), made(row, **changed)
        for each in (old, obj):
            del each["metadata"]["generation"]
            if generation is not None:
                each["metadata"]["generation"] = generation
        row.strategy.prepare_for_update(obj, old, CTX)
        assert obj["metadata"].get("generation") == ((generation or 0) + 1 if changed is after else generation)
