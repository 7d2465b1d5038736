"""The aggregator's decisions: what is registered, what is available, how groups are merged."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.endpoints.discovery import handler
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.apiregistration import AUTOMANAGED
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.servers.aggregator import availability, registration
from kapi.servers.aggregator.availability import PASSED, Target, Verdict
from kapi.servers.aggregator.groups import GroupIndex, from_legacy, merged_group

REFERENCE = {"namespace": "ns", "name": "svc", "port": 443}
SERVICE = {"spec": {"clusterIP": "10.0.0.7", "ports": [{"name": "https", "port": 443}]}}
SLICE = {
    "ports": [{"name": "https", "port": 8443}],
    "endpoints": [
        {"addresses": ["10.1.0.1"], "conditions": {"ready": False}},
        {"addresses": ["10.1.0.2"], "conditions": {"ready": True}},
    ],
}


APPS = registration.built_in(GroupVersion("apps", "v1"))
CUSTOM = registration.custom(GroupVersion("a.example.com", "v1"))


def stored(service: Object, **labels: str) -> Object:
    """As it may stand in the store: another spec, another label."""
    return {"metadata": {**service["metadata"], "labels": labels}, "spec": {**service["spec"], "versionPriority": 1}}


def test_what_is_missing_is_registered_at_the_start() -> None:
    assert registration.decide(APPS, None, starting=True) == ("create", APPS)
    assert APPS["spec"] == {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}


def test_built_in_ones_are_looked_at_only_at_the_start() -> None:
    assert registration.decide(APPS, None, starting=False) is None
    found = stored(APPS, **{AUTOMANAGED: "onstart"})
    assert registration.decide(APPS, found, starting=False) is None
    assert registration.decide(None, found, starting=False) is None
    assert registration.decide(None, found, starting=True) == ("delete", found)


def test_those_of_custom_resources_are_kept_always() -> None:
    assert registration.decide(CUSTOM, None, starting=False) == ("create", CUSTOM)
    assert registration.decide(CUSTOM, CUSTOM, starting=False) is None
    found = stored(CUSTOM, **{AUTOMANAGED: "true"})
    change = registration.decide(CUSTOM, found, starting=False)
    assert change is not None and (change.verb, change.service["spec"]) == ("update", CUSTOM["spec"])
    assert registration.decide(None, found, starting=False) == ("delete", found)


@pytest.mark.parametrize("starting", [True, False])
def test_what_somebody_took_over_is_left_alone(starting: bool) -> None:
    assert registration.decide(CUSTOM, stored(CUSTOM), starting=starting) is None
    assert registration.decide(None, stored(CUSTOM), starting=starting) is None


def test_labels_of_others_survive_an_update() -> None:
    change = registration.decide(APPS, stored(APPS, x="y", **{AUTOMANAGED: "onstart"}), starting=True)
    assert change is not None and change.service["metadata"]["labels"] == {"x": "y", AUTOMANAGED: "onstart"}


@pytest.mark.parametrize(
    ("service", "slices", "reason"),
    [
        (None, [], "ServiceNotFound"),
        ({"spec": {"ports": [{"port": 80}]}}, [SLICE], "ServicePortError"),
        (SERVICE, [], "EndpointsNotFound"),
        (SERVICE, [{**SLICE, "endpoints": SLICE["endpoints"][:1]}], "MissingEndpoints"),  # type: ignore[index]
        (SERVICE, [SLICE], None),
        ({"spec": {"type": "ExternalName", "externalName": "x.example.com"}}, [], None),
    ],
)
def test_availability_is_judged_by_service_and_endpoints(
    service: Object | None, slices: list[Object], reason: str | None
) -> None:
    verdict = availability.check(REFERENCE, service, slices)
    assert (verdict and verdict.reason) == reason


@pytest.mark.parametrize("type_", ["NodePort", "LoadBalancer"])
def test_services_of_other_types_are_only_resolved(type_: str) -> None:
    service = {"spec": {**SERVICE["spec"], "type": type_}}
    assert availability.check(REFERENCE, service, []) is None
    text = 'no service port 80 found for service "svc"'
    found = availability.check({**REFERENCE, "port": 80}, service, [SLICE])
    assert found == Verdict("False", "FailedDiscoveryCheck", text)


def test_requests_go_to_a_ready_endpoint_and_expect_the_services_name() -> None:
    assert availability.resolve(REFERENCE, SERVICE, [SLICE]) == (Target("10.1.0.2", 8443, "svc.ns.svc"),)
    assert availability.resolve(REFERENCE, SERVICE, []) == (Target("10.0.0.7", 443, "svc.ns.svc"),)
    assert availability.resolve(REFERENCE, None, []) == ()


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    obj: Object = {"spec": {"service": REFERENCE}, "status": {"conditions": [{"type": "Other", "status": "True"}]}}
    first = availability.updated_status(obj, Verdict("False", "A", "a"), "t1")
    assert first is not None
    assert [item["type"] for item in first["status"]["conditions"]] == ["Other", "Available"]
    second = availability.updated_status(first, Verdict("False", "B", "b"), "t2")
    assert second is not None and second["status"]["conditions"][1]["lastTransitionTime"] == "t1"
    third = availability.updated_status(second, PASSED, "t3")
    assert third is not None and third["status"]["conditions"][1]["lastTransitionTime"] == "t3"
    assert availability.updated_status(third, PASSED, "t4") is None
    third["status"]["conditions"].reverse()
    last = availability.updated_status(third, Verdict("False", "B", "b"), "t5")
    assert last is not None
    assert [item["type"] for item in last["status"]["conditions"]] == ["Available", "Other"]


def service_object(name: str, group: str, version: str, minimum: int, priority: int, remote: bool) -> Object:
    spec: Object = {
        "group": group, "version": version, "groupPriorityMinimum": minimum, "versionPriority": priority,
    }  # fmt: skip
    status: Object = {}
    if remote:
        spec["service"] = REFERENCE
        status = {"conditions": [{"type": "Available", "status": "True"}]}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def index(rows: list[Resource], services: list[Object], remote: Any = None) -> GroupIndex:
    def of_group(group: str) -> list[Resource]:
        return [row for row in rows if row.group == group]

    made = GroupIndex(lambda: dict.fromkeys(row.group for row in rows), of_group, remote or {})
    for service in services:
        made.service("ADDED", service)
    return made


def test_groups_of_other_servers_stand_where_their_priority_puts_them() -> None:
    gv = GroupVersion("metrics.k8s.io", "v1beta1")
    services = [service_object("v1beta1.metrics.k8s.io", *gv, 17850, 100, True)]
    resources = [{"resource": "nodes", "verbs": ["get"], "scope": "Cluster"}]
    groups = index(list(BUILT_IN), services, {gv: resources}).all()
    names = [group.name for group in groups]
    assert names[:4] == ["apiregistration.k8s.io", "", "metrics.k8s.io", "apps"]
    (version,) = groups[2].versions
    assert handler.aggregated_version(version) == {
        "version": "v1beta1", "resources": resources, "freshness": "Current",
    }  # fmt: skip


def test_a_server_that_was_never_reached_is_stale() -> None:
    services = [service_object("v1.a.example.com", "a.example.com", "v1", 100, 1, True)]
    groups = index([], services).all()
    assert handler.aggregated_group(groups[0])["versions"] == [{"version": "v1", "freshness": "Stale"}]
    assert index([], services).stale() == [GroupVersion("a.example.com", "v1")]
    known = index([], services, {GroupVersion("a.example.com", "v1"): [{"resource": "as"}]})
    assert known.stale() == []


def test_an_api_service_alone_makes_no_resources() -> None:
    """Another server of the cluster may serve them, and has made it; the list of groups has it as upstream's."""
    services = [
        service_object("v1.a.example.com", "a.example.com", "v1", 100, 1, False),
        service_object("v1.apps", "apps", "v1", 17800, 15, False),
        service_object("v2.apps", "apps", "v2", 17800, 15, False),
    ]
    rows = [row for row in BUILT_IN if row.group == "apps"]
    groups = index(rows, services)
    assert [group.name for group in groups.all()] == ["apps", "a.example.com"]
    assert [item["version"] for item in handler.aggregated_group(groups.all()[0])["versions"]] == ["v1"]
    assert GroupVersion("a.example.com", "v1") in groups.stale()  # nobody here knows its resources


@pytest.mark.parametrize(
    ("versions", "ranked"),
    [
        ("v1 v10 v1beta1 v2", "v10 v2 v1 v1beta1"),
        ("v2 v2beta1 v10beta2 v10beta1 v10alpha1 v1", "v2 v1 v10beta2 v10beta1 v2beta1 v10alpha1"),
        ("v1 v2 test foo10 final foo2 foo1", "v2 v1 final foo1 foo10 foo2 test"),
    ],
)
def test_versions_of_equal_priority_are_sorted_by_what_they_promise(versions: str, ranked: str) -> None:
    services = [
        service_object(f"{version}.a.example.com", "a.example.com", version, 1000, 100, False)
        for version in versions.split()
    ]
    (group,) = index([], services).all()
    assert [entry.version for entry in group.versions] == ranked.split()


def test_groups_of_equal_priority_are_sorted_by_an_api_service_in_the_list_and_by_name_in_the_aggregated_document() -> (
    None
):
    services = [
        service_object(f"{version}.{group}", group, version, 1000, 100, True)
        for group, version in (("a.io", "v1beta1"), ("b.io", "v1"), ("b.io", "v2"), ("c.io", "v1alpha1"))
    ]
    services[-1]["spec"]["groupPriorityMinimum"] = 2000
    groups = index([], services)
    assert [item["metadata"]["name"] for item in map(handler.aggregated_group, groups.all())] == [
        "c.io",
        "a.io",
        "b.io",
    ]
    document = handler.DiscoveryHandler(groups.all, lambda: "")._document(["apis"])
    assert document is not None
    assert [entry["name"] for entry in document["groups"]] == ["c.io", "b.io", "a.io"]


def test_groups_come_and_go_one_by_one() -> None:
    rows = list(BUILT_IN)
    groups = index(rows, [])
    before = {group.name: group for group in groups.all()}
    assert groups.find("a.example.com") is None
    service = service_object("v1.a.example.com", "a.example.com", "v1", 19000, 1, False)
    groups.service("ADDED", service)
    found = groups.find("a.example.com")
    assert found is not None and [entry.version for entry in found.versions] == ["v1"]
    assert [group.name for group in groups.all()][:2] == ["apiregistration.k8s.io", "a.example.com"]
    assert all(before[group.name] is group for group in groups.all() if group is not found)  # the others stay
    groups.service("DELETED", service)
    assert groups.find("a.example.com") is None and len(groups.all()) == len(before)
    rows[:] = [row for row in rows if row.group != "policy"]
    groups.changed("policy")
    assert groups.find("policy") is None and "policy" not in [group.name for group in groups.all()]


def test_legacy_discovery_becomes_aggregated() -> None:
    document = {
        "groupVersion": "a.example.com/v1",
        "resources": [
            {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get"]},
            {"name": "things/scale", "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
            {"name": "lost/status", "kind": "Lost", "verbs": ["get"]},
        ],
    }
    (thing,) = from_legacy(document)
    assert (thing["resource"], thing["scope"]) == ("things", "Namespaced")
    assert thing["subresources"][0]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def test_a_custom_resource_does_not_add_to_a_version_that_is_built_in() -> None:
    def row(version: str, plural: str, custom: bool) -> Resource:
        return Resource(group="x.io", version=version, kind="Kind", plural=plural, namespaced=True, typed_items=custom)

    rows = [row("v1", "bars", True), row("v1", "foos", False), row("v2", "bars", True)]
    group = merged_group("x.io", rows, [], {})
    assert group is not None
    assert {entry.version: [row.plural for row in entry.resources] for entry in group.versions} == {
        "v1": ["foos"],
        "v2": ["bars"],
    }
