"""kapi inside of another Twisted application: the whole server as a resource that any twisted.web Site mounts.

::

    api = kapi.resource("--data-dir=/var/lib/kapi", "--token-auth-file=tokens.csv")
    api.service.setServiceParent(application)
    StreamServerEndpointService(endpoint, Site(api)).setServiceParent(application)

The Site has sockets, TLS and their limits.  Authentication, authorization, admission, audit, flow control, watches and errors are
the same as in a server with its own process.  ``Additions`` are filters, hooks, routes and API groups of the program.
Upstream: embedding ``k8s.io/apiserver`` as a library.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from kapi.assembly.extension import Extension
from kapi.assembly.server import assemble
from kapi.endpoints.tunnel import wants_upgrade
from kapi.extensions import extension_for
from kapi.foundation import Foundation
from kapi.machinery import status
from kapi.observability.request_metrics import pending_families
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.process.reactor import Reactor, installed_reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Strategy, StrategyContext
from kapi.service import APIService
from kapi.serving.routing import Routes

__all__ = [
    "APIGroup",
    "APIGroupResource",
    "APIResource",
    "APIVersion",
    "Additions",
    "HookContext",
    "RequestContext",
    "Response",
    "Routes",
    "Strategy",
    "StrategyContext",
    "resource",
]
from kapi.servers.additions import Additions, APIGroup, APIGroupResource, APIVersion, HookContext
from kapi.serving.listen import default_address
from kapi.serving.mounted import MountedResource
from kapi.serving.run import RequestRunner

log = Logger()
_NOT_UPGRADED = (
    "the connection cannot be upgraded: this server is mounted in a Site, which does not hand connections over"
)


class APIResource(MountedResource):
    """The server as a resource.  ``service`` starts and stops it; before and after, every request is answered with 503."""

    def __init__(self, service: EmbeddedService) -> None:
        super().__init__(service.prepared.site.requestFactory)
        self.service = service


class EmbeddedService(APIService):
    """Starts and stops the server of an ``APIResource``, and answers its requests.  Raises ConfigError."""

    def __init__(
        self, options: Options, reactor: Reactor, extension: Extension | None, additions: Additions | None
    ) -> None:
        if options.processes.workers > 1:
            raise ConfigError("--workers: an embedded server is one process")
        foundation = Foundation(options, reactor)
        super().__init__(options, reactor, foundation, extension, additions)
        self.on_failure = self._log_failure
        self._serves = False
        self._is_ready = False
        self._error: Exception | None = None
        self._waiting: list[Deferred[None]] = []
        try:
            self._prepare()
        except BaseException:
            foundation.abandon()
            raise

    def _prepare(self) -> None:
        options = self.options
        port = options.serving.secure_port
        advertise = options.generic.advertise_address or default_address(options.serving.bind_address)
        files = self._make_files(["localhost", "kubernetes.default.svc", advertise])
        self.prepared = assemble(self._config(files, advertise, port), self._extension)
        chain = self.prepared.handler_chain(before=[self._gate], behind=[_refuse_upgrades])
        config = self.prepared.config
        runner = self.runner = RequestRunner(
            chain,
            self.reactor,
            gather=True,
            slices=config.slices,
            max_pending=options.generic.max_pending_bytes,
            compresses=options.generic.features["APIResponseCompression"],
        )
        self.prepared.site.run_by(runner)
        self.prepared.storage.caches.pending = runner.pending
        config.metrics.add(lambda: pending_families(runner.pending))

    def _gate(self, ctx: RequestContext) -> None:
        if not self._serves:
            raise status.ServiceUnavailable("the server is not running")

    def when_ready(self) -> Deferred[None]:
        """Fires when the start is complete; fails with the reason when the start has failed."""
        if self._is_ready:
            return succeed(None)
        ready: Deferred[None] = Deferred()
        if self._error is not None:
            ready.errback(self._error)
        else:
            self._waiting.append(ready)
        return ready

    def _open(self) -> None:
        self._serves = True

    def _ready(self) -> None:
        self._is_ready = True
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready.callback(None)

    def _log_failure(self, error: Exception) -> None:
        """Logs a failed start.  The application keeps running; the parts that were started end with the service."""
        log.error("The embedded API server could not be started: {error}", error=str(error))
        self._serves = False
        self._error = error
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready.errback(error)

    async def close_port(self) -> None:
        self._serves = False


def _refuse_upgrades(ctx: RequestContext) -> Response | None:
    """Refuses upgrades of exec, attach, port-forward, and watches over a WebSocket; an offer of ``h2c`` is ignored."""
    assert ctx.info is not None
    if ctx.info.long_running and wants_upgrade(ctx) and (ctx.header("upgrade") or "").lower() != "h2c":
        raise status.bad_request(_NOT_UPGRADED)
    return None


def resource(*flags: str, reactor: Reactor | None = None, additions: Additions | None = None) -> APIResource:
    """A server with these command-line flags (docs/flags), as a resource.

    Raises ``kapi.options.errors.ConfigError``, and ValueError for ``additions`` with a name that is taken.

    It answers as soon as its ``service`` runs.  ``--secure-port`` and ``--advertise-address`` are the address of the Site for
    clients; flags of the listening socket and of the serving certificate have no effect.
    """
    extension = extension_for(flags)
    options = Options.from_command_line(flags, extension)
    return APIResource(EmbeddedService(options, reactor or installed_reactor(), extension, additions))
