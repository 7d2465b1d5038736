"""The fields of upstream's internal types, in Go's order: what a message shows of a whole value.

Upstream: ``pkg/apis/*/types.go`` for names and order, ``k8s.io/api`` for the names in JSON.  The table is ``internal_types.txt``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kapi.machinery.tree import Tree

_TABLE = Path(__file__).with_suffix(".txt")
_FIELD = re.compile(r"(@?\w+)(?::(\^?\w+))?(?:=([^>]+))?(?:>(\w+))?")
_FIRST_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]")  # the part of a Go name that JSON writes in lower case


class InternalField(NamedTuple):
    """A field; ``inner`` is the type of what it holds: "" for a plain value, "raw" for one that is shown as it was sent."""

    go_name: str  # "" for the metadata, whose fields are written inline
    name: str  # in JSON; ^name stands in the parent of the value
    zero: Tree
    inner: str


@functools.cache
def _paragraphs() -> Mapping[str, list[str]]:
    lines = [line for line in _TABLE.read_text().splitlines() if not line.startswith("#")]
    paragraphs = (paragraph.split() for paragraph in "\n".join(lines).replace("\n ", " ").splitlines())
    return {kind: fields for kind, *fields in paragraphs}


def is_internal(kind: str) -> bool:
    """Whether the table has a type of this name."""
    return kind in _paragraphs()


@functools.cache
def fields_of(kind: str) -> tuple[InternalField, ...]:
    """The fields of an internal type.  Raises KeyError."""
    return tuple(_field(text) for text in _paragraphs()[kind])


def _field(text: str) -> InternalField:
    if text == "@metadata":
        return InternalField("", "metadata", None, "")
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"{_TABLE.name}: {text}")
    go_name, name, zero, inner = match.groups(default="")
    default = None if inner else ""
    name = name or _FIRST_WORD.sub(lambda word: word[0].lower(), go_name, count=1)
    return InternalField(go_name, name, json.loads(zero) if zero else default, inner)
