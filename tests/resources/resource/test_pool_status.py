"""ResourcePoolStatusRequest: its rules, its one status."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import short

Object = dict[str, Any]
REQUESTS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"


@pytest.fixture
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS)))
    return started


def request(**spec: Any) -> Object:
    return {"metadata": {"name": "r"}, "spec": {"driver": "GPU.example.com", **spec}}


def texts(answer: Any) -> list[str]:
    assert answer.code == 422, answer.json
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


def test_a_request(api: MemoryAPI) -> None:
    made = api.ask("POST", REQUESTS, {**request(), "status": {"poolCount": 1}}).json
    assert made["spec"] == {"driver": "GPU.example.com", "limit": 100} and "status" not in made
    table = api.ask("GET", REQUESTS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert [row["cells"][:2] for row in table["rows"]] == [["r", "GPU.example.com"]]
    changed = {**made, "spec": {**made["spec"], "limit": 7}}
    assert texts(api.ask("PUT", f"{REQUESTS}/r", changed)) == ["spec: Invalid value: null: field is immutable"]
    unread = {**made, "metadata": {"name": "r"}}
    assert api.ask("PUT", f"{REQUESTS}/r", unread).code == 422  # resourceVersion must be given
    assert api.ask("DELETE", f"{REQUESTS}/r").json["kind"] == "ResourcePoolStatusRequest"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"driver": ""}, "spec.driver: Required value"),
        ({"poolName": "a//b"}, 'spec.poolName: Invalid value: "a//b": segment 1: must not be empty'),
        ({"poolName": "a/B"}, 'spec.poolName: Invalid value: "B": segment 1: <subdomain>'),
        ({"poolName": "a/" + "b" * 251}, ""),
        ({"poolName": "a/" + "b" * 252}, "spec.poolName: Too long: may not be more than 253 bytes"),
        ({"limit": 0}, "spec.limit: Invalid value: 0: must be greater than or equal to 1"),
        ({"limit": 1001}, "spec.limit: Invalid value: 1001: must be less than or equal to 1000"),
    ],
)
def test_what_is_wrong_with_a_request(api: MemoryAPI, spec: Object, text: str) -> None:
    answer = api.ask("POST", REQUESTS, request(**spec))
    assert (short(texts(answer)) if text else []) == ([text] if text else [])
    assert answer.code == (422 if text else 201)


def test_a_driver_is_a_domain_in_letters_of_any_case(api: MemoryAPI) -> None:
    (text,) = texts(api.ask("POST", REQUESTS, request(driver="_")))
    assert text.startswith(
        'spec.driver: Invalid value: "_": an RFC 1123 subdomain must consist of alphanumeric characters'
    )


POOL: Object = {"driver": "gpu.example.com", "poolName": "p", "generation": 1, "resourceSliceCount": 1}


def test_the_status_is_given_once(api: MemoryAPI) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    status = {"poolCount": 1, "pools": [POOL]}
    done = api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": status})
    assert (done.code, done.json["status"]) == (200, status)
    again = api.ask("PUT", f"{REQUESTS}/r/status", {**done.json, "status": {**status, "poolCount": 2}})
    (text,) = texts(again)
    assert text.startswith("status: Invalid value: {") and text.endswith("field is immutable")
    kept = api.ask("PUT", f"{REQUESTS}/r", {**done.json, "status": {}})
    assert kept.json["status"] == status


def test_what_is_wrong_with_a_status(api: MemoryAPI) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    pool = {**POOL, "driver": "", "resourceSliceCount": 0, "totalDevices": -1, "validationError": "x" * 257}
    found = texts(api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": {"pools": [pool]}}))
    assert found == [
        "status.poolCount: Required value",
        "status.pools[0].driver: Required value",
        "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
        "status.pools[0].totalDevices: Invalid value: -1: must be greater than or equal to 0",
        "status.pools[0].validationError: Too long: may not be more than 256 bytes",
    ]


@pytest.mark.parametrize(
    ("generation", "text"),
    [(None, "Required value"), (0, "Required value"), (-1, "Invalid value: -1: must be greater than or equal to 0")],
)
def test_a_pool_has_a_generation(api: MemoryAPI, generation: int | None, text: str) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    pools = [{**POOL, "generation": generation}]
    answer = api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": {"poolCount": 1, "pools": pools}})
    assert texts(answer) == [f"status.pools[0].generation: {text}"]


CONDITION: Object = {
    "type": "A",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"poolCount": -1}, ["poolCount: Invalid value: -1: must be greater than or equal to 0"]),
        ({"pools": [POOL] * 1000}, []),
        ({"pools": [POOL] * 1001}, ["pools: Too many: 1001: must have at most 1000 items"]),
        ({"pools": [{**POOL, "poolName": "P"}]}, ['pools[0].poolName: Invalid value: "P": segment 0: <subdomain>']),
        ({"pools": [{**POOL, "nodeName": "N"}]}, ['pools[0].nodeName: Invalid value: "N": <subdomain>']),
        ({"conditions": [{**CONDITION, "type": f"A{number}"} for number in range(10)]}, []),
        ({"conditions": [{**CONDITION, "type": f"A{number}"} for number in range(11)]},
         ["conditions: Too many: 11: must have at most 10 items"]),
        ({"conditions": [{**CONDITION, "reason": ""}]}, ["conditions[0].reason: Required value"]),
        ({"conditions": [CONDITION] * 2},
         ['conditions[1].type: Duplicate value: "A"',
          'conditions[1]: Duplicate value: {"type":"A","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"R",'
          '"message":""}']),
    ],
)  # fmt: skip
def test_the_rules_of_a_status(api: MemoryAPI, status: Object, wanted: list[str]) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    answer = api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": {"poolCount": 1, **status}})
    assert answer.code == (422 if wanted else 200)
    assert (short(texts(answer), "status.") if wanted else []) == wanted
