"""How many, how long and how large: for each bound the last value that passes, and the text for the next one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from tests.resources.strategy_kit import problems, short

ROWS = {row.plural: row for row in (*BUILT_IN, *PREVIEWS)}
POD: Object = {"containers": [{"name": "c", "image": "i"}]}
META: Object = {"uid": "u"}
BOUND: Object = {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}
HTTP: Object = {"service": {"name": "s", "port": {"number": 80}}}
POLICY: Object = {"matchConstraints": {"resourceRules": [
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]},
]}}  # fmt: skip


def pod(**spec: Any) -> Object:
    return {"spec": {**POD, **spec}}


def container(**parts: Any) -> Object:
    return pod(containers=[{"name": "c", "image": "i", **parts}])


def slice_of(**parts: Any) -> Object:
    return {"addressType": "IPv4", **parts}


def endpoint(**parts: Any) -> Object:
    return slice_of(endpoints=[{"addresses": ["10.0.0.1"], **parts}])


def service(**spec: Any) -> Object:
    return {"spec": {"ports": [{"port": 80}], **spec}}


def job(**spec: Any) -> Object:
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    return {"metadata": META, "spec": {"template": template, **spec}}


def level(**queuing: Any) -> Object:
    limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Queue", "queuing": queuing}}
    return {"spec": {"type": "Limited", "limited": limited}}


def schema_of_flow(precedence: int) -> Object:
    return {"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": precedence}}


def event(**parts: Any) -> Object:
    given = {
        "metadata": {"namespace": "default"}, "involvedObject": {"namespace": "default"}, "type": "Normal",
        "eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "example.com/c", "reportingInstance": "i",
        "action": "a", "reason": "r",
    }  # fmt: skip
    return {**given, **parts}


def addresses(count: int) -> list[str]:
    return [f"10.0.{number // 256}.{number % 256}" for number in range(count)]


@pytest.mark.parametrize(
    ("plural", "parts", "last", "texts"),
    [
        ("configmaps", lambda n: {"data": {"a": "x" * n}}, 1024 * 1024, [
             "[]: Too long: may not be more than 1048576 bytes",
         ]),
        ("configmaps", lambda n: {"metadata": {"annotations": {"a": "x" * n}}}, 256 * 1024 - 1, [
             "metadata.annotations: Too long: may not be more than 262144 bytes",
         ]),
        ("secrets", lambda n: {"data": {"a": "A" * (4 * (n // 3)) + ("", "AA==", "AAA=")[n % 3]}}, 1024 * 1024, [
             "data: Too long: may not be more than 1048576 bytes",
         ]),
        ("priorityclasses", lambda n: {"value": n}, 1_000_000_000, [
             "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
         ]),
        ("endpointslices", lambda n: slice_of(endpoints=[{"addresses": [ip]} for ip in addresses(n)]), 1000, [
             "endpoints: Too many: 1001: must have at most 1000 items",
         ]),
        ("endpointslices", lambda n: endpoint(addresses=addresses(n)), 100, [
             "endpoints[0].addresses: Too many: 101: must have at most 100 items",
         ]),
        ("endpointslices", lambda n: slice_of(ports=[{"name": f"p{i}", "port": 1} for i in range(n)]), 20000, [
             "ports: Too many: 20001: must have at most 20000 items",
         ]),
        ("endpointslices", lambda n: endpoint(hints={"forZones": [{"name": f"z{i}"} for i in range(n)]}), 8, [
             "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items",
         ]),
        ("endpointslices", lambda n: endpoint(hints={"forNodes": [{"name": f"z{i}"} for i in range(n)]}), 8, [
             "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
         ]),
        ("ingressclasses", lambda n: {"spec": {"controller": "example.com/" + "c" * (n - 12)}}, 250, [
             "spec.controller: Too long: may not be more than 250 bytes",
         ]),
        ("storageclasses", lambda n: {"provisioner": "p", "parameters": {f"k{i}": "v" for i in range(n)}}, 512, [
             "parameters: Too long: may not be more than 512 bytes",
         ]),
        ("storageclasses", lambda n: {"provisioner": "p", "parameters": {"k": "v" * (n - 1)}}, 256 * 1024, [
             "parameters: Too long: may not be more than 262144 bytes",
         ]),
        ("csinodes", lambda n: {"spec": {"drivers": [{"name": "d", "nodeID": "n" * n}]}}, 256, [
             'spec.drivers[0].nodeID: Invalid value: "n...": must be 256 characters or less',
         ]),
        ("flowschemas", schema_of_flow, 10000, [
             "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
         ]),
        ("prioritylevelconfigurations", lambda n: level(queues=n, handSize=1, queueLengthLimit=1), 10_000_000, [
             "spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000",
         ]),
        ("prioritylevelconfigurations", lambda n: level(queues=128, handSize=n, queueLengthLimit=1), 8, [
             "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: required entropy bits of deckSize 128 "
             "and handSize 9 should not be greater than 60",
         ]),
        ("services", lambda n: service(sessionAffinity="ClientIP",
                                       sessionAffinityConfig={"clientIP": {"timeoutSeconds": n}}), 86400, [
             "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and "
             "less than 86400",
         ]),
        ("services", lambda n: service(ports=[{"port": n}]), 65535, [
             "spec.ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
             "spec.ports[0].targetPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
         ]),
        ("events", lambda n: event(reportingInstance="x" * n), 128, [
             'reportingInstance: Invalid value: "": can have at most 128 characters',
         ]),
        ("events", lambda n: event(action="x" * n), 128, [
             'action: Invalid value: "": can have at most 128 characters',
         ]),
        ("events", lambda n: event(reason="x" * n), 128, [
             'reason: Invalid value: "": can have at most 128 characters',
         ]),
        ("events", lambda n: event(note="", message="x" * n), 1024, [
             'message: Invalid value: "": can have at most 1024 characters',
         ]),
        ("pods", lambda n: pod(hostname="h" * n), 63, [
             'spec.hostname: Invalid value: "h...": must be no more than 63 characters',
         ]),
        ("pods", lambda n: pod(activeDeadlineSeconds=n), 2147483647, [
             "spec.activeDeadlineSeconds: Invalid value: 2147483648: must be between 1 and 2147483647, inclusive",
         ]),
        ("pods", lambda n: pod(securityContext={"runAsUser": n}), 2147483647, [
             "spec.securityContext.runAsUser: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
         ]),
        ("pods", lambda n: pod(securityContext={"fsGroup": n}), 2147483647, [
             "spec.securityContext.fsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
         ]),
        ("pods", lambda n: pod(dnsConfig={"nameservers": [f"10.0.0.{i}" for i in range(n)]}), 3, [
             'spec.dnsConfig.nameservers: Invalid value: ["10.0.0.0","10.0.0.1","10.0.0.2","10.0.0.3"]: must not have '
             "more than 3 nameservers",
         ]),
        ("pods", lambda n: pod(dnsConfig={"searches": [f"s{i}" for i in range(n)]}), 32, [
             "spec.dnsConfig.searches: Invalid value: "
             '["s0","s1","s2","s3","s4","s5","s6","s7","s8","s9","s10","s11","s12","s13","s14","s15","s16","s17","s18"'
             ',"s19","s20","s21","s22","s23","s24","s25","s26","s27","s28","s29","s30","s31","s32"]: must not have '
             "more than 32 search paths",
         ]),
        ("pods", lambda n: container(ports=[{"containerPort": n}]), 65535, [
             "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
         ]),
        ("pods", lambda n: container(livenessProbe={"tcpSocket": {"port": n}}), 65535, [
             "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 65536: must be between 1 and 65535, "
             "inclusive",
         ]),
        ("pods", lambda n: pod(volumes=[{"name": "v" * n, "emptyDir": {}}]), 63, [
             'spec.volumes[0].name: Invalid value: "v...": must be no more than 63 characters',
         ]),
        ("pods", lambda n: pod(volumes=[{"name": "v", "configMap": {"name": "c", "defaultMode": n}}]), 0o777, [
             "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), "
             "both inclusive",
         ]),
        ("pods", lambda n: pod(volumes=[{"name": "v", "iscsi": {
            "targetPortal": "p", "iqn": "iqn.2001-04.com.example:a", "lun": n}}]), 255, [
             "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
         ]),
        ("pods", lambda n: pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": n, "preference": {}}]}}), 100, [
             "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: "
             "101: must be in the range 1-100",
         ]),
        ("jobs", lambda n: job(managedBy="a/" + "b" * (n - 2)), 63, [
             "spec.managedBy: Too long: may not be more than 63 bytes",
         ]),
        ("jobs", lambda n: job(podFailurePolicy={"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": f"C{i}", "status": "True"}]} for i in range(n)]}), 20, [
             "spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items",
         ]),
        ("jobs", lambda n: job(podFailurePolicy={"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": f"C{i}", "status": "True"} for i in range(n)]}]}), 20, [
             "spec.podFailurePolicy.rules[0].onPodConditions: Too many: 21: must have at most 20 items",
         ]),
        ("jobs", lambda n: job(podFailurePolicy={"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": list(range(1, n + 1))}}]}), 255, [
             "spec.podFailurePolicy.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items",
         ]),
        ("cronjobs", lambda n: {"metadata": {"name": "c" * n}, "spec": {
            "schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}}}, 52, [
             'metadata.name: Invalid value: "c...": must be no more than 52 characters',
         ]),
        ("validatingadmissionpolicies", lambda n: {"spec": {**POLICY, "auditAnnotations": [
            {"key": f"k{i}", "valueExpression": "''"} for i in range(n)]}}, 20, [
             "spec.auditAnnotations: Invalid value: "
             "[{\"key\":\"k0\",\"valueExpression\":\"''\"},{\"key\":\"k1\",\"valueExpression\":\"''\"},{\"key\":\"k2\",\"valueExpression\":\""
             "''\"},{\"key\":\"k3\",\"valueExpression\":\"''\"},{\"key\":\"k4\",\"valueExpression\":\"''\"},{\"key\":\"k5\",\"valueExpressio"
             "n\":\"''\"},{\"key\":\"k6\",\"valueExpression\":\"''\"},{\"key\":\"k7\",\"valueExpression\":\"''\"},{\"key\":\"k8\",\"valueExpre"
             "ssion\":\"''\"},{\"key\":\"k9\",\"valueExpression\":\"''\"},{\"key\":\"k10\",\"valueExpression\":\"''\"},{\"key\":\"k11\",\"valu"
             "eExpression\":\"''\"},{\"key\":\"k12\",\"valueExpression\":\"''\"},{\"key\":\"k13\",\"valueExpression\":\"''\"},{\"key\":\"k14"
             "\",\"valueExpression\":\"''\"},{\"key\":\"k15\",\"valueExpression\":\"''\"},{\"key\":\"k16\",\"valueExpression\":\"''\"},{\"ke"
             "y\":\"k17\",\"valueExpression\":\"''\"},{\"key\":\"k18\",\"valueExpression\":\"''\"},{\"key\":\"k19\",\"valueExpression\":\"''"
             "\"},{\"key\":\"k20\",\"valueExpression\":\"''\"}]: must not have more than 20 auditAnnotations",
         ]),
        ("validatingadmissionpolicies", lambda n: {"spec": {**POLICY, "auditAnnotations": [
            {"key": "k", "valueExpression": "'" + "a" * (n - 2) + "'"}]}}, 5 * 1024, [
             "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
         ]),
        ("validatingadmissionpolicies", lambda n: {"spec": {**POLICY, "validations": [{"expression": "true"}],
            "matchConditions": [{"name": f"m{i}", "expression": "true"} for i in range(n)]}}, 64, [
             "spec.matchConditions: Too many: 65: must have at most 64 items",
         ]),
        ("persistentvolumeclaims", lambda n: {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}},
            "selector": {"matchLabels": {"a": "x" * n}}}}, 63, [
             'spec.selector.matchLabels: Invalid value: "x...": must be no more than 63 bytes',
         ]),
        ("leases", lambda n: {"spec": {"leaseDurationSeconds": 1 if n == 0 else 1 - n, "holderIdentity": "h"}}, 0, [
             "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
         ]),
        ("namespaces", lambda n: {"metadata": {"name": "n" * n}}, 63, [
             'metadata.name: Invalid value: "n...": must be no more than 63 characters',
             'metadata.labels: Invalid value: "n...": must be no more than 63 bytes',
         ]),
        ("deployments", lambda n: {"metadata": {"name": "d" * n}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}}, 253, [
             'metadata.name: Invalid value: "d...": must be no more than 253 characters',
         ]),
        ("statefulsets", lambda n: {"spec": {"selector": {"matchLabels": {"a": "b"}}, "minReadySeconds": -n,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}}, 0, [
             "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
         ]),
    ],
)  # fmt: skip
def test_bound(plural: str, parts: Callable[[int], Object], last: int, texts: list[str]) -> None:
    assert problems(ROWS[plural], **parts(last)) == []
    found = short(problems(ROWS[plural], **parts(last + 1)))
    assert [re.sub(r"(.)\1{20,}", r"\1...", text) for text in found] == texts


TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOAD: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
NEGATIVE = "must be greater than or equal to 0"


def cronjob(**spec: Any) -> Object:
    return {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}, **spec}}


def pool(generation: int) -> Object:
    return {"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {
        "name": "p", "generation": generation, "resourceSliceCount": 1}}}  # fmt: skip


def scaler(seconds: int) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    policy = {"type": "Pods", "value": 1, "periodSeconds": 1}
    rules = {"stabilizationWindowSeconds": seconds, "policies": [policy]}
    return {"spec": {"maxReplicas": 1, "scaleTargetRef": target, "behavior": {"scaleDown": rules, "scaleUp": rules}}}


@pytest.mark.parametrize(
    ("plural", "parts", "fields"),
    [
        ("configmaps", lambda n: {"metadata": {"generation": n}}, "metadata.generation"),
        *(
            (plural, lambda n, name=name: {"spec": {**WORKLOAD, name: n}}, f"spec.{name}")
            for plural, names in {
                "deployments": "replicas minReadySeconds revisionHistoryLimit",
                "replicasets": "replicas minReadySeconds", "daemonsets": "minReadySeconds revisionHistoryLimit",
                "statefulsets": "replicas minReadySeconds",
            }.items()
            for name in names.split()
        ),
        ("statefulsets", lambda n: {"spec": {**WORKLOAD, "ordinals": {"start": n}}}, "spec.ordinals.start"),
        *(
            ("replicationcontrollers", lambda n, name=name: {"spec": {
                "selector": {"a": "b"}, "template": TEMPLATE, name: n}}, f"spec.{name}")
            for name in ("replicas", "minReadySeconds")
        ),
        *(
            ("jobs", lambda n, name=name: job(**{name: n}), f"spec.{name}")
            for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
        ),
        ("jobs", lambda n: job(completionMode="Indexed", completions=1, backoffLimitPerIndex=n, maxFailedIndexes=1),
         "spec.backoffLimitPerIndex"),
        ("jobs", lambda n: job(completionMode="Indexed", completions=1, backoffLimitPerIndex=1, maxFailedIndexes=n),
         "spec.maxFailedIndexes"),
        *(
            ("cronjobs", lambda n, name=name: cronjob(**{name: n}), f"spec.{name}")
            for name in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        ),
        ("pods", lambda n: container(livenessProbe={"tcpSocket": {"port": 1}, "initialDelaySeconds": n}),
         "spec.containers[0].livenessProbe.initialDelaySeconds"),
        ("csistoragecapacities", lambda n: {"storageClassName": "c", "capacity": str(n)}, "capacity"),
        ("csinodes", lambda n: {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": n}}]}},
         "spec.drivers[0].allocatable.count"),
        ("leases", lambda n: {"spec": {"holderIdentity": "h", "leaseTransitions": n}}, "spec.leaseTransitions"),
        ("resourceslices", pool, "spec.pool.generation"),
        ("resourcequotas", lambda n: {"spec": {"hard": {"pods": str(n)}}}, "spec.hard[pods]"),
        ("poddisruptionbudgets", lambda n: {"spec": {"minAvailable": n, "selector": {}}}, "spec.minAvailable"),
        ("poddisruptionbudgets", lambda n: {"spec": {"maxUnavailable": n, "selector": {}}}, "spec.maxUnavailable"),
        ("prioritylevelconfigurations", lambda n: {"spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1, "borrowingLimitPercent": n, "limitResponse": {"type": "Reject"}}}},
         "spec.limited.borrowingLimitPercent"),
        ("prioritylevelconfigurations", lambda n: {"spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": n, "limitResponse": {"type": "Reject"}}}},
         "spec.limited.nominalConcurrencyShares"),
        ("horizontalpodautoscalers", scaler,
         "spec.behavior.scaleUp.stabilizationWindowSeconds spec.behavior.scaleDown.stabilizationWindowSeconds"),
    ],
)  # fmt: skip
def test_nothing_is_enough_where_a_number_is_not_negative(
    plural: str, parts: Callable[[int], Object], fields: str
) -> None:
    assert problems(ROWS[plural], **parts(0)) == []
    found = problems(ROWS[plural], **parts(-1))
    assert [text.split(": ")[0] for text in found] == fields.split(), found
