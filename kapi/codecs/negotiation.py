"""Content negotiation: the media types of requests and answers (upstream: ``endpoints/handlers/negotiation``).

Two layers refuse, each with its own text: the router, which knows all representations of a route (``406: Not Acceptable``),
and the serializers (``only the following media types are accepted``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

from kapi.codecs.accept import Convert, choose, route_accepts
from kapi.machinery import status

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
CBOR, CBOR_SEQUENCE = "application/cbor", "application/cbor-seq"
TEXT = "text/plain"
APPLY, APPLY_CBOR = "application/apply-patch+yaml", "application/apply-patch+cbor"
#: patch type of server-side apply -> media type of its body
APPLIED_AS = {APPLY: YAML, APPLY_CBOR: CBOR}
#: media types of objects in answers; CBOR only where the feature gate CBORServingAndStorage adds it (``RequestHead.cbor``)
SUPPORTED = (JSON, YAML, PROTOBUF)
_WITH_CBOR = (*SUPPORTED, CBOR)
_STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_STREAMS_WITH_CBOR = (*_STREAMS, CBOR_SEQUENCE)
_TABLES = frozenset([JSON, YAML])  # media types that can have Tables
_METADATA = frozenset(["PartialObjectMetadata", "PartialObjectMetadataList"])
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
#: a parameter of a Content-Type: a name, and a value that may be quoted
_PARAMETER = re.compile(rf'\s*;\s*({_TOKEN})\s*=\s*({_TOKEN}|"(?:[^"\\\r\n]|\\[^\r\n])*")')
_TRUE = frozenset(["1", "true", "t", "T", "TRUE", "True"])


class MediaType(NamedTuple):
    """The form of an answer.  ``plain`` means that the stored JSON bytes can be sent as they are."""

    yaml: bool = False
    pretty: bool = False
    as_kind: str = ""  # Table, PartialObjectMetadata, PartialObjectMetadataList or ""
    as_version: str = ""  # the version of meta.k8s.io
    content_type: bytes = b"application/json"
    plain: bool = True
    protobuf: bool = False
    cbor: bool = False

    @property
    def binary(self) -> bool:
        """Whether the media type is not text."""
        return self.protobuf or self.cbor


def supported(cbor: bool) -> tuple[str, ...]:
    """The media types of an endpoint with or without CBOR."""
    return _WITH_CBOR if cbor else SUPPORTED


def not_acceptable_on_route(verb: str, cbor: bool = False) -> status.StatusError:
    """The 406 of the router."""
    streams = _STREAMS_WITH_CBOR if cbor else _STREAMS
    known = _of_route(verb, cbor) + (streams if verb in ("list", "watch") else ())
    return status.NotAcceptable("406: Not Acceptable\n\nAvailable representations: " + ", ".join(known), details={})


def not_accepted(media_types: tuple[str, ...]) -> status.StatusError:
    """The 406 of the serializers."""
    return status.NotAcceptable("only the following media types are accepted: " + ", ".join(media_types))


_MAX_CACHED_LENGTH = 512  # characters: longer headers are not cached


def _negotiate(accept: str, verb: str, pretty: bool, tables: bool, protobuf: bool, cbor: bool) -> MediaType:
    read = _read_cached if len(accept) <= _MAX_CACHED_LENGTH else _read
    return read(accept, verb, pretty, tables, protobuf, cbor)


def _read(accept: str, verb: str, pretty: bool, tables: bool, protobuf: bool, cbor: bool) -> MediaType:
    known = supported(cbor)
    # custom resources have no routes of their own, so the router does not check them
    if protobuf and not _route_accepts(accept, verb, cbor):
        raise not_acceptable_on_route(verb, cbor)
    chosen = choose(accept, known, _transforms(tables, protobuf), server_version="v1")
    watching = verb == "watch"
    if chosen is None or (watching and chosen.media == YAML):
        raise not_accepted(known if chosen is None else _STREAMS_WITH_CBOR if cbor else _STREAMS)
    kind = chosen.convert.kind if chosen.convert is not None else ""
    version = chosen.convert.version if chosen.convert is not None else ""
    if chosen.media == PROTOBUF:
        return _as_protobuf(kind, version, watching)
    if chosen.media == CBOR:
        return _as_cbor(kind, version, watching)
    yaml = chosen.media == YAML
    indented = not (yaml or watching) and (pretty or chosen.pretty)
    content_type = b"application/yaml" if yaml else b"application/json"
    return MediaType(yaml, indented, kind, version, content_type, not (yaml or indented or kind))


def check_route(ctx: RequestHead, verb: str) -> None:
    """Raises NotAcceptable when the router refuses a request for its Accept header."""
    if not _route_accepts(ctx.header("accept") or "", verb, ctx.cbor):
        raise not_acceptable_on_route(verb, ctx.cbor)


def _of_route(verb: str, cbor: bool) -> tuple[str, ...]:
    """The media types of a route.  That of logs also lets text pass, which the serializers refuse afterwards."""
    return (TEXT, *supported(cbor)) if verb == "log" else supported(cbor)


def _route_accepts(accept: str, verb: str, cbor: bool) -> bool:
    """Whether the router lets a request pass; a request for a CBOR stream fails later, since no answer has this form."""
    sequences = (CBOR_SEQUENCE,) if cbor and verb in ("list", "watch") else ()
    return route_accepts(accept, _of_route(verb, cbor) + sequences)


def _transforms(tables: bool, protobuf: bool) -> Callable[[str, Convert | None], bool]:
    """Whether a media type supports a conversion: Tables and metadata of ``meta.k8s.io``."""

    def allows(media: str, convert: Convert | None) -> bool:
        if convert is None:
            return protobuf or media != PROTOBUF
        if convert.group != "meta.k8s.io" or convert.version not in ("v1", "v1beta1"):
            return False
        return tables and media in _TABLES if convert.kind == "Table" else convert.kind in _METADATA

    return allows


def _as_protobuf(kind: str, version: str, watching: bool) -> MediaType:
    content_type = PROTOBUF + (";stream=watch" if watching else "")
    return MediaType(False, False, kind, version if kind else "", content_type.encode(), False, True)


def _as_cbor(kind: str, version: str, watching: bool) -> MediaType:
    content_type = CBOR_SEQUENCE if watching else CBOR
    return MediaType(False, False, kind, version if kind else "", content_type.encode(), False, False, True)


_read_cached = lru_cache(1024)(_read)
_PLAIN = MediaType()
_INDENTED = MediaType(pretty=True, plain=False)
#: user agents used by people, which get indented JSON
_INTERACTIVE_AGENTS = ("curl", "Wget", "Mozilla/5.0")


class RequestHead(Protocol):
    """The parts of a request that negotiation reads."""

    no_protobuf: bool
    cbor: bool
    query: dict[str, list[str]]

    def header(self, name: str, /) -> str | None: ...


def output_media_type(ctx: RequestHead, verb: str, tables: bool = True) -> MediaType:
    """The form of the answer with an object.

    ``verb`` is the API verb, or ``log``: lists, watches and logs have more representations.  ``tables``: whether the resource can
    be shown as a Table.  ``ctx.no_protobuf``: its objects have no protobuf form, only their metadata has.  Raises NotAcceptable.
    """
    accept = ctx.header("accept")
    pretty = wants_indented(ctx)
    if not pretty and (accept is None or accept == JSON):
        return _PLAIN
    return _negotiate(accept or "", verb, pretty, tables, not ctx.no_protobuf, ctx.cbor)


def wants_indented(ctx: RequestHead) -> bool:
    """Whether JSON is indented: by ``pretty`` in the query, otherwise for user agents that people use."""
    expected = ctx.query.get("pretty") if ctx.query else None
    if expected is not None and expected[0]:
        return expected[0] in _TRUE
    agent = ctx.header("user-agent")
    return agent is not None and agent.startswith(_INTERACTIVE_AGENTS)


def plain_media_type(ctx: RequestHead) -> MediaType | None:
    """The form of an answer that cannot be converted, such as a Status or a discovery document.

    None when no clause of the header matches, for example because it asks for a Table.
    """
    accept = ctx.header("accept") or ""
    choose_plain = _plain_cached if len(accept) <= _MAX_CACHED_LENGTH else _plain
    return choose_plain(accept, wants_indented(ctx), ctx.cbor)


def _plain(accept: str, pretty: bool, cbor: bool) -> MediaType | None:
    chosen = choose(accept, supported(cbor), lambda media, convert: convert is None)
    return None if chosen is None else written_as(chosen.media, pretty or chosen.pretty)


_plain_cached = lru_cache(1024)(_plain)


def written_as(media: str, pretty: bool) -> MediaType:
    """The form of an unconverted answer in this media type."""
    if media == PROTOBUF:
        return _as_protobuf("", "", False)
    if media == CBOR:
        return _as_cbor("", "", False)
    if media == YAML:
        return MediaType(True, content_type=b"application/yaml", plain=False)
    return MediaType(pretty=pretty, plain=not pretty)


def error_media_type(ctx: RequestHead) -> MediaType:
    """The form of a Status: indented JSON when no form of it is accepted."""
    return plain_media_type(ctx) or _INDENTED


def input_media_type(ctx: RequestHead) -> str:
    """JSON, YAML, PROTOBUF or CBOR; JSON without a Content-Type.  Raises UnsupportedMediaType."""
    content_type = ctx.header("content-type")
    if not content_type or content_type == JSON:
        return JSON
    media = _parse_media_type(content_type)
    known = supported(ctx.cbor)
    if media in known:
        return media
    raise status.UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(known)
    )


def _parse_media_type(value: str) -> str:
    """The media type of a Content-Type, in lower case; empty when its parameters are malformed (Go: ParseMediaType)."""
    media, _, rest = value.partition(";")
    parameters: dict[str, str] = {}
    rest = rest and ";" + rest
    place = 0
    while rest[place:].strip() not in ("", ";"):
        found = _PARAMETER.match(rest, place)
        if found is None or parameters.setdefault(found[1].lower(), found[2]) != found[2]:
            return ""
        place = found.end()
    return media.strip().lower()


def check_patch_route(ctx: RequestHead, types: tuple[str, ...]) -> str:
    """The patch type of a PATCH.  Raises UnsupportedMediaType with the text of the router or of the serializers."""
    given = ctx.header("content-type") or ""
    kind = given.partition(";")[0]
    if kind in types or (ctx.cbor and kind == APPLY_CBOR):
        return kind
    if ctx.cbor:
        types = (*types, APPLY_CBOR)
    names = [part.partition(";")[0].strip() for part in given.split(",")]
    if "application/strategic-merge-patch+json" in types and not any(name in types for name in names):
        ctx.cbor = False  # the router has no such serializer
        raise status.UnsupportedMediaType("415: Unsupported Media Type", details={})
    raise status.UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(types)
    )
