"""Watches: where they begin, what they tell, how they end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.endpoints.encoding import MIN_SHARED_BYTES
from kapi.endpoints.watch import WatchStream
from kapi.machinery.gvk import GroupResource
from kapi.runtime.sliced import run_by
from kapi.testing.memory_api import MemoryAPI

MAPS = "/api/v1/namespaces/n/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def put(api: MemoryAPI, name: str, **metadata: Any) -> None:
    api.ask("POST", MAPS, {"metadata": {"name": name, **metadata}})


def label(api: MemoryAPI, name: str, value: str | None) -> None:
    answer = api.ask(
        "PATCH", f"{MAPS}/{name}", {"metadata": {"labels": {"l": value}}}, type="application/merge-patch+json"
    )
    assert answer.code == 200


def seen(watch: Any) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in watch.events]


@pytest.mark.parametrize(
    ("uri", "query", "scope"),
    [
        (MAPS, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "namespace"),
        ("/api/v1/configmaps", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
         "cluster"),
        (MAPS, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", ""),
        (MAPS, "&allowWatchBookmarks=true&resourceVersion=0", "namespace"),
        (MAPS, "&allowWatchBookmarks=true&resourceVersion=1", ""),
        (MAPS, "", ""),
    ],
)  # fmt: skip
def test_how_long_initial_events_take_is_measured_when_their_end_is_told(
    api: MemoryAPI, uri: str, query: str, scope: str
) -> None:
    put(api, "a")
    api.ask("GET", f"{uri}?watch=1&timeoutSeconds=60{query}")
    api.turn()
    sent = api.registry.stores[GroupResource("", "configmaps")].cache.sent
    assert [name for one in sent.values() for name in one.lists] == ([scope] if scope else [])


def test_without_a_version_a_watch_begins_with_what_there_is(api: MemoryAPI) -> None:
    put(api, "a")
    watch = api.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=60")
    api.turn()
    put(api, "b")
    api.turn()
    assert seen(watch) == [("ADDED", "a"), ("ADDED", "b")]


def test_from_a_version_a_watch_tells_what_came_after_it(api: MemoryAPI) -> None:
    put(api, "a")
    version = api.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    put(api, "b")
    api.ask("DELETE", f"{MAPS}/a")
    watch = api.ask("GET", f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=60")
    api.turn()
    assert seen(watch) == [("ADDED", "b"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in watch.events]
    assert versions == sorted(versions) and versions[0] > int(version)


def test_an_object_that_leaves_the_selection_is_deleted_in_its_last_matching_state(api: MemoryAPI) -> None:
    put(api, "a", labels={"l": "x"})
    watch = api.ask("GET", f"{MAPS}?watch=1&labelSelector=l=x&timeoutSeconds=60")
    label(api, "a", "y")
    label(api, "a", "x")
    label(api, "a", None)
    api.turn()
    assert [event["type"] for event in watch.events] == ["ADDED", "DELETED", "ADDED", "DELETED"]
    assert watch.events[1]["object"]["metadata"]["labels"] == {"l": "x"}


def test_initial_events_end_with_the_annotated_bookmark(api: MemoryAPI) -> None:
    put(api, "a")
    query = (
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60"
    )
    watch = api.ask("GET", f"{MAPS}?{query}")
    api.turn()
    kinds = [event["type"] for event in watch.events]
    assert kinds == ["ADDED", "BOOKMARK"]
    assert watch.events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_without_a_timeout_ends_after_once_to_twice_the_least_request_timeout(api: MemoryAPI) -> None:
    api.environment.min_request_timeout = 100
    watch = api.ask("GET", f"{MAPS}?watch=1")
    api.turn()
    api.clock.advance(99)
    api.turn()
    assert not watch.finished
    api.clock.advance(101)
    assert watch.finished
    api.environment.min_request_timeout = 0
    watch = api.ask("GET", f"{MAPS}?watch=1")
    api.clock.advance(100_000)
    assert not watch.finished


def test_a_watch_ends_at_its_timeout(api: MemoryAPI) -> None:
    watch = api.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=2")
    api.turn(1.9)
    assert not watch.finished
    api.turn(0.2)
    assert watch.finished


def test_a_watch_with_a_negative_timeout_ends_before_its_first_event(api: MemoryAPI) -> None:
    put(api, "a")
    watch = api.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=-1")
    api.turn()
    assert (watch.code, watch.finished, watch.events) == (200, True, [])
    assert not api.runner.watches


def test_what_a_store_says_of_a_forgotten_revision_is_said_of_events(api: MemoryAPI) -> None:
    for name in "abc":
        put(api, name)
    api.caches.floor = api.caches.revision  # the history is compacted
    messages = {}
    for resource in ("configmaps", "events"):
        watch = api.ask("GET", f"/api/v1/namespaces/n/{resource}?watch=1&resourceVersion=1")
        (event,) = watch.events
        messages[resource] = event["object"]["message"]
        assert event["object"]["reason"] == "Expired"
    assert messages["configmaps"].startswith("too old resource version: 1 (")
    assert messages["events"] == "The resourceVersion for the provided watch is too old."


def test_a_client_that_goes_leaves_nothing_behind(api: MemoryAPI) -> None:
    watch = api.ask("GET", f"{MAPS}?watch=1")
    assert len(api.runner.watches) == 1
    watch.disconnect()
    api.turn()
    put(api, "a")
    api.turn()
    assert watch.events == [] and not api.runner.watches


def test_a_version_of_the_future_is_waited_for_in_silence(api: MemoryAPI) -> None:
    watch = api.ask("GET", f"{MAPS}?watch=1&resourceVersion=999999&timeoutSeconds=9")
    put(api, "a")
    api.turn()
    assert watch.code == 200 and watch.events == []


@pytest.mark.parametrize(
    "query",
    [
        "resourceVersion=x",
        "sendInitialEvents=true",
        "resourceVersionMatch=Exact&resourceVersion=1",
        "labelSelector=a%20in",
    ],
)
def test_a_watch_that_cannot_begin_answers_a_status(api: MemoryAPI, query: str) -> None:
    answer = api.ask("GET", f"{MAPS}?watch=1&{query}")
    assert answer.code >= 400 and answer.json["kind"] == "Status"


def test_deprecated_watch_paths(api: MemoryAPI) -> None:
    put(api, "a")
    put(api, "b")
    one = api.ask("GET", "/api/v1/watch/namespaces/n/configmaps/a?resourceVersion=0&timeoutSeconds=9")
    api.turn()
    assert seen(one) == [("ADDED", "a")]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [("metadata.name=a", ["a"]), ("metadata.name=b", None), ("metadata.namespace=n", None), ("metadata.name!=b", None)],
)
def test_a_field_selector_of_a_deprecated_watch_names_its_object(
    api: MemoryAPI, selector: str, wanted: list[str] | None
) -> None:
    put(api, "a")
    query = f"fieldSelector={selector}&resourceVersion=0&timeoutSeconds=9"
    one = api.ask("GET", f"/api/v1/watch/namespaces/n/configmaps/a?{query}")
    api.turn()
    if wanted is None:
        assert (one.code, one.json["message"]) == (400, "fieldSelector metadata.name doesn't match requested name")
    else:
        assert seen(one) == [("ADDED", name) for name in wanted]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("name", ["", "/a"])
def test_a_deprecated_watch_is_only_read(api: MemoryAPI, method: str, name: str) -> None:
    put(api, "a")
    answer = api.ask(method, f"/api/v1/watch/namespaces/n/configmaps{name}", {"metadata": {"name": "a"}})
    assert (answer.code, answer.json["reason"]) == (405, "MethodNotAllowed")


def test_tables_name_their_columns_once(api: MemoryAPI) -> None:
    put(api, "a")
    watch = api.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=60", headers=TABLE)
    api.turn()
    put(api, "b")
    api.turn()
    assert [bool(event["object"]["columnDefinitions"]) for event in watch.events] == [True, False]


def test_a_large_event_that_is_no_copy_of_what_is_stored_waits_for_its_slice(api: MemoryAPI) -> None:
    waiting: list[Callable[[], None]] = []

    def call(work: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        waiting.append(lambda: done.callback(work()))
        return done

    put(api, "large", annotations={"a": "x" * 20_000})
    run_by(api.clock, call)
    table, plain = (api.ask("GET", f"{MAPS}?watch=1", headers=headers) for headers in (TABLE, {}))
    api.turn()
    put(api, "small")
    api.turn()
    assert [event["object"]["metadata"]["name"] for event in plain.events] == ["large", "small"]
    assert (table.events, len(waiting)) == ([], 1)
    waiting.pop()()
    api.turn()
    rows = [event["object"]["rows"][0]["cells"][0] for event in table.events]
    assert (rows, waiting) == (["large", "small"], [])


def test_an_object_that_is_sent_as_it_is_stored_is_a_whole_event(api: MemoryAPI) -> None:
    """Large objects are not copied; this request has no frames around what is written."""
    large = "x" * MIN_SHARED_BYTES
    watch = api.ask("GET", f"{MAPS}?watch=1")
    for name in ("a", "b"):
        api.ask("POST", MAPS, {"metadata": {"name": name}, "data": {"large": large}})
    put(api, "small")
    api.turn()
    assert [(event["object"]["metadata"]["name"], event["object"].get("data")) for event in watch.events] == [
        ("a", {"large": large}),
        ("b", {"large": large}),
        ("small", None),
    ]


def test_without_slices_a_large_event_is_encoded_at_once(api: MemoryAPI) -> None:
    watch = api.ask("GET", f"{MAPS}?watch=1", headers=TABLE)
    put(api, "large", annotations={"a": "x" * 20_000})
    api.turn()
    assert [event["object"]["rows"][0]["cells"][0] for event in watch.events] == ["large"]


def test_without_the_feature_a_watch_does_not_begin_with_a_list(api: MemoryAPI) -> None:
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    api.environment.features = {"WatchList": False}
    answer = api.ask("GET", f"{MAPS}?{query}")
    assert answer.code == 422
    assert "unless the WatchList feature gate is enabled" in answer.json["message"]


def test_objects_of_a_collection_go_in_their_order(api: MemoryAPI) -> None:
    """Also where one only gets a mark, since it has a finalizer."""
    version = ""
    for name, finalizers in (("a", []), ("b", ["example.com/x"]), ("c", [])):
        made = api.ask("POST", MAPS, {"metadata": {"name": name, "finalizers": finalizers}})
        version = made.json["metadata"]["resourceVersion"]
    watch = api.ask("GET", f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=60")
    assert api.ask("DELETE", MAPS).code == 200
    api.turn()
    assert seen(watch) == [("DELETED", "a"), ("MODIFIED", "b"), ("DELETED", "c")]


def test_one_that_never_begins_is_freed_at_once(api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that its request refers to; the garbage collector may come much later."""
    made: list[Any] = []

    class Noted(WatchStream):
        __slots__ = ("__weakref__",)

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr("kapi.endpoints.watch.WatchStream", Noted)
    cache = api.caches.find(GroupResource("", "configmaps"))
    loaded: Deferred[None] = Deferred()
    monkeypatch.setattr(cache, "wait_fresh", lambda: loaded)
    gc.disable()
    try:
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        request = api.ask("GET", f"{MAPS}?watch=1&{query}")
        request._disconnected = True
        loaded.callback(None)
        assert [ref() for ref in made] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("query", "ends"),
    [
        ("watch=1&allowWatchBookmarks=true", True),
        ("watch=1&allowWatchBookmarks=x&resourceVersion=0", True),
        ("watch=1&allowWatchBookmarks=false", False),
        ("watch=1", False),
        ("watch=1&allowWatchBookmarks=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", False),
    ],
)
def test_a_watch_from_the_present_objects_says_where_they_end(api: MemoryAPI, query: str, ends: bool) -> None:
    put(api, "a")
    watch = api.ask("GET", f"{MAPS}?{query}&timeoutSeconds=60")
    api.turn()
    marks = [event["object"]["metadata"] for event in watch.events if event["type"] == "BOOKMARK"]
    assert [mark["annotations"] for mark in marks] == ([{"k8s.io/initial-events-end": "true"}] if ends else [])


def test_options_of_an_old_watch_path_are_checked_as_those_of_a_list(api: MemoryAPI) -> None:
    old = "/api/v1/watch/namespaces/n/configmaps?timeoutSeconds=60"
    answer = api.ask("GET", f"{old}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    causes = [cause["message"] for cause in answer.json["details"]["causes"]]
    assert answer.code == 422 and causes == [
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        "Forbidden: sendInitialEvents is forbidden for list",
    ]
    put(api, "a")
    watch = api.ask("GET", f"{old}&allowWatchBookmarks=true")
    api.turn()
    assert seen(watch) == [("ADDED", "a")]
