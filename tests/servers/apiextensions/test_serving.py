"""Custom resources as clients see them: they come and go, and what is stored follows a definition that changes."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from twisted.internet.defer import Deferred

from kapi.admission.interface import UPDATE, AdmissionChain, Attributes, Plugin
from kapi.machinery.sharding import hashed
from kapi.machinery.status import bad_request
from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.runtime import sliced
from kapi.testing.memory_api import MemoryAPI
from tests.servers.apiextensions.definition_kit import DEFINITIONS, FOOS, create, definition, install, version


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


def until(api: MemoryAPI, path: str, code: int, seconds: float = 0.0) -> int:
    """How many turns, which take so long, it takes until a GET is answered so."""
    for number in range(50_000):
        if api.ask("GET", path).code == code:
            return number
        one_turn(api)
        api.clock.rightNow += seconds  # what is due is for the next turn
    raise AssertionError(f"{path} is never answered {code}")


def test_a_large_definition_is_served_piece_by_piece(api: MemoryAPI) -> None:
    """What comes of it meanwhile waits behind."""
    sliced.run_by(api.clock, Slices(api.clock, length=-1.0).call)  # each checkpoint suspends
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
    until(api, FOOS, 404, seconds=0.001)
    until(api, f"{DEFINITIONS}/foos.example.com", 404, seconds=0.001)


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


def test_a_definition_refuses_new_objects_while_its_instances_are_being_deleted(api: MemoryAPI) -> None:
    crd = definition()
    crd["metadata"]["finalizers"] = ["example.com/held"]
    install(api, crd)
    assert api.ask("DELETE", f"{DEFINITIONS}/foos.example.com").code == 200
    for _ in range(4):
        api.turn(0.05)  # time for other servers to notice it, and for creations that are under way to end
    assert terminating(api) == ("True", "InstanceDeletionInProgress")
    new = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}
    refused = api.ask("POST", FOOS, new)
    assert (refused.code, refused.json["reason"]) == (403, "Forbidden")
    for _ in range(10):
        api.turn(0.1)
    assert terminating(api) == ("False", "InstanceDeletionCompleted")
    assert api.ask("POST", FOOS, new).code == 201  # the definition is held by somebody else's finalizer


def terminating(api: MemoryAPI) -> tuple[str, str]:
    state = api.ask("GET", f"{DEFINITIONS}/foos.example.com").json["status"]
    [found] = [(item["status"], item["reason"]) for item in state["conditions"] if item["type"] == "Terminating"]
    return found


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
    sliced.run_by(api.clock, slices.call)
    request = api.ask("GET", WATCH, headers=TABLE)
    one_turn(api)
    assert not request.events, "it was not suspended"
    create(api, "d", {"size": 3})
    for _ in range(2000):
        one_turn(api)
    assert [event["object"]["rows"][0]["cells"][:2] for event in request.events] == [
        ["a", 0], ["b", 1], ["c", 2], ["d", 3],
    ]  # fmt: skip
    assert [len(event["object"]["columnDefinitions"] or ()) for event in request.events] == [101, 0, 0, 0]
    assert request.written == plain.written


def test_what_is_made_for_a_watcher_ends_when_he_goes(api: MemoryAPI) -> None:
    with_columns(api)
    sliced.run_by(api.clock, Slices(api.clock, length=-1.0).call)
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


def test_a_shard_of_custom_resources_does_not_say_which_it_is(api: MemoryAPI) -> None:
    """Upstream's lists of them have no such field."""
    api.environment.features = {**api.environment.features, "ShardedListAndWatch": True}
    install(api, definition())
    uids = [create(api, f"f{number}", {})["metadata"]["uid"] for number in range(10)]
    lower = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
    found = api.ask("GET", f"{FOOS}?{urlencode({'shardSelector': lower})}").json
    assert [item["metadata"]["uid"] for item in found["items"]] == [uid for uid in uids if hashed(uid) < 1 << 63]
    assert "shardInfo" not in found["metadata"]
