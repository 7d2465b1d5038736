"""The stages Config and Complete: the parts of a server that do not depend on each other.

Upstream: cmd/kube-apiserver ``app/config.go`` (NewConfig, Complete) and ``pkg/controlplane/apiserver/config.go``
(BuildGenericConfig).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted.logger import Logger

from kapi.admission.metrics import Meter as AdmissionMeter
from kapi.assembly.metrics import build_metrics
from kapi.audit.metrics import Meter as AuditMeter
from kapi.authorization.build import Authorization, AuthorizationSettings, build_authorization
from kapi.console.pages import PATHS as CONSOLE_PATHS
from kapi.filters.metrics import IdentityMeter
from kapi.filters.shutdown import RequestWaitGroup
from kapi.machinery.gvk import GroupResource
from kapi.observability.metrics import Metrics
from kapi.observability.tracing import Tracing, build_tracing
from kapi.options.errors import ConfigError
from kapi.options.external import ExternalPolicy
from kapi.options.options import Options
from kapi.process.reactor import Reactor
from kapi.process.slices import Slices
from kapi.process.turn import Turn
from kapi.runtime.sliced import run_by
from kapi.servers.additions import NOTHING, Additions
from kapi.serving.pki import Files
from kapi.store.interface import Store
from kapi.store.redis_store import RedisStore
from kapi.wire.egress import DIRECT, Egress

if TYPE_CHECKING:
    from kapi.audit.build import Auditor

log = Logger()
_MAX_NAMED = 5  # resources in the description of a store


class Reloaders:
    """Functions that read files again, called periodically and on SIGHUP."""

    def __init__(self) -> None:
        self._all: list[Callable[[], object]] = []

    def add(self, reload: Callable[[], object]) -> None:
        self._all.append(reload)

    def run(self) -> None:
        for reload in self._all:
            try:
                reload()
            except Exception:  # an error of one file must not keep the others from being read
                log.failure("reading files again failed")


class LifecycleSignals:
    """The state of the shutdown, and the running requests and watches (upstream: ``server/lifecycle_signals.go``)."""

    def __init__(self) -> None:
        self.stopping = False  # the server is not ready any more
        self.refusing = False  # no new requests are accepted
        self.requests = RequestWaitGroup()
        self.watches = RequestWaitGroup()


#: called with the number of memory blocks that only a garbage collection frees
ExpectGarbage = Callable[[int], None]


def ignore_garbage(blocks: int) -> None:
    """For processes whose garbage collector kapi does not control."""


@dataclass(frozen=True, slots=True)
class Config:
    """The input: flags, stores, and the address of the server."""

    options: Options
    reactor: Reactor
    files: Files
    store: RedisStore
    advertise: str  # the advertised address
    port: int
    overrides: Mapping[GroupResource, RedisStore] = field(
        default_factory=dict
    )  # the stores of resources that are not in ``store``
    additions: Additions = NOTHING
    egress: Egress = DIRECT
    expect_garbage: ExpectGarbage = ignore_garbage

    @property
    def stores(self) -> Sequence[RedisStore]:
        """Each store once, the main one first; the position of a store is its number in metrics and health checks."""
        return (self.store, *dict.fromkeys(self.overrides.values()))

    def kept_by(self, store: Store) -> str:
        """The names of the resources in a store other than the main one, shortened."""
        names = sorted(str(resource) for resource, keeper in self.overrides.items() if keeper is store)
        return ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED} more" if names[_MAX_NAMED:] else "")

    def complete(self) -> CompletedConfig:
        """Adds the parts that all later stages use.  Raises ConfigError."""
        options, reactor = self.options, self.reactor
        metrics = build_metrics(options)
        if self.egress.meter is not None:
            self.egress.meter.register(metrics.registry)
        slices = Slices(reactor)
        run_by(reactor, slices.call)
        for store in self.stores:
            store.call = slices.call
            store.observe(_observe_store(metrics))
        reloaders = Reloaders()
        return CompletedConfig(
            given=self,
            metrics=metrics,
            identity_meter=IdentityMeter(metrics.registry),
            admission_meter=AdmissionMeter(metrics.registry),
            slices=slices,
            reloaders=reloaders,
            signals=LifecycleSignals(),
            authorization=_authorization(self, metrics, slices, reloaders),
            auditor=_auditor(self, metrics),
            tracing=build_tracing(options, reactor),
        )


@dataclass(frozen=True, slots=True)
class CompletedConfig:
    """The parts that all later stages use."""

    given: Config
    metrics: Metrics
    identity_meter: IdentityMeter
    admission_meter: AdmissionMeter
    slices: Slices
    reloaders: Reloaders
    signals: LifecycleSignals
    authorization: Authorization
    auditor: Auditor | None
    tracing: Tracing | None

    @property
    def options(self) -> Options:
        return self.given.options

    @property
    def turn(self) -> Turn:
        return self.slices.turn

    @property
    def reactor(self) -> Reactor:
        return self.given.reactor

    def external_address(self) -> str:
        """Host and port for clients."""
        return f"{self.options.generic.external_hostname or self.given.advertise}:{self.given.port}"


def _observe_store(metrics: Metrics) -> Callable[[str, str, float], None]:
    observe = metrics.store.observe

    def on_request(operation: str, key: str, seconds: float) -> None:
        group, resource, _ = key.split("/", 2)
        observe(seconds, operation, "" if group == "core" else group, resource)

    return on_request


def _authorization(given: Config, metrics: Metrics, slices: Slices, reloaders: Reloaders) -> Authorization:
    options = given.options
    external = ExternalPolicy(options.authorization, given.reactor, metrics.registry, given.egress)
    public = CONSOLE_PATHS if options.features.enable_console else ()
    try:
        built = build_authorization(
            AuthorizationSettings(external.modes, external.others, external.meter, public, options.generic.gates)
        )
    except ValueError as error:
        raise ConfigError(f"--authorization-mode: {error}") from None
    built.index.call = slices.call
    reloaders.add(lambda: external.reload(built.replace))
    return built


def _auditor(given: Config, metrics: Metrics) -> Auditor | None:
    options = given.options
    meter = AuditMeter(metrics.registry)
    if not options.audit.audit_policy_file:
        return None
    from kapi.audit.build import build  # imported only when it is used

    try:
        return build(options.audit, given.reactor, meter, given.egress)
    except (OSError, ValueError) as error:
        raise ConfigError(f"audit: {error}") from None
