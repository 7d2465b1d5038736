"""Answers /openapi/v3 with its documents and /openapi/v2 (upstream: kube-openapi ``handler`` and ``handler3``, KEP-2896).

The index names each document with a hash of what it is made from, so that nothing is built for the index; a document is
built when it is first asked for and kept as bytes until the set of resources changes.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from kapi.codecs.negotiation import accepted
from kapi.endpoints.discovery.groups import GroupEntry
from kapi.endpoints.openapi import documents, parameters, protobuf, v2
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Resource
from kapi.schema import derive

Object = dict[str, Any]
Build = Callable[[], Object]
_RANGES = (b"accept-ranges", b"bytes")
_TEXT = b"text/plain; charset=utf-8"
_JSON = b"application/json"
_PROTOBUF = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_VARY = (b"vary", b"Accept")
#: what clients may ask of v2 -> what they get; the name with "@" is the older one
_FORMS_OF_V2 = {
    "application/json": _JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf": _PROTOBUF,
    "application/*": _JSON,
    "*/*": _JSON,
}


@functools.cache
def _types_digest() -> str:
    """What all schemas are made from: the derived files."""
    digest = hashlib.sha512()
    texts = (derive.MISSING_TEXTS, parameters.TEXTS)
    for path in (derive.FACTS, derive.OPENAPI_FACTS, *texts, derive.HERE / "data" / derive.TYPES):
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()


class OpenAPIHandler:
    """The documents of all groups; ``invalidate`` is called when they change."""

    def __init__(self, source: Callable[[], Sequence[GroupEntry]]) -> None:
        self._source = source
        self._builds: dict[str, tuple[str, Build]] | None = None  # key in the index -> (hash, how to make it)
        self._bodies: dict[str, bytes] = {}  # hash -> body
        self._v2_document: tuple[str, dict[bytes, bytes]] | None = None  # its hash, content type -> body
        #: documents of other servers: key in the index -> (hash, body); kept up to date by the aggregator
        self.remote: dict[str, tuple[str, bytes]] = {}

    def invalidate(self) -> None:
        """The groups changed.  What did not change keeps its hash and with it its body."""
        self._builds = None
        self._v2_document = None

    def handle(self, ctx: RequestContext) -> Response | None:
        """The answer, or None for paths that are not OpenAPI's."""
        path = ctx.path
        if path == "/openapi/v2":
            return self._v2(ctx)
        if path == "/openapi/v3":
            return Response(200, orjson.dumps(self._index()), _TEXT, (_RANGES,))
        if path.startswith("/openapi/v3/"):
            return self._v3(ctx, path[len("/openapi/v3/") :])
        return None

    def _known(self) -> dict[str, tuple[str, Build]]:
        if self._builds is None:
            self._builds = dict(_roots())
            for group in self._source():
                self._builds.update(_of_group(group))
            current = {digest for digest, _ in self._builds.values()}
            self._bodies = {key: body for key, body in self._bodies.items() if key in current}
        return self._builds

    def _index(self) -> Object:
        hashes = {key: digest for key, (digest, _) in self._known().items()}
        hashes.update({key: digest for key, (digest, _) in self.remote.items()})
        return {
            "paths": {key: {"serverRelativeURL": f"/openapi/v3/{key}?hash={hashes[key]}"} for key in sorted(hashes)}
        }

    def _v3(self, ctx: RequestContext, key: str) -> Response:
        known = self._known().get(key)
        remote = self.remote.get(key)
        if known is None and remote is None:
            return Response(404, b"", b"")
        if not _acceptable(ctx):
            return Response(406, b"", b"", (_VARY,))
        digest = known[0] if known is not None else remote[0]  # type: ignore[index]
        wanted = ctx.query.get("hash")
        if wanted and wanted[0] and wanted[0] != digest:
            location = f"{ctx.path}?hash={digest}".encode()
            return Response(301, b"", _JSON, ((b"location", location),))
        body = remote[1] if known is None and remote is not None else self._body(key)
        return _document(ctx, body, digest, immutable=bool(wanted))

    def _body(self, key: str) -> bytes:
        digest, build = self._known()[key]
        body = self._bodies.get(digest)
        if body is None:
            body = self._bodies[digest] = orjson.dumps(build())
        return body

    def _v2(self, ctx: RequestContext) -> Response:
        form = _form_of_v2(ctx.header("accept") or "*/*")
        if not form:
            return Response(406, b"", b"", (_VARY,))
        if self._v2_document is None:
            versions = [
                (group.name, entry.version, entry.resources)
                for group in self._source()
                for entry in group.versions
                if entry.remote is None
            ]
            made = orjson.dumps(v2.document_v2(versions))
            self._v2_document = (hashlib.sha512(made).hexdigest().upper(), {_JSON: made})
        digest, bodies = self._v2_document  # one hash for both forms: Vary tells them apart
        if form not in bodies:
            bodies[form] = protobuf.document(orjson.loads(bodies[_JSON]))
        return _document(ctx, bodies[form], digest, content_type=form)


@functools.cache
def _roots() -> dict[str, tuple[str, Build]]:
    """The documents beside those of groups."""
    return {
        key: (_hash(key, ()), functools.partial(documents.root_document_v3, key))
        for key in documents.root_documents_v3()
    }


def _of_group(group: GroupEntry) -> dict[str, tuple[str, Build]]:
    """The documents of a group and its versions as far as they are served here; found once."""
    found: dict[str, tuple[str, Build]] | None = group.made.get("openapi")
    if found is not None:
        return found
    found = group.made["openapi"] = {}
    if group.name and any(entry.remote is None for entry in group.versions):
        key = f"apis/{group.name}"
        found[key] = (_hash(key, ()), functools.partial(documents.group_v3, group.name))
    for entry in group.versions:
        if entry.remote is None:
            key = f"apis/{group.name}/{entry.version}" if group.name else f"api/{entry.version}"
            build = functools.partial(documents.group_version_v3, group.name, entry.version, entry.resources)
            found[key] = (_hash(key, entry.resources), build)
    return found


def _hash(key: str, resources: Sequence[Resource]) -> str:
    digest = hashlib.sha512(f"{_types_digest()}\n{key}\n".encode())
    for row in resources:
        names = [row.plural, row.kind, row.namespaced, row.verbs, [(sub.name, sub.verbs) for sub in row.subresources]]
        digest.update(orjson.dumps(names))
        digest.update(row.schema_digest.encode())
    return digest.hexdigest().upper()


def _form_of_v2(accept: str) -> bytes:
    """The content type of the answer: what the client likes best; empty when there is nothing for it."""
    return next((_FORMS_OF_V2[name] for name in accepted(accept) if name in _FORMS_OF_V2), b"")


def _acceptable(ctx: RequestContext) -> bool:
    """Of version 3 there is JSON; a client that takes only something else gets 406."""
    names = accepted(ctx.header("accept") or "*/*")
    return any(name in ("application/json", "application/*", "*/*") for name in names)


def _document(
    ctx: RequestContext, body: bytes, digest: str, *, immutable: bool = False, content_type: bytes = _JSON
) -> Response:
    etag = f'"{digest}"'.encode()
    caching = b"public, immutable" if immutable else b"no-cache, private"
    headers = (_RANGES, (b"etag", etag), _VARY, (b"cache-control", caching))
    tags = [
        tag.strip().removeprefix("W/").encode("utf-8", "replace")
        for tag in (ctx.header("if-none-match") or "").split(",")
    ]
    if etag in tags:
        return Response(304, b"", b"", headers)
    return Response(200, body, content_type, headers)
