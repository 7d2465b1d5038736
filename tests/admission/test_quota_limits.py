"""What quotas can limit, when that changes, and the arithmetic of amounts."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import CREATE, UPDATE
from kapi.admission.quota import lists
from kapi.admission.quota.evaluators import Devices, ResourceClaimEvaluator, evaluator_of
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from tests.admission.fakes import FakeLister, attributes, pod

NOW = 1_700_000_000.0  # 22:13:20
CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
END, CLASS = ".deviceclass.resource.k8s.io/devices", "requests.deviceclass.resource.kubernetes.io/"


@pytest.mark.parametrize(
    ("resource", "names", "concerned"),
    [
        ("secrets", ["pods", "count/secrets", "secrets", "count/pods"], ["count/secrets", "secrets"]),
        ("replicationcontrollers", ["replicationcontrollers"], ["replicationcontrollers"]),
        ("resourcequotas", ["resourcequotas"], ["resourcequotas"]),
        ("configmaps", ["configmaps"], ["configmaps"]),
        ("endpoints", ["endpoints", "count/endpoints"], ["count/endpoints"]),
        ("services", ["services.nodeports", "services", "count/services", "services.loadbalancers", "services.x"],
         ["count/services", "services", "services.loadbalancers", "services.nodeports"]),
        ("persistentvolumeclaims", [
            "requests.storage", "persistentvolumeclaims", "count/persistentvolumeclaims", "storage", "requests.cpu",
            "b.storageclass.storage.k8s.io/requests.storage", "a.storageclass.storage.k8s.io/persistentvolumeclaims",
            "a.storageclass.storage.k8s.io/storage",
         ], [
            "a.storageclass.storage.k8s.io/persistentvolumeclaims", "b.storageclass.storage.k8s.io/requests.storage",
            "count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage",
         ]),
        ("pods", [
            "pods", "count/pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
            "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
         ], [
            "count/pods", "cpu", "ephemeral-storage", "limits.cpu", "limits.ephemeral-storage", "limits.memory", "memory", "pods",
            "requests.cpu", "requests.ephemeral-storage", "requests.memory",
         ]),
        ("pods", ["requests.x.y/z", "hugepages-2Mi", "requests.hugepages-1Gi", "limits.x.y/z", "requests.gpu", "x.y/z",
                  "requests.kubernetes.io/z", "requests.deviceclass.resource.kubernetes.io/a", "limits.hugepages-2Mi"],
         ["hugepages-2Mi", "requests.deviceclass.resource.kubernetes.io/a", "requests.hugepages-1Gi", "requests.x.y/z"]),
    ],
)  # fmt: skip
def test_what_a_quota_can_limit_of_a_resource(resource: str, names: list[str], concerned: list[str]) -> None:
    assert evaluator_of(GroupResource("", resource)).concerns(names) == concerned


@pytest.mark.parametrize(
    ("phase", "deleted", "grace", "counts"),
    [
        ("Running", None, None, True), ("Succeeded", None, None, False), ("Failed", None, None, False),
        ("Running", "2023-11-14T22:13:00Z", 20, True), ("Running", "2023-11-14T22:13:00Z", 19, False),
        ("Running", "2023-11-14T22:13:20Z", 0, True), ("Running", "2023-11-14T22:13:19Z", 0, False),
        ("Running", "2023-11-14T22:00:00Z", None, True), ("Running", None, 0, True),
    ],
)  # fmt: skip
def test_until_when_a_pod_counts(phase: str, deleted: str | None, grace: int | None, counts: bool) -> None:
    obj = {**pod(), "status": {"phase": phase}}
    obj["metadata"] |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace}
    found = evaluator_of(GroupResource("", "pods")).usage(obj, NOW)
    assert found == {"count/pods": "1", **({"pods": "1"} if counts else {})}


def test_all_amounts_of_a_pod() -> None:
    requests = {"cpu": "1", "memory": "2", "ephemeral-storage": "3", "x.y/z": "4", "other": "5"}
    limits = {"cpu": "6", "memory": "7", "ephemeral-storage": "8", "x.y/z": "9"}
    obj = pod(containers=[{"name": "c", "resources": {"requests": requests, "limits": limits}}])
    assert evaluator_of(GroupResource("", "pods")).usage(obj, NOW) == {
        "count/pods": "1", "pods": "1", "cpu": "1", "requests.cpu": "1", "memory": "2", "requests.memory": "2",
        "ephemeral-storage": "3", "requests.ephemeral-storage": "3", "requests.x.y/z": "4", "limits.cpu": "6",
        "limits.memory": "7", "limits.ephemeral-storage": "8",
    }  # fmt: skip


def container(name: str, requests: Object | None = None, **limits: str) -> Object:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits}}


@pytest.mark.parametrize(
    ("required", "spec", "text"),
    [
        (["cpu"], {"containers": [container("a", {"cpu": "1"})]}, ""),
        (["requests.cpu", "pods", "hugepages-2Mi"], {"containers": [container("a", {"cpu": "1"})]}, ""),
        (["limits.cpu"], {"containers": [container("a", cpu="1")]}, ""),
        (["limits.cpu"], {"containers": [container("a", {"cpu": "1"})]}, "must specify limits.cpu for: a"),
        (["memory", "cpu"], {"containers": [container("b"), container("a", {"cpu": "1"})], "initContainers": [container("c")]},
         "must specify cpu for: b,c; memory for: a,b,c"),
        (["memory"], {"containers": [container("b")], "resources": {"requests": {"cpu": "1"}}}, ""),
        (["memory"], {"containers": [container("b")], "resources": {"limits": {"hugepages-2Mi": "1"}}}, ""),
        (["memory"], {"containers": [container("b")], "resources": {"limits": {"x": "1"}, "requests": None, "claims": [{}]}},
         "must specify memory for: b"),
        (["ephemeral-storage", "pods"], {"containers": [container("b")]}, ""),
        (["limits.memory"], {}, ""),
    ],
)  # fmt: skip
def test_what_a_pod_must_specify(required: list[str], spec: Object, text: str) -> None:
    assert evaluator_of(GroupResource("", "pods")).missing(required, {"spec": spec}) == text


@pytest.mark.parametrize(
    ("requested", "allocated", "counted"),
    [
        ("1500m", None, "2"),
        ("2", "1", "2"),
        ("2", "2", "2"),
        ("2", "3", "3"),
        ("1", "2500m", "3"),
        ("1Gi", "1G", "1Gi"),
    ],
)
def test_the_larger_size_of_a_claim_counts(requested: str, allocated: str | None, counted: str) -> None:
    claim = {"metadata": {}, "spec": {"resources": {"requests": {"storage": requested}}}}
    status = {"status": {"allocatedResources": {"storage": allocated}}} if allocated else {}
    found = evaluator_of(GroupResource("", "persistentvolumeclaims")).usage({**claim, **status}, NOW)
    assert found == {
        "requests.storage": counted, "persistentvolumeclaims": "1", "count/persistentvolumeclaims": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "subresource", "counts"),
    [(CREATE, "", True), (UPDATE, "", True), (UPDATE, "status", True), (UPDATE, "other", False), ("DELETE", "", False)],
)
def test_which_requests_for_claims_are_counted(operation: str, subresource: str, counts: bool) -> None:
    request = attributes({}, {}, operation=operation, subresource=subresource, resource="persistentvolumeclaims")
    assert evaluator_of(GroupResource("", "persistentvolumeclaims")).handles(request) is counts
    for resource in (GroupResource("", "secrets"), CLAIMS):
        request = attributes({}, {}, operation=operation, subresource=subresource, resource=resource.resource)
        expected = not subresource and operation in ((CREATE,) if resource.resource == "secrets" else (CREATE, UPDATE))
        assert evaluator_of(resource).handles(request) is expected


def devices(*objects: Object, claims: tuple[Object, ...] = ()) -> ResourceClaimEvaluator:
    """Of the pods; class a has the extended resource x.y/a, b has none."""
    classes = {("", name): {"spec": spec} for name, spec in (("a", {"extendedResourceName": "x.y/a"}), ("b", {}))}
    pods, others = ({("n", one["metadata"]["name"]): one for one in some} for some in (objects, claims))
    return ResourceClaimEvaluator(CLAIMS, Devices(FakeLister(classes), FakeLister(others), FakeLister(pods)))  # type: ignore[arg-type]


def claim(
    name: str = "c", created: str = "2", made: str = "true", owner: Object | None = None, **counts: int
) -> Object:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True, **(owner or {})}
    requests = [{"exactly": {"deviceClassName": name, "count": count}} for name, count in counts.items()]
    metadata = {"name": name, "namespace": "n", "creationTimestamp": created, "ownerReferences": [{"uid": "o"}, reference],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": made}}  # fmt: skip
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def asking(count: str, uid: str = "u", named: str | None = None, **more: str) -> Object:
    found = pod("p", containers=[{"name": "c", "resources": {"requests": {"x.y/a": count, **more}}}])
    found["metadata"]["uid"] = uid
    if named:
        found["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": named}}
    return found


def test_a_claim_counts_by_class_and_by_the_extended_resource_of_the_class() -> None:
    counts = {f"a{END}": "3", f"b{END}": "1", "count/resourceclaims.resource.k8s.io": "1"}
    assert evaluator_of(CLAIMS).usage(claim(a=3, b=1), NOW) == counts
    extended = {f"{CLASS}a": "3", f"{CLASS}b": "1", "requests.x.y/a": "3"}
    assert devices().usage(claim(a=3, b=1), NOW) == {**counts, **extended}
    names = [*extended, *counts, "requests.x.y/b", f"{CLASS}c", "pods", "requests."]
    assert devices().concerns(names) == sorted([*counts, f"{CLASS}a", "requests.x.y/a"])
    assert evaluator_of(CLAIMS).concerns(names) == sorted(counts)


@pytest.mark.parametrize(
    ("pods", "claims", "sent", "left"),
    [
        ([asking("2")], [], claim(a=3), "1"),
        ([asking("3")], [], claim(a=3), None),
        ([asking("4")], [], claim(a=3), None),
        ([], [], claim(a=3), "3"),
        ([asking("2", uid="other")], [], claim(a=3), "3"),
        ([asking("2")], [], claim(a=3, made="false"), "3"),
        ([asking("2")], [], claim(a=3, owner={"controller": False}), "3"),
        ([asking("2")], [], claim(a=3, owner={"kind": "Job"}), "3"),
        ([asking("2")], [], claim(a=3, owner={"apiVersion": "v2"}), "3"),
        ([asking("2")], [], claim(a=3, owner={"name": "q"}), "3"),
        ([asking("2", named="c")], [], claim(a=3), "1"),
        ([asking("2", named="d")], [], claim(a=3), "3"),
        # of several the oldest counts for the pod, the first by name among equally old ones
        ([asking("2")], [claim("d", "1")], claim(a=3), "3"),
        ([asking("2")], [claim("d", "3"), claim("e", "4")], claim(a=3), "1"),
        ([asking("2")], [claim("d", "2")], claim(a=3), "1"),
        ([asking("2")], [claim("b", "2")], claim(a=3), "3"),
        ([asking("2")], [claim("b", "1", owner={"uid": "v"})], claim(a=3), "1"),
        ([asking("2")], [claim("b", "1")], claim(a=3, created=""), "3"),
    ],
)  # fmt: skip
def test_what_its_pod_is_charged_with_is_not_charged_again(
    pods: list[Object], claims: list[Object], sent: Object, left: str | None
) -> None:
    found = devices(*pods, claims=tuple(claims)).usage(sent, NOW)
    assert found.get("requests.x.y/a") == left
    assert found[f"a{END}"] == found[f"{CLASS}a"] == "3"


@pytest.mark.parametrize(
    ("one", "other", "total", "growth"),
    [
        ({}, {}, {}, {}),
        ({"a": "1"}, {}, {"a": "1"}, {"a": "1"}),
        ({}, {"a": "1"}, {"a": "1"}, {"a": "0"}),
        ({"a": "2", "b": "1Ki"}, {"a": "1", "b": "1"}, {"a": "3", "b": "1025"}, {"a": "1", "b": "1023"}),
        ({"a": "1"}, {"a": "1"}, {"a": "2"}, {"a": "0"}),
        ({"a": "1"}, {"a": "2"}, {"a": "3"}, {"a": "0"}),
        ({"a": "2Ki"}, {"a": "1Ki"}, {"a": "3Ki"}, {"a": "1Ki"}),
    ],
)
def test_sums_and_growth(one: Any, other: Any, total: Any, growth: Any) -> None:
    before = {**one}
    assert (lists.add(one, other), lists.growth(one, other)) == (total, growth)
    assert one == before
    lists.add_to(before, other)
    assert before == total


def test_amounts_are_compared_chosen_and_shown() -> None:
    amounts = {"b": "0", "a": "-1", "c": "1500m", "d": "2"}
    assert lists.mask(amounts, ["a", "c", "x"]) == {"a": "-1", "c": "1500m"}
    assert lists.without_zeros(amounts) == {"a": "-1", "c": "1500m", "d": "2"}
    assert lists.negative({**amounts, "A": "-1n"}) == ["A", "a"]
    assert lists.exceeding(amounts, {"d": "1", "c": "1500m", "b": "-1", "x": "-1"}) == ["d", "b"]
    assert lists.show(amounts) == "a=-1,b=0,c=1500m,d=2"
    assert [lists.whole(quantity) for quantity in ("1", "1Ki", "1500m", "0.5Ki", "1e-1", "0.1Ki")] == [
        "1", "1Ki", "2", "0.5Ki", "1", "103",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [({}, {}, True), ({"a": "1"}, {"a": "1000m"}, True), ({"a": "1"}, {"a": "2"}, False), ({"a": "1"}, {}, False),
     ({"a": "1"}, {"b": "1"}, False), ({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, False)],
)  # fmt: skip
def test_equal_amounts(one: Any, other: Any, equal: bool) -> None:
    assert lists.equal(one, other) is lists.equal(other, one) is equal
