"""The Accept header: its clauses in the order of preference, and the first one that an endpoint supports.

Upstream: ``NegotiateMediaTypeOptions`` of apiserver's ``endpoints/handlers/negotiation``, over ``munnerz/goautoneg``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import NamedTuple

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAX_INSERTION_SORTED = 12  # clauses: Go's sort uses insertion sort up to here
_YAML = "application/yaml"  # cannot be streamed


class Clause(NamedTuple):
    """One media range of the header."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]


class Convert(NamedTuple):
    """The kind to which the answer is converted (parameters ``as``, ``g``, ``v``)."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Chosen(NamedTuple):
    """The media type of the answer, and the parameters of its clause."""

    media: str
    convert: Convert | None
    pretty: bool
    profile: str


def parse_accept(header: str) -> list[Clause]:
    """The clauses of an Accept header in the order in which they are tried, without malformed ones."""
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
    """Sorts by quality, then by how specific the clauses are.

    Upstream's comparison is not consistent: of ``*/*`` and a named type with lower quality each counts as smaller.  The
    result then depends on the algorithm, so a short list is sorted by insertion, as in Go.
    """
    if len(clauses) > _MAX_INSERTION_SORTED:
        return sorted(clauses, key=cmp_to_key(_compare))
    for end in range(1, len(clauses)):
        place = end
        while place and _before(clauses[place], clauses[place - 1]):
            clauses[place - 1], clauses[place] = clauses[place], clauses[place - 1]
            place -= 1
    return clauses


def route_accepts(header: str, produced: tuple[str, ...]) -> bool:
    """Whether a route accepts the header; go-restful compares only whole names of media types."""
    names = [part.partition(";")[0].strip(" ") for part in header.split(",")]
    return not header or any(name == "*/*" or name in produced for name in names)


def choose(
    header: str, supported: tuple[str, ...], allows: Callable[[str, Convert | None], bool], server_version: str = ""
) -> Chosen | None:
    """The first supported media type that a clause names and whose parameters the endpoint supports; else None.

    ``allows`` says whether a media type supports a conversion (None: no conversion); ``server_version`` is the one value that
    the parameter ``sv`` may have.
    """
    if not header:
        return Chosen(supported[0], None, False, "")
    for clause in parse_accept(header):
        for media in supported:
            if _matches(clause, media):
                chosen = _chosen(clause.parameters, media, allows, server_version)
                if chosen is not None:
                    return chosen
    return None


def _matches(clause: Clause, media: str) -> bool:
    kind, _, subtype = media.partition("/")
    if clause.type == kind:
        return clause.subtype in (subtype, "*")
    return clause.type == clause.subtype == "*"


def _chosen(
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
