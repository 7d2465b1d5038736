"""Objects without a describer of their own: all fields, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapi.kubectl.describers.lines import ANNOTATIONS, LABELS, NAME, NAMESPACE, Lines
from kapi.machinery.golang import value_text
from kapi.machinery.tree import Object

_SHOWN_BEFORE = frozenset(
    f".metadata.{name}" for name in ("managedFields", "name", "namespace", "labels", "annotations")
)
_ACRONYMS = ("API", "URL", "UID", "GUID")


def _fields(out: Lines, content: Object, level: int = 0, path: str = "") -> None:
    for field, value in sorted(content.items()):
        here = f"{path}.{field}"
        if here in _SHOWN_BEFORE:
            continue
        if not isinstance(value, dict | list):
            out.put(f"{title(field)}:\t{value_text(value)}\n", level)
            continue
        out.put(f"{title(field)}:\n", level)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                _fields(out, item, level + 1, here)
            else:
                out.put(f"{value_text(item)}\n", level + 1)


def title(field: str) -> str:
    """``Last Transition Time`` for ``lastTransitionTime``; a name with other characters than letters and ``-`` as it is."""
    if any(not (character.isalpha() or character == "-") for character in field):
        return field
    words = list(_joined(re.findall(r"[A-Z]+(?=[A-Z][a-z]|[^A-Za-z]|$)|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z]+", field)))
    return " ".join(
        word.upper() if word.upper() in _ACRONYMS else word.capitalize() if word.islower() else word for word in words
    )


def _joined(words: list[str]) -> Iterator[str]:
    """The words, of which an acronym and the capitalized word after it are one."""
    place = 0
    while place < len(words):
        word, following = words[place], words[place + 1] if place + 1 < len(words) else ""
        if len(word) >= 2 and word == word.upper() and following[:1].isupper():
            yield word + following
            place += 1
        else:
            yield word
        place += 1


GENERIC = (NAME, NAMESPACE, LABELS, ANNOTATIONS, lambda out, obj: _fields(out, {**obj}))
