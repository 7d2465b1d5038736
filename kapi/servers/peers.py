"""Requests for resources that only other servers of the cluster serve are passed on to these (KEP-4020).

Servers on one store may differ in their release or in ``--runtime-config``, as during an upgrade.  Each knows the others by
their identity Leases and asks them for their discovery.  It adds the groups of the others to its own /apis, and passes on a
request for a resource that it does not serve itself, once, in the name of the request's user.  Group versions of
CustomResourceDefinitions and of aggregated servers are the same everywhere, so no server is asked for them: one that has not yet
seen a deletion would still answer.

Upstream: apiserver ``util/peerproxy``, ``pkg/controlplane/apiserver/peer.go``.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import NamedTuple

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.logger import Logger

from kapi.codecs import json_pieces
from kapi.endpoints.discovery.merging import merge_groups
from kapi.endpoints.proxy_handler import NotPassedOn, ProxyHandler
from kapi.machinery import status
from kapi.machinery.meters import counter
from kapi.machinery.server_id import IDENTITY_LABEL, KUBE_APISERVER
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import ALL_AUTHENTICATED, UserInfo
from kapi.runtime.interface import Client, EventHandler
from kapi.runtime.workqueue import WorkQueue
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import MAX_ANSWER_BYTES, Backend, BackendClient, Backends
from kapi.servers.aggregator.discovery import groups_of, is_aggregated
from kapi.servers.aggregator.proxy import destination, not_passed_on
from kapi.wire.tls.trust import Identity

NAME = "kubernetes.default.svc"  # in the certificate of every server
HEADER = "x-kubernetes-peer-proxied"  # of a request that was passed on, which is not passed on again
_USER = UserInfo("system:apiserver", "system:apiserver", (ALL_AUTHENTICATED,))
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer"
_UNREACHABLE = "Error getting ip and port info of the remote server while proxying"
DISCOVERY_SECONDS = 5.0  # for an answer of another server
GRACE_SECONDS = 300.0  # in which others learn that a CustomResourceDefinition or an APIService was deleted
_START_SECONDS = 5.0  # for which the start waits for the discovery of others
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.1, 60.0
_EXPIRY = ""  # the key of the queue for the end of a grace period

REROUTED = counter("apiserver_rerouted_request_total")
PROXY_ERRORS = counter("apiserver_peer_proxy_errors_total")
DISCOVERY_ERRORS = counter("apiserver_peer_discovery_sync_errors_total")
COLLECTORS = (REROUTED, PROXY_ERRORS, DISCOVERY_ERRORS)

#: group, version and resource
_Resource = tuple[str, str, str]
_GroupVersion = tuple[str, str]


class _Problem(Exception):
    """Why another server's discovery is not known; ``kind`` is for the metric."""

    def __init__(self, text: str, kind: str = "fetch_discovery") -> None:
        super().__init__(text)
        self.kind = kind


class _Known(NamedTuple):
    """The discovery of another server; ``groups`` are those of /apis."""

    resources: frozenset[_Resource]
    groups: list[Object]

    def has(self, versions: Iterable[_GroupVersion]) -> bool:
        """Whether it serves one of these group versions."""
        return not {resource[:2] for resource in self.resources}.isdisjoint(versions)


class Excluded:
    """The group versions for which no other server is asked: those of single objects, and for a while those of deleted ones."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._of: dict[tuple[str, str], frozenset[_GroupVersion]] = {}  # plural and name of an object
        self._present: Counter[_GroupVersion] = Counter()
        self._deleted: dict[_GroupVersion, float] = {}

    def __contains__(self, version: _GroupVersion) -> bool:
        return version in self._present or version in self._deleted

    def set(self, plural: str, name: str, versions: Iterable[_GroupVersion] = ()) -> frozenset[_GroupVersion]:
        """Replaces those of an object; returns the ones that were added or removed."""
        before, after = self._of.pop((plural, name), frozenset()), frozenset(versions)
        if after:
            self._of[plural, name] = after
        self._present.update(after - before)
        for version in before - after:
            self._present[version] -= 1
            if not self._present[version]:
                del self._present[version]
                self._deleted[version] = self._seconds()
        return before ^ after

    def expire(self) -> float | None:
        """Forgets what was deleted long ago; returns the seconds until there is more to forget."""
        latest = self._seconds() - GRACE_SECONDS
        self._deleted = {version: since for version, since in self._deleted.items() if since > latest}
        return min(self._deleted.values()) - latest if self._deleted else None


class Peers:
    """``server`` is this server's id, ``addresses()`` has those of living servers by their ids, each a host and port.

    ``serves(group, version, resource, subresource)``: whether this server serves a resource.  ``changed`` is called when
    ``merge`` would return something else.  ``identity`` and ``authorities`` return the client certificate for other servers and
    the PEM of the CAs of their certificates.
    """

    name = "mixed-version-proxy-handler"
    #: upstream's hooks whose work this one does
    steps = ("local-discovery-cache-sync", "peer-discovery-workers")
    log = Logger()

    def __init__(
        self,
        client: Client,
        reactor: Reactor,
        *,
        server: str,
        addresses: Callable[[], Mapping[str, Sequence[str]]],
        serves: Callable[[str, str, str, str], bool],
        backends: Backends,
        identity: Callable[[], Identity | None],
        authorities: Callable[[], bytes],
        changed: Callable[[], None] = lambda: None,
        backend_client: BackendClient | None = None,
    ) -> None:
        self._client = client
        self._reactor = reactor
        self._server = server
        self._addresses = addresses
        self._serves = serves
        self._backends = backends
        self._identity = identity
        self._authorities = authorities
        self.changed = changed
        self._backend_client = backend_client or BackendClient(reactor, backends, _USER)
        self._handler = ProxyHandler(reactor)
        self._made: dict[str, object] = {}  # what the backend of a server was made of
        self._holders: dict[str, str] = {}  # the process behind the identity of another server
        self._known: dict[str, _Known] = {}
        self._failures: dict[str, int] = {}  # in a row
        self._untried: set[str] = set()  # those for which the start waits
        self._all_tried: Deferred[None] = Deferred()
        self._excluded = Excluded(reactor.seconds)
        #: resources that only others serve, with their ids; None until the next request
        self._elsewhere: dict[_Resource, list[str]] | None = {}
        self._queue: WorkQueue[str] = WorkQueue(reactor, "peer-discovery-cache-sync", self._sync, 2)
        self._stops: list[Callable[[], None]] = []

    async def start(self) -> None:
        """Returns when each other server was asked once, or after seconds."""
        for group, plural, versions in (
            ("apiextensions.k8s.io", "customresourcedefinitions", _defined),
            ("apiregistration.k8s.io", "apiservices", _aggregated),
        ):
            if self._client.has(group, plural):
                self._stops.append(self._client.resource(group, plural).watch(self._excluder(plural, versions)))
        leases = self._client.resource("coordination.k8s.io", "leases")
        for lease in leases.lister.list("kube-system"):
            self._on_lease("ADDED", lease, None)
        self._untried = set(self._holders)
        self._stops.append(leases.watch(self._on_lease, namespace="kube-system"))
        if self._untried:
            try:
                await self._all_tried.addTimeout(_START_SECONDS, self._reactor)
            except TimeoutError:
                self._untried.clear()  # they are asked all the same

    def stop(self) -> Awaitable[None]:
        for stop in self._stops:
            stop()
        self._queue.stop()
        return self._backends.close().addCallback(lambda _: None)

    # -- what others serve

    def _excluder(self, plural: str, versions: Callable[[Object], Iterable[_GroupVersion]]) -> EventHandler:
        def on_event(kind: str, obj: Object, old: Object | None) -> None:
            found = () if kind == "DELETED" else versions(obj)
            changed = self._excluded.set(plural, obj["metadata"]["name"], found)
            if changed and not changed.issubset(found):
                self._queue.add_after(_EXPIRY, GRACE_SECONDS)
            if changed and any(known.has(changed) for known in self._known.values()):
                self._refresh()

        return on_event

    def _on_lease(self, kind: str, lease: Object, old: Object | None) -> None:
        metadata, holder = lease["metadata"], (lease.get("spec") or {}).get("holderIdentity")
        name = metadata["name"]
        if kind == "DELETED" or not holder or (metadata.get("labels") or {}).get(IDENTITY_LABEL) != KUBE_APISERVER:
            if self._holders.pop(name, None) is not None:
                self._forget(name)
        elif name != self._server and self._holders.get(name) != holder:
            self._holders[name] = holder
            self._queue.add(name)

    def _forget(self, name: str) -> None:
        self._backends.remove(name)
        self._made.pop(name, None)
        self._failures.pop(name, None)
        if self._known.pop(name, None) is not None:
            self._refresh()

    def _refresh(self) -> None:
        self._elsewhere = None
        self.changed()

    async def _sync(self, name: str) -> float | None:
        """Asks another server for its discovery; again later when it does not answer."""
        if name == _EXPIRY:
            again = self._excluded.expire()
            self._refresh()
            return again
        holder = self._holders.get(name)
        try:
            if holder is None:
                return None
            known = await self._discovery(name)
        except CancelledError:
            raise
        except Exception as error:  # any network error or invalid document
            DISCOVERY_ERRORS.add(getattr(error, "kind", "fetch_discovery"))
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            if failures == 1:
                self.log.info("the discovery of the server {name} is not known: {error}", name=name, error=error)
            return float(min(_MAX_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures, 20)))
        finally:
            if name in self._untried:
                self._untried.discard(name)
                if not self._untried:
                    self._all_tried.callback(None)
        self._failures.pop(name, None)
        if self._holders.get(name) == holder:
            self._known[name] = known
            self._refresh()
        return None  # for another process behind the name it runs again

    async def _discovery(self, name: str) -> _Known:
        """Raises _Problem, errors of the network, and any error for an invalid document."""
        if self._backend(name) is None:
            raise _Problem("its address is not known", "hostport_resolution")
        documents = [await self._groups(name, path) for path in ("/api", "/apis")]
        resources = frozenset(
            (group["metadata"].get("name", ""), version["version"], resource["resource"])
            for groups in documents
            for group in groups
            for version in group["versions"]
            for resource in version.get("resources", ())
        )
        return _Known(resources, documents[1])

    async def _groups(self, name: str, path: str) -> list[Object]:
        answer = await self._backend_client.ask(name, path, DISCOVERY_SECONDS, MAX_ANSWER_BYTES, _ACCEPT)
        REROUTED.add(str(answer.code), "", "", "")
        if answer.code != 200 or not is_aggregated(answer.content_type):
            raise _Problem(f"discovery request failed with status: {answer.code}")
        return groups_of(json_pieces.loads(answer.body))

    def _backend(self, name: str) -> Backend | None:
        """Another server, None while its address is not known.  Raises ValueError for certificates that cannot be used."""
        targets = [target for address in self._addresses().get(name, ()) for target in _targets(address)]
        if not targets:
            return None
        identity, bundle = self._identity(), self._authorities()
        wanted = targets, identity, bundle
        if self._made.get(name) != wanted:
            spec = {"caBundle": base64.b64encode(bundle).decode()}
            self._backends.set(name, targets, spec, identity)
            self._made[name] = wanted
        return self._backends.get(name)

    def _allowed(self, groups: list[Object]) -> list[Object]:
        found = []
        for group in groups:
            name = group["metadata"].get("name", "")
            versions = [each for each in group["versions"] if (name, each["version"]) not in self._excluded]
            if versions:
                found.append({**group, "versions": versions})
        return found

    def merge(self, own: list[Object]) -> Sequence[Object]:
        """The groups of this server, and those of others."""
        lists = {name: self._allowed(known.groups) for name, known in self._known.items()}
        return merge_groups({**lists, self._server: own}, self._server)

    # -- requests

    def filter(self, ctx: RequestContext) -> Coroutine[Deferred[object], object, Response] | None:
        """Passes on a request for a resource that only other servers serve.  Raises ServiceUnavailable when they have left."""
        elsewhere = self._elsewhere
        if elsewhere is None:
            elsewhere = self._elsewhere = self._find()
        if not elsewhere:
            return None
        info = ctx.info
        assert info is not None
        names = elsewhere.get((info.group, info.version, info.resource))
        if names is None or ctx.header(HEADER) == "true" or self._serves(info.group, info.version, info.resource, ""):
            return None
        backends = [(name, backend) for name in names if (backend := self._backend(name)) is not None]
        if not backends:
            PROXY_ERRORS.add("endpoint_resolution", info.group, info.version, info.resource)
            raise status.service_unavailable(_UNREACHABLE)
        return self._pass_on(ctx, *random.choice(backends))

    def _find(self) -> dict[_Resource, list[str]]:
        found: dict[_Resource, list[str]] = {}
        for name, known in self._known.items():
            for resource in known.resources:
                if resource[:2] not in self._excluded and not self._serves(*resource, ""):
                    found.setdefault(resource, []).append(name)
        return found

    async def _pass_on(self, ctx: RequestContext, name: str, backend: Backend) -> Response:
        info, user = ctx.info, ctx.user
        assert info is not None and user is not None
        labels = info.group, info.version, info.resource
        ctx.finishers.append(lambda ctx, code: REROUTED.add(str(code), *labels))
        try:
            return await self._handler.handle(ctx, destination(ctx, backend, user, (HEADER.encode(), b"true")))
        except NotPassedOn as problem:
            if problem.is_backends_fault:
                self._backends.forget(name)
            return not_passed_on(problem)


def _defined(definition: Object) -> list[_GroupVersion]:
    spec = definition["spec"]
    return [(spec["group"], version["name"]) for version in spec["versions"]]


def _aggregated(service: Object) -> list[_GroupVersion]:
    spec = service["spec"]
    return [(spec.get("group", ""), spec.get("version", ""))] if spec.get("service") else []


def _targets(address: str) -> list[Target]:
    """A host and port as a target; none when it is of another form."""
    host, _, port = address.rpartition(":")
    return [Target(host.strip("[]"), int(port), NAME)] if host and port.isdecimal() else []
