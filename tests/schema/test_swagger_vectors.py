"""The definitions that upstream tests managed fields with: the derived types agree with them, and so does ownership."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.status import StatusError
from kapi.schema import builtin
from kapi.schema.managedfields import FieldManager
from kapi.schema.types import Kind, Type
from tests.schema.swagger_types import Swagger

SWAGGER = Swagger()
CORE = "io.k8s.api.core.v1."
#: of API versions that are no longer served, and one that was split in two (LifecycleHandler, ProbeHandler)
GONE = ("io.k8s.api.apps.v1beta1.", "io.k8s.api.apps.v1beta2.", "io.k8s.api.extensions.v1beta1.", f"{CORE}Handler")
#: fields that differ from what the definitions, which are older than 1.36, say of them
CHANGED = {
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "clusterName"): None,  # removed in 1.24
    (f"{CORE}EphemeralContainer", "ports"): ("map", ("containerPort", "protocol")),  # was atomic
}
#: structs and maps that are of one piece since 1.20 (x-kubernetes-map-type), which the definitions do not know
ATOMIC = {
    "LabelSelector", "LocalObjectReference", "SecretReference", "ObjectFieldSelector", "ResourceFieldSelector",
    "ConfigMapKeySelector", "SecretKeySelector", "NodeSelector", "NodeSelectorTerm", "ObjectReference", "ScopeSelector",
    "TopologySelectorTerm",
}  # fmt: skip
PRESENT = [name for name in sorted(SWAGGER.definitions) if not name.startswith(GONE)]
VERSIONS = {
    "apps/v1": "io.k8s.api.apps.v1.Deployment",
    "apps/v1beta1": "io.k8s.api.apps.v1beta1.Deployment",
    "apps/v1beta2": "io.k8s.api.apps.v1beta2.Deployment",
    "extensions/v1beta1": "io.k8s.api.extensions.v1beta1.Deployment",
}
T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


def merged(type_: Type | None) -> Any:
    """What tells how a value is merged."""
    return None if type_ is None else (type_.kind, type_.list_type, type_.list_map_keys, merged(type_.elem))


@pytest.mark.parametrize("name", PRESENT)
def test_the_derived_type_is_merged_as_the_definition_says(name: str) -> None:
    ours, theirs = builtin.definition(name), SWAGGER.type(name)
    assert ours.kind is theirs.kind
    for field, expected in theirs.fields.items():
        found = ours.fields.get(field)
        if (name, field) in CHANGED:
            now = CHANGED[name, field]
            assert (found and (found.type.list_type, found.type.list_map_keys)) == now
            continue
        assert found is not None, field
        assert merged(found.type) == merged(expected.type), field
        if found.type.map_type == "atomic":
            assert found.type.name in ATOMIC or (name, field) == (f"{CORE}PodSpec", "nodeSelector"), field


def test_only_what_is_listed_is_gone() -> None:
    known = builtin.definitions()
    assert [name for name in SWAGGER.definitions if name not in known] == [
        name for name in SWAGGER.definitions if name.startswith(GONE)
    ]


def pod() -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "labels": {"app": "a"}, "finalizers": ["x/y"]},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "args": ["a", "b"],
                    "env": [{"name": "A", "value": "1"}],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
                    "resources": {"limits": {"cpu": "1"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "web"}},
                }
            ],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["h"]}],
        },
    }


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": list(containers)}}
    return {"metadata": {"name": "d"}, "spec": {**spec, "template": template}}


SAMPLES = [
    ("v1", "Pod", f"{CORE}Pod", pod()),
    ("v1", "Secret", f"{CORE}Secret", {"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "type": "Opaque"}),
    ("v1", "PodTemplate", f"{CORE}PodTemplate", {"metadata": {"name": "t"}, "template": pod()}),
    ("apps/v1", "Deployment", VERSIONS["apps/v1"], deployment({"name": "a", "image": "i"}, replicas=2)),
]


def manager_of(type_: Type, api_version: str, kind: str, **more: Any) -> FieldManager:
    group, _, version = api_version.rpartition("/")
    return FieldManager(type_, GroupVersionKind(group, version, kind), **more)


@pytest.mark.parametrize(("api_version", "kind", "name", "sample"), SAMPLES, ids=lambda value: str(value)[:12])
def test_an_applier_owns_the_same_by_either(api_version: str, kind: str, name: str, sample: dict[str, Any]) -> None:
    obj = {"apiVersion": api_version, "kind": kind, **sample}
    results = []
    for type_ in (builtin.definition(name), SWAGGER.type(name)):
        applied = manager_of(type_, api_version, kind).apply(None, copy.deepcopy(obj), "a", False, T1)
        results.append(applied["metadata"].pop("managedFields"))
    assert applied == obj  # through types that know no zero values of Go's, nothing is lost, moved or added
    assert results[0] == results[1]
    assert results[0][0]["fieldsV1"]


@pytest.mark.parametrize(("api_version", "name"), VERSIONS.items())
def test_containers_merge_by_name_in_every_version(api_version: str, name: str) -> None:
    manager = manager_of(SWAGGER.type(name), api_version, "Deployment")
    head = {"apiVersion": api_version, "kind": "Deployment"}
    live = manager.apply(None, {**head, **deployment({"name": "a", "image": "i"})}, "one", False, T1)
    live["metadata"]["uid"] = "u"
    both = manager.apply(live, {**head, **deployment({"name": "b", "image": "j"})}, "two", False, T2)
    names = [container["name"] for container in both["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["a", "b"]
    owned = {entry["manager"]: entry["fieldsV1"] for entry in both["metadata"]["managedFields"]}
    containers = owned["two"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert containers == {'k:{"name":"b"}': {".": {}, "f:image": {}, "f:name": {}}}


@pytest.mark.parametrize("other", [version for version in VERSIONS if version != "apps/v1"])
def test_what_was_applied_in_another_version_is_still_owned(other: str) -> None:
    def to(api_version: str) -> Any:
        return lambda obj: {**obj, "apiVersion": api_version}

    ours, theirs = SWAGGER.type(VERSIONS["apps/v1"]), SWAGGER.type(VERSIONS[other])
    first = manager_of(theirs, other, "Deployment", versions={"apps/v1": (ours, to("apps/v1"), to(other))})
    second = manager_of(ours, "apps/v1", "Deployment", versions={other: (theirs, to(other), to("apps/v1"))})
    body = deployment({"name": "a", "image": "i"}, replicas=1)
    live = first.apply(None, {"apiVersion": other, "kind": "Deployment", **body}, "one", False, T1)
    live["metadata"]["uid"] = "u"
    live["apiVersion"] = "apps/v1"
    less = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment({"name": "a", "image": "i"})}
    with pytest.raises(StatusError, match='conflict with "one": .spec.replicas'):
        second.apply(live, {**less, "spec": {**less["spec"], "replicas": 2}}, "two", False, T2)
    result = second.apply(live, less, "one", False, T2)
    assert "replicas" not in result["spec"]
    assert [entry["apiVersion"] for entry in result["metadata"]["managedFields"]] == ["apps/v1"]


@pytest.mark.parametrize(("api_version", "name"), VERSIONS.items())
def test_fields_that_no_definition_declares_cannot_be_applied(api_version: str, name: str) -> None:
    manager = manager_of(SWAGGER.type(name), api_version, "Deployment")
    obj = {"apiVersion": api_version, "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"nothing": 1}}
    with pytest.raises(StatusError, match=r"\.spec\.nothing: field not declared in schema"):
        manager.apply(None, obj, "a", False, T1)


def test_the_definitions_know_the_lists_that_are_merged() -> None:
    """What the rest compares with is not empty: the reader has understood the extensions."""
    lists = [
        field.type for name in PRESENT for field in SWAGGER.type(name).fields.values() if field.type.kind is Kind.LIST
    ]
    assert {type_.list_type for type_ in lists} == {"atomic", "set", "map"}
    assert sum(type_.list_type != "atomic" for type_ in lists) > 15
