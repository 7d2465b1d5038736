"""Values as Go prints them: ``%v``, and JSON with its escapes (upstream: ``fmt``, ``encoding/json``)."""

from __future__ import annotations

import json
from typing import Any

MAX_PLAIN = 6  # digits before the point that are written without an exponent
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def go_text(value: Any) -> str:
    """``%v``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return _float(value)
        case dict():
            return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(go_text(one) for one in value) + "]"
    return str(value)


def _float(value: float) -> str:
    """The shortest digits that mean the number, with an exponent from a million on and below 0.0001."""
    from decimal import Decimal  # floats are rare

    sign, digits, point = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(point, int)
    exponent = len(digits) - 1 + point
    if not value or -4 <= exponent < MAX_PLAIN:
        return f"{Decimal(repr(value)).normalize():f}" if value else "-0" if sign else "0"
    text = "".join(map(str, digits))
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def json_text(value: Any, indent: int | None = None) -> str:
    """Keys sorted; what HTML would read is escaped."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=indent, separators=separators)
    for character, escape in _ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    return text
