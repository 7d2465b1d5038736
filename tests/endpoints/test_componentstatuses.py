"""ComponentStatuses in the forms that other objects have, though they are not stored."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.testing import MemoryReactorClock

from kapi.endpoints.componentstatuses import ComponentStatuses, probe_https
from kapi.testing.memory_api import MemoryAPI

ONE = "/api/v1/componentstatuses/etcd-0"


def asked_as(kind: str) -> dict[str, str]:
    return {"Accept": f"application/json;as={kind};v=v1;g=meta.k8s.io"}


def test_one_is_shown_as_a_table_or_by_its_metadata(api: MemoryAPI) -> None:
    assert api.ask("GET", ONE).json["kind"] == "ComponentStatus"
    assert len(api.ask("GET", ONE, headers=asked_as("Table")).json["rows"]) == 1
    metadata = api.ask("GET", ONE, headers=asked_as("PartialObjectMetadata")).json
    assert (metadata["kind"], metadata["metadata"], "conditions" in metadata) == (
        "PartialObjectMetadata",
        {"name": "etcd-0"},
        False,
    )


def test_all_are_shown_as_a_table_or_by_their_metadata(api: MemoryAPI) -> None:
    path = ONE.rpartition("/")[0]

    def listed(query: str = "", kind: str = "") -> Any:
        request = api.ask("GET", path + query, headers=asked_as(kind) if kind else {})
        api.clock.advance(60)  # nobody answers for the scheduler
        return request.json

    plain, names = listed(), ["scheduler", "controller-manager", "etcd-0"]
    assert (plain["kind"], plain["apiVersion"]) == ("ComponentStatusList", "v1")
    assert [each["metadata"]["name"] for each in plain["items"]] == names
    assert not any("kind" in each for each in plain["items"])
    table = listed(kind="Table")
    assert (table["kind"], [row["cells"][0] for row in table["rows"]]) == ("Table", names)
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert listed("?includeObject=None", "Table")["rows"][0]["object"] is None
    partial = listed(kind="PartialObjectMetadataList")
    assert partial["kind"] == "PartialObjectMetadataList"
    assert [each["metadata"] for each in partial["items"]] == [{"name": name} for name in names]
    assert not any("conditions" in each for each in partial["items"])
    chosen = listed("?fieldSelector=metadata.name%3Detcd-0")
    assert [each["metadata"]["name"] for each in chosen["items"]] == ["etcd-0"]


@pytest.mark.parametrize(
    ("path", "kind", "why"),
    [
        (ONE, "PartialObjectMetadataList", "is not a list (*core.ComponentStatus)"),
        (ONE.rpartition("/")[0], "PartialObjectMetadata", "is a list (*core.ComponentStatusList)"),
    ],
)
def test_one_is_no_list_and_a_list_is_not_one(api: MemoryAPI, path: str, kind: str, why: str) -> None:
    answer = api.ask("GET", path, headers=asked_as(kind))
    assert (answer.code, answer.json["message"]) == (406, f"you requested {kind}, but the requested object {why}")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("labelSelector=a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("fieldSelector=a", "invalid selector: 'a'; can't understand 'a'"),
        (
            "fieldSelector=spec.x=1",
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_a_selector_that_is_none_is_refused(api: MemoryAPI, query: str, why: str) -> None:
    answer = api.ask("GET", f"{ONE.rpartition('/')[0]}?{query}")
    assert (answer.code, why in answer.json["message"]) == (400, True), answer.json


@pytest.mark.parametrize(("name", "port"), [("scheduler", 10259), ("controller-manager", 10257)])
def test_components_are_asked_at_their_ports_for_20_seconds(name: str, port: int) -> None:
    reactor: Any = MemoryReactorClock()
    asking = Deferred.fromCoroutine(ComponentStatuses(reactor, [])._ask(name))
    reactor.advance(19.5)
    assert not asking.called
    reactor.advance(0.5)
    found: list[Any] = []
    asking.addCallback(found.append)
    why = f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: i/o timeout'
    assert [one["conditions"] for one in found] == [[{"type": "Healthy", "status": "False", "message": why}]]


def test_what_the_router_refuses_has_no_warning(api: MemoryAPI) -> None:
    refused = api.ask("GET", "/api/v1/componentstatuses", headers={"Accept": "text/html"})
    assert (refused.code, refused.warnings) == (406, [])
    table = "application/json;as=Table;v=v9;g=meta.k8s.io"  # refused by the serializer
    refused = api.ask("GET", "/api/v1/componentstatuses", headers={"Accept": table})
    assert (refused.code, len(refused.warnings)) == (406, 1)


def test_a_client_that_goes_ends_the_question() -> None:
    errors: list[Any] = []
    asking = Deferred.fromCoroutine(probe_https(1, MemoryReactorClock())())  # type: ignore[arg-type]
    asking.addErrback(errors.append).cancel()
    assert [error.type for error in errors] == [CancelledError]
