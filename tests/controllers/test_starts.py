"""What writes at the start of a server goes on until it succeeds: neither the store nor admission ends the server.

A store that is away delays the start, a write that is refused does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from kapi.admission.interface import AdmissionChain, Attributes, Plugin, denied
from kapi.authorization.rbac.bootstrap import reconcile_policy
from kapi.controllers.bootstrap import BootstrapController
from kapi.controllers.flowschemas import FlowSchemaController
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersion
from kapi.registry.allocators.services import install
from kapi.runtime.persistent import MAX_PATIENCE_SECONDS, PATIENCE_SECONDS, Persistent
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.controller import APIServiceController
from kapi.store.errors import StoreUnavailable
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.assembly.assembled import assembled
from tests.servers.aggregator.controller_case import Served


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
        served=Served([GroupVersion("apps", "v1")], []),
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
    ],
)
def test_other_parts_of_the_start_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str, part: str
) -> None:
    attempts, away = 0, True

    async def attempt(*_: object) -> None:
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


def test_a_store_that_is_away_for_long_does_not_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = True

    async def attempt(*_: object) -> None:
        if away:
            raise StoreUnavailable("it is away")

    monkeypatch.setattr("kapi.assembly.controllers.reconcile_policy", attempt)
    server = assembled(tmp_path)
    clock: Any = server.config.reactor
    started = Deferred.fromCoroutine(server.chain.aggregator.post_start_hooks()["rbac/bootstrap-roles"]())  # type: ignore[arg-type]
    clock.pump([1.0] * 3600)
    assert not started.called
    away = False
    clock.pump([1.0] * 60)
    assert started.called


class Refusing(Plugin):
    """Refuses every write, until it is ``open``."""

    name = "Refusing"
    open = False

    def validate(self, attributes: Attributes) -> None:
        if not self.open:
            raise denied(attributes, "nothing is allowed")


@pytest.mark.parametrize("make", [bootstrap, flow_schemas, api_services])
def test_what_admission_refuses_does_not_delay_the_start_and_is_made_later(make: Callable[[MemoryAPI], Any]) -> None:
    api, refusing = MemoryAPI(), Refusing()
    api.registry.admit_by(AdmissionChain([refusing]))
    made = make(api)
    succeed(api.caches.start())
    started = Deferred.fromCoroutine(made.start())
    for _ in range(10):
        api.turn()
    assert started.called
    assert not succeed(api.store.scan(""))
    refusing.open = True
    for _ in range(60):
        api.turn(1.0)
    assert succeed(api.store.scan(""))
    made.stop()


def test_one_refused_object_does_not_keep_the_others_from_being_made() -> None:
    class Choosy(Refusing):
        resources = frozenset(["priorityclasses"])

    api = MemoryAPI()
    made = bootstrap(api)
    api.registry.admit_by(AdmissionChain([Choosy()]))
    succeed(api.caches.start())
    with pytest.raises(status.Forbidden, match="priorityclasses"):
        succeed(made.run_once())
    for group, plural in (("", "namespaces"), ("networking.k8s.io", "servicecidrs"), ("", "services")):
        assert api.registry.client.resource(group, plural).lister.list(), plural


def test_the_start_does_not_wait_for_a_slow_attempt() -> None:
    clock, attempts = Clock(), list[Deferred[None]]()

    async def attempt() -> None:
        attempts.append(Deferred())
        await attempts[-1]

    work = Persistent("a part", attempt, clock)
    started = Deferred.fromCoroutine(work.start())
    clock.advance(PATIENCE_SECONDS - 0.1)
    assert not started.called
    clock.advance(0.1)
    assert started.called and len(attempts) == 1
    attempts[0].errback(StoreUnavailable("it was too slow"))
    clock.advance(1.0)
    attempts[1].callback(None)
    clock.advance(3600.0)
    assert len(attempts) == 2


def test_the_start_waits_for_an_attempt_that_makes_progress_but_not_for_ever() -> None:
    clock, writing = Clock(), Deferred[None]()
    work = Persistent("a part", lambda: writing, clock)
    started = Deferred.fromCoroutine(work.start())
    while clock.seconds() + PATIENCE_SECONDS - 1 < MAX_PATIENCE_SECONDS:
        clock.advance(PATIENCE_SECONDS - 1)
        assert not started.called, clock.seconds()
        work.progress()
    clock.advance(MAX_PATIENCE_SECONDS - clock.seconds() - 0.1)
    assert not started.called
    work.progress()
    clock.advance(0.1)
    assert started.called
    work.progress()  # now without effect
    writing.callback(None)
    assert clock.getDelayedCalls() == []


def test_each_default_role_is_progress_of_the_start() -> None:
    """A slow machine is ready when all of them are written, not with some of them."""
    api, written = MemoryAPI(), list[int]()
    succeed(api.caches.start())
    roles = api.registry.client.resource("rbac.authorization.k8s.io", "clusterroles").lister

    succeed(reconcile_policy(api.registry.client, progress=lambda: written.append(len(roles.list()))))
    assert len(written) > len(roles.list()) > 50
    assert written[0] < written[-1]


def test_a_fault_in_a_part_of_the_start_is_logged_once_and_ends_nothing() -> None:
    clock, lines = Clock(), list[str]()

    async def attempt() -> None:
        raise RuntimeError("a fault")

    def observe(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    work = Persistent("a part", attempt, clock)
    globalLogPublisher.addObserver(observe)
    try:
        started = Deferred.fromCoroutine(work.start())
        clock.pump([1.0] * 100)
    finally:
        globalLogPublisher.removeObserver(observe)
    assert started.called
    assert lines == ["a part failed, and is tried again"]
    work.stop()


def test_it_ends_when_the_server_stops() -> None:
    clock, attempts = Clock(), list[float]()

    async def attempt() -> None:
        attempts.append(clock.seconds())
        raise status.AlreadyExists("by another server")

    work = Persistent("a part", attempt, clock, every=10.0)
    started = Deferred.fromCoroutine(work.start())
    clock.pump([1.0] * 30)
    assert started.called and len(attempts) > 3
    work.stop()
    before = len(attempts)
    clock.advance(3600.0)
    assert len(attempts) == before and not clock.getDelayedCalls()
