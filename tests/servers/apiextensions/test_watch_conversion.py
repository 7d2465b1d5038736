"""Watches in a version that a webhook converts to: in order, few calls, and an ERROR event when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.admission.webhook.client import WebhookClient
from kapi.machinery.tree import Object
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI
from tests.servers.apiextensions.definition_kit import DEFINITIONS, create, definition, install, version

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Webhook:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Object, Deferred[Object]]] = []

    async def __call__(self, config: Mapping[str, Any], review: Object, timeout: float) -> Object:
        answer: Deferred[Object] = Deferred()
        self.calls.append((review["request"], answer))
        return await answer

    def asked(self) -> list[list[str]]:
        """The names in each call that waits."""
        return [[obj["metadata"]["name"] for obj in request["objects"]] for request, _ in self.calls]

    def answer(self) -> None:
        """Answers the oldest call."""
        request, waiting = self.calls.pop(0)
        objects = [
            {**obj, "apiVersion": request["desiredAPIVersion"], "spec": {"bytes": obj["spec"]["size"] * 1024}}
            for obj in request["objects"]
        ]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        api_version = "apiextensions.k8s.io/v1"
        waiting.callback({"kind": "ConversionReview", "apiVersion": api_version, "response": response})

    def refuse(self, why: str) -> None:
        request, waiting = self.calls.pop(0)
        response = {"uid": request["uid"], "result": {"status": "Failure", "message": why}}
        api_version = "apiextensions.k8s.io/v1"
        waiting.callback({"kind": "ConversionReview", "apiVersion": api_version, "response": response})


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Webhook:
    hook = Webhook()
    monkeypatch.setattr(WebhookClient, "post", hook)
    return hook


@pytest.fixture
def converted(webhook: Webhook, api: MemoryAPI) -> MemoryAPI:
    crd = definition(version(), version("v2", storage=False, spec={"bytes": {"type": "integer"}}))
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://hook.example/"}, "conversionReviewVersions": ["v1"]},
    }
    install(api, crd)
    return api


def watch(api: MemoryAPI, query: str = "", **headers: str) -> MemoryRequest:
    request = api.ask("GET", f"/apis/example.com/v2/namespaces/n/foos?watch=1{query}", headers=headers)
    api.turn()
    return request


def told(request: MemoryRequest) -> list[tuple[str, Any]]:
    return [(event["type"], (event["object"].get("spec") or {}).get("bytes")) for event in request.events]


def store(api: MemoryAPI, *sizes: int) -> None:
    """Objects in the stored version, whose writing asks nobody."""
    for size in sizes:
        create(api, f"o{size}", {"size": size})
    api.turn()


def test_events_come_converted_and_in_order(converted: MemoryAPI, webhook: Webhook) -> None:
    request = watch(converted)
    store(converted, 1)
    store(converted, 2)  # while the first is being converted
    store(converted, 3)
    assert (webhook.asked(), told(request)) == ([["o1"]], [])
    webhook.answer()
    converted.turn()
    assert told(request) == [("ADDED", 1024)]
    while webhook.calls:
        webhook.answer()
        converted.turn()
    assert told(request) == [("ADDED", 1024), ("ADDED", 2048), ("ADDED", 3072)]
    assert {event["object"]["apiVersion"] for event in request.events} == {"example.com/v2"}
    assert not request.finished


def test_what_is_there_already_is_asked_for_in_one_call_for_all_watches(converted: MemoryAPI, webhook: Webhook) -> None:
    store(converted, 1, 2, 3)
    requests = [watch(converted, "&resourceVersion=0") for _ in range(3)]
    assert webhook.asked() == [["o1", "o2", "o3"]]
    webhook.answer()
    converted.turn()
    assert [told(request) for request in requests] == [[("ADDED", 1024), ("ADDED", 2048), ("ADDED", 3072)]] * 3
    assert not webhook.calls


def test_a_list_is_asked_for_in_one_call_even_when_defaults_were_added_later(
    converted: MemoryAPI, webhook: Webhook
) -> None:
    store(converted, *range(12))
    crd = converted.ask("GET", f"{DEFINITIONS}/foos.example.com").json
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    schema["color"] = {"type": "string", "default": "red"}
    assert converted.ask("PUT", f"{DEFINITIONS}/foos.example.com", crd).code == 200
    converted.turn()
    request = converted.ask("GET", "/apis/example.com/v2/namespaces/n/foos")
    assert [len(names) for names in webhook.asked()] == [12]
    assert {obj["spec"]["color"] for obj in webhook.calls[0][0]["objects"]} == {"red"}
    webhook.answer()
    assert (request.code, len(request.json["items"]), webhook.calls) == (200, 12, [])


def test_a_bookmark_does_not_overtake_what_is_being_converted(converted: MemoryAPI, webhook: Webhook) -> None:
    version = converted.ask("GET", "/apis/example.com/v2/namespaces/n/foos").json["metadata"]["resourceVersion"]
    request = watch(converted, f"&resourceVersion={version}&allowWatchBookmarks=true")
    store(converted, 1)
    converted.turn(61)
    assert told(request) == []
    webhook.answer()
    converted.turn(61)
    converted.turn(61)
    assert [kind for kind, _ in told(request)][:2] == ["ADDED", "BOOKMARK"]


def test_a_webhook_that_fails_ends_the_watch_with_an_error(converted: MemoryAPI, webhook: Webhook) -> None:
    request = watch(converted)
    store(converted, 1)
    webhook.refuse("no idea")
    (event,) = request.events
    assert event["type"] == "ERROR"
    status = event["object"]
    text = "conversion webhook for example.com/v1, Kind=Foo failed: no idea"
    assert (status["code"], status["reason"]) == (500, "InternalError")
    assert status["message"] == f"Internal error occurred: {text}"
    assert request.finished
    assert not converted.runner.watches


def test_a_client_that_goes_takes_nothing_from_the_others(converted: MemoryAPI, webhook: Webhook) -> None:
    first, second = watch(converted), watch(converted)
    store(converted, 1)
    first.disconnect()
    webhook.answer()
    assert (told(first), told(second)) == ([], [("ADDED", 1024)])


def test_a_watch_that_times_out_meanwhile_just_ends(converted: MemoryAPI, webhook: Webhook) -> None:
    request = watch(converted, "&timeoutSeconds=5")
    store(converted, 1)
    converted.turn(6)
    assert request.finished
    webhook.answer()
    assert told(request) == []


def test_a_client_that_is_slow_as_well_gets_on_when_both_are_ready(converted: MemoryAPI, webhook: Webhook) -> None:
    request = watch(converted)
    store(converted, 1)
    request.producer.pauseProducing()
    store(converted, 2)
    webhook.answer()
    converted.turn()
    assert told(request) == [("ADDED", 1024)] and not webhook.calls
    request.producer.resumeProducing()
    converted.turn()
    webhook.answer()
    assert told(request) == [("ADDED", 1024), ("ADDED", 2048)]


def test_a_slow_client_that_reads_again_waits_for_the_webhook(converted: MemoryAPI, webhook: Webhook) -> None:
    request = watch(converted)
    store(converted, 1)
    request.producer.pauseProducing()
    store(converted, 2)
    request.producer.resumeProducing()
    converted.turn()
    assert told(request) == []
    while webhook.calls:
        webhook.answer()
        converted.turn()
    assert told(request) == [("ADDED", 1024), ("ADDED", 2048)]


def test_tables_have_their_columns_with_the_first_converted_event(converted: MemoryAPI, webhook: Webhook) -> None:
    request = watch(converted, accept=TABLE)
    store(converted, 1)
    webhook.answer()
    converted.turn()
    store(converted, 2)
    webhook.answer()
    first, second = (event["object"] for event in request.events)
    assert first["kind"] == "Table" and first["columnDefinitions"]
    assert "columnDefinitions" not in second or not second["columnDefinitions"]
