"""Collects texts for Warning headers: each once, up to a limit (upstream: apiserver ``endpoints/filters/warning.go``)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kapi.machinery.each import elements

MAX_CHARACTERS = 4 * 1024  # in all warnings of an answer
MAX_SHORTENED = 256  # characters of each warning of an answer that has more than that
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]").search
_MAX_UNMEASURED = 16  # with fewer texts their length is not summed up


def add(warnings: list[str], text: str) -> None:
    """Appends a text unless it is empty, present, or beyond the limit of an answer."""
    if not text or (len(warnings) > _MAX_UNMEASURED and _shortened(warnings) >= MAX_CHARACTERS):
        return
    if text not in warnings:
        warnings.append(text)


def add_all(warnings: list[str], texts: Iterable[str]) -> None:
    """Calls ``add`` for each text, in linear time: another server may have sent a million texts of one character."""
    present = set(warnings)
    characters = _shortened(warnings)
    for text in elements(texts):
        if len(warnings) > _MAX_UNMEASURED and characters >= MAX_CHARACTERS:
            return
        if text and text not in present:
            present.add(text)
            warnings.append(text)
            characters += min(len(text), MAX_SHORTENED)


def _shortened(warnings: list[str]) -> int:
    return sum(min(len(text), MAX_SHORTENED) for text in warnings)


def fitting(warnings: list[str]) -> list[str]:
    """The texts that an answer has: each is shortened when together they are too long; the one that exceeds is the last.

    A text with control characters cannot be sent.
    """
    texts = [text for text in warnings if text.isprintable() or not _CONTROL(text)]
    if sum(map(len, texts)) <= MAX_CHARACTERS:
        return texts
    found: list[str] = []
    characters = 0
    for text in texts:
        if characters >= MAX_CHARACTERS:
            break
        found.append(text[:MAX_SHORTENED])
        characters += len(found[-1])
    return found
