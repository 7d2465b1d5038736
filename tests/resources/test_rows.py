"""Rows of tables: all cells of an object but its name and age, full and nearly empty."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS

ROWS = {row.plural: row for row in reversed((*BUILT_IN, *PREVIEWS)) if row.table is not None}
NOW = 1_704_067_260.0  # a minute after
THEN = "2024-01-01T00:00:00Z"
LATER: Object = {"deletionTimestamp": THEN}
POD: Object = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}
WORKLOAD: Object = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": POD}}
COUNTS: Object = {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
STARTED: Object = {"startTime": THEN}
NOTHING_TOLD = ["<none>", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]  # by a node of itself


def condition(kind: str, status: str = "True", **more: str) -> Object:
    return {"type": kind, "status": status, **more}


@pytest.mark.parametrize(
    ("plural", "parts", "cells"),
    [
        ("configmaps", {"data": {"a": "b"}, "binaryData": {"c": "ZA==", "e": "Zg=="}}, [3]),
        ("secrets", {"type": "Opaque", "data": {"a": "b", "c": "d"}}, ["Opaque", 2]),
        ("namespaces", {"status": {"phase": "Active"}}, ["Active"]),
        ("nodes", {"spec": {}, "status": {}}, ["Unknown", *NOTHING_TOLD]),
        ("nodes", {"metadata": {"labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "",
            "kubernetes.io/role": "c"}},
                   "spec": {"unschedulable": True},
                   "status": {"conditions": [condition("Ready", "False")], "nodeInfo": {
                       "kubeletVersion": "v1", "osImage": "o", "kernelVersion": "k", "containerRuntimeVersion": "c"},
                       "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP",
            "address": "1.2.3.4"}]}}, [
             "NotReady,SchedulingDisabled",
             "a,b,c",
             "v1",
             "10.0.0.1",
             "1.2.3.4",
             "o",
             "k",
             "c",
         ]),
        ("nodes", {"spec": {}, "status": {"conditions": [condition("Ready")]}}, ["Ready", *NOTHING_TOLD]),
        ("persistentvolumeclaims", {"spec": {}, "status": {"phase": "Pending", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1"}}}, ["Pending", "", "", "", "", "<unset>", "<unset>"]),
        ("persistentvolumeclaims", {"spec": {"volumeName": "v", "storageClassName": "s", "volumeMode": "Block",
            "volumeAttributesClassName": "x"},
                                    "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": "1"}}}, ["Bound", "v", "1", "RWO,ROX", "s", "x", "Block"]),
        ("persistentvolumeclaims", {"metadata": LATER, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}},
            ["Terminating", "v", "0", "", "", "<unset>", "<unset>"]),
        ("persistentvolumes", {"spec": {}, "status": {"phase": "Available"}}, [
             "0",
             "",
             "",
             "Available",
             "",
             "",
             "<unset>",
             "",
             "<unset>",
         ]),
        ("persistentvolumes", {"metadata": LATER, "spec": {"capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOncePod"],
                               "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n",
            "name": "c"}, "storageClassName": "s",
                               "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "reason": "r"}}, [
             "2Gi",
             "RWX,RWOP",
             "Retain",
             "Terminating",
             "n/c",
             "s",
             "<unset>",
             "r",
             "Filesystem",
         ]),
        ("podtemplates", {"template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}, ["c,d", "i,j", "a=b"]),
        ("replicationcontrollers", {"spec": {**WORKLOAD, "selector": {"a": "b"}}, "status": COUNTS}, [
             3,
             2,
             1,
             "c,d",
             "i,j",
             "a=b",
         ]),
        ("services", {"spec": {"type": "ClusterIP", "clusterIP": "None"}}, [
             "ClusterIP",
             "<none>",
             "<none>",
             "<none>",
             "<none>",
         ]),
        ("services", {"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "externalIPs": ["1.2.3.4", "1.2.3.5"],
            "selector": {"a": "b", "c": "d"},
                      "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53,
            "protocol": "UDP"}]}}, ["NodePort", "10.0.0.1", "1.2.3.4,1.2.3.5", "80:30000/TCP,53/UDP", "a=b,c=d"]),
        ("services", {"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}}, [
             "LoadBalancer",
             "10.0.0.1",
             "<pending>",
             "<none>",
             "<none>",
         ]),
        ("services", {"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalIPs": ["1.2.3.4"]},
                      "status": {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "h.example.com"}]}}},
            ["LoadBalancer", "<none>", "5.6.7.8,h.example.com,1.2.3.4", "<none>", "<none>"]),
        ("services", {"spec": {"type": "ExternalName", "externalName": "e.example.com"}}, [
             "ExternalName",
             "<none>",
             "e.example.com",
             "<none>",
             "<none>",
         ]),
        ("apiservices", {"spec": {}, "status": {"conditions": [condition("Available")]}}, ["Local", "True"]),
        ("apiservices", {"spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [condition("Available", "False", reason="R")]}}, ["n/s", "False (R)"]),
        ("apiservices", {"spec": {"service": {"namespace": "n", "name": "s"}}}, ["n/s", "Unknown"]),
        ("controllerrevisions", {"revision": 3, "metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}]}}, [
             "daemonset.apps/d",
             3,
         ]),
        ("controllerrevisions", {"revision": 3}, ["<none>", 3]),
        ("daemonsets", {"spec": {**WORKLOAD, "template": {"spec": {**POD, "nodeSelector": {"x": "y"}}}}, "status": {
            "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
            "updatedNumberScheduled": 2, "numberAvailable": 1}}, [5, 4, 3, 2, 1, "x=y", "c,d", "i,j", "a=b"]),
        ("daemonsets", {"spec": WORKLOAD, "status": {}}, [0, 0, 0, 0, 0, "<none>", "c,d", "i,j", "a=b"]),
        ("deployments", {"spec": WORKLOAD, "status": COUNTS}, ["1/3", 2, 1, "c,d", "i,j", "a=b"]),
        ("deployments", {"spec": WORKLOAD, "status": {}}, ["0/3", 0, 0, "c,d", "i,j", "a=b"]),
        ("replicasets", {"spec": WORKLOAD, "status": COUNTS}, [3, 2, 1, "c,d", "i,j", "a=b"]),
        ("replicasets", {"spec": WORKLOAD, "status": {}}, [3, 0, 0, "c,d", "i,j", "a=b"]),
        ("statefulsets", {"spec": WORKLOAD, "status": COUNTS}, ["1/3", "c,d", "i,j"]),
        ("statefulsets", {"spec": WORKLOAD, "status": {}}, ["0/3", "c,d", "i,j"]),
        ("cronjobs", {"spec": {"schedule": "* * * * *", "timeZone": "Etc/UTC", "suspend": True,
            "jobTemplate": {"spec": {"template": {"spec": POD}}}},
                      "status": {"active": [{}, {}], "lastScheduleTime": THEN}}, [
             "* * * * *",
             "Etc/UTC",
             "True",
             2,
             "60s",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("cronjobs", {"spec": {"schedule": "* * * * *", "suspend": False,
            "jobTemplate": {"spec": {"template": {"spec": POD}}}}}, [
             "* * * * *",
             "<none>",
             "False",
             0,
             "<none>",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("jobs", {"spec": {"template": {"spec": POD}, "completions": 3, "parallelism": 2}, "status": {**STARTED,
            "succeeded": 1}}, ["Running", "1/3", "60s", "c,d", "i,j", "<none>"]),
        ("jobs", {"spec": {"template": {"spec": POD}, "parallelism": 2}, "status": STARTED}, [
             "Running",
             "0/1 of 2",
             "60s",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("jobs", {"spec": {"template": {"spec": POD}, "parallelism": 1}, "status": {}}, [
             "Running",
             "0/1",
             "",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("jobs", {"spec": {"template": {"spec": POD}, "completions": 1}, "status": {**STARTED,
            "completionTime": "2024-01-01T00:00:30Z",
                  "succeeded": 1, "conditions": [condition("Complete")]}}, [
             "Complete",
             "1/1",
             "30s",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("jobs", {"spec": {"template": {"spec": POD}}, "status": {**STARTED, "conditions": [condition("Failed")]}},
            ["Failed", "0/1", "60s", "c,d", "i,j", "<none>"]),
        ("jobs", {"spec": {"template": {"spec": POD}}, "status": {"conditions": [condition("Suspended"),
            condition("Failed", "False")]}}, ["Suspended", "0/1", "", "c,d", "i,j", "<none>"]),
        ("jobs", {"metadata": LATER, "spec": {"template": {"spec": POD}}, "status": {}}, [
             "Terminating",
             "0/1",
             "",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("jobs", {"spec": {"template": {"spec": POD}}, "status": {"conditions": [condition("FailureTarget")]}}, [
             "FailureTarget",
             "0/1",
             "",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("jobs", {"spec": {"template": {"spec": POD}},
            "status": {"conditions": [condition("SuccessCriteriaMet")]}}, [
             "SuccessCriteriaMet",
             "0/1",
             "",
             "c,d",
             "i,j",
             "<none>",
         ]),
        ("certificatesigningrequests", {"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
            "status": {}}, ["s", "u", "60m", "Pending"]),
        ("certificatesigningrequests", {"spec": {"signerName": "s", "username": "u"},
            "status": {"certificate": "YQ==", "conditions": [condition("Approved")]}}, [
             "s",
             "u",
             "<none>",
             "Approved,Issued",
         ]),
        ("certificatesigningrequests", {"spec": {"signerName": "s", "username": "u"},
            "status": {"conditions": [condition("Denied"), condition("Failed")]}}, [
             "s",
             "u",
             "<none>",
             "Denied,Failed",
         ]),
        ("ingressclasses", {"spec": {"controller": "a/b", "parameters": {"apiGroup": "g", "kind": "K",
            "name": "n"}}}, ["a/b", "K.g/n"]),
        ("ingressclasses", {"spec": {"controller": "a/b", "parameters": {"kind": "K", "name": "n"}}}, ["a/b", "K/n"]),
        ("ingressclasses", {"spec": {"controller": "a/b"}}, ["a/b", "<none>"]),
        ("ingresses", {"spec": {}}, ["<none>", "*", "", "80"]),
        ("ingresses", {"spec": {"ingressClassName": "c", "tls": [{}], "rules": [{"host": h} for h in "abcd"]},
                       "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}}}, [
             "c",
             "a,b,c + 1 more...",
             "1.2.3.4,h",
             "80, 443",
         ]),
        ("networkpolicies", {"spec": {"podSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k",
            "operator": "Exists"}]}}}, ["a=b,k"]),
        ("networkpolicies", {"spec": {"podSelector": {}}}, ["<none>"]),
        ("servicecidrs", {"spec": {"cidrs": ["10.0.0.0/8", "fd00::/64"]}}, ["10.0.0.0/8,fd00::/64"]),
        ("poddisruptionbudgets", {"spec": {"minAvailable": 1}, "status": {"disruptionsAllowed": 2}}, ["1", "N/A", 2]),
        ("poddisruptionbudgets", {"spec": {"maxUnavailable": "10%"}, "status": {}}, ["N/A", "10%", 0]),
        ("clusterrolebindings", {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}, ["ClusterRole/r", "u, v", "g", "n/s"]),
        ("rolebindings", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "g"},
            {"kind": "Group", "name": "h"}]}, ["Role/r", "", "g, h", ""]),
        ("csidrivers", {"spec": {}}, [True, False, False, "<unset>", False, "<none>"]),
        ("csidrivers", {"spec": {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True,
            "requiresRepublish": True,
                        "tokenRequests": [{"audience": "a"}, {"audience": ""}],
            "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}, [
             False,
             True,
             True,
             "a,",
             True,
             "Persistent,Ephemeral",
         ]),
        ("csinodes", {"spec": {"drivers": [{}, {}]}}, [2]),
        ("storageclasses", {"provisioner": "p"}, ["p", "Delete", "Immediate", False]),
        ("storageclasses", {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p",
                            "reclaimPolicy": "Retain", "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": True}, ["p", "Retain", "Immediate", True]),
        ("volumeattachments", {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
            "status": {"attached": True}}, ["a", "p", "n", True]),
        ("volumeattachments", {"spec": {"attacher": "a", "nodeName": "n", "source": {}}}, ["a", "", "n", False]),
        ("mutatingadmissionpolicies", {"spec": {"mutations": [{}, {}], "paramKind": {"apiVersion": "v1",
            "kind": "ConfigMap"}}}, [2, "v1/ConfigMap"]),
        ("validatingadmissionpolicies", {"spec": {"validations": [{}]}}, [1, "<unset>"]),
        ("validatingadmissionpolicybindings", {"spec": {"policyName": "p", "paramRef": {"namespace": "n",
            "name": "x"}}}, ["p", "n/x"]),
        ("validatingadmissionpolicybindings", {"spec": {"policyName": "p", "paramRef": {"name": "x"}}}, ["p", "*/x"]),
        ("mutatingadmissionpolicybindings", {"spec": {"policyName": "p", "paramRef": {"selector": {}}}}, [
             "p",
             "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}",
         ]),
        ("mutatingadmissionpolicybindings", {"spec": {"policyName": "p", "paramRef": {"selector": {
            "matchLabels": {"b": "c", "a": "d"},
            "matchExpressions": [{"key": "e", "operator": "In", "values": ["f", "g"]}, {"key": "h", "operator": "Exists"}],
        }}}}, [
             "p",
             "&LabelSelector{MatchLabels:map[string]string{a: d,b: c,},MatchExpressions:[]LabelSelectorRequirement{"
             "LabelSelectorRequirement{Key:e,Operator:In,Values:[f g],},"
             "LabelSelectorRequirement{Key:h,Operator:Exists,Values:[],},},}",
         ]),
        ("mutatingadmissionpolicybindings", {"spec": {"policyName": "p"}}, ["p", "<unset>"]),
        ("mutatingwebhookconfigurations", {"webhooks": [{}, {}]}, [2]),
        ("priorityclasses", {"value": 5, "globalDefault": True}, [5, True, ""]),
        ("priorityclasses", {"value": 5, "preemptionPolicy": "Never"}, [5, False, "Never"]),
        ("leases", {"spec": {"holderIdentity": "h"}}, ["h"]),
        ("leases", {"spec": {}}, [""]),
        ("endpointslices", {"addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {"port": 81},
            {"port": 82}], "endpoints": [{"addresses": ["a", "b"]}]}, ["IPv4", "80,x,81 + 1 more...", "a,b"]),
        ("endpointslices", {"addressType": "FQDN", "endpoints": []}, ["FQDN", "<unset>", "<unset>"]),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80},
            {"port": 81}]}]}, ["10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more..."]),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]},
            {"notReadyAddresses": [{"ip": "10.0.0.2"}]}]}, ["10.0.0.1"]),
        ("endpoints", {}, ["<none>"]),
        ("flowschemas", {"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5,
            "distinguisherMethod": {"type": "ByUser"}},
                         "status": {"conditions": [condition("Dangling", "False")]}}, ["p", 5, "ByUser", "False"]),
        ("flowschemas", {"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5}}, [
             "p",
             5,
             "<none>",
             "?",
         ]),
        ("prioritylevelconfigurations", {"spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 3}}}, [
             "Exempt",
             "<none>",
             "<none>",
             "<none>",
             "<none>",
         ]),
        ("prioritylevelconfigurations", {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 3,
            "limitResponse": {
            "type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}}}}}, [
             "Limited",
             3,
             8,
             2,
             5,
         ]),
        ("prioritylevelconfigurations", {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 3,
            "limitResponse": {"type": "Reject"}}}}, ["Limited", 3, "<none>", "<none>", "<none>"]),
        ("resourceslices", {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}}, ["n", "d", "p"]),
        ("leasecandidates", {"spec": {"leaseName": "l", "binaryVersion": "1", "emulationVersion": "2"}}, [
             "l",
             "1",
             "2",
         ]),
        ("podcertificaterequests", {"spec": {"podName": "p", "serviceAccountName": "s", "nodeName": "n",
            "signerName": "x"}, "status": {"conditions": [condition("Issued")]}}, ["p", "s", "n", "x", "Issued", "<none>"]),
        ("podcertificaterequests", {"spec": {"podName": "p"}, "status": {}}, ["p", "", "", "", "Pending", "<none>"]),
        ("storageversions", {"spec": {}, "status": {"commonEncodingVersion": "v1", "storageVersions": [
            {"apiServerID": "a", "encodingVersion": "v1"}, {"apiServerID": "b", "encodingVersion": "v2"}]}}, [
             "v1",
             "a=v1,b=v2",
         ]),
        *(
            ("storageversions", {"spec": {}, "status": {"storageVersions": [
                {"apiServerID": name, "encodingVersion": "v1"} for name in names]}}, ["<unset>", shown])
            for names, shown in (("abc", "a=v1,b=v1,c=v1"), ("abcd", "a=v1,b=v1,c=v1 + 1 more..."))
        ),
        ("horizontalpodautoscalers", {"spec": {"scaleTargetRef": {"kind": "D", "name": "d"}, "maxReplicas": 3}}, [
             "D/d",
             "<none>",
             "<unset>",
             3,
             0,
         ]),
        ("horizontalpodautoscalers", {"spec": {"scaleTargetRef": {"kind": "D", "name": "d"}, "minReplicas": 2,
            "maxReplicas": 3, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]},
            "status": {"currentReplicas": 2, "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}]}}, [
             "D/d",
             "cpu: 40%/80%",
             "2",
             3,
             2,
         ]),
        ("componentstatuses", {"conditions": [condition("Healthy", "True", message="ok", error="e")]}, [
             "Healthy",
             "ok",
             "e",
         ]),
        ("componentstatuses", {}, ["Unknown", "", ""]),
    ],
)  # fmt: skip
def test_row(plural: str, parts: Object, cells: list[str]) -> None:
    row = ROWS[plural]
    assert row.table is not None
    obj = {**parts, "metadata": {"name": "a", "creationTimestamp": THEN, **parts.get("metadata", {})}}
    named = zip((column.name for column in row.table.columns), row.table.cells(obj, NOW), strict=True)
    found = [cell for name, cell in named if name not in ("Name", "Age")]
    assert found == cells


C: Object = {"name": "c"}


def running(name: str = "c", **more: Any) -> Object:
    return {"name": name, "ready": True, "state": {"running": {}}, **more}


def ended(code: int = 0, **more: Any) -> Object:
    return {"name": "d", "state": {"terminated": {"exitCode": code, **more}}}


def waiting(reason: str, **more: Any) -> Object:
    return {"name": "d", "state": {"waiting": {"reason": reason}}, **more}


BEFORE: Object = {"terminated": {"finishedAt": THEN}}
SIDECAR: Object = {"name": "s", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({}, {}, ["0/2", "", "0"]),
        ({"nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
         {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "nominatedNodeName": "m",
          "conditions": [condition("a"), condition("b", "False")], "containerStatuses": [running(restartCount=2)]},
            ["1/2", "Running", "2", "10.0.0.1", "n", "m", "1/2"]),
        ({}, {"phase": "Pending", "conditions": [condition("PodScheduled", "False", reason="SchedulingGated")]}, [
             "0/2",
             "SchedulingGated",
             "0",
         ]),
        ({}, {"phase": "Pending", "conditions": [condition("PodScheduled", "False", reason="Unschedulable")]}, [
             "0/2",
             "Pending",
             "0",
         ]),
        ({}, {"phase": "Failed", "reason": "Evicted"}, ["0/2", "Evicted", "0"]),
        ({}, {"phase": "Running", "containerStatuses": [running(restartCount=2, lastState=BEFORE),
            waiting("CrashLoopBackOff", restartCount=1)]}, ["1/2", "CrashLoopBackOff", "3 (60s ago)"]),
        ({}, {"phase": "Running", "containerStatuses": [running(), ended(1, reason="Error")]}, ["1/2", "Error", "0"]),
        ({}, {"phase": "Running", "containerStatuses": [ended(2), running()]}, ["1/2", "ExitCode:2", "0"]),
        ({}, {"phase": "Running", "containerStatuses": [running(), ended(0, signal=9)]}, ["1/2", "Signal:9", "0"]),
        ({}, {"phase": "Running", "containerStatuses": [ended(reason="Completed"), running()],
              "conditions": [condition("Ready")]}, ["1/2", "Running", "0"]),
        ({}, {"phase": "Running", "containerStatuses": [ended(reason="Completed"), running()]}, [
             "1/2",
             "NotReady",
             "0",
         ]),
        ({}, {"phase": "Running", "containerStatuses": [ended(reason="Completed"), ended(3, reason="Error")]}, [
             "0/2",
             "Error",
             "0",
         ]),
        ({}, {"phase": "Succeeded", "containerStatuses": [ended(reason="Completed")],
            "conditions": [condition("Ready")]}, ["0/2", "Completed", "0"]),
        ({"initContainers": [C, C]}, {"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "state": {"running": {}}, "restartCount": 1, "lastState": BEFORE}]}, [
             "0/2",
             "Init:0/2",
             "1 (60s ago)",
         ]),
        ({"initContainers": [C, C]}, {"phase": "Pending", "initContainerStatuses": [ended(),
            waiting("PodInitializing")]}, ["0/2", "Init:1/2", "0"]),
        ({"initContainers": [C]}, {"phase": "Pending", "initContainerStatuses": [waiting("ImagePullBackOff")]}, [
             "0/2",
             "Init:ImagePullBackOff",
             "0",
         ]),
        ({"initContainers": [C]}, {"phase": "Pending", "initContainerStatuses": [ended(1, reason="Error")]}, [
             "0/2",
             "Init:Error",
             "0",
         ]),
        ({"initContainers": [C]}, {"phase": "Pending", "initContainerStatuses": [ended(4)]}, [
             "0/2",
             "Init:ExitCode:4",
             "0",
         ]),
        ({"initContainers": [C]}, {"phase": "Pending", "initContainerStatuses": [ended(0, signal=9)],
                                   "containerStatuses": [running(restartCount=1)]}, ["1/2", "Pending", "1"]),
        ({"initContainers": [SIDECAR]}, {"phase": "Running", "initContainerStatuses": [
            running("s", started=True, restartCount=3, lastState=BEFORE)],
            "containerStatuses": [running(restartCount=1)]}, ["2/3", "Running", "4 (60s ago)"]),
        ({"initContainers": [SIDECAR, C]}, {"phase": "Pending", "initContainerStatuses": [
            running("s", started=True, ready=False, restartCount=3), waiting("PodInitializing")]}, [
             "0/3",
             "Init:1/2",
             "3",
         ]),
        ({"initContainers": [C]}, {"phase": "Running", "initContainerStatuses": [ended(1, reason="Error")],
          "conditions": [condition("Initialized")], "containerStatuses": [running()]}, ["1/2", "Init:Error", "0"]),
    ],
)  # fmt: skip
def test_pod(spec: Object, status: Object, cells: list[str]) -> None:
    table = ROWS["pods"].table
    assert table is not None
    pod = {"metadata": {"name": "a", "creationTimestamp": THEN}, "spec": {**POD, **spec}, "status": status}
    name, ready, reason, restarts, age, *wide = table.cells(pod, NOW)
    assert [ready, reason, restarts, *(cell for cell in wide if cell != "<none>")] == cells


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Running", "containerStatuses": [running()]}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed"}, "Failed"),
    ],
)
def test_pod_that_is_deleted(status: Object, reason: str) -> None:
    table = ROWS["pods"].table
    assert table is not None
    assert table.cells({"metadata": {"name": "a", **LATER}, "spec": POD, "status": status}, NOW)[2] == reason


def test_rows_of_ended_pods_say_so() -> None:
    table = ROWS["pods"].table
    assert table is not None and table.conditions is not None
    texts = {"Running": "", "Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    for phase, text in texts.items():
        wanted = [{"type": "Completed", "status": "True", "reason": phase, "message": text}] if text else []
        assert table.conditions({"metadata": {}, "status": {"phase": phase}}) == wanted
