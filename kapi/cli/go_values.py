"""Values as Go prints them: ``%v``, and JSON with its escapes (upstream: ``fmt``, ``encoding/json``)."""

from __future__ import annotations

import json
from typing import Any

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
    text = repr(value)
    mantissa, mark, exponent = f"{value:e}".partition("e")
    number = int(exponent)
    if number < -4 or number >= 21:
        digits = repr(value).partition("e")[0] if "e" in text else mantissa.rstrip("0").rstrip(".")
        return f"{digits.removesuffix('.0')}e{'-' if number < 0 else '+'}{abs(number):02d}"
    return format(value, "f").rstrip("0").rstrip(".") if "e" in text else text.removesuffix(".0")


def json_text(value: Any, indent: int | None = None) -> str:
    """Keys sorted; what HTML would read is escaped."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=indent, separators=separators)
    for character, escape in _ESCAPES.items():
        if character in text:
            text = text.replace(character, escape)
    return text
