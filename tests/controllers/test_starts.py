"""A store that is away for a moment while a server starts delays its start, and does not end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

from kapi.aggregator.backend import Backends
from kapi.aggregator.controller import APIServiceController
from kapi.controllers.bootstrap.controller import BootstrapController
from kapi.controllers.flowschemas.controller import FlowSchemaController
from kapi.machinery.gvk import GroupVersion
from kapi.registry.allocators.install import install
from kapi.store.errors import StoreUnavailable
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.assembly.assembled import assembled

SECONDS = 30.0  # for so long upstream repeats it
LEGACY = "start-legacy-token-tracking-controller"


def bootstrap(api: MemoryAPI) -> BootstrapController:
    install(api.registry, ["10.0.0.0/24"], (30000, 32767))
    return BootstrapController(
        api.registry.client, api.clock, ranges=["10.0.0.0/24"], address="192.0.2.1", port=6443, now=api.environment.now
    )


def flow_schemas(api: MemoryAPI) -> FlowSchemaController:
    client = api.registry.client
    return FlowSchemaController(client, client, api.clock, api.environment.now)


def api_services(api: MemoryAPI) -> APIServiceController:
    return APIServiceController(
        api.registry.client,
        api.clock,
        Backends(api.clock),  # type: ignore[arg-type]
        built_in=lambda: [GroupVersion("apps", "v1")],
        custom=list,
        is_custom=lambda gv: False,
        service_changed=lambda kind, obj: None,
        remote_changed=lambda gv: None,
        now=api.environment.now,
    )


@pytest.mark.parametrize("make", [bootstrap, flow_schemas, api_services])
def test_its_objects_are_made_when_the_store_is_back(
    make: Callable[[MemoryAPI], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = MemoryAPI()
    made = make(api)
    succeed(api.caches.start())
    with monkeypatch.context() as away:
        refused: list[str] = []

        async def create(key: str, *_: Any, **__: Any) -> Any:
            refused.append(key)
            raise StoreUnavailable("it is away")

        away.setattr(api.store, "create", create)
        started = Deferred.fromCoroutine(made.start())
        while len(refused) < 3:
            assert not started.called
            api.turn(1.0)
    for _ in range(100):
        api.turn(0.1)
    results: list[object] = []
    started.addBoth(results.append)
    assert results == [None]
    made.stop()


@pytest.mark.parametrize(
    ("hook", "part"),
    [
        ("rbac/bootstrap-roles", "kapi.assembly.controllers.reconcile_policy"),
        (LEGACY, "kapi.authentication.service_account.usage.LegacyTokenUsage.record_start"),
    ],
)
def test_other_parts_of_the_start_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str, part: str
) -> None:
    attempts, away = 0, True

    async def attempt(_: object) -> None:
        nonlocal attempts
        attempts += 1
        if away:
            raise StoreUnavailable("it is away")

    monkeypatch.setattr(part, attempt)
    server = assembled(tmp_path)
    clock: Any = server.config.reactor
    assert isinstance(clock, MemoryReactorClock)
    begun: Awaitable[None] = server.chain.aggregator.post_start_hooks()[hook]()
    started = Deferred.fromCoroutine(begun)  # type: ignore[arg-type]
    while attempts < 3:
        assert not started.called
        clock.advance(1.0)
    away = False
    clock.advance(1.0)
    results: list[object] = []
    started.addBoth(results.append)
    assert results == [None]


def test_default_objects_that_cannot_be_made_for_long_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def attempt(_: object) -> None:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr("kapi.assembly.controllers.reconcile_policy", attempt)
    server = assembled(tmp_path)
    clock: Any = server.config.reactor
    started = Deferred.fromCoroutine(server.chain.aggregator.post_start_hooks()["rbac/bootstrap-roles"]())  # type: ignore[arg-type]
    failures: list[Any] = []
    started.addErrback(failures.append)
    clock.advance(SECONDS - 1.0)
    assert not failures
    clock.pump([1.0, 1.0])
    assert failures and failures[0].check(StoreUnavailable)
