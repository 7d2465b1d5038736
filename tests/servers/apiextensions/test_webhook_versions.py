"""Versions that a webhook converts: each request is judged in its own version, and what is stored is in one."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.servers.apiextensions.serving import CustomResources
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.servers.apiextensions.definition_kit import DEFINITIONS, FOOS, definition, install, version
from tests.servers.apiextensions.test_serving_versions import owners

BETA = FOOS.replace("/v1/", "/v1beta1/")
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class Webhook:
    """v1 has ``hostPort``, v1beta1 has ``host`` and ``port``."""

    def __init__(self) -> None:
        self.asked = 0
        self.down = False

    async def post(self, config: Any, review: Object, timeout: float) -> Object:
        self.asked += 1
        if self.down:
            raise ConnectionError("nobody is there")
        request = review["request"]
        wanted = request["desiredAPIVersion"]
        objects = [_converted(obj, wanted) for obj in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return {"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response}


def _converted(obj: Object, wanted: str) -> Object:
    spec = dict(obj.get("spec") or {})
    if wanted.endswith("/v1") and "host" in spec:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
    elif wanted.endswith("/v1beta1") and "hostPort" in spec:
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    return {**obj, "apiVersion": wanted, "spec": spec}


@pytest.fixture
def webhook() -> Webhook:
    return Webhook()


@pytest.fixture
def api(webhook: Webhook) -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started())
    custom = CustomResources(api.registry, api.table, api.registry.client, api.clock, (), webhook.post)
    succeed(custom.start())
    text = {"type": "string"}
    v1 = version(spec={"hostPort": text}, selectableFields=[{"jsonPath": ".spec.hostPort"}])
    fields = [{"jsonPath": f".spec.{name}"} for name in ("host", "port")]
    beta = version("v1beta1", storage=False, spec={"host": text, "port": text}, selectableFields=fields)
    v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["hostPort"]
    beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["host", "port"]
    crd = definition(v1, beta)
    config = {"clientConfig": {"url": "https://convert.example.com/"}, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": config}
    install(api, crd)
    return api


def body(api_version: str, **spec: str) -> Object:
    return {
        "apiVersion": f"example.com/{api_version}",
        "kind": "Foo",
        "metadata": {"name": "x"},
        "spec": spec,
    }


def test_an_object_is_judged_in_its_own_version_and_stored_in_another(api: MemoryAPI) -> None:
    refused = api.ask("POST", BETA, body("v1beta1", host="h"))
    assert refused.code == 422 and "spec.port: Required value" in refused.json["message"]
    made = api.ask("POST", BETA, body("v1beta1", host="h", port="1"))
    assert (made.code, made.json["spec"]) == (201, {"host": "h", "port": "1"})
    assert api.ask("GET", f"{FOOS}/x").json["spec"] == {"hostPort": "h:1"}
    assert api.ask("GET", f"{BETA}/x").json["spec"] == {"host": "h", "port": "1"}
    assert [item["spec"] for item in api.ask("GET", BETA).json["items"]] == [{"host": "h", "port": "1"}]


def test_a_change_in_another_version_keeps_the_rest(api: MemoryAPI) -> None:
    api.ask("POST", FOOS, body("v1", hostPort="h:1"))
    changed = api.ask("PATCH", f"{BETA}/x", {"spec": {"port": "2"}}, type=MERGE)
    assert (changed.code, changed.json["spec"]) == (200, {"host": "h", "port": "2"})
    assert api.ask("GET", f"{FOOS}/x").json["spec"] == {"hostPort": "h:2"}
    assert api.ask("GET", f"{FOOS}/x").json["metadata"]["generation"] == 2
    refused = api.ask("PATCH", f"{BETA}/x", {"spec": {"port": None}}, type=MERGE)
    assert refused.code == 422


def test_fields_are_followed_through_the_webhook(api: MemoryAPI) -> None:
    assert api.ask("PATCH", f"{BETA}/x?fieldManager=one", body("v1beta1", host="h", port="1"), type=APPLY).code == 201
    conflict = api.ask("PATCH", f"{FOOS}/x?fieldManager=two", body("v1", hostPort="h:2"), type=APPLY)
    assert conflict.code == 409  # the port is another's, in that one's version
    taken = api.ask("PATCH", f"{FOOS}/x?fieldManager=two&force=true", body("v1", hostPort="h:2"), type=APPLY).json
    assert owners(taken)["two"] == {"f:spec": {"f:hostPort": {}}}
    assert owners(taken)["one"] == {"f:spec": {"f:host": {}}}  # the host did not change


def test_nothing_is_stored_when_the_webhook_does_not_answer(api: MemoryAPI, webhook: Webhook) -> None:
    webhook.down = True
    answer = api.ask("POST", BETA, body("v1beta1", host="h", port="1"))
    assert (
        answer.code == 500 and "conversion webhook for example.com/v1beta1, Kind=Foo failed" in answer.json["message"]
    )
    assert api.ask("GET", f"{FOOS}/x").code == 404
    assert api.ask("POST", FOOS, body("v1", hostPort="h:1")).code == 201  # no conversion is needed
    assert webhook.asked == 1


def test_a_definition_takes_objects_of_its_former_version_with_it(api: MemoryAPI) -> None:
    api.ask("POST", FOOS, body("v1", hostPort="h:1"))
    crd = api.ask("GET", f"{DEFINITIONS}/foos.example.com").json
    for item in crd["spec"]["versions"]:
        item["storage"] = item["name"] == "v1beta1"
    assert api.ask("PUT", f"{DEFINITIONS}/foos.example.com", crd).code == 200
    api.turn()
    assert api.ask("GET", f"{BETA}/x").json["spec"] == {"host": "h", "port": "1"}
    api.ask("DELETE", f"{DEFINITIONS}/foos.example.com")
    for _ in range(20):
        api.turn(0.1)
    assert api.ask("GET", f"{DEFINITIONS}/foos.example.com").code == 404


def put(api: MemoryAPI, name: str, spec: str) -> None:
    obj = {**body("v1", hostPort=spec), "metadata": {"name": name}}
    code = api.ask("PATCH", f"{FOOS}/{name}?fieldManager=m&force=true", obj, type=APPLY).code
    assert code in (200, 201)
    for _ in range(5):
        api.turn()


def test_objects_are_selected_by_fields_of_the_version_of_the_request(api: MemoryAPI) -> None:
    for number in range(12):  # more than are converted one by one
        put(api, f"a{number}", f"h:{number % 2}")
    put(api, "b", "other:1")

    def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in api.ask("GET", f"{BETA}?{query}").json["items"]]

    assert names("fieldSelector=spec.host=other") == ["b"]
    assert names("fieldSelector=spec.host!=h") == ["b"]
    assert names("fieldSelector=spec.port=1,spec.host=h,metadata.name!=a1") == ["a11", "a3", "a5", "a7", "a9"]
    assert names("fieldSelector=spec.port=0&limit=2") == ["a0", "a10"]
    gone = api.ask("DELETE", f"{BETA}?fieldSelector=spec.port=0").json["items"]
    assert len(gone) == 6 and {item["spec"]["port"] for item in gone} == {"0"}
    assert len(api.ask("GET", FOOS).json["items"]) == 7


def test_a_watch_selects_by_fields_of_its_version(api: MemoryAPI) -> None:
    put(api, "a", "h:1")
    put(api, "b", "other:1")
    watch = api.ask("GET", f"{BETA}?watch=1&fieldSelector=spec.host=h&timeoutSeconds=60")
    for name, spec in (("b", "h:2"), ("b", "h:3"), ("a", "none:1"), ("c", "none:1"), ("c", "none:2")):
        put(api, name, spec)
    assert api.ask("DELETE", f"{FOOS}/b").code == 200
    assert api.ask("DELETE", f"{FOOS}/c").code == 200
    for _ in range(5):
        api.turn()
    found = [
        (item["type"], item["object"]["metadata"]["name"], item["object"]["spec"]["port"]) for item in watch.events
    ]
    assert found == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("MODIFIED", "b", "3"),
        ("DELETED", "a", "1"),
        ("DELETED", "b", "3"),
    ]
