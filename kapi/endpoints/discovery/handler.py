"""Answers /api, /apis and what lies directly below (upstream: apiserver ``endpoints/discovery``, KEP-3352).

Documents are made when they are asked for and kept as trees until the set of groups changes.  The aggregated document
carries an ETag: clients ask for it again and again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import orjson

from kapi.codecs.negotiation import MediaType, not_accepted, output_media_type
from kapi.endpoints.discovery import documents, protobuf
from kapi.endpoints.discovery.groups import GroupEntry
from kapi.endpoints.encoding import respond_tree
from kapi.machinery import status
from kapi.machinery.meters import Counter
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response

#: the groups now; the core group is named ""
Source = Callable[[], Sequence[GroupEntry]]
#: one of them by its name
Find = Callable[[str], GroupEntry | None]
_AGGREGATED = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED_PROTOBUF = b"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#: what the aggregated document is answered in, by the media type of the clause that asks for it
_FORMS = {
    "application/json": _AGGREGATED,
    "application/*": _AGGREGATED,
    "*/*": _AGGREGATED,
    "application/vnd.kubernetes.protobuf": _AGGREGATED_PROTOBUF,
}
#: upstream: apiserver ``endpoints/discovery/aggregated/metrics.go``
AGGREGATIONS = Counter(
    "aggregator_discovery_aggregation_count_total", "[ALPHA] Counter of number of times discovery was aggregated"
)
WITHOUT_PEERS = Counter(
    "aggregator_discovery_nopeer_requests_total",
    "[ALPHA] Counter of number of times no-peer (non peer-aggregated) discovery was requested",
)
_SUPPORTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


class DiscoveryHandler:
    """Discovery of one server.  ``address`` is host:port for clients; ``invalidate`` is called when groups change.

    A group that changed is a new GroupEntry: what is kept of the others stays good.
    """

    def __init__(self, source: Source, address: Callable[[], str], find: Find | None = None) -> None:
        self._source = source
        self._address = address
        self._find = find or (lambda name: next((group for group in source() if group.name == name), None))
        self._trees: dict[str, Object | None] = {}
        self._bodies: dict[tuple[str, bytes], tuple[bytes, bytes]] = {}  # aggregated: path, form -> body, etag

    def invalidate(self) -> None:
        self._trees.clear()
        self._bodies.clear()

    def paths(self) -> list[str]:
        """What the root path list shows."""
        found = ["/api", "/api/v1", "/apis", "/apis/"]
        for group in self._source():
            if group.name:
                found.append(f"/apis/{group.name}")
                found.extend(f"/apis/{group.name}/{entry.version}" for entry in group.versions)
        return found

    def handle(self, ctx: RequestContext) -> Response | None:
        """The document of a path, or None when discovery has none there.  Raises StatusError."""
        path = ctx.path
        if not path.startswith("/api") or "//" in path:
            return None
        if path.endswith("/"):
            path = path[:-1]
        parts = path.split("/")
        if parts[1] not in ("api", "apis") or len(parts) > (3 if parts[1] == "api" else 4):
            return None
        if path not in self._trees:
            self._trees[path] = self._document(parts[1:])
            if self._trees[path] is None:
                del self._trees[path]  # unknown paths are the client's choice: not kept
                return None
        # /apis and the groups below it are answered whatever the method
        if ctx.method != "GET" and (parts[1] == "api" or len(parts) == 4):
            raise status.method_not_allowed()
        form = _aggregated_form(ctx) if len(parts) == 2 else b""
        if form:
            if "profile=nopeer" in (ctx.header("accept") or ""):
                WITHOUT_PEERS.add()
            return self._aggregated(ctx, path, form)
        try:
            media = output_media_type(ctx, "get")
        except status.NotAcceptable:
            if parts[1] == "api" or len(parts) == 4:
                raise
            raise not_accepted(_SUPPORTED) from None  # the same: no route looks at what is accepted
        if media.as_kind:
            media = _without_transform(ctx)
        return respond_tree(200, self._trees[path], media)

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

    def _aggregated(self, ctx: RequestContext, path: str, form: bytes) -> Response:
        found = self._bodies.get((path, form))
        if found is None:
            AGGREGATIONS.add()
            core = path == "/api"
            groups = [group for group in self._source() if (not group.name) == core]
            body = orjson.dumps(documents.aggregated(groups, _encoded))
            etag = (
                b'"' + hashlib.sha512(body).hexdigest().upper().encode() + b'"'
            )  # of both forms: Vary tells them apart
            if form == _AGGREGATED_PROTOBUF:
                body = protobuf.discovery_list(map(documents.aggregated_group, groups))
            found = self._bodies[path, form] = (body, etag)
        body, etag = found
        ctx.drop_response_header(b"cache-control")
        headers = ((b"etag", etag), (b"vary", b"Accept"), (b"cache-control", b"public"))
        if etag in _tags(ctx.header("if-none-match")):
            return Response(304, b"", b"", headers)
        return Response(200, body, form, headers)


def _encoded(group: GroupEntry) -> object:
    """The group's part of the aggregated document, encoded once."""
    found = group.made.get("aggregated")
    if found is None:
        found = group.made["aggregated"] = orjson.Fragment(orjson.dumps(documents.aggregated_group(group)))
    return found


def _tags(header: str | None) -> list[bytes]:
    return [tag.strip().removeprefix("W/").encode("utf-8", "replace") for tag in (header or "").split(",")]


def _clauses(ctx: RequestContext) -> list[tuple[str, dict[str, str]]]:
    found = []
    for clause in (ctx.header("accept") or "").split(","):
        media, *rest = clause.split(";")
        parameters = dict(item.strip().partition("=")[::2] for item in rest)
        found.append((media.strip(), parameters))
    return found


def _aggregated_form(ctx: RequestContext) -> bytes:
    """The content type of the aggregated document; empty unless the first acceptable clause asks for it."""
    for media, parameters in _clauses(ctx):
        form = _FORMS.get(media)
        if form is not None:
            if not parameters.get("as"):
                return b""
            wanted = (parameters["as"], parameters.get("v"), parameters.get("g"))
            if wanted == ("APIGroupDiscoveryList", "v2", "apidiscovery.k8s.io"):
                return form
    return b""


def _without_transform(ctx: RequestContext) -> MediaType:
    """Discovery has no tables: only plain clauses count.  Raises NotAcceptable when there is none."""
    for media, parameters in _clauses(ctx):
        if not parameters.get("as") and media in (*_SUPPORTED[:2], "*/*", "application/*"):
            yaml = media == "application/yaml"
            return MediaType(yaml, content_type=b"application/yaml" if yaml else b"application/json", plain=not yaml)
    raise not_accepted(_SUPPORTED)
