"""Media types: what a client accepts and what it sends (upstream: ``endpoints/handlers/negotiation``).

Two layers refuse, with words of their own: routing knows which representations a route has at all (``406: Not
Acceptable``), the serializers which form of them (``only the following media types are accepted``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

from kapi.machinery import status

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
#: what objects are answered in
SUPPORTED = (JSON, YAML, PROTOBUF)
_STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_FORMS = frozenset(["Table", "PartialObjectMetadata", "PartialObjectMetadataList"])
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


class _Clause(NamedTuple):
    media: str
    quality: float
    parameters: dict[str, str]


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of an Accept header, best quality first."""
    found = []
    for part in accept.split(","):
        media, *rest = part.split(";")
        parameters: dict[str, str] = {}
        quality = 1.0
        for item in rest:
            name, _, value = item.strip().partition("=")
            if name == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 1.0
            else:
                parameters[name.strip()] = value.strip()
        found.append(_Clause(media.strip(), quality, parameters))
    return sorted(found, key=lambda clause: -clause.quality)


def accepted(accept: str) -> list[str]:
    """The media types of an Accept header, best liked first, without parameters."""
    return [clause.media for clause in _clauses(accept)]


def _not_on_route(verb: str) -> status.StatusError:
    known = SUPPORTED + (_STREAMS if verb in ("list", "watch") else ())
    return status.NotAcceptable("406: Not Acceptable\n\nAvailable representations: " + ", ".join(known), details={})


def not_accepted(media_types: tuple[str, ...]) -> status.StatusError:
    return status.NotAcceptable("only the following media types are accepted: " + ", ".join(media_types))


_MAX_CACHED_LENGTH = 512  # characters: longer headers are read anew


def _negotiate(accept: str, verb: str, pretty: bool, tables: bool = True, protobuf: bool = True) -> MediaType:
    read = _read_cached if len(accept) <= _MAX_CACHED_LENGTH else _read
    return read(accept, verb, pretty, tables, protobuf)


def _read(accept: str, verb: str, pretty: bool, tables: bool, protobuf: bool) -> MediaType:
    if accept.strip() == "":
        accept = "*/*"
    names = [clause.split(";", 1)[0].strip() for clause in accept.split(",")]
    if not any(name == "*/*" or name in SUPPORTED for name in names):
        raise _not_on_route(verb)
    watching = verb == "watch"
    for clause in _clauses(accept):
        if clause.media not in (*SUPPORTED, "*/*", "application/*") or watching and clause.media == YAML:
            continue
        kind = clause.parameters.get("as", "")
        version = clause.parameters.get("v", "")
        if kind:
            if (
                kind not in _FORMS
                or (kind == "Table" and not tables)
                or version not in ("v1", "v1beta1")
                or clause.parameters.get("g") != "meta.k8s.io"
            ):
                continue
        if clause.media == PROTOBUF:
            if kind == "Table" or not (kind or protobuf):
                continue
            return _as_protobuf(kind, version, watching)
        yaml = clause.media == YAML
        fancy = pretty or clause.parameters.get("pretty", "") in _TRUE
        content_type = b"application/yaml" if yaml else b"application/json"
        return MediaType(yaml, fancy, kind, version if kind else "", content_type, not (yaml or fancy or kind))
    raise not_accepted(_STREAMS if watching else SUPPORTED)


def _as_protobuf(kind: str, version: str, watching: bool) -> MediaType:
    content_type = PROTOBUF + (";stream=watch" if watching else "")
    return MediaType(False, False, kind, version if kind else "", content_type.encode(), False, True)


_read_cached = lru_cache(1024)(_read)
_PLAIN = MediaType()


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
    wanted = ctx.query.get("pretty") if ctx.query else None
    if wanted is None:
        if accept is None or accept == JSON:
            agent = ctx.header("user-agent")
            if agent is None or not _for_eyes(agent):
                return _PLAIN
            return _negotiate(JSON, verb, verb != "watch")
        pretty = verb != "watch" and _for_eyes(ctx.header("user-agent") or "")
    else:
        pretty = wanted[0] in _TRUE and verb != "watch"
    return _negotiate(accept or "*/*", verb, pretty, tables, not ctx.no_protobuf)


def _for_eyes(agent: str) -> bool:
    """Agents of people who read what they get: they get it indented."""
    return agent.startswith(("curl/", "Wget/", "Mozilla/5.0"))


def error_media_type(accept: str) -> MediaType:
    """The form of a Status: YAML or protobuf for whom likes that best, JSON for everybody else."""
    try:
        media = _negotiate(accept, "get", False)
    except status.StatusError:
        return _PLAIN
    if media.protobuf:
        return _as_protobuf("", "", False)
    return MediaType(True, content_type=b"application/yaml", plain=False) if media.yaml else _PLAIN


def input_media_type(content_type: str | None) -> str:
    """JSON, YAML or PROTOBUF; nothing said is JSON.  Raises UnsupportedMediaType."""
    media = (content_type or "").split(";", 1)[0].strip().lower()
    if media in ("", JSON):
        return JSON
    if media in (YAML, PROTOBUF):
        return media
    raise status.UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(SUPPORTED)
    )


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
