"""The dependencies of admission plugins: listers, the in-process client, the authorizer, feature gates and settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

import msgspec
from twisted.internet.defer import Deferred

from kapi.admission.interface import Plugin
from kapi.admission.metrics import Meter
from kapi.admission.webhook.resolver import ServiceResolver
from kapi.authorization.interface import Attributes as AuthorizationAttributes
from kapi.authorization.interface import Authorizer, Decision, Verdict, decided
from kapi.machinery import status
from kapi.machinery.names import path_segment
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.resources.definition import Lister
from kapi.resources.shared.features import enabled
from kapi.runtime import sliced
from kapi.runtime.interface import Client, ResourceClient
from kapi.wire.egress import DIRECT, Egress


def _stable(group: str, version: str, plural: str) -> bool:
    return "alpha" not in version and "beta" not in version


Found = TypeVar("Found")


class Settings(msgspec.Struct, frozen=True):
    """The flags that concern plugins."""

    not_ready_toleration: int = 300  # seconds
    unreachable_toleration: int = 300  # seconds
    service_addresses: Mapping[str, str] = msgspec.field(
        default_factory=dict
    )  # addresses to use for webhooks' services
    routes_to_endpoints: bool = False  # requests go to endpoints, not to the services' addresses


class Initializer(msgspec.Struct):
    """Made once by the composition root.

    ``clock`` gives unix seconds, ``monotonic`` measures durations; ``meter`` may be None.
    """

    client: Client
    authorizer: Authorizer | None = None
    features: Mapping[str, bool] = msgspec.field(default_factory=dict)
    settings: Settings = msgspec.field(default_factory=Settings)
    meter: Meter | None = None
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    serves: Callable[[str, str, str], bool] = _stable  # group, version and plural of a built-in resource
    reactor: Reactor | None = None  # None only in tests
    egress: Egress = DIRECT
    resolver: ServiceResolver | None = None  # for webhooks; None: a resolver over the Services
    _clients: dict[tuple[str, str], ResourceClient] = msgspec.field(default_factory=dict)

    def resource(self, group: str, plural: str) -> ResourceClient:
        found = self._clients.get((group, plural))
        if found is None:
            found = self._clients[(group, plural)] = self.client.resource(group, plural)
        return found

    def lister(self, group: str, plural: str) -> Lister:
        return (self._clients.get((group, plural)) or self.resource(group, plural)).lister

    def feature(self, name: str) -> bool:
        return enabled(self.features, name)

    def begin(self, coroutine: Coroutine[Deferred[object], object, Found]) -> Deferred[Found]:
        """Runs the coroutine in slices of its own, not in those of the request that began it."""
        return Deferred.fromCoroutine(coroutine) if self.reactor is None else sliced.begin(self.reactor, coroutine)

    async def live(self, group: str, plural: str, name: str, namespace: str = "") -> Object | None:
        """An object from the cache, or from the store when the cache does not have it; None when there is none."""
        resource = self.resource(group, plural)
        found = resource.lister.get(namespace, name)
        if found is not None:
            return found
        if path_segment(name):
            return None  # no object can have this name
        try:
            return await resource.get(name, namespace)
        except status.NotFound:
            return None

    async def is_allowed(self, attributes: AuthorizationAttributes) -> bool:
        """Whether the authorizer allows a request; without an authorizer none is allowed."""
        return (await self.authorize(attributes)).decision is Decision.ALLOW

    async def authorize(self, attributes: AuthorizationAttributes) -> Verdict:
        """The authorizer's decision, with its reason."""
        if self.authorizer is None:
            return Verdict(Decision.NO_OPINION)
        return await decided(self.authorizer, attributes)


class InitializedPlugin(Plugin):
    """A plugin that is made with the initializer alone, and uses it."""

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer
