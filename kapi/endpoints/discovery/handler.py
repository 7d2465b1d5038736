"""Serves /api, /apis and the group and version documents below them (upstream: apiserver ``endpoints/discovery``, KEP-3352).

Documents are made on demand and kept until the set of groups changes.  The aggregated document has an ETag, because clients
request it often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import orjson

from kapi.codecs.accept import Convert, choose, route_accepts
from kapi.codecs.negotiation import (
    SUPPORTED,
    MediaType,
    not_acceptable_on_route,
    not_accepted,
    plain_media_type,
    wants_indented,
    written_as,
)
from kapi.endpoints.discovery import documents, protobuf
from kapi.endpoints.discovery.groups import GroupEntry
from kapi.endpoints.encoding import encode, respond_tree
from kapi.machinery import status
from kapi.machinery.meters import Counter
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Document, DocumentResponse, Response

#: returns the present groups; the core group is named ""
Source = Callable[[], Sequence[GroupEntry]]
#: finds a group by its name
Find = Callable[[str], GroupEntry | None]
#: the parameters in Accept that request the aggregated document
_AGGREGATED = Convert("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
_PARAMETERS = b";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#: upstream: apiserver ``endpoints/discovery/aggregated/metrics.go``
AGGREGATIONS = Counter(
    "aggregator_discovery_aggregation_count_total", "[ALPHA] Counter of number of times discovery was aggregated"
)
WITHOUT_PEERS = Counter(
    "aggregator_discovery_nopeer_requests_total",
    "[ALPHA] Counter of number of times no-peer (non peer-aggregated) discovery was requested",
)


class DiscoveryHandler:
    """Discovery of one server.  ``address`` returns host:port for clients; call ``invalidate`` when groups change.

    A changed group must be a new GroupEntry: documents that are kept in unchanged entries stay valid.
    """

    def __init__(self, source: Source, address: Callable[[], str], find: Find | None = None) -> None:
        self._source = source
        self._address = address
        self._find = find or (lambda name: next((group for group in source() if group.name == name), None))
        self._trees: dict[str, Object | None] = {}
        self._bodies: dict[tuple[str, MediaType], tuple[Document, bytes]] = {}  # aggregated: path, form -> body, etag

    def invalidate(self) -> None:
        self._trees.clear()
        self._bodies.clear()

    def paths(self) -> list[str]:
        """The paths for the list at the root path."""
        found = ["/api", "/api/v1", "/apis", "/apis/"]
        for group in self._source():
            if group.name:
                found.append(f"/apis/{group.name}")
                found.extend(f"/apis/{group.name}/{entry.version}" for entry in group.versions)
        return found

    def handle(self, ctx: RequestContext) -> Response | None:
        """The document of a path, or None when discovery has none there.  Raises StatusError."""
        path = ctx.path
        if not path.startswith("/api"):
            return None
        path = path.rstrip("/")
        if "//" in path or (path == "/apis" and len(ctx.path) > len("/apis/")):
            return None  # in other paths trailing slashes are ignored
        parts = path.split("/")
        if parts[1] not in ("api", "apis") or len(parts) > (3 if parts[1] == "api" else 4):
            return None
        if path not in self._trees:
            self._trees[path] = self._document(parts[1:])
            if self._trees[path] is None:
                del self._trees[path]  # clients could request any number of unknown paths
                return None
        # upstream has no routes for /apis, its groups and versions of custom resources: every method is accepted
        routed = parts[1] == "api" or (len(parts) == 4 and not self._is_custom(*parts[2:]))
        if routed and ctx.method != "GET":
            raise status.method_not_allowed()
        accept = ctx.header("accept") or ""
        if routed and not route_accepts(accept, SUPPORTED):
            raise not_acceptable_on_route("get")
        if len(parts) == 2:
            chosen = choose(accept, SUPPORTED, lambda media, convert: convert == _AGGREGATED)
            if chosen is not None and chosen.convert is not None:
                if chosen.profile == "nopeer":
                    WITHOUT_PEERS.add()
                return self._aggregated(ctx, path, written_as(chosen.media, chosen.pretty or wants_indented(ctx)))
        media = plain_media_type(ctx)
        if media is None:
            raise not_accepted(SUPPORTED)
        return respond_tree(200, self._trees[path], media)

    def _is_custom(self, name: str, version: str) -> bool:
        group = self._find(name)
        entries = group.versions if group is not None else ()
        return any(
            entry.version == version and any(resource.typed_items for resource in entry.resources) for entry in entries
        )

    def _document(self, parts: list[str]) -> Object | None:
        if parts == ["api"]:
            return documents.api_versions(self._address())
        if parts == ["apis"]:
            return documents.api_group_list(group for group in self._source() if group.name)
        name = "" if parts[0] == "api" else parts[1]
        group = self._find(name)
        if group is None or (parts[0] == "apis" and not name):
            return None
        if parts[0] == "apis" and len(parts) == 2:
            return documents.api_group(group)
        version = parts[-1]
        entry = next((entry for entry in group.versions if entry.version == version), None)
        if entry is None or entry.remote is not None:
            return None
        return documents.api_resource_list(name, version, entry.resources)

    def _aggregated(self, ctx: RequestContext, path: str, form: MediaType) -> Response:
        found = self._bodies.get((path, form))
        if found is None:
            AGGREGATIONS.add()
            core = path == "/api"
            groups = [group for group in self._source() if (not group.name) == core]
            body = orjson.dumps(documents.aggregated(groups, _encoded))
            etag = (
                b'"' + hashlib.sha512(body).hexdigest().upper().encode() + b'"'
            )  # one for all media types: Vary separates them
            if form.protobuf:
                body = protobuf.discovery_list(map(documents.aggregated_group, groups))
            elif not form.plain:
                body = encode(orjson.loads(body), form)
            found = self._bodies[path, form] = (Document(body), etag)
        document, etag = found
        ctx.drop_response_header(b"cache-control")
        headers = ((b"etag", etag), (b"vary", b"Accept"), (b"cache-control", b"public"))
        if (ctx.header("if-none-match") or "").encode("utf-8", "replace") == etag:
            return Response(304, b"", b"", headers)
        return DocumentResponse(document, form.content_type + _PARAMETERS, headers)


def _encoded(group: GroupEntry) -> object:
    """The group's part of the aggregated document, encoded once."""
    found = group.aggregated
    if found is None:
        found = group.aggregated = orjson.Fragment(orjson.dumps(documents.aggregated_group(group)))
    return found
