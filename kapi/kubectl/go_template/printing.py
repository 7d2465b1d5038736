"""Formats values: ``print`` and ``printf`` (upstream: ``fmt``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kapi.kubectl.go_template.values import absent, type_name
from kapi.machinery.golang import quote, value_text
from kapi.machinery.tree import Tree

_VERB = re.compile(r"%([-+# 0]*)(\*|\d+)?(?:\.(\*|\d*))?(?:\[(\d{1,6})\])?(.?)", re.DOTALL)
MAX_SIZE = 1_000_000  # characters of width and precision, as Go


def sprint(values: Sequence[Tree]) -> str:
    """Go's ``Sprint``: spaces are added between operands when neither is a string."""
    out, before = "", None
    for number, value in enumerate(values):
        if number and not isinstance(value, str) and not isinstance(before, str):
            out += " "
        out += value_text(None if absent(value) else value)
        before = value
    return out


def sprintf(form: str, *values: object) -> str:
    position, reordered = 0, False

    def star(text: str | None) -> str | None:
        nonlocal position
        if text != "*":
            return text
        value = values[position] if position < len(values) else None
        position += 1
        return str(value) if isinstance(value, int) and abs(value) <= MAX_SIZE else None

    def shown(match: re.Match[str]) -> str:
        nonlocal position, reordered
        flags, index, verb = match[1], match[4], match[5]
        width, precision = star(match[2]), star(match[3])
        if width is not None and width.startswith("-"):
            flags, width = flags + "-", width[1:]
        if index:
            position, reordered = int(index) - 1, True
        if not verb:
            return "%!(NOVERB)"
        if verb == "%":
            return "%"
        if not 0 <= position < len(values):
            return f"%!{verb}({'BADINDEX' if index else 'MISSING'})"
        value = values[position]
        position += 1
        digits = None if precision is None else min(int(precision or 0), MAX_SIZE)
        return _verb(verb, flags, min(int(width or 0), MAX_SIZE), digits, None if absent(value) else value)

    out = _VERB.sub(shown, form)
    if values[position:] and not reordered:
        rest = ("<nil>" if absent(one) else f"{type_name(one)}={value_text(one)}" for one in values[position:])
        out += f"%!(EXTRA {', '.join(rest)})"
    return out


def _verb(verb: str, flags: str, width: int, precision: int | None, value: object) -> str:
    if verb == "T":
        return _padded(type_name(value), flags, width)
    if isinstance(value, dict) and verb != "p":
        inner = " ".join(
            f"{_verb(verb, flags, width, precision, key)}:{_verb(verb, flags, width, precision, value[key])}"
            for key in sorted(value)
        )
        return f"map[{inner}]"
    if isinstance(value, list) and verb != "p":
        return "[" + " ".join(_verb(verb, flags, width, precision, one) for one in value) + "]"
    text = _formatted(verb, flags, precision, value)
    if text is None:
        kind = "<nil>" if value is None else f"{type_name(value)}={value_text(value)}"
        return f"%!{verb}({kind})"
    zeros = "0" in flags and "-" not in flags and isinstance(value, int | float) and not isinstance(value, bool)
    if zeros and verb in "dboxXeEfFgGv":
        sign = text[0] if text[:1] in ("+", "-", " ") else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return _padded(text, flags, width)


def _padded(text: str, flags: str, width: int) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _formatted(verb: str, flags: str, precision: int | None, value: object) -> str | None:
    """None when the verb does not apply to such a value."""
    match value:
        case None:
            return "<nil>" if verb == "v" else None
        case bool():
            return value_text(value) if verb in "tv" else None
        case int():
            return _whole(verb, flags, precision, value)
        case float():
            return _float(verb, flags, precision, value)
        case str():
            return _text(verb, flags, precision, value)
    return None


def _text(verb: str, flags: str, precision: int | None, value: str) -> str | None:
    cut = value if precision is None else value[:precision]
    if verb == "v" and "#" in flags:
        return quote(value)
    match verb:
        case "s" | "v":
            return cut
        case "q":
            return f"`{cut}`" if "#" in flags and "`" not in cut else quote(cut)
        case "x" | "X":
            between = " " if " " in flags else ""
            found = between.join(f"{byte:02x}" for byte in cut.encode())
            return found.upper() if verb == "X" else found
    return None


def _whole(verb: str, flags: str, precision: int | None, value: int) -> str | None:
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    size = abs(value)
    match verb:
        case "d" | "v":
            digits = str(size)
        case "b" | "o" | "x" | "X":
            digits = format(size, verb)
            sign += {"b": "0b", "o": "0", "x": "0x", "X": "0X"}[verb] if "#" in flags else ""
        case "O":
            digits = "0o" + format(size, "o")
        case "c":
            return chr(value) if 0 <= value < 0x110000 else "\ufffd"
        case "q":
            return "'" + (chr(value) if chr(value) != "'" else "\\'") + "'" if 0 <= value < 0x110000 else "'\ufffd'"
        case "U":
            return f"U+{value:04X}"
        case _:
            return None
    return sign + (digits if precision is None else digits.rjust(precision, "0"))


def _float(verb: str, flags: str, precision: int | None, value: float) -> str | None:
    if verb not in "vgGeEfF":
        return None
    sign = "+" if "+" in flags and value >= 0 else " " if " " in flags and value >= 0 else ""
    if verb == "v" or verb in "gG" and precision is None:
        text = value_text(value)
        return sign + (text.upper() if verb == "G" else text)
    text = format(value, f".{6 if precision is None else precision}{verb}")
    return sign + text
