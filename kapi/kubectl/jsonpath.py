"""JSONPath in kubectl's options: templates that are printed, and paths without braces."""

from __future__ import annotations

import re

from kapi.machinery import jsonpath
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import value_text
from kapi.machinery.jsonpath import JSONPathError


class Template(jsonpath.Template):
    """A template that can be printed."""

    def expand(self, data: object) -> str:
        """The template's text with its values.  Raises JSONPathError."""
        return "".join(" ".join(map(_shown, values)) for values in self.find(data))

    def as_json(self, data: object) -> str:
        """Each part as a JSON list.  Raises JSONPathError."""
        return "".join(json_text(values, 4) + "\n" for values in self.find(data))


def relaxed(text: str) -> str:
    """``metadata.name``, ``.metadata.name`` and ``{.metadata.name}`` as a template.  Raises JSONPathError."""
    if not text:
        return text
    match = re.fullmatch(r"\{\.?([^{}]+)\}|\.?([^{}]+)", text)
    if match is None:
        raise JSONPathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'"
        )
    return "{." + (match[1] or match[2]) + "}"


def _shown(value: object) -> str:
    return json_text(value) if value is None or isinstance(value, dict | list) else value_text(value)
