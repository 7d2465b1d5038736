"""Strings (upstream: cel-go ``ext/strings.go``, ``ext/formatting.go``, version 2)."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declare as d
from kapi.cel.types import CelType
from kapi.cel.values import Duration, Timestamp, Uint, format_double, from_key, type_of
from kapi.machinery.checkpoint import steps

_TRIMMED = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_MAX_PRECISION = 1000
_CHARACTERS = 400  # of a text between two checkpoints


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    if part and not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, offset) if part else offset


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if part else offset


def join(parts: Any, separator: str = "") -> str:
    for part in steps(parts):
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {part}")
    return separator.join(parts)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if not separator:
        if limit < 0 or limit >= len(text):
            return list(text)
        return [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise EvaluationError(f"index out of range: {start}")
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for bound in (start, end):
        if not 0 <= bound <= len(text):
            raise EvaluationError(f"index out of range: {bound}")
    return text[start:end]


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count if count >= 0 else -1)


def quote(text: str) -> str:
    body = "".join(_QUOTED.get(char, char) for char in steps(text, _CHARACTERS))
    return '"' + body.encode("utf-8", "replace").decode() + '"'


def _fail(value: Any, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_of(value).name}' to '{wanted}'")


def _clause(value: Any) -> str:
    """How %s shows a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, Uint) or isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (Timestamp, Duration)):
        return str(value)
    if isinstance(value, CelType):
        return value.name
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_clause(item) for item in steps(value)) + "]"
    if isinstance(value, dict):
        entries = sorted((_clause(from_key(key)), _clause(item)) for key, item in steps(value.items()))
        return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"
    raise EvaluationError(
        f"string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {type_of(value).name}"  # noqa: E501
    )


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return format_double(value)


def _special(value: Any) -> str | None:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return _number(value)
    return None


def _decimal(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EvaluationError(f"decimal clause can only be used on integers, was given {type_of(value).name}")
    if isinstance(value, float):
        return _special(value) or _number(value)
    return str(int(value))


def _fixed(value: Any, precision: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EvaluationError(f"fixed-point clause can only be used on doubles, was given {type_of(value).name}")
    special = _special(value)
    if special is not None:
        return special
    number = Decimal(value).quantize(Decimal(1).scaleb(-precision), ROUND_HALF_EVEN) if precision < 20 else None
    return format(number, "f") if number is not None else f"{float(value):.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EvaluationError(f"scientific clause can only be used on doubles, was given {type_of(value).name}")
    special = _special(value)
    return special if special is not None else f"{float(value):.{precision}e}"


def _binary(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return format(int(value), "b")
    raise EvaluationError(f"only integers and bools can be formatted as binary, was given {type_of(value).name}")


def _octal(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format(int(value), "o")
    raise EvaluationError(f"octal clause can only be used on integers, was given {type_of(value).name}")


def _hex(value: Any, upper: bool) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        text = format(int(value), "x")
    elif isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass").hex()
    elif isinstance(value, bytes):
        text = value.hex()
    else:
        raise EvaluationError(
            f"only integers, byte buffers, and strings can be formatted as hex, was given {type_of(value).name}"
        )
    return text.upper() if upper else text


def formatted(frame: Any, text: str, args: Any) -> str:
    """``'%s'.format([...])``; what it builds counts against the frame."""
    out: list[str] = []
    position, used = 0, 0
    while position < len(text):
        mark = text.find("%", position)
        if mark < 0:
            out.append(text[position:])
            break
        out.append(text[position:mark])
        position = mark + 1
        if text[position : position + 1] == "%":
            out.append("%")
            position += 1
            continue
        precision = 6
        if text[position : position + 1] == ".":
            end = position + 1
            while end < len(text) and text[end] in "0123456789":
                end += 1
            digits = text[position + 1 : end]
            if not digits:
                raise EvaluationError("could not parse formatting clause: error while parsing precision")
            precision = int(digits[:6])
            if precision > _MAX_PRECISION:
                raise EvaluationError(f"could not parse formatting clause: precision {digits} is too large")
            position = end
        verb = text[position : position + 1]
        if not verb:
            raise EvaluationError("could not parse formatting clause: unexpected end of string")
        position += 1
        if used >= len(args):
            raise EvaluationError(f"index {used} out of range")
        piece = _format_one(verb, args[used], precision)
        frame.grow(len(piece))
        out.append(piece)
        used += 1
    result = "".join(out)
    frame.grow(len(result))
    return result


def _format_one(verb: str, value: Any, precision: int) -> str:
    if verb == "s":
        return _clause(value)
    if verb == "d":
        return _decimal(value)
    if verb == "f":
        return _fixed(value, precision)
    if verb == "e":
        return _scientific(value, precision)
    if verb == "b":
        return _binary(value)
    if verb == "o":
        return _octal(value)
    if verb in "xX":
        return _hex(value, verb == "X")
    raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


formatted.wants_frame = True  # type: ignore[attr-defined]

STRINGS = [
    d("charAt", "string_char_at_int", "string.(int) string", char_at),
    d("indexOf", "string_index_of_string", "string.(string) int", index_of),
    d("indexOf", "string_index_of_string_int", "string.(string, int) int", index_of),
    d("lastIndexOf", "string_last_index_of_string", "string.(string) int", last_index_of),
    d("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) int", last_index_of),
    d("join", "list_join", "list(string).() string", join),
    d("join", "list_join_string", "list(string).(string) string", join),
    d("lowerAscii", "string_lower_ascii", "string.() string", lambda text: text.translate(_LOWER)),
    d("upperAscii", "string_upper_ascii", "string.() string", lambda text: text.translate(_UPPER)),
    d("replace", "string_replace_string_string", "string.(string, string) string", replace),
    d("replace", "string_replace_string_string_int", "string.(string, string, int) string", replace),
    d("split", "string_split_string", "string.(string) list(string)", split),
    d("split", "string_split_string_int", "string.(string, int) list(string)", split),
    d("substring", "string_substring_int", "string.(int) string", substring),
    d("substring", "string_substring_int_int", "string.(int, int) string", substring),
    d("trim", "string_trim", "string.() string", lambda text: text.strip(_TRIMMED)),
    d("reverse", "string_reverse", "string.() string", lambda text: text[::-1]),
    d("format", "string_format", "string.(list(dyn)) string", formatted),
    d("strings.quote", "strings_quote", "(string) string", quote),
]
