"""Since when the use of legacy tokens is tracked (cases of upstream's ``legacytokentracking/controller_test.go``)."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.controllers.legacytokentracking import CREATION_SECONDS, NAME, LegacyTokenTrackingController
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = "/api/v1/namespaces/kube-system/configmaps"
TODAY = {"since": "2023-11-14"}
_DAY = 86_400


def tracked(existing: Any = None) -> tuple[MemoryAPI, LegacyTokenTrackingController]:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    if existing is not None:
        assert api.ask("POST", MAPS, {"metadata": {"name": NAME}, **existing}).code == 201
    controller = LegacyTokenTrackingController(api.registry.client, api.clock, api.environment.clock)
    succeed(controller.start())
    api.clock.pump([0.1] * 10)
    return api, controller


def data(api: MemoryAPI) -> Any:
    return api.ask("GET", f"{MAPS}/{NAME}").json.get("data")


@pytest.mark.parametrize(
    ("existing", "wanted"),
    [
        (None, TODAY),
        ({}, TODAY),
        ({"data": {"since": "2021-03-04"}}, {"since": "2021-03-04"}),
        ({"data": {"since": "2021-3-4", "other": "x"}}, {**TODAY, "other": "x"}),
        ({"data": {"since": "20210304"}}, TODAY),
        ({"data": {"since": "2021-W09-4"}}, TODAY),
        ({"data": {"since": "2021-02-30"}}, TODAY),
        ({"data": {"since": "never"}, "immutable": True}, {"since": "never"}),
    ],
)
def test_the_day_is_kept_while_it_is_one(existing: Any, wanted: Any) -> None:
    api, controller = tracked(existing)
    api.clock.advance(5 * _DAY)
    assert data(api) == wanted
    controller.stop()


def test_it_is_repaired_and_created_again_but_not_at_once() -> None:
    api, controller = tracked()
    api.ask("PUT", f"{MAPS}/{NAME}", {"metadata": {"name": NAME}, "data": {}})
    api.clock.pump([0.1] * 10)
    assert data(api) == TODAY
    for _ in range(2):
        api.ask("DELETE", f"{MAPS}/{NAME}")
        api.clock.pump([0.1] * 10)
        assert api.ask("GET", f"{MAPS}/{NAME}").code == 404
        api.clock.advance(CREATION_SECONDS)
        api.clock.pump([0.1] * 10)
        assert data(api) == TODAY
    controller.stop()


def test_it_waits_for_its_namespace() -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    controller = LegacyTokenTrackingController(api.registry.client, api.clock, api.environment.clock)
    succeed(controller.start())
    api.clock.pump([0.1] * 10)
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    api.clock.pump([1.0] * 10)
    assert data(api) == TODAY
    controller.stop()
