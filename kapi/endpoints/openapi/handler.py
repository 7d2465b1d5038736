"""Serves /openapi/v3 with its documents and /openapi/v2 (upstream: kube-openapi ``handler`` and ``handler3``, KEP-2896).

The index lists each document with a hash of what it is made from, so that the index can be made without the documents.  A
document is made in slices when it is first requested, once for all requests of that moment, and kept compressed until the set of
resources changes.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from twisted.internet.defer import Deferred

from kapi.codecs import json_pieces
from kapi.codecs.accept import parse_accept
from kapi.endpoints.discovery.groups import GroupEntry
from kapi.endpoints.openapi import documents, paths, protobuf, protobuf_v3, v2
from kapi.endpoints.openapi.documents import Style
from kapi.endpoints.openapi.pieces import JSON, Form
from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.each import costly
from kapi.machinery.lifecycles import RELEASE, Release
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.packed import Packed, packed
from kapi.request.response import SLICE, Response
from kapi.resources.definition import Resource
from kapi.schema import derive

Build = Callable[[Form, Style], Packed]
DocumentV2 = tuple[str, dict[bytes, Packed]]  # its hash, and by content type its bodies
_RANGES = (b"accept-ranges", b"bytes")
_TEXT = b"text/plain; charset=utf-8"
_JSON = b"application/json"
_PROTOBUF = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_V3 = b"application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
_VARY = (b"vary", b"Accept")
_VARIES_V2 = ((b"vary", b"Accept-Encoding"), _VARY)  # of /openapi/v2, also where nothing is compressed
#: media types that clients may accept for v2 -> the content type; the name with "@" is the older one
_FORMS_OF_V2 = {
    "application/json": _JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf": _PROTOBUF,
}
_FORMS_OF_V3 = {
    "application/json": _JSON,
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf": _PROTOBUF_V3,
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf": _PROTOBUF_V3,
}


@functools.cache
def _types_digest() -> str:
    """A digest of the derived files, from which all schemas are made."""
    digest = hashlib.sha512()
    texts = (derive.MISSING_TEXTS, paths.TEXTS)
    for path in (derive.FACTS, derive.OPENAPI_FACTS, *texts, derive.HERE / "data" / derive.TYPES):
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()


class OpenAPIHandler:
    """The documents of all groups; ``invalidate`` is called when they change."""

    def __init__(
        self,
        source: Callable[[], Sequence[GroupEntry]],
        release: Release = RELEASE,
        cbor: bool = False,
        enums: bool = True,
    ) -> None:
        """``release``: the emulated one; ``cbor``: whether built-in resources have that form.

        ``enums``: whether the values of enumerations are listed.
        """
        self._source = source
        self._cbor = cbor
        self._style = Style(release, enums)
        self._builds: dict[str, tuple[str, Build]] | None = None  # key in the index -> (hash, how to make it)
        self._bodies: dict[tuple[str, str, bytes], Packed] = {}  # key in the index, hash and content type -> body
        self._v2_document: DocumentV2 | None = None
        self._making = Making()
        self._changes = 0  # of the groups, so far
        self.remote = RemoteDocuments(self._remote_changed)  # of other servers; kept up to date by the aggregator

    def invalidate(self, group: str = "") -> None:
        """Called when the groups have changed.  Unchanged documents keep their hashes, and thereby their bodies.

        ``group``: the group whose resources have changed.  Its bodies are dropped at once: they may have 100 MB, and the next
        request may come much later, or never.
        """
        if group and self._bodies:
            place = f"apis/{group}"
            self._bodies = {
                known: body for known, body in self._bodies.items() if not f"{known[0]}/".startswith(f"{place}/")
            }
        self._changes += 1
        self._builds = None
        self._v2_document = None

    def _remote_changed(self) -> None:
        self._changes += 1
        self._v2_document = None

    def handle(self, ctx: RequestContext) -> Response | Awaitable[Response] | None:
        """The response, or an awaitable of it when a document must be made; None for other paths."""
        path = ctx.path
        if path == "/openapi/v2":
            return self._v2(ctx)
        if path == "/openapi/v3":
            return Response(200, json_pieces.dumps(self._index()), _TEXT, (_RANGES,))
        if path.startswith("/openapi/v3/"):
            return self._v3(ctx, path[len("/openapi/v3/") :])
        return None

    def _known(self) -> dict[str, tuple[str, Build]]:
        if self._builds is None:
            self._builds = dict(_roots())
            for group in self._source():
                self._builds.update(_of_group(group, self._cbor, self._style.enums))
            current = {(key, digest) for key, (digest, _) in self._builds.items()}
            self._bodies = {known: body for known, body in self._bodies.items() if known[:2] in current}
        return self._builds

    def _index(self) -> Object:
        hashes = {key: digest for key, (digest, _) in self.remote.documents.items()}
        hashes.update({key: digest for key, (digest, _) in self._known().items()})
        return {
            "paths": {key: {"serverRelativeURL": f"/openapi/v3/{key}?hash={hashes[key]}"} for key in sorted(hashes)}
        }

    def _v3(self, ctx: RequestContext, key: str) -> Response | Awaitable[Response]:
        known = self._known().get(key)
        if known is None:
            remote = self.remote.documents.get(key)
            if remote is None:
                return Response(404, b"", b"")
            return self._foreign(ctx, *remote)
        form = _form(ctx, _FORMS_OF_V3)
        if not form:
            return Response(406, b"", b"", (_VARY,))
        digest = known[0]
        wanted = ctx.query.get("hash")
        if wanted and wanted[0] and wanted[0] != digest:
            return Response(301, b"", _JSON, ((b"location", f"{ctx.path}?hash={digest}".encode()),))
        body = self._bodies.get((key, digest, form))
        if body is None:
            return self._make_v3(ctx, key, *known, form, immutable=bool(wanted))
        return _document(ctx, body, digest, immutable=bool(wanted), content_type=form)

    def _foreign(self, ctx: RequestContext, digest: str, document: Packed) -> Response | Awaitable[Response]:
        """A document of an extension API server: unchanged, or in protobuf, which is made at each request."""
        form = _form(ctx, _FORMS_OF_V3)
        if not form:
            return Response(406, b"", b"", (_VARY,))
        wanted = ctx.query.get("hash")
        if wanted and wanted[0] and wanted[0] != digest:
            return Response(301, b"", _JSON, ((b"location", f"{ctx.path}?hash={digest}".encode()),))
        if form == _JSON:
            return _document(ctx, document, digest, immutable=bool(wanted))
        return self._in_protobuf(ctx, digest, document, immutable=bool(wanted))

    async def _in_protobuf(self, ctx: RequestContext, digest: str, document: Packed, *, immutable: bool) -> Response:
        await in_slices
        try:
            body = packed(protobuf_v3.document(json_pieces.loads(document.text())))
        except (AttributeError, KeyError, TypeError, ValueError):  # the document is invalid
            return Response(406, b"", b"", (_VARY,))
        return _document(ctx, body, digest, immutable=immutable, content_type=_PROTOBUF_V3)

    async def _make_v3(
        self, ctx: RequestContext, place: str, digest: str, build: Build, form: bytes, *, immutable: bool
    ) -> Response:
        key = place, digest, form

        def make() -> Packed:
            made = self._bodies[key] = build(JSON if form == _JSON else protobuf_v3.FORM, self._style)
            return made

        made = await self._making.make(key, lambda: self._bodies.get(key), make)
        return _document(ctx, made, digest, immutable=immutable, content_type=form)

    def _v2(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        form = _form(ctx, _FORMS_OF_V2)
        if not form:
            return Response(406, b"", b"", _VARIES_V2)
        found = self._find_v2(form)
        return self._make_v2(ctx, form) if found is None else _v2_answer(ctx, form, found)

    def _find_v2(self, form: bytes) -> DocumentV2 | None:
        found = self._v2_document
        return found if found is not None and form in found[1] else None

    async def _make_v2(self, ctx: RequestContext, form: bytes) -> Response:
        made = await self._making.make("v2", lambda: self._find_v2(form), lambda: self._build_v2(form))
        return _v2_answer(ctx, form, made)

    def _build_v2(self, form: bytes) -> DocumentV2:
        """Makes the document with this form.  It is not kept when the groups have changed meanwhile.

        The hash is that of JSON, so this form is always made.
        """
        document, changes = self._v2_document, self._changes
        versions = [
            (group.name, entry.version, entry.resources)
            for group in self._source()
            for entry in group.versions
            if entry.remote is None
        ]
        missing = dict.fromkeys([form] if document is not None else [_JSON, form])
        forms = [JSON if each == _JSON else protobuf.FORM for each in missing]
        specifications = self.remote.specifications()
        made = dict(
            zip(missing, v2.documents_v2(versions, specifications, forms, self._style, self._cbor), strict=True)
        )
        if document is None:
            document = _digest(made[_JSON]), made
            if changes == self._changes:
                self._v2_document = document
        else:
            document[1].update(made)
        return document


def _digest(document: Packed) -> str:
    digest = hashlib.sha512()
    for part in costly(document):
        digest.update(part)
    return digest.hexdigest().upper()


def _v2_answer(ctx: RequestContext, form: bytes, document: DocumentV2) -> Response:
    digest, bodies = document  # one hash for both forms: Vary separates them
    return _document(ctx, bodies[form], digest, content_type=form, varies=_VARIES_V2)


@functools.cache
def _roots() -> dict[str, tuple[str, Build]]:
    """The documents that belong to no group."""
    return {key: (_hash(key, ()), functools.partial(documents.root_document_v3, key)) for key in documents.root_items()}


def _of_group(group: GroupEntry, cbor: bool, enums: bool) -> dict[str, tuple[str, Build]]:
    """The documents of a group and its versions, except versions of extension API servers; kept in the group."""
    found = group.openapi
    if found is not None:
        return found
    found = group.openapi = {}
    if group.name and any(  # upstream describes no group of custom resources
        entry.remote is None and not all(row.typed_items for row in entry.resources) for entry in group.versions
    ):
        key = f"apis/{group.name}"
        found[key] = (_hash(key, ()), functools.partial(documents.group_v3, group.name))
    for entry in group.versions:
        if entry.remote is None:
            key = f"apis/{group.name}/{entry.version}" if group.name else f"api/{entry.version}"
            build = functools.partial(documents.group_version_v3, group.name, entry.version, entry.resources, cbor)
            found[key] = (
                _hash(f"{key}{' cbor' if cbor else ''}{'' if enums else ' no enums'}", entry.resources),
                build,
            )
    return found


def _hash(key: str, resources: Sequence[Resource]) -> str:
    digest = hashlib.sha512(f"{_types_digest()}\n{key}\n".encode())
    for row in resources:
        names = [
            row.plural,
            row.kind,
            row.list_kind,
            row.namespaced,
            row.verbs,
            [(sub.name, sub.verbs) for sub in row.subresources],
        ]
        digest.update(json_pieces.dumps(names))
        digest.update(row.schema_digest.encode())
    return digest.hexdigest().upper()


def _form(ctx: RequestContext, forms: Mapping[str, bytes]) -> bytes:
    """The content type that the client prefers; empty when it accepts none."""
    for clause in parse_accept(ctx.header("accept") or "*/*"):
        for name, form in forms.items():
            kind, _, subtype = name.partition("/")
            if clause.type in (kind, "*") and clause.subtype in (subtype, "*"):
                return form
    return b""


def _document(
    ctx: RequestContext,
    document: Packed,
    digest: str,
    *,
    immutable: bool = False,
    content_type: bytes = _JSON,
    varies: tuple[tuple[bytes, bytes], ...] = (_VARY,),
) -> Response:
    etag = f'"{digest}"'.encode()
    ctx.drop_response_header(b"cache-control")
    caching = b"public, immutable" if immutable else b"no-cache, private"
    headers = (_RANGES, (b"etag", etag), *varies, (b"cache-control", caching))
    tags = [
        tag.strip().removeprefix("W/").encode("utf-8", "replace")
        for tag in (ctx.header("if-none-match") or "").split(",")
    ]
    if etag in tags:
        return Response(304, b"", b"", headers)
    return Response(200, document if document.size > SLICE else document.text(), content_type, headers)


Made = TypeVar("Made")


class Making:
    """The documents that are being made, by key."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Deferred[None]]] = {}

    async def make(self, key: Hashable, find: Callable[[], Made | None], make: Callable[[], Made]) -> Made:
        """Returns what ``find`` finds, else the result of ``make``, which runs once at a time for a key."""
        await in_slices
        while (found := find()) is None:
            waiting = self._waiting.get(key)
            if waiting is not None:
                done: Deferred[None] = Deferred()
                waiting.append(done)
                await done
                continue
            waiting = self._waiting[key] = []
            try:
                return make()
            finally:  # a client that disconnects cancels its computation; then the next waiting client starts it again
                del self._waiting[key]
                for done in waiting:
                    done.callback(None)
        return found
