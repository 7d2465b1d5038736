"""Texts for Warning headers: each once, and no more of them than an answer carries."""

from __future__ import annotations

MAX_CHARACTERS = 4 * 1024  # in all warnings of an answer
_MAX_UNMEASURED = 16  # texts that are not measured


def add(warnings: list[str], text: str) -> None:
    """Appends a text unless it is there or would not be sent any more."""
    if not text or (len(warnings) > _MAX_UNMEASURED and sum(map(len, warnings)) >= MAX_CHARACTERS):
        return
    if text not in warnings:
        warnings.append(text)
