"""Encodes objects and cached bytes in the requested media type: the fast and the slow paths of reads."""

from __future__ import annotations

import orjson

from kapi.codecs import json_pieces
from kapi.codecs.negotiation import PROTOBUF, MediaType
from kapi.endpoints import transform
from kapi.endpoints.scope import RequestScope
from kapi.machinery import checkpoint, status
from kapi.machinery.each import costly
from kapi.machinery.importing import import_in_thread
from kapi.machinery.tree import Object, Tree
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Resource
from kapi.schema import protobuf_writing
from kapi.watchcache.entry import Entry

PROTOBUF_TYPE = PROTOBUF.encode()
MIN_SHARED_BYTES = 256 * 1024  # all waiting clients share the bytes of a larger object, instead of a copy for each
_YAML_WRITING, _CBOR = "kapi.codecs.yaml_writing", "kapi.schema.cbor"


def encode(tree: Tree, media: MediaType) -> bytes:
    """A tree as JSON (one line, or indented and without a line break at the end, as upstream's), YAML, protobuf or CBOR."""
    if media.protobuf:
        return protobuf_writing.encode_tree(tree)
    if media.cbor:
        import_in_thread(_CBOR)
        from kapi.schema import cbor  # only when it is used

        return cbor.encode_tree(tree)
    if media.yaml:
        import_in_thread(_YAML_WRITING)  # only when it is used
        from kapi.codecs.yaml_writing import dump_yaml

        return dump_yaml(tree)
    if not media.pretty:
        return json_pieces.dumps(tree) + b"\n"
    if checkpoint.running is not None:
        tree = _in_parts(tree)
    return json_pieces.with_long_numbers(orjson.dumps(tree, option=orjson.OPT_INDENT_2))


def _in_parts(tree: Tree) -> Tree:
    """A list or table whose entries are JSON already, written in steps."""
    for name in ("items", "rows"):
        entries = tree.get(name)
        if entries and type(entries) is list:
            return {**tree, name: [_part(entry) for entry in costly(entries)]}
    return tree


def _part(entry: object) -> orjson.Fragment:
    lines = json_pieces.with_long_numbers(orjson.dumps(entry, option=orjson.OPT_INDENT_2))
    return orjson.Fragment(
        lines.replace(b"\n", b"\n    ")
    )  # the indent of list items; line breaks in texts are escaped


def message_of_entry(scope: RequestScope, entry: Entry) -> bytes:
    """A cached object's protobuf message in the requested version.  Raises Unreadable."""
    write = protobuf_writing.message_of(scope.kind)
    try:
        return entry.message(write) if scope.same_version else write(scope.from_storage(entry.object))
    except Exception:
        entry.check()
        raise


def respond_message(ctx: RequestContext, scope: RequestScope, entry: Entry) -> Response:
    """200 with a cached object's protobuf message.  Raises Unreadable."""
    message = message_of_entry(scope, entry)
    if ctx.audit is not None:
        ctx.audit.response_object(lambda: scope.from_storage(entry.object))
    return Response(200, protobuf_writing.envelope(scope.kind, message), PROTOBUF_TYPE)


def respond_tree(ctx: RequestContext, code: int, tree: Tree, media: MediaType) -> Response:
    """The response with a tree; the audit event reads it from the answer if that is JSON."""
    if ctx.audit is not None and (media.yaml or media.binary):
        if tree.get("kind") == "Status":
            ctx.audit.status_object(tree)
        ctx.audit.response_object(lambda: _listed(tree))
    return Response(code, encode(tree, media), media.content_type)


def _listed(tree: Object) -> Object:
    """The tree with a list of items, where they are made one by one."""
    items = tree.get("items")
    return tree if items is None or type(items) is list else {**tree, "items": list(costly(items))}


def respond_object(
    ctx: RequestContext,
    scope: RequestScope,
    code: int,
    obj: Object | None,
    data: bytes | None,
    media: MediaType,
    stored: Object | None = None,
) -> Response:
    """The response with one object of the scope's kind.

    ``data`` are its stored bytes, when the requested version is the stored one.  ``stored`` is the object in its storage version,
    which some tables and metadata are made from.
    """
    if media.plain and data:
        body = data + b"\n" if len(data) < MIN_SHARED_BYTES else (data, b"\n")
        return Response(code, body, media.content_type)
    if obj is None:  # only bytes were given
        obj = json_pieces.loads(data or b"null")
    tree = obj
    shown = stored if shows_stored(scope.resource) and stored is not None else obj
    if media.as_kind == "Table":
        version = obj["metadata"].get("resourceVersion")  # an object that a dry run creates has no resourceVersion
        meta = {"resourceVersion": version} if version else {}
        include = ctx.first("includeObject", "Metadata")
        whole = obj
        tree = transform.table(
            scope.resource,
            [shown],
            meta,
            now=scope.now,
            version=media.as_version,
            include=include,
            served=lambda _: whole,
        )
    elif media.as_kind == "PartialObjectMetadata":
        tree = transform.partial(shown, media.as_version, scope.resource)
    elif media.as_kind:
        raise not_a_list(scope.resource, media.as_kind)
    return respond_tree(ctx, code, tree, media)


def not_a_list(resource: Resource, as_kind: str) -> status.StatusError:
    """The error for a single object requested as a list.  Go's type of custom resources has the methods of lists."""
    if resource.typed_items:
        return status.generic("content is not a list")
    return status.NotAcceptable(
        f"you requested {as_kind}, but the requested object is not a list ({go_type(resource)})"
    )


def shows_stored(resource: Resource) -> bool:
    """Whether the rows of a resource's table, and its metadata alone, are made from objects in their storage version."""
    return resource.table is not None and resource.table.of_stored


def go_type(resource: Resource, suffix: str = "") -> str:
    """The name of a resource's internal type in upstream's messages."""
    if resource.typed_items:
        return "*unstructured.Unstructured" + suffix
    package = "core" if resource.group in ("", "events.k8s.io") else resource.group.partition(".")[0]
    return f"*{package}.{resource.kind}{suffix}"
