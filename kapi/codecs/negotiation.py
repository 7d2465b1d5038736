"""Media types: what a client accepts and what it sends (upstream: ``endpoints/handlers/negotiation``).

Two layers refuse, with words of their own: routing knows which representations a route has at all (``406: Not
Acceptable``), the serializers which form of them (``only the following media types are accepted``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

from kapi.codecs.accept import Convert, choose, on_route
from kapi.machinery import status

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
#: what objects are answered in
SUPPORTED = (JSON, YAML, PROTOBUF)
_STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_METADATA = frozenset(["PartialObjectMetadata", "PartialObjectMetadataList"])
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
#: of a Content-Type: a name, and a value that may be quoted
_PARAMETER = re.compile(rf'\s*;\s*({_TOKEN})\s*=\s*({_TOKEN}|"(?:[^"\\\r\n]|\\[^\r\n])*")')
_TRUE = frozenset(["1", "true", "t", "T", "TRUE", "True"])


class MediaType(NamedTuple):
    """The form of an answer.  ``plain`` means that stored bytes can be sent as they are."""

    yaml: bool = False
    pretty: bool = False
    as_kind: str = ""  # Table, PartialObjectMetadata, PartialObjectMetadataList or ""
    as_version: str = ""  # of meta.k8s.io
    content_type: bytes = b"application/json"
    plain: bool = True
    protobuf: bool = False


def not_on_route(verb: str) -> status.StatusError:
    """The words of routing."""
    known = SUPPORTED + (_STREAMS if verb in ("list", "watch") else ())
    return status.NotAcceptable("406: Not Acceptable\n\nAvailable representations: " + ", ".join(known), details={})


def not_accepted(media_types: tuple[str, ...]) -> status.StatusError:
    """The words of the serializers."""
    return status.NotAcceptable("only the following media types are accepted: " + ", ".join(media_types))


_MAX_CACHED_LENGTH = 512  # characters: longer headers are read anew


def _negotiate(accept: str, verb: str, pretty: bool, tables: bool = True, protobuf: bool = True) -> MediaType:
    read = _read_cached if len(accept) <= _MAX_CACHED_LENGTH else _read
    return read(accept, verb, pretty, tables, protobuf)


def _read(accept: str, verb: str, pretty: bool, tables: bool, protobuf: bool) -> MediaType:
    # custom resources have no routes of their own: their handler negotiates alone
    if protobuf and not on_route(accept, SUPPORTED):
        raise not_on_route(verb)
    chosen = choose(accept, SUPPORTED, _transforms(tables, protobuf), server_version="v1")
    watching = verb == "watch"
    if chosen is None or (watching and chosen.media == YAML):
        raise not_accepted(SUPPORTED if chosen is None else _STREAMS)
    kind = chosen.convert.kind if chosen.convert is not None else ""
    version = chosen.convert.version if chosen.convert is not None else ""
    if chosen.media == PROTOBUF:
        return _as_protobuf(kind, version, watching)
    yaml = chosen.media == YAML
    indented = not (yaml or watching) and (pretty or chosen.pretty)
    content_type = b"application/yaml" if yaml else b"application/json"
    return MediaType(yaml, indented, kind, version, content_type, not (yaml or indented or kind))


def _transforms(tables: bool, protobuf: bool) -> Callable[[str, Convert | None], bool]:
    """What objects can be turned into, by media type."""

    def allows(media: str, convert: Convert | None) -> bool:
        if convert is None:
            return protobuf or media != PROTOBUF
        if convert.group != "meta.k8s.io" or convert.version not in ("v1", "v1beta1"):
            return False
        return tables and media != PROTOBUF if convert.kind == "Table" else convert.kind in _METADATA

    return allows


def _as_protobuf(kind: str, version: str, watching: bool) -> MediaType:
    content_type = PROTOBUF + (";stream=watch" if watching else "")
    return MediaType(False, False, kind, version if kind else "", content_type.encode(), False, True)


_read_cached = lru_cache(1024)(_read)
_PLAIN = MediaType()
#: agents of people who read what they get: they get it indented
_READERS = ("curl", "Wget", "Mozilla/5.0")


class Asked(Protocol):
    """What is looked at of a request."""

    no_protobuf: bool
    query: dict[str, list[str]]

    def header(self, name: str, /) -> str | None: ...


def output_media_type(ctx: Asked, verb: str, tables: bool = True) -> MediaType:
    """What to answer.  ``verb`` is the API verb: lists and watches have more representations.

    ``tables``: whether there are tables of it.  ``ctx.no_protobuf`` says that objects of the kind have no
    protobuf form; their metadata alone have.  Raises NotAcceptable.
    """
    accept = ctx.header("accept")
    pretty = wants_indented(ctx)
    if not pretty and (accept is None or accept == JSON):
        return _PLAIN
    return _negotiate(accept or "", verb, pretty, tables, not ctx.no_protobuf)


def wants_indented(ctx: Asked) -> bool:
    """Whether JSON is to be indented: asked for by the query, or else to be read by a person."""
    wanted = ctx.query.get("pretty") if ctx.query else None
    if wanted is not None and wanted[0]:
        return wanted[0] in _TRUE
    agent = ctx.header("user-agent")
    return agent is not None and agent.startswith(_READERS)


def plain_media_type(ctx: Asked) -> MediaType | None:
    """The form of what cannot be turned into anything else: a Status, a document of discovery.

    None when no clause will do: one that asks for a table, say.
    """
    accept = ctx.header("accept") or ""
    choose_plain = _plain_cached if len(accept) <= _MAX_CACHED_LENGTH else _plain
    return choose_plain(accept, wants_indented(ctx))


def _plain(accept: str, pretty: bool) -> MediaType | None:
    chosen = choose(accept, SUPPORTED, lambda media, convert: convert is None)
    return None if chosen is None else written_as(chosen.media, pretty or chosen.pretty)


_plain_cached = lru_cache(1024)(_plain)


def written_as(media: str, pretty: bool) -> MediaType:
    """What is in this media type as it is."""
    if media == PROTOBUF:
        return _as_protobuf("", "", False)
    if media == YAML:
        return MediaType(True, content_type=b"application/yaml", plain=False)
    return MediaType(pretty=pretty, plain=not pretty)


def error_media_type(ctx: Asked) -> MediaType:
    """The form of a Status: JSON for whom it cannot be put in another way."""
    return plain_media_type(ctx) or _PLAIN


def input_media_type(content_type: str | None) -> str:
    """JSON, YAML or PROTOBUF; nothing said is JSON.  Raises UnsupportedMediaType."""
    if not content_type or content_type == JSON:
        return JSON
    media = _parse_media_type(content_type)
    if media in SUPPORTED:
        return media
    raise status.UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(SUPPORTED)
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


def check_patch_route(content_type: str | None, types: tuple[str, ...]) -> str:
    """The patch type of a PATCH.  Raises UnsupportedMediaType in the words of the layer that refuses."""
    given = content_type or ""
    names = [part.split(";", 1)[0].strip() for part in given.split(",")]
    if "application/strategic-merge-patch+json" in types and not any(name in types for name in names):
        raise status.UnsupportedMediaType("415: Unsupported Media Type", details={})
    kind = given.split(";", 1)[0]
    if kind not in types:
        raise status.UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(types)
        )
    return kind
