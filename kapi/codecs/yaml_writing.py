"""Trees as YAML the way the API writes it (upstream: sigs.k8s.io/yaml over go-yaml v2): sorted keys, block style."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from kapi.codecs.yaml_reading import YAMLError, resolve
from kapi.machinery.each import elements
from kapi.machinery.golang import float_json, float_text
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Tree

_NATURAL = re.compile(r"([0-9]+)")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:$|[Tt ]|[ \t]+[0-9])")
_TEXT, _MAPPING, _SEQUENCE, _NUMBER = (f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "float"))
_INTEGERS = range(-(1 << 63), 1 << 63)
_READ_AS_INTEGERS = range(-(1 << 63), 1 << 64)
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")


class _Dumper(yaml.CSafeDumper):
    """libyaml's emitter, and PyYAML's representation of numbers and constants."""


# no resolver of its own: ``_needs_quotes`` decides about quotes, by go-yaml's rules
_Dumper.yaml_implicit_resolvers = dict(Resolver.yaml_implicit_resolvers)


def _style(text: str) -> str | None:
    if "\n" in text:
        return "|"
    return '"' if _needs_quotes(text) else None


def _needs_quotes(text: str) -> bool:
    """Whether a plain scalar of this text would be read as something else."""
    try:
        plain = isinstance(resolve(text), str)
    except YAMLError:  # infinities and NaN
        return True
    return not plain or text in ("=", "<<") or bool(_TIMESTAMP.match(text) or _BASE60.match(text))


def _number(value: float) -> str:
    """As Go: what is no int64 is a float64, written as JSON, and read again as YAML."""
    if isinstance(value, int) and value in _INTEGERS:
        return str(value)
    text = float_json(value)
    return text if text.lstrip("-").isdigit() and int(text) in _READ_AS_INTEGERS else float_text(float(value))


def _sort_key(name: str) -> str:
    """Sorts as go-yaml: digits compare as numbers, letters come after all other characters."""
    key = ""
    for position, part in enumerate(_NATURAL.split(name)):
        if position % 2:
            digits = part.lstrip("0")
            key += f"\1{chr(len(digits))}{digits}"
        else:
            key += "".join([f"\2{char}" if char.isalpha() else f"\0{char}" for char in part])
    return key


class _Writer:
    """Sends the tree to libyaml's emitter event by event, with checkpoints."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self._dumper: Any = _Dumper(self.stream, default_flow_style=False, allow_unicode=True, width=80)
        self._emit = self._dumper.emit

    def document(self, tree: object) -> str:
        emit = self._emit
        try:
            emit(StreamStartEvent())
            emit(DocumentStartEvent(explicit=False))
            self._node(tree)
            emit(DocumentEndEvent(explicit=False))
            emit(StreamEndEvent())
        finally:
            self._dumper.dispose()
        return self.stream.getvalue()

    def _node(self, node: object) -> None:
        emit = self._emit
        if isinstance(node, str):
            self._scalar(_TEXT, node, _style(node))
        elif isinstance(node, dict):
            emit(MappingStartEvent(None, _MAPPING, True, flow_style=not node))
            keys = ordered([(_sort_key(name), position, name) for position, name in enumerate(elements(node))])
            for _, _, name in elements(keys):
                self._scalar(_TEXT, name, _style(name))
                self._node(node[name])
            emit(MappingEndEvent())
        elif isinstance(node, Sequence):
            emit(SequenceStartEvent(None, _SEQUENCE, True, flow_style=not node))
            for item in elements(node):
                self._node(item)
            emit(SequenceEndEvent())
        elif isinstance(node, int | float) and not isinstance(node, bool):
            self._emit(ScalarEvent(None, _NUMBER, (True, False), _number(node)))
        else:
            scalar: Tree = self._dumper.represent_data(node)
            self._scalar(scalar.tag, scalar.value, scalar.style)

    def _scalar(self, tag: str, text: str, style: str | None) -> None:
        resolve = self._dumper.resolve
        implicit = tag == resolve(ScalarNode, text, (True, False)), tag == _TEXT
        self._emit(ScalarEvent(None, tag, implicit, text, style=style))


def dump_yaml(tree: object) -> bytes:
    """A JSON tree as one YAML document."""
    text = _Writer().document(tree)
    return text.removesuffix("...\n").encode("utf-8")  # the end mark after kept line breaks; upstream writes none
