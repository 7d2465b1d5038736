"""Probes the servers behind APIServices, and sets ``Available`` (upstream: kube-aggregator ``status/remote``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery import status
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.apiregistration import available_condition, is_available
from kapi.runtime.interface import Client
from kapi.runtime.workqueue import WorkQueue
from kapi.servers.aggregator import availability
from kapi.servers.aggregator.availability import PASSED, SERVICE_LABEL, UNREACHABLE, Verdict
from kapi.servers.aggregator.backend import MAX_DISCOVERY_BYTES, Backend, BackendClient, Backends
from kapi.wire.tls.trust import Identity

WORKERS = 5  # concurrent probes; a silent server blocks one for PROBE_TIMEOUT_SECONDS
RESYNC_SECONDS = 30.0  # between two probes of a server
#: delay before a failed server is probed again, growing from the first to the second value.  Upstream begins with 5 ms and ends
#: with 30 s; a server whose probe takes longer than the second value gets up to RESYNC_SECONDS here as well.
_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.05, 0.8
PROBE_TIMEOUT_SECONDS = 5.0


class AvailabilityController:
    """``passed`` is called after each successful probe.

    ``now`` returns the time for conditions, ``identity`` the current client certificate; ``spread``: requests go to all ready
    endpoints instead of the first one.
    """

    log = Logger()

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        backends: Backends,
        backend_client: BackendClient,
        *,
        passed: Callable[[str, GroupVersion], None],
        now: Callable[[], str],
        identity: Callable[[], Identity | None] = lambda: None,
        spread: bool = False,
    ) -> None:
        self._spread = spread
        self._services = client.resource("apiregistration.k8s.io", "apiservices")
        self._client = client
        self._backends = backends
        self._backend_client = backend_client
        self._passed = passed
        self._now = now
        self._identity = identity
        self._reactor = reactor
        self._failures: dict[str, int] = {}  # failures in a row
        self._queue: WorkQueue[str] = WorkQueue(reactor, "apiservice availability", self._sync, WORKERS)

    def failed(self, name: str) -> None:
        """Call it when a proxied request did not reach the server: it is probed at once if it counts as available."""
        service = self._services.lister.get("", name)
        found = available_condition(service) if service is not None else None
        if found is not None and found.get("status") == "True":
            self._queue.add(name)

    def enqueue(self, name: str) -> None:
        self._queue.add(name)

    def stop(self) -> None:
        self._queue.stop()

    async def _sync(self, name: str) -> float | None:
        service = self._services.lister.get("", name)
        if service is None:
            self._backends.remove(name)
            self._failures.pop(name, None)
            return None
        begin = self._reactor.seconds()
        verdict = PASSED
        reference = service["spec"].get("service")
        if reference is None:
            self._backends.remove(name)
        else:
            verdict = await self._check(service, reference)
        longest = _MAX_DELAY_SECONDS if self._reactor.seconds() - begin < _MAX_DELAY_SECONDS else RESYNC_SECONDS
        await self._write(name, verdict)
        return None if reference is None else self._again(name, verdict, longest)

    def _again(self, name: str, verdict: Verdict, longest: float) -> float:
        """Seconds until the next probe; changes of objects come as events."""
        if verdict.reason != UNREACHABLE:
            self._failures.pop(name, None)
            return RESYNC_SECONDS
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        return float(min(longest, _FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 20)))

    async def _write(self, name: str, verdict: Verdict) -> None:
        """Stores the condition; the APIService may have changed during the probe."""
        service = self._services.lister.get("", name)
        new = None if service is None else availability.updated_status(service, verdict, self._now())
        if new is None:
            return
        try:
            await self._services.update(new, subresource="status")
        except status.NotFound as error:
            self.log.info("apiservice: {message}", message=error.message)
            return
        assert service is not None
        if is_available(service) and not is_available(new):
            availability.LOSSES.add(name, verdict.reason)

    async def _check(self, service: Object, reference: Object) -> Verdict:
        name, namespace = service["metadata"]["name"], reference["namespace"]
        found = self._client.resource("", "services").lister.get(namespace, reference["name"])
        slices = [
            item
            for item in self._client.resource("discovery.k8s.io", "endpointslices").lister.list(namespace)
            if (item["metadata"].get("labels") or {}).get(SERVICE_LABEL) == reference["name"]
        ]
        verdict = availability.check(reference, found, slices)
        targets = availability.resolve(reference, found, slices)
        if verdict is not None or not targets:
            self._backends.remove(name)
            return verdict or Verdict("False", "MissingEndpoints", "no address to send requests to")
        try:
            used = targets if self._spread else targets[:1]
            backend = self._backends.set(name, used, service["spec"], self._identity())
        except ValueError as error:
            return Verdict("False", UNREACHABLE, str(error))
        return await self._probe(service, backend)

    async def _probe(self, service: Object, backend: Backend) -> Verdict:
        """Asks the server for its resources: it is available when it answers."""
        name, gv = service["metadata"]["name"], GroupVersion(service["spec"]["group"], service["spec"]["version"])
        path = f"/apis/{gv}" if gv.group else f"/api/{gv}"
        first = backend.targets[0]
        # with several targets the message names no address
        host = first.host if len(backend.targets) == 1 else first.name
        where = f"https://{host}:{first.port}{path}"
        try:
            answer = await self._backend_client.ask(name, path, PROBE_TIMEOUT_SECONDS, MAX_DISCOVERY_BYTES, accept="")
        except CancelledError:
            raise
        except Exception as error:  # any network error
            return Verdict("False", UNREACHABLE, f"failing or missing response from {where}: {error}")
        if not 200 <= answer.code < 300:
            text = f"failing or missing response from {where}: bad status from {where}: {answer.code}"
            return Verdict("False", UNREACHABLE, text)
        if self._services.lister.get("", name) is not None:
            self._passed(name, gv)
        return PASSED
