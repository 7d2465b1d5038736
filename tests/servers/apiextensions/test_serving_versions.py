"""Objects of definitions with several versions: read, owned and written in each."""

from __future__ import annotations

from typing import Any

from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.testing.memory_api import MemoryAPI
from tests.servers.apiextensions.definition_kit import DEFINITIONS, FOOS, create, definition, install, version


def change(api: MemoryAPI, *versions: Object, name: str = "foos.example.com") -> None:
    crd = api.ask("GET", f"{DEFINITIONS}/{name}").json
    crd["spec"]["versions"] = list(versions)
    answer = api.ask("PUT", f"{DEFINITIONS}/{name}", crd)
    assert answer.code == 200, answer.json
    for _ in range(5):
        api.turn()


def test_stored_objects_are_read_as_the_changed_schema_says(api: MemoryAPI) -> None:
    """Fields it lost are not shown, defaults it gained are: in GET, LIST and WATCH alike, and in the events of later changes."""
    install(api, definition(version(spec={"size": {"type": "integer"}, "old": {"type": "string"}})))
    create(api, "before", {"size": 1, "old": "x"})
    change(api, version(spec={"size": {"type": "integer"}, "new": {"type": "string", "default": "n"}}))
    create(api, "since", {"size": 2})
    wanted = {"before": {"size": 1, "new": "n"}, "since": {"size": 2, "new": "n"}}
    for _ in range(2):  # what is remembered of the first reading must not change the second
        assert api.ask("GET", f"{FOOS}/before").json["spec"] == wanted["before"]
        assert {item["metadata"]["name"]: item["spec"] for item in api.ask("GET", FOOS).json["items"]} == wanted
        watch = api.ask("GET", f"{FOOS}?watch=1&timeoutSeconds=60")
        api.turn()
        assert {item["object"]["metadata"]["name"]: item["object"]["spec"] for item in watch.events} == wanted
    watch = api.ask("GET", f"{FOOS}?watch=1&resourceVersion=0&timeoutSeconds=60")
    api.ask("PATCH", f"{FOOS}/since", {"spec": {"size": 3}}, type="application/merge-patch+json")
    api.turn()
    assert watch.events[-1]["object"]["spec"] == {"size": 3, "new": "n"}
    change(api, version(spec={"size": {"type": "integer", "default": 7}, "new": {"type": "string", "default": "m"}}))
    assert api.ask("GET", f"{FOOS}/since").json["spec"] == {"size": 3, "new": "n"}  # defaults do not replace
    assert api.ask("GET", f"{FOOS}/before").json["spec"] == {"size": 1, "new": "m"}


def test_every_version_shows_the_object_in_its_own_form(api: MemoryAPI) -> None:
    both = {"size": {"type": "integer"}}
    beta = version("v1beta1", storage=False, spec={**both, "hint": {"type": "string", "default": "h"}})
    install(api, definition(version(spec=both), beta))
    create(api, "a", {"size": 1})
    path = FOOS.replace("/v1/", "/v1beta1/")
    for _ in range(2):  # defaults are those of the version that is stored, or that is sent
        assert api.ask("GET", f"{path}/a").json["spec"] == {"size": 1}
        (item,) = api.ask("GET", path).json["items"]
        assert (item["apiVersion"], item["spec"]) == ("example.com/v1beta1", {"size": 1})
        assert api.ask("GET", f"{FOOS}/a").json["spec"] == {"size": 1}
    watch = api.ask("GET", f"{path}?watch=1&timeoutSeconds=60")
    api.turn()
    assert watch.events[0]["object"]["apiVersion"] == "example.com/v1beta1"


def test_a_list_in_another_version_does_not_hold_the_thread(api: MemoryAPI) -> None:
    install(api, definition(version(), version("v1beta1", storage=False)))
    for name in "abc":
        create(api, name, {"size": 1})
    path = FOOS.replace("/v1/", "/v1beta1/")
    expected = api.ask("GET", path).written
    api.runner._slices = Slices(api.clock, length=-1.0)
    request = api.ask("GET", path)
    assert not request.finished, "it was not suspended"
    for _ in range(10):
        api.turn()
    assert request.written == expected


def test_objects_stored_in_a_former_storage_version_are_read_in_the_new_one(api: MemoryAPI) -> None:
    alpha, v1 = version("v1alpha1"), version("v1", storage=False)
    install(api, definition(alpha, v1))
    create(api, "a", {"size": 1})
    change(api, {**alpha, "storage": False}, {**v1, "storage": True})
    assert api.ask("GET", f"{FOOS}/a").json["apiVersion"] == "example.com/v1"
    assert [item["apiVersion"] for item in api.ask("GET", FOOS).json["items"]] == ["example.com/v1"]
    crd = api.ask("GET", f"{DEFINITIONS}/foos.example.com").json
    assert crd["status"]["storedVersions"] == ["v1alpha1", "v1"]


BETA = "example.com/v1beta1"


def both(**more: Any) -> tuple[Object, Object]:
    """v1, which is stored, with a field of its own; v1beta1 with another and whatever else is asked for."""
    v1 = version(spec={"a": {"type": "string"}, "new": {"type": "string", "default": "n"}})
    beta = version("v1beta1", storage=False, spec={"a": {"type": "string"}, "old": {"type": "string"}}, **more)
    return v1, beta


def owners(obj: Object) -> dict[str, Object]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


def test_an_object_is_validated_in_the_version_it_is_sent_in(api: MemoryAPI) -> None:
    """Also by what the storage version does not know."""
    v1, beta = both()
    beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["old"]
    install(api, definition(v1, beta))
    path = FOOS.replace("/v1/", "/v1beta1/")
    body = {"apiVersion": BETA, "kind": "Foo", "metadata": {"name": "x"}, "spec": {"a": "1"}}
    answer = api.ask("POST", path, body)
    assert answer.code == 422 and "spec.old: Required value" in answer.json["message"]
    assert api.ask("POST", path, {**body, "spec": {"a": "1", "old": "o"}}).code == 201
    assert api.ask("GET", f"{FOOS}/x").json["spec"] == {"a": "1", "new": "n"}


def test_fields_belong_to_who_set_them_in_the_version_they_were_set_in(api: MemoryAPI) -> None:
    install(api, definition(*both()))
    obj = create(api, "x", {"a": "1", "old": "o"}, "v1beta1")
    assert obj["spec"] == {"a": "1"}  # what is not stored is not answered
    (entry,) = obj["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsV1"]["f:spec"]) == (BETA, {".": {}, "f:a": {}, "f:old": {}})


def test_what_does_not_fit_the_version_of_an_owner_cannot_be_followed(api: MemoryAPI) -> None:
    """As upstream: an update loses all ownership, an apply fails."""
    install(api, definition(*both()))
    create(api, "x", {"a": "1"}, "v1beta1")
    merge = "application/merge-patch+json"
    patched = api.ask("PATCH", f"{FOOS}/x", {"spec": {"new": "2"}}, type=merge).json
    assert owners(patched) == {}
    path = FOOS.replace("/v1/", "/v1beta1/")
    apply = "application/apply-patch+yaml"
    body = {"apiVersion": BETA, "kind": "Foo", "metadata": {"name": "x"}, "spec": {"a": "1", "old": "4"}}
    applied = api.ask("PATCH", f"{path}/x?fieldManager=me&force=true", body, type=apply)
    assert applied.code == 200
    assert set(owners(applied.json)) == {"me", "before-first-apply"}
    assert applied.json["metadata"]["generation"] == 3
    body = {**body, "apiVersion": "example.com/v1", "spec": {"new": "5"}}
    refused = api.ask("PATCH", f"{FOOS}/x?fieldManager=me", body, type=apply)
    assert (refused.code, refused.json["message"]) == (500, ".spec.new: field not declared in schema")


def test_ownership_is_followed_between_versions_of_the_same_shape(api: MemoryAPI) -> None:
    install(api, definition(version(), version("v1beta1", storage=False)))
    apply = "application/apply-patch+yaml"
    body = {"apiVersion": BETA, "kind": "Foo", "metadata": {"name": "x"}, "spec": {"size": 1}}
    path = FOOS.replace("/v1/", "/v1beta1/")
    assert api.ask("PATCH", f"{path}/x?fieldManager=one", body, type=apply).code == 201
    body = {**body, "apiVersion": "example.com/v1", "spec": {"size": 2}}
    conflict = api.ask("PATCH", f"{FOOS}/x?fieldManager=two", body, type=apply)
    assert (conflict.code, conflict.json["details"]["causes"][0]["field"]) == (409, ".spec.size")
    taken = api.ask("PATCH", f"{FOOS}/x?fieldManager=two&force=true", body, type=apply).json
    assert owners(taken) == {"two": {"f:spec": {"f:size": {}}}}


def test_a_write_that_changes_nothing_in_another_version_stores_nothing(api: MemoryAPI) -> None:
    install(api, definition(version(), version("v1beta1", storage=False)))
    create(api, "x", {"size": 1})
    path = FOOS.replace("/v1/", "/v1beta1/")
    obj = api.ask("GET", f"{path}/x").json
    again = api.ask("PUT", f"{path}/x", obj).json
    assert again["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
    obj["spec"]["size"] = 2
    changed = api.ask("PUT", f"{path}/x", obj).json
    assert (changed["apiVersion"], changed["metadata"]["generation"]) == (BETA, 2)
    assert api.ask("GET", f"{FOOS}/x").json["spec"] == {"size": 2}


def scaled() -> Object:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    return version(subresources={"scale": scale})


def test_a_scale_that_cannot_be_read_is_refused_in_upstreams_odd_words(api: MemoryAPI) -> None:
    install(api, definition(scaled()))
    create(api, "x", {"size": 1})
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}}
    for sent in (body, b"{"):
        answer = api.ask("PUT", f"{FOOS}/x/scale", sent)
        assert answer.code == 400
        assert answer.json["message"].startswith("no kind is registered for the type v1.Scale in scheme")


def test_the_owner_of_the_replicas_loses_them_to_who_scales(api: MemoryAPI) -> None:
    install(api, definition(scaled()))
    create(api, "x", {"size": 1})
    patch = {"spec": {"replicas": 3}}
    uri = f"{FOOS}/x/scale?fieldManager=scaler"
    assert api.ask("PATCH", uri, patch, type="application/merge-patch+json").json["spec"] == {"replicas": 3}
    obj = api.ask("GET", f"{FOOS}/x").json
    assert obj["spec"] == {"size": 3}
    assert owners(obj)["scaler"] == {"f:spec": {"f:size": {}}}
    assert owners(obj)["tests"] == {"f:spec": {}}
