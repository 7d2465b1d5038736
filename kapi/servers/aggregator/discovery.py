"""The resources of the servers behind APIServices, for discovery (upstream: kube-aggregator ``handler_discovery.go``).

A server is asked for its aggregated document; if it has none, for the resources of each group version.  While it does
not answer, its group versions are stale and without resources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.codecs import json_pieces
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object, Tree
from kapi.resources.apiregistration import available_condition
from kapi.resources.definition import Lister
from kapi.runtime.workqueue import WorkQueue
from kapi.servers.aggregator.availability import UNREACHABLE
from kapi.servers.aggregator.backend import MAX_DISCOVERY_BYTES, BackendClient
from kapi.servers.aggregator.groups import from_legacy

WORKERS = 5  # concurrent requests; a silent server blocks one for TIMEOUT_SECONDS
TIMEOUT_SECONDS = 5.0
REFRESH_SECONDS = 60.0  # between two requests for the document of a server
_FIRST_DELAY_SECONDS = 0.5  # after a failure; doubles up to REFRESH_SECONDS
_VERSIONS = ("v2", "v2beta1")
_KIND = "APIGroupDiscoveryList"
_ACCEPT = ",".join(f"application/json;g=apidiscovery.k8s.io;v={version};as={_KIND}" for version in _VERSIONS)
_NO_KIND: Object = {"group": "", "version": "", "kind": ""}
#: the resources of a server by their group version, in the form of aggregated discovery
Resources = dict[GroupVersion, list[Object]]
#: namespace, name and port of a Service
_Reference = tuple[str, str, int]


class _Away(Exception):
    """The server cannot be asked now, or has no such document."""


class _Known(NamedTuple):
    """The document of a server; ``since`` is when it was asked for, in reactor seconds."""

    resources: Resources
    etag: str
    since: float


class RemoteDiscovery:
    """``changed`` is called with the resources of a group version; with None while they are not known.

    ``services`` has all APIServices.
    """

    log = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        backend_client: BackendClient,
        services: Callable[[], Lister],
        changed: Callable[[GroupVersion, list[Object] | None], None],
    ) -> None:
        self._reactor = reactor
        self._backend_client = backend_client
        self._services = services
        self._changed = changed
        self._known: dict[_Reference, _Known] = {}
        self._wanted: dict[str, float] = {}  # APIService -> the time since when its document may have changed
        self._failures: dict[str, int] = {}  # failures in a row
        self._queue: WorkQueue[str] = WorkQueue(reactor, "apiservice discovery", self._sync, WORKERS)

    def enqueue(self, name: str) -> None:
        """Call it when an APIService has changed."""
        self._wanted[name] = self._reactor.seconds()
        self._queue.add(name)

    def forget(self, name: str) -> None:
        """Call it when an APIService has no server any more."""
        self._wanted.pop(name, None)
        self._failures.pop(name, None)
        used = {_reference(service) for service in self._services().list() if service["spec"].get("service")}
        for reference in self._known.keys() - used:
            del self._known[reference]

    def stop(self) -> None:
        self._queue.stop()

    async def _sync(self, name: str) -> float | None:
        service = self._services().get("", name)
        if service is None or service["spec"].get("service") is None:
            return None
        gv = GroupVersion(service["spec"].get("group", ""), service["spec"].get("version", ""))
        found: list[Object] | None = None
        try:
            found = (await self._resources(name, gv, service)).get(gv, [])
        except CancelledError:
            raise
        except Exception as error:  # any network error or invalid document
            self.log.debug("discovery of {name}: {error}", name=name, error=error)
        if name not in self._wanted:
            return None  # forgotten meanwhile
        self._changed(gv, found)
        if found is None:
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            return float(min(REFRESH_SECONDS, _FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 20)))
        self._failures.pop(name, None)
        self._wanted[name] = self._reactor.seconds() + REFRESH_SECONDS
        return REFRESH_SECONDS

    async def _resources(self, name: str, gv: GroupVersion, service: Object) -> Resources:
        """The resources of the server of an APIService.  Raises any error.

        As upstream, a server that fails the check of its availability is asked too.
        """
        reference = _reference(service)
        known = self._known.get(reference)
        if known is not None and known.since >= self._wanted[name]:
            return known.resources  # asked for because of another group version of this server
        state = available_condition(service) or {}
        if state.get("status") != "True" and state.get("reason") != UNREACHABLE:
            raise _Away("the service has no address")
        since = self._reactor.seconds()
        etag = "" if known is None else known.etag
        answer = await self._backend_client.ask(name, "/apis", TIMEOUT_SECONDS, MAX_DISCOVERY_BYTES, _ACCEPT, etag)
        if answer.code == 304 and known is not None:
            self._known[reference] = known._replace(since=since)
            return known.resources
        if answer.code == 503:
            raise _Away("status code 503")
        if answer.code == 200 and is_aggregated(answer.content_type):
            found = _Known(from_aggregated(json_pieces.loads(answer.body)), answer.etag, since)
            self._known[reference] = found
            return found.resources
        legacy = await self._backend_client.ask(name, f"/apis/{gv}", TIMEOUT_SECONDS, MAX_DISCOVERY_BYTES)
        if legacy.code != 200:
            raise _Away(f"status code {legacy.code}")
        return {gv: from_legacy(json_pieces.loads(legacy.body))}


def _reference(service: Object) -> _Reference:
    found = service["spec"]["service"]
    return found.get("namespace", ""), found.get("name", ""), found.get("port") or 443


def is_aggregated(content_type: str) -> bool:
    _, *parts = (part.strip() for part in content_type.split(";"))
    given = dict(part.partition("=")[::2] for part in parts)
    return (given.get("g"), given.get("as")) == ("apidiscovery.k8s.io", _KIND) and given.get("v") in _VERSIONS


def from_aggregated(document: Tree) -> Resources:
    """The resources in an APIGroupDiscoveryList, with the fields that clients know.

    Raises ValueError, KeyError, TypeError or AttributeError for another document.
    """
    return {
        GroupVersion(group["metadata"].get("name", ""), version["version"]): version.get("resources", [])
        for group in groups_of(document)
        for version in group["versions"]
    }


def groups_of(document: Tree) -> list[Object]:
    """The groups of an APIGroupDiscoveryList, with the fields that clients know.  Raises as ``from_aggregated``."""
    if document["kind"] != _KIND:
        raise ValueError("the document is no " + _KIND)
    return [
        {
            "metadata": {key: group["metadata"][key] for key in ("name",) if group["metadata"].get(key)},
            "versions": [_version(version) for version in elements(group, "versions")],
        }
        for group in elements(document, "items")
    ]


def _version(item: Object) -> Object:
    found: Object = {"version": item["version"]}
    resources = [_resource(each) for each in elements(item, "resources")]
    if resources:
        found["resources"] = resources
    found["freshness"] = item.get("freshness", "")
    return found


def _resource(item: Object) -> Object:
    """A resource; clients of some versions fail without ``responseKind``."""
    entry: Object = {
        "resource": item["resource"],
        "responseKind": _kind(item.get("responseKind")),
        "scope": item.get("scope", ""),
        "singularResource": item.get("singularResource", ""),
        "verbs": item.get("verbs"),
    }
    entry.update({key: item[key] for key in ("shortNames", "categories") if item.get(key)})
    subresources = [_subresource(sub) for sub in elements(item, "subresources")]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _subresource(item: Object) -> Object:
    entry: Object = {"subresource": item["subresource"], "responseKind": _kind(item.get("responseKind"))}
    accepted = [_kind(kind) for kind in elements(item, "acceptedTypes")]
    if accepted:
        entry["acceptedTypes"] = accepted
    entry["verbs"] = item.get("verbs")
    return entry


def _kind(given: Object | None) -> Object:
    return {key: (given or _NO_KIND).get(key, "") for key in _NO_KIND}
