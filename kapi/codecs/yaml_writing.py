"""Trees as YAML the way the API writes it (upstream: sigs.k8s.io/yaml over go-yaml v2): sorted keys, block style."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.resolver import Resolver

from kapi.codecs.yaml_reading import YAMLError, resolve

_NATURAL = re.compile(r"([0-9]+)")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:$|[Tt ]|[ \t]+[0-9])")
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")


class _Dumper(yaml.CSafeDumper):
    """Like go-yaml: no aliases, literal blocks for text of several lines."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    if "\n" in text:
        style = "|"
    elif _needs_quotes(text):
        style = '"'
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _needs_quotes(text: str) -> bool:
    """Whether a plain scalar of this text would be read as something else."""
    try:
        plain = isinstance(resolve(text), str)
    except YAMLError:  # infinity and its kin
        return True
    return not plain or text in ("=", "<<") or bool(_TIMESTAMP.match(text) or _BASE60.match(text))


def _sort_key(name: str) -> list[tuple[int, Any]]:
    """go-yaml's order of keys: digits compare as numbers, letters after everything else."""
    key: list[tuple[int, Any]] = []
    for position, part in enumerate(_NATURAL.split(name)):
        if position % 2:
            key.append((1, int(part)))
        else:
            key.extend((2 if char.isalpha() else 0, char) for char in part)
    return key


def _represent_mapping(dumper: Any, mapping: dict[str, Any]) -> Any:
    pairs = sorted(mapping.items(), key=lambda pair: _sort_key(pair[0]))
    return dumper.represent_mapping("tag:yaml.org,2002:map", pairs, flow_style=not mapping)


def _represent_list(dumper: Any, items: list[Any]) -> Any:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=not items)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(dict, _represent_mapping)
_Dumper.add_representer(list, _represent_list)
# plain is plain: quoting is decided above, with go-yaml's rules
_Dumper.yaml_implicit_resolvers = dict(Resolver.yaml_implicit_resolvers)


def dump_yaml(tree: Any) -> bytes:
    """A JSON tree as one YAML document."""
    text = yaml.dump(tree, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=80, sort_keys=False)
    return str(text).removesuffix("...\n").encode("utf-8")  # the end mark after kept line breaks; upstream writes none
