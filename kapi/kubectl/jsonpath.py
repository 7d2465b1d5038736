"""JSONPath in kubectl's options: templates that are printed, and paths without braces."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kapi.kubectl.go_json import json_text
from kapi.machinery.golang import value_text
from kapi.machinery.jsonpath import Chain, JSONPathError, read_template
from kapi.machinery.tree import Tree


class Template:
    """Parses ``text``; without ``allow_missing`` a missing field is an error.  Raises JSONPathError."""

    def __init__(self, text: str, *, allow_missing: bool = True) -> None:
        self.text = text
        self._chains = read_template(text, allow_missing)

    def find(self, data: object) -> list[list[Tree]]:
        """The values of each part of the template.  Raises JSONPathError."""
        found: list[list[Tree]] = []
        self._run(self._chains, 0, data, found, 0)
        return found

    def _run(
        self, chains: Sequence[Chain], start: int, data: object, found: list[list[Tree]] | None, ranges: int
    ) -> int:
        """Evaluates from ``start`` to the ``end`` of the range; returns its index.  ``found`` None: no values are kept."""
        place = start
        while place < len(chains):
            chain = chains[place]
            if chain.word == "end":
                if not ranges:
                    raise JSONPathError("not in range, nothing to end")
                return place
            if found is None:  # in a range over nothing: only its end is searched
                place = self._run(chains, place + 1, None, None, ranges + 1) + 1 if chain.word == "range" else place + 1
                continue
            values = chain.follow([data])
            if chain.word == "range":
                end = len(chains)
                for value in values:
                    end = self._run(chains, place + 1, value, found, ranges + 1)
                if not values:
                    end = self._run(chains, place + 1, None, None, ranges + 1)
                # without an end, the rest is evaluated once more, as by kubectl
                place = end if end < len(chains) else place
            else:
                found.append(values)
            place += 1
        return place

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
