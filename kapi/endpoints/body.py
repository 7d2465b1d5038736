"""Request bodies: media type, decoding against the type, field validation (upstream: ``endpoints/handlers/rest.go``)."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from kapi.codecs.negotiation import PROTOBUF, input_media_type
from kapi.codecs.reading import Document, read_body, too_large, unrecognized
from kapi.machinery import status
from kapi.machinery.checkpoint import LARGE, engage, expect_tree
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.pending import REFUSAL, RETRY_AFTER_SECONDS
from kapi.schema import protobuf
from kapi.schema.decode import cannot_handle, decode
from kapi.schema.protobuf_wire import ProtobufError
from kapi.schema.types import Type


def raw_body(ctx: RequestContext) -> bytes:
    """The whole body, undecoded.

    Raises RequestTooLarge when it exceeds the limit, TooManyRequests when all bodies together do, and CancelledError when the
    client has disconnected.  Raises ServiceUnavailable for a body that is forwarded to another server, when this
    server serves its resource meanwhile.
    """
    if getattr(ctx.http, "body_too_large", False):
        raise too_large()
    if getattr(ctx.http, "body_refused", False):
        raise status.too_many_requests(REFUSAL, RETRY_AFTER_SECONDS)
    if ctx.http.gone:
        raise CancelledError
    if getattr(ctx.http, "streamed", None) is not None:
        raise status.ServiceUnavailable("the server that was to take this body does not serve the resource any more")
    content = ctx.http.content
    content.seek(0)
    data: bytes = content.read()
    if len(data) >= LARGE:
        engage()
        expect_tree(len(data))
    if ctx.bodies is not None:
        ctx.bodies.add(len(data))
    return data


def decode_object(
    ctx: RequestContext, data: bytes, kind: GroupVersionKind, type_: Type, validation: str, media: str = ""
) -> Object:
    """A body as an object of ``kind``: fills in or checks kind and apiVersion, and handles unknown fields by ``validation``.

    ``media`` is its media type, if that has been determined before.

    Raises BadRequest for a body that cannot be decoded, UnsupportedMediaType, and with Strict for unknown or duplicate fields.
    """
    media = media or input_media_type(ctx)
    return decode(read_any(data, media, kind), kind, type_, validation, ctx.warn)


def read_any(data: bytes, media: str, kind: GroupVersionKind) -> Document:
    """The tree of a JSON, YAML, CBOR or protobuf body.  Raises DecodingError."""
    if media != PROTOBUF:
        return read_body(data, media, kind)
    try:
        body = protobuf.envelope(data)
    except ProtobufError as error:
        raise unrecognized(data, kind, str(error)) from None
    given = protobuf.kind_in(body, kind)
    if not protobuf.is_known(given):
        return Document({"kind": given.kind, "apiVersion": str(given.group_version)})  # refused by its kind
    try:
        return Document(protobuf.decode_message(body, given))
    except ValueError as error:
        raise cannot_handle(given, kind, str(error)) from None


def check_name(ctx: RequestContext, obj: Object) -> None:
    """The name in the body must be that in the URL (PUT and PATCH).  Raises BadRequest."""
    assert ctx.info is not None
    check_named(obj, ctx.info.name)


def check_named(obj: Object, wanted: str) -> None:
    """As ``check_name``, for an object that must have the name ``wanted``."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name", "")
    if not name:
        raise status.bad_request(
            f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )
    if name != wanted:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({wanted})")
