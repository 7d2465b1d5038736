"""The Accept header: its clauses in the order of preference, and the first that an endpoint can meet.

Upstream: ``NegotiateMediaTypeOptions`` of apiserver's ``endpoints/handlers/negotiation``, over ``munnerz/goautoneg``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import NamedTuple

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAX_INSERTED = 12  # clauses: as many as Go's sort puts in order by insertion
_YAML = "application/yaml"  # has no form of a stream


class Clause(NamedTuple):
    """One media range of the header."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]


class Convert(NamedTuple):
    """What the answer is to be turned into."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Chosen(NamedTuple):
    """The media type to answer in, and the parameters of its clause."""

    media: str
    convert: Convert | None
    pretty: bool
    profile: str


def parse_accept(header: str) -> list[Clause]:
    """The clauses of an Accept header, in the order in which they are tried; malformed ones are left out."""
    return _sorted([clause for part in header.split(",") for clause in _clause(part.strip(" "))])


def _clause(part: str) -> Iterator[Clause]:
    media, _, rest = part.partition(";")
    kind, _, subtype = media.partition("/")
    kind = kind.strip(" ")
    if not subtype:
        if kind != "*":
            return
        subtype = "*"
    subtype, _, more = subtype.partition("/")
    if more:
        return
    parameters: dict[str, str] = {}
    quality = 1.0
    for item in rest.split(";"):
        name, _, value = item.partition("=")
        value, _, more = value.partition("=")
        if more or not value:
            continue
        name = name.strip(" ")
        if name == "q":
            quality = float(value) if _NUMBER.fullmatch(value) else 0.0
        else:
            parameters[name] = value.strip(" ")
    yield Clause(kind, subtype.strip(" "), quality, parameters)


def _before(one: Clause, other: Clause) -> bool:
    if one.quality > other.quality or (one.type != "*" and other.type == "*"):
        return True
    return one.subtype != "*" and other.subtype == "*"


def _compare(one: Clause, other: Clause) -> int:
    return _before(other, one) - _before(one, other)


def _sorted(clauses: list[Clause]) -> list[Clause]:
    """Sorted by quality, then by how specific they are.

    The order is no total one: a named type comes before ``*/*`` of a better quality when it stands behind it, and the
    other way round. So few clauses are put in order one by one, as Go's sort does.
    """
    if len(clauses) > _MAX_INSERTED:
        return sorted(clauses, key=cmp_to_key(_compare))
    for end in range(1, len(clauses)):
        place = end
        while place and _before(clauses[place], clauses[place - 1]):
            clauses[place - 1], clauses[place] = clauses[place], clauses[place - 1]
            place -= 1
    return clauses


def on_route(header: str, produced: tuple[str, ...]) -> bool:
    """Whether a route goes on with the header: it knows media types by their whole names alone (go-restful)."""
    names = [part.split(";", 1)[0].strip(" ") for part in header.split(",")]
    return not header or any(name == "*/*" or name in produced for name in names)


def choose(
    header: str,
    supported: tuple[str, ...],
    allows: Callable[[str, Convert | None], bool],
    server_version: str = "",
) -> Chosen | None:
    """The first of the supported media types that a clause names and whose parameters the endpoint can meet.

    ``allows`` says whether what is asked for can be made in a media type; ``server_version`` is the one that ``sv`` may
    name.
    """
    if not header:
        return Chosen(supported[0], None, False, "")
    for clause in parse_accept(header):
        for media in supported:
            if _matches(clause, media):
                chosen = _met(clause.parameters, media, allows, server_version)
                if chosen is not None:
                    return chosen
    return None


def _matches(clause: Clause, media: str) -> bool:
    kind, _, subtype = media.partition("/")
    if clause.type == kind:
        return clause.subtype in (subtype, "*")
    return clause.type == clause.subtype == "*"


def _met(
    parameters: dict[str, str], media: str, allows: Callable[[str, Convert | None], bool], server_version: str
) -> Chosen | None:
    stream = parameters.get("stream")
    if stream and (stream != "watch" or media == _YAML):
        return None
    version = parameters.get("sv")
    if version and version != server_version:
        return None
    convert = None
    if "as" in parameters or "g" in parameters or "v" in parameters:
        convert = Convert(parameters.get("g", ""), parameters.get("v", ""), parameters.get("as", ""))
    if not allows(media, convert):
        return None
    return Chosen(media, convert, parameters.get("pretty") == "1", parameters.get("profile", ""))
