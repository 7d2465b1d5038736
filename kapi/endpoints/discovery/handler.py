"""Serves /api, /apis and the group and version documents below them (upstream: apiserver ``endpoints/discovery``, KEP-3352).

Documents are made on demand from resource definitions (apimachinery ``meta/v1`` discovery types) and kept until the set of groups
changes.  The aggregated document has an ETag, because clients request it often.  In protobuf (``k8s.io/api/apidiscovery/v2``
``generated.proto``), as everywhere in Kubernetes, fields that Go holds by value are written even when they are empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import orjson

from kapi.codecs.accept import Convert, choose, route_accepts
from kapi.codecs.negotiation import (
    SUPPORTED,
    MediaType,
    not_acceptable_on_route,
    not_accepted,
    plain_media_type,
    supported,
    wants_indented,
    written_as,
)
from kapi.endpoints.discovery.groups import GroupEntry, VersionEntry
from kapi.endpoints.encoding import encode, respond_tree
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.meters import counter
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Document, DocumentResponse, Response
from kapi.resources.definition import Resource, Subresource
from kapi.schema.protobuf_writing import envelope, item_of_list, list_head, message_of, varint

LIST = GroupVersionKind("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
_METADATA = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
#: returns the present groups; the core group is named ""
Source = Callable[[], Sequence[GroupEntry]]
#: finds a group by its name
Find = Callable[[str], GroupEntry | None]
#: the parameters in Accept that request the aggregated document
_AGGREGATED = Convert("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
_PARAMETERS = b";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#: upstream: apiserver ``endpoints/discovery/aggregated/metrics.go``
AGGREGATIONS = counter("aggregator_discovery_aggregation_count_total")
WITHOUT_PEERS = counter("aggregator_discovery_nopeer_requests_total")
MERGED_AGAIN = counter("aggregator_discovery_peer_aggregated_cache_hits_total")
MERGED = counter("aggregator_discovery_peer_aggregated_cache_misses_total")


def api_versions(address: str) -> Object:
    """``/api``; ``address`` is host:port as clients reach it."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(group: GroupEntry) -> Object:
    """``/apis/<group>``"""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(group)}


def api_group_list(groups: Iterable[GroupEntry]) -> Object:
    """``/apis``"""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group_entry(group) for group in groups]}


def _group_entry(group: GroupEntry) -> Object:
    found = group.entry
    if found is None:
        found = group.entry = _make_group_entry(group)
    return found


def _make_group_entry(group: GroupEntry) -> Object:
    versions = [
        {"groupVersion": str(GroupVersion(group.name, entry.version)), "version": entry.version}
        for entry in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(group: str, version: str, resources: Iterable[Resource]) -> Object:
    """``/api/v1`` and ``/apis/<group>/<version>``"""
    entries = []
    for row in sorted(resources, key=lambda row: row.plural):
        entries.append(_resource(row))
        entries.extend(_subresource(row, sub) for sub in row.subresources)
    document: Object = {"kind": "APIResourceList"}
    if group:
        document["apiVersion"] = "v1"
    return {**document, "groupVersion": str(GroupVersion(group, version)), "resources": entries}


def _resource(row: Resource) -> Object:
    entry: Object = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.storage_version_hash:
        entry["storageVersionHash"] = row.storage_version_hash
    return entry


def _subresource(row: Resource, sub: Subresource) -> Object:
    entry: Object = {"name": f"{row.plural}/{sub.name}", "singularName": "", "namespaced": row.namespaced}
    if sub.group:
        entry["group"] = sub.group
    if sub.version:
        entry["version"] = sub.version
    entry["kind"] = sub.kind or row.kind
    entry["verbs"] = list(sub.verbs)
    return entry


def aggregated_group(group: GroupEntry) -> Object:
    """One item of an APIGroupDiscoveryList."""
    metadata = {"name": group.name} if group.name else {}
    versions = [aggregated_version(entry) for entry in group.versions if not entry.unserved]
    return {"metadata": metadata, "versions": versions}


def aggregated(groups: Iterable[object]) -> Object:
    """``/api`` and ``/apis`` as APIGroupDiscoveryList v2, of the entries of groups."""
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [*groups]}


def aggregated_version(entry: VersionEntry) -> Object:
    document: Object = {"version": entry.version}
    resources = entry.remote
    if resources is None:
        resources = [_aggregated_resource(row) for row in sorted(entry.resources, key=lambda row: row.plural)]
    if resources:
        document["resources"] = resources
    document["freshness"] = "Stale" if entry.stale else "Current"
    return document


def _response_kind(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(row: Resource) -> Object:
    group, version = (row.group, row.version) if row.typed_items else ("", "")
    entry: Object = {
        "resource": row.plural,
        "responseKind": _response_kind(group, version, row.kind),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(sub.group or group, sub.version or version, sub.kind or row.kind),
                "verbs": list(sub.verbs),
            }
            for sub in row.subresources
        ]
    return entry


def discovery_list(groups: Iterable[Object]) -> bytes:
    """The list of groups, made by ``documents.aggregated_group``, with the envelope of Kubernetes' protobuf."""
    return envelope(LIST, list_head({}) + b"".join([item_of_list(_group(group)) for group in elements(groups)]))


def _field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def _text(number: int, tree: Object, name: str) -> bytes:
    return _field(number, str(tree.get(name) or "").encode())


def _texts(number: int, tree: Object, name: str) -> bytes:
    return b"".join([_field(number, str(text).encode()) for text in tree.get(name) or ()])


def _many(number: int, tree: Object, name: str, write: Callable[[Object], bytes]) -> bytes:
    return b"".join([_field(number, write(item)) for item in elements(tree, name)])


def _group(tree: Object) -> bytes:
    return message_of(_METADATA)(tree) + _many(2, tree, "versions", _version)


def _version(tree: Object) -> bytes:
    return _text(1, tree, "version") + _many(2, tree, "resources", _resource_message) + _text(3, tree, "freshness")


def _resource_message(tree: Object) -> bytes:
    return b"".join(
        (
            _text(1, tree, "resource"),
            _response_kind_message(tree),
            _text(3, tree, "scope"),
            _text(4, tree, "singularResource"),
            _texts(5, tree, "verbs"),
            _texts(6, tree, "shortNames"),
            _texts(7, tree, "categories"),
            _many(8, tree, "subresources", _subresource_message),
        )
    )


def _subresource_message(tree: Object) -> bytes:
    return b"".join(
        (
            _text(1, tree, "subresource"),
            _response_kind_message(tree),
            _many(3, tree, "acceptedTypes", _kind),
            _texts(4, tree, "verbs"),
        )
    )


def _response_kind_message(tree: Object) -> bytes:
    kind = tree.get("responseKind")
    return b"" if kind is None else _field(2, _kind(kind))


def _kind(tree: Object) -> bytes:
    return _text(1, tree, "group") + _text(2, tree, "version") + _text(3, tree, "kind")


class DiscoveryHandler:
    """Discovery of one server.  ``address`` returns host:port for clients; call ``invalidate`` when groups change.

    A changed group must be a new GroupEntry: documents that are kept in unchanged entries stay valid.
    """

    def __init__(
        self, source: Source, address: Callable[[], str], find: Find | None = None, cbor: bool = False
    ) -> None:
        self._source = source
        self._address = address
        self._cbor = cbor  # of the documents of group versions
        self._find = find or (lambda name: next((group for group in source() if group.name == name), None))
        self._trees: dict[str, Object | None] = {}
        self._bodies: dict[tuple[str, MediaType, bool], tuple[Document, bytes]] = {}  # aggregated -> body, etag
        #: adds the groups of other servers of the cluster to those of /apis, as trees
        self.merge: Callable[[list[Object]], Sequence[Object]] | None = None

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
        # upstream has no routes for /apis, for groups, and for versions of custom resources: they accept every method
        routed = parts[1] == "api" or (len(parts) == 4 and not self._is_custom(*parts[2:]))
        if routed and ctx.method != "GET":
            raise status.method_not_allowed()
        accept = ctx.header("accept") or ""
        ctx.cbor = self._cbor and routed and len(parts) > 2
        known = supported(ctx.cbor)
        if routed and not route_accepts(accept, known):
            raise not_acceptable_on_route("get", ctx.cbor)
        if len(parts) == 2:
            chosen = choose(accept, SUPPORTED, lambda media, convert: convert == _AGGREGATED)
            if chosen is not None and chosen.convert is not None:
                merge = self.merge if path == "/apis" else None
                if chosen.profile == "nopeer":
                    WITHOUT_PEERS.add()
                    merge = None
                form = written_as(chosen.media, chosen.pretty or wants_indented(ctx))
                return self._aggregated(ctx, path, form, merge)
        media = plain_media_type(ctx)
        if media is None:
            raise not_accepted(known)
        return respond_tree(ctx, 200, self._trees[path], media)

    def _is_custom(self, name: str, version: str) -> bool:
        group = self._find(name)
        entries = group.versions if group is not None else ()
        return any(
            entry.version == version and any(resource.typed_items for resource in entry.resources) for entry in entries
        )

    def _document(self, parts: list[str]) -> Object | None:
        if parts == ["api"]:
            return api_versions(self._address())
        if parts == ["apis"]:
            groups = sorted(self._source(), key=lambda group: (-group.priority, group.service))
            return api_group_list(group for group in groups if group.name)
        name = "" if parts[0] == "api" else parts[1]
        group = self._find(name)
        if group is None or (parts[0] == "apis" and not name):
            return None
        if parts[0] == "apis" and len(parts) == 2:
            return api_group(group)
        version = parts[-1]
        entry = next((entry for entry in group.versions if entry.version == version), None)
        if entry is None or entry.remote is not None:
            return None
        return api_resource_list(name, version, entry.resources)

    def _aggregated(
        self, ctx: RequestContext, path: str, form: MediaType, merge: Callable[[list[Object]], Sequence[Object]] | None
    ) -> Response:
        key = path, form, merge is not None
        found = self._bodies.get(key)
        if merge is not None:
            (MERGED if found is None else MERGED_AGAIN).add()
        if found is None:
            core = path == "/api"
            groups = [
                group
                for group in self._source()
                if (not group.name) == core and not all(entry.unserved for entry in group.versions)
            ]
            merged: Sequence[Object] | None = None
            if merge is None:
                AGGREGATIONS.add()
                body = orjson.dumps(aggregated(map(_encoded, groups)))
            else:
                merged = merge([aggregated_group(group) for group in groups])
                body = orjson.dumps(aggregated(merged))
            # one for all media types: Vary separates them
            etag = b'"' + hashlib.sha512(body).hexdigest().upper().encode() + b'"'
            if form.protobuf:
                body = discovery_list(map(aggregated_group, groups) if merged is None else merged)
            elif not form.plain:
                body = encode(orjson.loads(body), form)
            found = self._bodies[key] = (Document(body), etag)
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
        found = group.aggregated = orjson.Fragment(orjson.dumps(aggregated_group(group)))
    return found
