"""JSON with Go's escapes (upstream: ``encoding/json``)."""

from __future__ import annotations

import json

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_text(value: object, indent: int | None = None, *, ordered: bool = True) -> str:
    """JSON with sorted keys unless not ``ordered``; characters that are special in HTML are escaped, as by Go."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, sort_keys=ordered, ensure_ascii=False, indent=indent, separators=separators)
    for character, escape in _ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    return text
