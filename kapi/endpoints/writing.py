"""Reads the requests of POST and PUT, and makes the response of every write.

Errors are found in upstream's order (``endpoints/handlers/create.go``, ``update.go``).
"""

from __future__ import annotations

from typing import NamedTuple

from kapi.codecs.negotiation import MediaType, input_media_type
from kapi.endpoints.authorization import create_check
from kapi.endpoints.body import check_names, decode_object, raw_body, read_any
from kapi.endpoints.encoding import respond_object
from kapi.endpoints.options import WriteOptions, write_options
from kapi.endpoints.scope import RequestScope
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry.operation import Operation, Stored
from kapi.request.context import RequestContext
from kapi.request.response import Response


class Written(NamedTuple):
    """The object to write, in the storage version and with defaults."""

    operation: Operation
    obj: Object


def read_new(ctx: RequestContext, scope: RequestScope) -> Written:
    """The object of a POST.  Raises StatusError."""
    sent_as = input_media_type(ctx.header("content-type"))  # before any other check
    data = raw_body(ctx)
    options = write_options(ctx, "CreateOptions")
    obj = _decoded(ctx, scope, data, options, sent_as)
    metadata = obj.setdefault("metadata", {})
    meta.wipe_system_fields(metadata)
    _ensure_namespace(ctx, scope, obj)
    return _written(ctx, scope, metadata.get("name", ""), obj, data, options, sent_as)


def read_replacement(ctx: RequestContext, scope: RequestScope, name: str) -> Written:
    """The object of a PUT to ``name``.  Raises StatusError."""
    data = raw_body(ctx)
    options = write_options(ctx, "UpdateOptions")
    sent_as = input_media_type(ctx.header("content-type"))
    obj = _decoded(ctx, scope, data, options, sent_as)
    _ensure_namespace(ctx, scope, obj)
    check_names(ctx, scope, obj)
    written = _written(ctx, scope, name, obj, data, options, sent_as)
    op = written.operation
    op.warn(meta.dedup_owner_references(written.obj, after_admission=False))
    op.authorize_create = create_check(ctx, scope)
    return written


def _decoded(ctx: RequestContext, scope: RequestScope, data: bytes, options: WriteOptions, sent_as: str) -> Object:
    obj = decode_object(ctx, data, scope.kind, scope.type, options.field_validation, sent_as)
    if ctx.audit is not None:
        ctx.audit.request_object(obj)
    return obj


def _ensure_namespace(ctx: RequestContext, scope: RequestScope, obj: Object) -> None:
    assert ctx.info is not None
    meta.ensure_namespace(obj, ctx.info.namespace if scope.resource.namespaced else "", scope.gvr)


def _written(
    ctx: RequestContext, scope: RequestScope, name: str, obj: Object, data: bytes, options: WriteOptions, sent_as: str
) -> Written:
    obj = scope.to_storage(obj)
    scope.resource.strategy.default(obj)
    op = scope.operation(ctx, name, options.tree, options.field_manager, options.dry_run)
    op.sent = lambda: read_any(data, sent_as, scope.kind)
    return Written(op, obj)


async def stored_response(
    ctx: RequestContext, scope: RequestScope, op: Operation, stored: Stored, media: MediaType
) -> Response:
    """201 with a created object, 200 with a changed one: the stored bytes when the requested version is the stored one."""
    if not stored.created and not op.dry_run:
        scope.store.keep_decoded(stored, op.namespace, op.name)
    if ctx.audit is not None:
        ctx.audit.response_object(stored.obj)
    code = 201 if stored.created else 200
    if scope.same_version:
        return respond_object(ctx, scope, code, stored.obj, stored.data, media)
    return respond_object(ctx, scope, code, await scope.answered(stored.obj), None, media)
