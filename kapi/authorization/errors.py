"""Several errors as one text (upstream: apimachinery ``util/errors`` Aggregate)."""

from __future__ import annotations

from collections.abc import Iterable


def aggregate(errors: Iterable[str]) -> str:
    """Each distinct text once: ``a`` or ``[a, b]``; "" without errors."""
    texts = list(dict.fromkeys(text for text in errors if text))
    if not texts:
        return ""
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
