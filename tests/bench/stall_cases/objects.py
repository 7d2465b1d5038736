"""The lists of the other built-in objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import MERGE, SIZE, STORED, Case, Object, Place, many, mapping
from tests.bench.stall_cases.pods import CORE, container, expression, toleration

NETWORK, DISCOVERY, BATCH = "/apis/networking.k8s.io/v1", "/apis/discovery.k8s.io/v1", "/apis/batch/v1"
SCALING, STORAGE, RESOURCE = "/apis/autoscaling/v2", "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1"
CERTIFICATES, POLICY, AUTH = "/apis/certificates.k8s.io/v1", "/apis/policy/v1", "/apis/authentication.k8s.io/v1"
AUTHORIZATION, NODE = "/apis/authorization.k8s.io/v1", "/apis/node.k8s.io/v1"


def address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _of(prefix: str, plural: str, make: Callable[[], Object], *, namespaced: bool = True) -> Callable[[Place], Case]:
    return lambda place: place.create(prefix, plural, make(), namespaced=namespaced)


def _service(**spec: Any) -> Object:
    return {"spec": {"ports": [{"port": 80}], **spec}}


def _job(**spec: Any) -> Object:
    template = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    return {"spec": {"template": template, **spec}}


def _claim(**devices: Any) -> Object:
    return {"spec": {"devices": devices}}


def _request(number: int) -> Object:
    return {"name": f"r{number}", "exactly": {"deviceClassName": "c"}}


def _slice(**spec: Any) -> Object:
    pool = {"name": "p", "resourceSliceCount": 1, "generation": 1}
    return {"spec": {"driver": "d.example", "nodeName": "n", "pool": pool, **spec}}


def _volume(**spec: Any) -> Object:
    return {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}, **spec}
    }


def _node_status(place: Place) -> Case:
    made = place.create(CORE, "nodes", {}, namespaced=False)
    status = {
        "images": many(lambda i: {"names": [f"i{i}"], "sizeBytes": 1}, SIZE // 3),
        "conditions": many(lambda i: {"type": f"c{i}", "status": "True"}, SIZE // 3),
        "addresses": many(lambda i: {"type": "Hostname", "address": f"a{i}"}, SIZE // 3),
    }
    return place.change(made, {"status": status}, MERGE, suffix="/status")


def _claim_status(place: Place) -> Case:
    made = place.create(RESOURCE, "resourceclaims", _claim(requests=[_request(0)]))
    status = {"reservedFor": many(lambda i: {"resource": "pods", "name": f"p{i}", "uid": f"{i}"})}
    return place.change(made, {"status": status}, MERGE, suffix="/status")


def _token(place: Place) -> Case:
    made = place.create(CORE, "serviceaccounts", {})
    return place.change(made, {"spec": {"audiences": many(lambda i: f"a{i}")}}, "application/json", "POST", "/token")


def _stored_secret(place: Place) -> Case:
    made = place.create(CORE, "secrets", {"data": mapping(lambda i: f"k{i}", "YQ==", STORED)})
    return place.change(made, made.request.body, "application/json", "PUT")


CASES: dict[str, Callable[[Place], Case]] = {
    "secret: data": _of(CORE, "secrets", lambda: {"data": mapping(lambda i: f"k{i}", "YQ==")}),
    "secret: stringData": _of(CORE, "secrets", lambda: {"stringData": mapping(lambda i: f"k{i}", "a")}),
    "secret: update": _stored_secret,
    "service account: secrets": _of(CORE, "serviceaccounts", lambda: {"secrets": many(lambda i: {"name": f"s{i}"})}),
    "service: ports": _of(CORE, "services", lambda: _service(
        ports=many(lambda i: {"name": f"p{i}", "port": i % 65535 + 1, "nodePort": 30000 + i % 2768}), type="NodePort")),
    "service: external IPs": _of(CORE, "services", lambda: _service(externalIPs=many(address))),
    "service: source ranges": _of(CORE, "services", lambda: _service(
        type="LoadBalancer", loadBalancerSourceRanges=many(lambda i: f"{address(i)}/32"))),
    "service: selector": _of(CORE, "services", lambda: _service(selector=mapping(lambda i: f"k{i}"))),
    "endpoints: addresses": _of(CORE, "endpoints", lambda: {
        "subsets": [{"addresses": many(lambda i: {"ip": address(i)}), "ports": [{"port": 1}]}]}),
    "endpoints: subsets": _of(CORE, "endpoints", lambda: {
        "subsets": many(lambda i: {"addresses": [{"ip": address(i)}], "ports": [{"port": 1}]})}),
    "endpoints: same subsets": _of(CORE, "endpoints", lambda: {
        "subsets": many(lambda i: {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": i % 9 + 1}]})}),
    "endpoint slice": _of(DISCOVERY, "endpointslices", lambda: {
        "addressType": "IPv4", "endpoints": many(lambda i: {"addresses": [address(i)]}, SIZE // 2),
        "ports": many(lambda i: {"name": f"p{i}", "port": 1}, SIZE // 2)}),
    "ingress: paths": _of(NETWORK, "ingresses", lambda: {"spec": {"rules": [{"host": "a.b", "http": {"paths": many(
        lambda i: {"path": f"/{i}", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 1}}}})}}]}}),
    "ingress: rules and TLS": _of(NETWORK, "ingresses", lambda: {"spec": {
        "rules": many(lambda i: {"host": f"h{i}.b"}, SIZE // 2),
        "tls": many(lambda i: {"hosts": [f"h{i}.b"], "secretName": "s"}, SIZE // 2)}}),
    "network policy: ports": _of(NETWORK, "networkpolicies", lambda: {"spec": {"podSelector": {}, "ingress": [
        {"ports": many(lambda i: {"port": i % 65535 + 1})}]}}),
    "network policy: except": _of(NETWORK, "networkpolicies", lambda: {"spec": {"podSelector": {}, "ingress": [
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": many(lambda i: f"{address(i)}/32")}}]}]}}),
    "network policy: selector": _of(NETWORK, "networkpolicies", lambda: {
        "spec": {"podSelector": {"matchExpressions": many(expression)}}}),
    "job: failure policy": _of(BATCH, "jobs", lambda: _job(podFailurePolicy={"rules": many(
        lambda i: {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [i + 1]}})})),
    "job: exit codes": _of(BATCH, "jobs", lambda: _job(podFailurePolicy={"rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": many(lambda i: i + 1)}}]})),
    "job: indexes": _of(BATCH, "jobs", lambda: _job(completionMode="Indexed", completions=100000, parallelism=10,
        backoffLimitPerIndex=1, successPolicy={"rules": [
            {"succeededIndexes": ",".join(many(lambda i: str(2 * i), 60_000))}]})),
    "autoscaler: metrics": _of(SCALING, "horizontalpodautoscalers", lambda: {"spec": {
        "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "metrics": many(lambda i: {"type": "Resource", "resource": {
            "name": f"r{i}", "target": {"type": "Utilization", "averageUtilization": 1}}})}}),
    "disruption budget: selector": _of(POLICY, "poddisruptionbudgets", lambda: {
        "spec": {"selector": {"matchExpressions": [{"key": "k", "operator": "In", "values": many(lambda i: f"v{i}")}]}}}),
    "limit range": _of(CORE, "limitranges", lambda: {"spec": {"limits": many(
        lambda i: {"type": f"a.b/T{i}", "max": {"cpu": "1"}, "min": {"cpu": "1"}})}}),
    "limit range: resources": _of(CORE, "limitranges", lambda: {"spec": {"limits": [
        {"type": "Container", "max": mapping(lambda i: f"a.b/r{i}", "1", SIZE // 2), "min": mapping(
            lambda i: f"a.b/r{i}", "1", SIZE // 2)}]}}),
    "quota: hard": _of(CORE, "resourcequotas", lambda: {"spec": {"hard": mapping(lambda i: f"a.b/r{i}", "1")}}),
    "quota: scopes": _of(CORE, "resourcequotas", lambda: {"spec": {"scopes": many(lambda i: f"s{i}"), "hard": {}}}),
    "node: taints": _of(CORE, "nodes", lambda: {"spec": {"taints": many(
        lambda i: {"key": f"k{i}", "effect": "NoSchedule"})}}, namespaced=False),
    "node: pod ranges": _of(CORE, "nodes", lambda: {"spec": {"podCIDRs": many(lambda i: f"{address(i)}/32")}}, namespaced=False),
    "node: status": _node_status,
    "namespace: finalizers": _of(CORE, "namespaces", lambda: {"spec": {"finalizers": many(
        lambda i: f"a.b/f{i}")}}, namespaced=False),
    "volume: access modes": _of(CORE, "persistentvolumes", lambda: _volume(
        accessModes=many(lambda i: ("ReadWriteOnce", "ReadOnlyMany")[i & 1])), namespaced=False),
    "volume: node affinity": _of(CORE, "persistentvolumes", lambda: _volume(nodeAffinity={
        "required": {"nodeSelectorTerms": many(lambda i: {"matchExpressions": [expression(i)]})}}), namespaced=False),
    "storage class: topologies": _of(STORAGE, "storageclasses", lambda: {"provisioner": "a.b/c", "allowedTopologies": many(
        lambda i: {"matchLabelExpressions": [{"key": "k", "values": [f"v{i}"]}]})}, namespaced=False),
    "storage class: topology keys": _of(STORAGE, "storageclasses", lambda: {"provisioner": "a.b/c", "allowedTopologies": [
        {"matchLabelExpressions": many(lambda i: {"key": f"k{i}", "values": ["v"]})}]}, namespaced=False),
    "CSI node: drivers": _of(STORAGE, "csinodes", lambda: {"spec": {"drivers": many(
        lambda i: {"name": f"d{i}", "nodeID": "n", "topologyKeys": ["a"]})}}, namespaced=False),
    "CSI driver: audiences": _of(STORAGE, "csidrivers", lambda: {"spec": {"tokenRequests": many(
        lambda i: {"audience": f"a{i}"})}}, namespaced=False),
    "runtime class: tolerations": _of(NODE, "runtimeclasses", lambda: {"handler": "h", "scheduling": {
        "tolerations": many(toleration)}}, namespaced=False),
    "resource slice: devices": _of(RESOURCE, "resourceslices", lambda: _slice(
        devices=many(lambda i: {"name": f"d{i}"})), namespaced=False),
    "resource slice: attributes": _of(RESOURCE, "resourceslices", lambda: _slice(
        devices=[{"name": "d", "attributes": mapping(lambda i: f"a{i}", {"int": 1})}]), namespaced=False),
    "resource slice: counters": _of(RESOURCE, "resourceslices", lambda: _slice(
        sharedCounters=many(lambda i: {"name": f"c{i}", "counters": {"a": {"value": "1"}}})), namespaced=False),
    "resource claim: requests": _of(RESOURCE, "resourceclaims", lambda: _claim(requests=many(_request))),
    "resource claim: constraints": _of(RESOURCE, "resourceclaims", lambda: _claim(
        requests=many(_request, SIZE // 2),
        constraints=many(lambda i: {"requests": [f"r{i}"], "matchAttribute": "a/b"}, SIZE // 2))),
    "resource claim: reserved for": _claim_status,
    "signing request: usages": _of(CERTIFICATES, "certificatesigningrequests", lambda: {"spec": {
        "signerName": "a.b/c", "request": "YQ==", "usages": many(lambda i: "client auth")}}, namespaced=False),
    "subject access review: groups": _of(AUTHORIZATION, "subjectaccessreviews", lambda: {"spec": {
        "user": "u", "groups": many(lambda i: f"g{i}"), "resourceAttributes": {"verb": "get", "resource": "pods"}}},
        namespaced=False),
    "subject access review: labels": _of(AUTHORIZATION, "subjectaccessreviews", lambda: {"spec": {
        "user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": many(
            expression)}}}}, namespaced=False),
    "token review": _of(AUTH, "tokenreviews", lambda: {"spec": {
        "token": "a." * (SIZE // 4), "audiences": many(lambda i: f"a{i}", SIZE // 2)}}, namespaced=False),
    "token request: audiences": _token,
    "event": _of(CORE, "events", lambda: {
        "involvedObject": {"kind": "Pod", "name": "p"}, "message": "m" * SIZE, "reason": "r"}),
}  # fmt: skip
