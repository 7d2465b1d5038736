"""How long a pod may take to end, when a client asks for very long."""

from __future__ import annotations

import pytest

from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI, succeed

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api() -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started())
    assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}).code == 201
    return api


def pod(**spec: object) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], **spec}}


@pytest.mark.parametrize(("seconds", "grace"), [(40, 30), (30, 30), (29, 29), (1, 1), (-1, 1), (-2, 1), (None, 30)])
def test_a_second_deletion_can_only_shorten_the_first(api: MemoryAPI, seconds: int | None, grace: int) -> None:
    assert api.ask("POST", PODS, pod()).code == 201
    first = api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 30}).json["metadata"]
    assert (first["deletionGracePeriodSeconds"], first["deletionTimestamp"]) == (30, "2023-11-14T22:13:50Z")
    answer = api.ask("DELETE", f"{PODS}/p", {} if seconds is None else {"gracePeriodSeconds": seconds})
    assert answer.code == 200
    kept = api.ask("GET", f"{PODS}/p").json["metadata"]
    assert kept["deletionGracePeriodSeconds"] == grace
    assert kept["deletionTimestamp"] == f"2023-11-14T22:13:{20 + grace}Z"


@pytest.mark.parametrize("seconds", [-1, -2])
def test_a_negative_grace_period_is_one_second(api: MemoryAPI, seconds: int) -> None:
    assert api.ask("POST", PODS, pod()).code == 201
    metadata = api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds}).json["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("seconds", "end", "sooner"),
    [
        (10**9, "2055-07-24T00:00:00Z", "2023-11-14T22:14:20Z"),
        # past 292 years the nanoseconds wrap around, as upstream; this end is stored without its fraction
        (10**12, "2146-09-09T22:53:39Z", "2023-11-14T22:14:19Z"),
        (2**63 - 1, "2023-11-14T22:13:19Z", "2023-11-14T22:14:20Z"),
    ],
)
@pytest.mark.parametrize("by_options", [True, False], ids=["options", "spec"])
def test_a_very_long_grace_period_can_be_shortened(
    api: MemoryAPI, seconds: int, end: str, sooner: str, by_options: bool
) -> None:
    spec = {} if by_options else {"terminationGracePeriodSeconds": seconds}
    assert api.ask("POST", PODS, pod(**spec)).code == 201
    marked = api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds} if by_options else None)
    assert marked.code == 200, marked.json
    metadata = marked.json["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (end, seconds)
    shortened = api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 60})
    assert shortened.code == 200
    metadata = shortened.json["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (sooner, 60)
    assert api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}).code == 200
    assert api.ask("GET", f"{PODS}/p").code == 404


def test_a_pod_that_has_no_time_left_waits_for_its_finalizers_only(api: MemoryAPI) -> None:
    held = pod()
    held["metadata"]["finalizers"] = ["example.com/a"]
    assert api.ask("POST", PODS, held).code == 201
    for seconds in (0, 30):
        metadata = api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds}).json["metadata"]
        found = {name: metadata[name] for name in ("deletionGracePeriodSeconds", "deletionTimestamp", "generation")}
        assert found == {
            "deletionGracePeriodSeconds": 0, "deletionTimestamp": "2023-11-14T22:13:20Z", "generation": 2,
        }  # fmt: skip


def test_a_period_that_is_over_ends_now(api: MemoryAPI) -> None:
    """At once without any, else a second later."""
    for seconds, left in ((5, 1), (1, 1), (20, 5)):
        assert api.ask("POST", PODS, pod()).code == 201
        assert api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 30}).code == 200
        api.clock.advance(15)
        api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds})
        metadata = api.ask("GET", f"{PODS}/p").json["metadata"]
        began = seconds_of(metadata["deletionTimestamp"]) - api.environment.clock()
        assert (metadata["deletionGracePeriodSeconds"], int(began)) == ((1, 0) if left == 1 else (seconds, left))
        assert api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}).code == 200
        assert api.ask("GET", f"{PODS}/p").code == 404


@pytest.mark.parametrize(
    ("before", "options", "after"),
    [
        ([], {}, None), (["a.io/b"], {}, ["a.io/b"]), (["orphan"], {}, ["orphan"]),
        (["foregroundDeletion"], {}, ["foregroundDeletion"]),
        (["a.io/b", "orphan"], {"propagationPolicy": "Foreground"}, ["a.io/b", "foregroundDeletion"]),
        (["a.io/b", "foregroundDeletion"], {"propagationPolicy": "Orphan"}, ["a.io/b", "orphan"]),
        (["orphan"], {"propagationPolicy": "Background"}, None), (["orphan"], {"orphanDependents": False}, None),
        (["foregroundDeletion"], {"orphanDependents": False}, None),
        (["foregroundDeletion"], {"orphanDependents": True}, ["orphan"]), ([], {"orphanDependents": True}, ["orphan"]),
        ([], {"propagationPolicy": "Orphan"}, ["orphan"]), ([], {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
    ],
)  # fmt: skip
def test_what_becomes_of_dependents_is_a_finalizer(
    api: MemoryAPI, before: list[str], options: Object, after: list[str] | None
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    assert api.ask("POST", path, {"metadata": {"name": "c", "finalizers": before}}).code == 201
    answer = api.ask("DELETE", f"{path}/c", options)
    assert answer.code == 200
    left = api.ask("GET", f"{path}/c")
    assert (left.json["metadata"]["finalizers"] if left.code == 200 else None) == after


@pytest.mark.parametrize(("before", "policy"), [([], "Foreground"), (["orphan"], "Background")])
def test_without_garbage_collection_no_finalizer_comes_or_goes(api: MemoryAPI, before: list[str], policy: str) -> None:
    api.environment.garbage_collection = False
    path = "/api/v1/namespaces/default/configmaps"
    assert api.ask("POST", path, {"metadata": {"name": "c", "finalizers": before}}).code == 201
    assert api.ask("DELETE", f"{path}/c", {"propagationPolicy": policy}).code == 200
    left = api.ask("GET", f"{path}/c")
    assert left.json["metadata"]["finalizers"] == before if before else left.code == 404


def test_an_object_whose_last_finalizer_goes_is_rehearsed_to_go(api: MemoryAPI) -> None:
    path, merge = "/api/v1/namespaces/default/configmaps", "application/merge-patch+json"
    assert api.ask("POST", path, {"metadata": {"name": "c", "finalizers": ["a.io/b"]}}).code == 201
    assert api.ask("DELETE", f"{path}/c").json["metadata"]["deletionGracePeriodSeconds"] == 0
    free = {"metadata": {"finalizers": None}}
    for query, code in (("?dryRun=All", 200), ("", 404)):
        answer = api.ask("PATCH", f"{path}/c{query}", free, type=merge)
        assert (answer.code, "finalizers" in answer.json["metadata"]) == (200, False)
        assert api.ask("GET", f"{path}/c").code == code


def test_a_client_does_not_take_the_grace_period_away(api: MemoryAPI) -> None:
    assert api.ask("POST", PODS, pod()).code == 201
    api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 30})
    stored = api.ask("GET", f"{PODS}/p").json
    del stored["metadata"]["deletionGracePeriodSeconds"], stored["metadata"]["deletionTimestamp"]
    kept = api.ask("PUT", f"{PODS}/p", stored).json["metadata"]
    assert (kept["deletionGracePeriodSeconds"], kept["deletionTimestamp"]) == (30, "2023-11-14T22:13:50Z")
