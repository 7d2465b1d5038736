"""Collects texts for Warning headers: each once, up to a limit."""

from __future__ import annotations

MAX_CHARACTERS = 4 * 1024  # in all warnings of an answer
_MAX_UNMEASURED = 16  # texts: below that their length is not summed up


def add(warnings: list[str], text: str) -> None:
    """Appends a text unless it is empty, present, or beyond the limit of an answer."""
    if not text or (len(warnings) > _MAX_UNMEASURED and sum(map(len, warnings)) >= MAX_CHARACTERS):
        return
    if text not in warnings:
        warnings.append(text)
