"""Keeps APIServices registered, watches whether their servers can be asked, and asks those for their resources.

Upstream: kube-aggregator ``autoregister``, ``crdregistration``, ``status/remote`` and ``handler_discovery.go``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import PrivateCertificate
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers

from kapi.aggregator import availability, registration
from kapi.aggregator.availability import PASSED, SERVICE_LABEL, Target, Verdict
from kapi.aggregator.backend import Backend, Backends
from kapi.aggregator.groups import from_legacy
from kapi.aggregator.registration import service_name
from kapi.client.interface import Client
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersion
from kapi.request.user import LOOPBACK_USER

Object = dict[str, Any]
GROUP = "apiregistration.k8s.io"
RESYNC = 30.0  # seconds between two looks at every server
PROBE_TIMEOUT = 5.0  # seconds
MAX_DISCOVERY = 16 * 1024 * 1024  # bytes of a discovery or OpenAPI document


class APIServiceController:
    """``built_in`` gives the built-in group versions, ``custom`` those of custom resources, ``is_custom`` says whether
    one is of these; all as of now.  ``service_changed`` is told of every APIService's event, ``remote_changed`` of the
    group version whose resources at another server changed; these are kept in ``remote``, in the form of aggregated
    discovery.
    """

    log = Logger()

    def __init__(
        self,
        client: Client,
        reactor: Any,
        backends: Backends,
        *,
        built_in: Callable[[], Iterable[GroupVersion]],
        custom: Callable[[], Iterable[GroupVersion]],
        is_custom: Callable[[GroupVersion], bool],
        service_changed: Callable[[str, Object], None],
        remote_changed: Callable[[GroupVersion], None],
        now: Callable[[], str],
        identity: PrivateCertificate | None = None,
        remote: dict[GroupVersion, list[Object]] | None = None,
        openapi: dict[str, tuple[str, bytes]] | None = None,
    ) -> None:
        self._remote = remote if remote is not None else {}
        self._openapi = openapi if openapi is not None else {}
        self._services = client.resource(GROUP, "apiservices")
        self._client = client
        self._reactor: IReactorTime = reactor
        self._backends = backends
        self._built_in = built_in
        self._custom = custom
        self._is_custom = is_custom
        self._service_changed = service_changed
        self._remote_changed = remote_changed
        self._now = now
        self._identity = identity
        self._agent = Agent.usingEndpointFactory(reactor, backends, HTTPConnectionPool(reactor, persistent=False))
        self._stops: list[Callable[[], None]] = []
        self._waiting: dict[str | GroupVersion, None] = {}  # names to look at, group versions to register or not
        self._running: Deferred[None] | None = None
        self._resync = LoopingCall(self._look_at_all)
        self._resync.clock = reactor
        self._stopped = False
        self.registered = False

    # -- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Done when everything served here has its APIService."""
        self._stops.append(self._services.watch(self._on_service))
        await self._register_all()
        self.registered = True
        self._stops.append(self._client.resource("", "services").watch(self._on_dependency))
        self._stops.append(self._client.resource("discovery.k8s.io", "endpointslices").watch(self._on_slice))
        self._resync.start(RESYNC, now=False)

    def stop(self) -> None:
        self._stopped = True
        for stop in self._stops:
            stop()
        if self._resync.running:
            self._resync.stop()
        if self._running is not None:
            self._running.cancel()

    def custom_changed(self, gv: GroupVersion) -> None:
        """A custom resource of a group version came or went: its APIService follows."""
        if self.registered:
            self._enqueue(gv)

    # -- registration -------------------------------------------------------------------------------------------

    async def _register_all(self) -> None:
        wanted = [registration.built_in(gv) for gv in self._built_in() if gv.group != GROUP]
        wanted += [registration.custom(gv) for gv in self._custom()]
        by_name = {obj["metadata"]["name"]: obj for obj in wanted}
        existing = {obj["metadata"]["name"]: obj for obj in self._services.lister.list()}
        for name in [*by_name, *(name for name in existing if name not in by_name)]:
            await self._write(registration.decide(by_name.get(name), existing.get(name), starting=True))

    async def _register(self, gv: GroupVersion) -> None:
        wanted = registration.custom(gv) if self._is_custom(gv) else None
        found = self._services.lister.get("", service_name(gv))
        await self._write(registration.decide(wanted, found, starting=False))

    async def _write(self, change: registration.Change | None) -> None:
        if change is None:
            return
        obj = change.service
        if change.verb == "create":
            await self._tolerate(self._services.create(obj), status.AlreadyExists)
        elif change.verb == "update":
            await self._tolerate(self._services.update(obj), status.Conflict, status.NotFound)
        else:
            options = {"preconditions": {"uid": obj["metadata"]["uid"]}}
            deletion = self._services.delete(obj["metadata"]["name"], options=options)
            await self._tolerate(deletion, status.Conflict, status.NotFound)

    async def _tolerate(self, action: Any, *errors: type[status.StatusError]) -> None:
        try:
            await action
        except errors as error:
            self.log.info("apiservice: {message}", message=error.message)

    # -- events -------------------------------------------------------------------------------------------------

    def _on_service(self, kind: str, obj: Object, old: Object | None) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        gv = GroupVersion(spec.get("group", ""), spec.get("version", ""))
        if kind == "DELETED":
            self._backends.remove(name)
            self._remote.pop(gv, None)
            self._openapi.pop(f"apis/{gv}", None)
        self._service_changed(kind, obj)
        self.custom_changed(gv)  # it may be one that is always kept
        if kind == "DELETED":
            return
        if old is None or old["spec"] != spec or obj.get("status") != old.get("status"):
            self._enqueue(name)

    def _on_dependency(self, kind: str, obj: Object, old: Object | None) -> None:
        self._touch(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])

    def _on_slice(self, kind: str, obj: Object, old: Object | None) -> None:
        name = (obj["metadata"].get("labels") or {}).get(SERVICE_LABEL)
        if name:
            self._touch(obj["metadata"].get("namespace", ""), name)

    def _touch(self, namespace: str, name: str) -> None:
        for service in self._services.lister.list():
            reference = service["spec"].get("service")
            if reference is not None and reference["namespace"] == namespace and reference["name"] == name:
                self._enqueue(service["metadata"]["name"])

    def _look_at_all(self) -> None:
        for service in self._services.lister.list():
            if service["spec"].get("service") is not None:
                self._enqueue(service["metadata"]["name"])

    def _enqueue(self, what: str | GroupVersion) -> None:
        self._waiting[what] = None
        if self._running is None and not self._stopped:
            self._running = Deferred.fromCoroutine(self._work())
            self._running.addErrback(self._broken)

    def _broken(self, failure: Any) -> None:
        self._running = None
        if not failure.check(CancelledError):
            self.log.failure("apiservice controller", failure)

    async def _work(self) -> None:
        await _next_turn(self._reactor)  # never inside the watch that told us
        while self._waiting and not self._stopped:
            what = next(iter(self._waiting))
            del self._waiting[what]
            try:
                if isinstance(what, GroupVersion):
                    await self._register(what)
                else:
                    await self._sync(what)
            except status.StatusError as error:
                self.log.info("apiservice {name}: {message}", name=str(what), message=error.message)
        self._running = None

    # -- availability -------------------------------------------------------------------------------------------

    async def _sync(self, name: str) -> None:
        service = self._services.lister.get("", name)
        if service is None:
            return
        verdict = PASSED
        reference = service["spec"].get("service")
        if reference is not None:
            verdict = await self._judge(service, reference)
        new = availability.updated_status(service, verdict, self._now())
        if new is not None:
            await self._tolerate(self._services.update(new, subresource="status"), status.Conflict, status.NotFound)

    async def _judge(self, service: Object, reference: Object) -> Verdict:
        name = service["metadata"]["name"]
        namespace = reference["namespace"]
        found = self._client.resource("", "services").lister.get(namespace, reference["name"])
        slices = [
            item
            for item in self._client.resource("discovery.k8s.io", "endpointslices").lister.list(namespace)
            if (item["metadata"].get("labels") or {}).get(SERVICE_LABEL) == reference["name"]
        ]
        verdict = availability.judge(reference, found, slices)
        target = availability.resolve(reference, found, slices)
        if verdict is not None or target is None:
            self._backends.remove(name)
            return verdict or Verdict("False", "MissingEndpoints", "no address to send requests to")
        try:
            self._backends.set(name, Backend(target, service["spec"], self._identity))
        except ValueError as error:
            return Verdict("False", "FailedDiscoveryCheck", str(error))
        return await self._probe(service, target)

    async def _probe(self, service: Object, target: Target) -> Verdict:
        """Asks the server for its resources, which is its proof of life."""
        gv = GroupVersion(service["spec"]["group"], service["spec"]["version"])
        path = f"/apis/{gv}"
        where = f"https://{target.host}:{target.port}{path}"
        headers = Headers({"Accept": ["application/json"], "X-Remote-User": [LOOPBACK_USER.name]})
        for group in LOOPBACK_USER.groups:
            headers.addRawHeader("X-Remote-Group", group)
        uri = b"https://" + service_name(gv).encode() + path.encode()
        try:
            code, body = await self._ask(uri, headers)
        except CancelledError:
            raise
        except Exception as error:  # whatever the network does
            text = f"failing or missing response from {where}: {error}"
            return Verdict("False", "FailedDiscoveryCheck", text)
        if not 200 <= code < 300:
            text = f"failing or missing response from {where}: bad status from {where}: {code}"
            return Verdict("False", "FailedDiscoveryCheck", text)
        try:
            resources = from_legacy(orjson.loads(body))
        except (ValueError, AttributeError):
            resources = []
        if self._remote.get(gv) != resources:
            self._remote[gv] = resources
            self._remote_changed(gv)
        await self._fetch_openapi(gv, headers)
        return PASSED

    async def _fetch_openapi(self, gv: GroupVersion, headers: Headers) -> None:
        """The server's OpenAPI v3 document of the group version, when it has a new one; none is no fault."""
        base, key = b"https://" + service_name(gv).encode(), f"apis/{gv}"
        try:
            code, body = await self._ask(base + b"/openapi/v3", headers)
            url = orjson.loads(body)["paths"][key]["serverRelativeURL"] if code == 200 else ""
            digest = url.partition("hash=")[2]
            if not url.startswith("/") or (digest and self._openapi.get(key, ("",))[0] == digest):
                return
            code, body = await self._ask(base + url.encode(), headers)
            orjson.loads(body)
        except CancelledError:
            raise
        except Exception:  # whatever the network and the server do
            return
        if code == 200:
            self._openapi[key] = (digest or hashlib.sha512(body).hexdigest().upper(), body)

    async def _ask(self, uri: bytes, headers: Headers) -> tuple[int, bytes]:
        """Status and body of a GET, within the time for a probe.  Raises whatever goes wrong."""
        request: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._fetch(uri, headers))
        request.addTimeout(PROBE_TIMEOUT, self._reactor)
        return await request

    async def _fetch(self, uri: bytes, headers: Headers) -> tuple[int, bytes]:
        answer: Any = await self._agent.request(b"GET", uri, headers)
        done: Deferred[bytes] = Deferred()
        answer.deliverBody(_Bounded(done))
        body = await done
        return answer.code, body


def _next_turn(reactor: IReactorTime) -> Deferred[None]:
    waiting: Deferred[None] = Deferred()
    reactor.callLater(0, waiting.callback, None)
    return waiting


class _Bounded(Protocol):
    """The body of an answer, unless it is too long."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done = done
        self._body = bytearray()

    def dataReceived(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > MAX_DISCOVERY and not self._done.called:
            self._done.errback(ValueError("the answer is too long"))
            assert self.transport is not None
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._done.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self._done.callback(bytes(self._body))
        else:
            self._done.errback(reason)
