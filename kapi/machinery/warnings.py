"""Collects texts for Warning headers: each once, up to a limit."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.machinery.each import elements

MAX_CHARACTERS = 4 * 1024  # in all warnings of an answer
_MAX_UNMEASURED = 16  # with fewer texts their length is not summed up


def add(warnings: list[str], text: str) -> None:
    """Appends a text unless it is empty, present, or beyond the limit of an answer."""
    if not text or (len(warnings) > _MAX_UNMEASURED and sum(map(len, warnings)) >= MAX_CHARACTERS):
        return
    if text not in warnings:
        warnings.append(text)


def add_all(warnings: list[str], texts: Iterable[str]) -> None:
    """Calls ``add`` for each text, in linear time: another server may have sent a million texts of one character."""
    present = set(warnings)
    characters = sum(map(len, warnings))
    for text in elements(texts):
        if len(warnings) > _MAX_UNMEASURED and characters >= MAX_CHARACTERS:
            return
        if text and text not in present:
            present.add(text)
            warnings.append(text)
            characters += len(text)
