"""Custom resources as clients see them: they come and go, and what is stored follows a definition that changes."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from kapi.admission.interface import UPDATE, AdmissionChain, Attributes, Plugin
from kapi.client import work
from kapi.machinery.status import bad_request
from kapi.machinery.tree import Object
from kapi.scheduling.slices import Slices
from kapi.testing.memory_api import MemoryAPI

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/example.com/v1/namespaces/n/foos"


def version(name: str = "v1", *, storage: bool = True, spec: Object | None = None, **more: Any) -> Object:
    properties = {"spec": {"type": "object", "properties": spec or {"size": {"type": "integer"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def definition(*versions: Object, plural: str = "foos", kind: str = "Foo") -> Object:
    names = {"plural": plural, "kind": kind}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": list(versions or (version(),))}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": spec,
    }


def install(api: MemoryAPI, crd: Object) -> None:
    answer = api.ask("POST", DEFINITIONS, crd)
    assert answer.code == 201, answer.json
    for _ in range(5):
        api.turn()


def change(api: MemoryAPI, *versions: Object, name: str = "foos.example.com") -> None:
    crd = api.ask("GET", f"{DEFINITIONS}/{name}").json
    crd["spec"]["versions"] = list(versions)
    answer = api.ask("PUT", f"{DEFINITIONS}/{name}", crd)
    assert answer.code == 200, answer.json
    for _ in range(5):
        api.turn()


def create(api: MemoryAPI, name: str, spec: Object, api_version: str = "v1") -> Object:
    body = {"apiVersion": f"example.com/{api_version}", "kind": "Foo", "metadata": {"name": name}, "spec": spec}
    answer = api.ask("POST", FOOS.replace("/v1/", f"/{api_version}/"), body)
    assert answer.code == 201, answer.json
    found: Object = answer.json
    return found


def conditions(api: MemoryAPI, name: str) -> dict[str, str]:
    found = api.ask("GET", f"{DEFINITIONS}/{name}").json["status"]["conditions"]
    return {item["type"]: item["status"] for item in found}


def established(api: MemoryAPI, plural: str) -> bool:
    status = api.ask("GET", f"{DEFINITIONS}/{plural}.example.com").json.get("status") or {}
    return any(item["type"] == "Established" and item["status"] == "True" for item in status.get("conditions") or ())


def one_turn(api: MemoryAPI) -> None:
    """What is scheduled in a turn is for the next."""
    for call in [call for call in api.clock.calls if call.time <= api.clock.rightNow]:
        api.clock.calls.remove(call)
        call.called = 1
        call.func(*call.args, **call.kw)


def test_a_definition_is_established_and_its_resource_answers(api: MemoryAPI) -> None:
    assert api.ask("GET", FOOS).code == 404
    install(api, definition())
    assert conditions(api, "foos.example.com") == {"NamesAccepted": "True", "Established": "True"}
    assert create(api, "a", {"size": 1})["spec"] == {"size": 1}
    assert [item["metadata"]["name"] for item in api.ask("GET", FOOS).json["items"]] == ["a"]


def until(api: MemoryAPI, path: str, code: int) -> int:
    """How many turns it takes until a GET is answered so."""
    for number in range(50_000):
        if api.ask("GET", path).code == code:
            return number
        one_turn(api)
        api.clock.rightNow += 0.001  # what is due is for the next turn
    raise AssertionError(f"{path} is never answered {code}")


def test_a_large_definition_is_served_piece_by_piece(api: MemoryAPI) -> None:
    """What comes of it meanwhile waits behind."""
    work.run_by(api.clock, Slices(api.clock, length=-1.0).call)  # each checkpoint suspends
    spec = {"size": {"type": "integer", "description": "x" * 300}}
    many = [version(f"v{number}", storage=number == 1, spec=spec) for number in range(1, 300)]
    assert api.ask("POST", DEFINITIONS, definition(*many)).code == 201
    assert until(api, FOOS, 200) > 100
    until(api, FOOS.replace("v1", "v299"), 200)
    crd = api.ask("GET", f"{DEFINITIONS}/foos.example.com").json
    crd["spec"]["versions"] = [version(), version("v2", storage=False)]
    assert api.ask("PUT", f"{DEFINITIONS}/foos.example.com", crd).code == 200
    until(api, FOOS.replace("v1", "v3"), 404)
    assert [api.ask("GET", FOOS.replace("v1", name)).code for name in ("v1", "v2")] == [200, 200]
    assert api.ask("DELETE", f"{DEFINITIONS}/foos.example.com").code == 200
    until(api, FOOS, 404)
    until(api, f"{DEFINITIONS}/foos.example.com", 404)


def test_a_definition_that_is_deleted_takes_its_objects_with_it(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "a", {})
    assert api.ask("DELETE", f"{DEFINITIONS}/foos.example.com").code == 200
    for _ in range(10):
        api.turn(0.1)
    assert api.ask("GET", f"{DEFINITIONS}/foos.example.com").code == 404
    assert api.ask("GET", FOOS).code == 404
    install(api, definition())
    assert api.ask("GET", FOOS).json["items"] == []


def test_a_kind_that_is_taken_keeps_a_definition_from_being_served_until_it_is_free(api: MemoryAPI) -> None:
    install(api, definition())
    install(api, definition(plural="others", kind="Foo"))
    assert conditions(api, "others.example.com") == {"NamesAccepted": "False", "Established": "False"}
    others = FOOS.replace("foos", "others")
    assert api.ask("GET", others).code == 404
    api.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    for _ in range(10):
        api.turn(0.1)
    assert conditions(api, "others.example.com") == {"NamesAccepted": "True", "Established": "True"}
    assert api.ask("GET", others).code == 200


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


def nested(depth: int) -> Object:
    found: Object = {}
    for _ in range(depth):
        found = {"a": found}
    return found


def test_an_object_that_is_nested_too_deeply_is_refused(api: MemoryAPI) -> None:
    free = version()
    free["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    install(api, definition(free))
    create(api, "x", nested(200))
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "y"}, "spec": nested(300)}
    answer = api.ask("POST", FOOS, json.dumps(body))
    assert answer.code == 400 and answer.json["message"].endswith("json: exceeded max depth")
    deeper = [{"op": "add", "path": "/spec" + "/a" * 199, "value": nested(100)}]  # each part is shallow enough
    answer = api.ask("PATCH", f"{FOOS}/x", deeper, type="application/json-patch+json")
    assert answer.code == 422 and "exceeded max depth" in answer.json["message"]


def test_who_forgets_the_kind_is_shown_the_body(api: MemoryAPI) -> None:
    """The lenient decoder knows what was wanted, and shows YAML as the JSON that it has become."""
    install(api, definition())
    body = b"apiVersion: example.com/v1\nspec: {z: 1, a: 1.0e+20}\n"
    lenient = api.ask("POST", f"{FOOS}?fieldValidation=Ignore", body, type="application/yaml")
    shown = '{"apiVersion":"example.com/v1","spec":{"a":100000000000000000000,"z":1}}'
    wanted = f"Foo in version \"v1\" cannot be handled as a Foo: Object 'Kind' is missing in '{shown}'"
    assert (lenient.code, lenient.json["message"]) == (400, wanted)
    strict = api.ask("POST", FOOS, body, type="application/yaml").json["message"]
    assert strict.startswith("the object provided is unrecognized (must be of type Foo)")
    for depth in (900, 9000):
        deep = b"spec: " + b"[" * depth + b"]" * depth
        assert api.ask("POST", f"{FOOS}?fieldValidation=Ignore", deep, type="application/yaml").code == 400


TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
WATCH = f"{FOOS}?watch=1&resourceVersion=0"


def with_columns(api: MemoryAPI) -> None:
    columns = [{"name": f"c{number}", "type": "integer", "jsonPath": ".spec.size"} for number in range(100)]
    install(api, definition(version(additionalPrinterColumns=columns)))
    for size, name in enumerate("abc"):
        create(api, name, {"size": size})


def test_a_table_of_many_columns_is_watched_piece_by_piece_and_in_order(api: MemoryAPI) -> None:
    with_columns(api)
    plain = api.ask("GET", WATCH, headers=TABLE)
    api.turn()
    slices = Slices(api.clock, length=-1.0)  # each checkpoint suspends
    work.run_by(api.clock, slices.call)
    request = api.ask("GET", WATCH, headers=TABLE)
    one_turn(api)
    assert not request.events, "it was not suspended"
    create(api, "d", {"size": 3})
    for _ in range(200):
        one_turn(api)
    assert [event["object"]["rows"][0]["cells"][:2] for event in request.events] == [
        ["a", 0], ["b", 1], ["c", 2], ["d", 3],
    ]  # fmt: skip
    assert [len(event["object"]["columnDefinitions"] or ()) for event in request.events] == [101, 0, 0, 0]
    assert request.written == plain.written


def test_what_is_made_for_a_watcher_ends_when_he_goes(api: MemoryAPI) -> None:
    with_columns(api)
    work.run_by(api.clock, Slices(api.clock, length=-1.0).call)
    request = api.ask("GET", WATCH, headers=TABLE)
    one_turn(api)
    assert due(api)
    request.disconnect()
    for _ in range(2):
        one_turn(api)
    assert not due(api), "it is made nevertheless"
    assert not request.events


def due(api: MemoryAPI) -> bool:
    """Whether something is to be done in the next turn."""
    return any(call.time <= api.clock.rightNow for call in api.clock.calls)


class Held(Plugin):
    """Admission of what the controllers write of some definitions waits until it is let go, or is refused."""

    operations = frozenset({UPDATE})

    def __init__(self, *names: str) -> None:
        self.names = names
        self.waiting: list[Deferred[None]] = []

    def validate(self, attributes: Attributes) -> Deferred[None] | None:
        if attributes.name not in self.names:
            return None
        self.waiting.append(Deferred())
        return self.waiting[-1]


def test_a_definition_whose_status_is_slow_to_be_written_holds_up_no_other(api: MemoryAPI) -> None:
    held = Held("foos.example.com")
    api.registry.admit_by(AdmissionChain([held]))
    install(api, definition())
    install(api, definition(plural="bars", kind="Bar"))
    assert (established(api, "foos"), established(api, "bars")) == (False, True)
    while held.waiting:
        held.waiting.pop().callback(None)
        for _ in range(5):
            api.turn()
    assert established(api, "foos")


def test_a_name_is_given_once_though_it_is_still_being_written_whose_it_is(api: MemoryAPI) -> None:
    held = Held("foos.example.com")
    api.registry.admit_by(AdmissionChain([held]))
    install(api, definition())
    install(api, definition(plural="bars", kind="Foo"))
    assert conditions(api, "bars.example.com")["NamesAccepted"] == "False"
    held.names = ()
    held.waiting.pop().callback(None)
    for _ in range(5):
        api.turn()
    assert (established(api, "foos"), established(api, "bars")) == (True, False)


def test_a_name_that_could_not_be_written_is_free(api: MemoryAPI) -> None:
    held = Held("foos.example.com")
    api.registry.admit_by(AdmissionChain([held]))
    install(api, definition())
    install(api, definition(plural="bars", kind="Foo"))
    held.waiting.pop().errback(bad_request("not today"))
    for _ in range(5):
        api.turn()
    assert conditions(api, "bars.example.com")["NamesAccepted"] == "True"


def test_custom_resources_are_asked_by_the_verb_of_a_request_not_by_its_path(api: MemoryAPI) -> None:
    # upstream has no routes for them: what a path and a method mean together is the verb alone
    install(api, definition(version(subresources={"status": {}}, deprecated=True)))
    create(api, "a", {"size": 1})
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "b"}}
    assert api.ask("POST", f"{FOOS}/b", body).code == 201
    assert api.ask("POST", f"{FOOS}/other", {**body, "metadata": {"name": "c"}}).json["metadata"]["name"] == "c"
    for method in ("PUT", "PATCH"):
        answer = api.ask(method, FOOS, {}, type="application/merge-patch+json")
        assert (answer.code, answer.json["message"]) == (400, "name must be provided")
    watched = api.ask("GET", FOOS.replace("/v1/", "/v1/watch/") + "/a?timeoutSeconds=60")
    api.turn()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in watched.events] == [("ADDED", "a")]
    for path, verb in ((FOOS.replace("/v1/", "/v1/proxy/"), "proxy"), (f"{FOOS}/a/status", "create")):
        answer = api.ask("POST", path, body)
        why = f'{verb} is not supported on resources of kind "foos.example.com"'
        assert (answer.code, answer.json["message"]) == (405, why)
        assert '"example.com/v1 Foo is deprecated"' in answer.header("warning")
