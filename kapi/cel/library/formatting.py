"""``'%s is %d'.format([...])``: evaluation, and the check of literals (upstream: cel-go ``ext/formatting.go``, version 1).

Numbers have the form of US English: ``1,234.500000`` and ``1.234500×10⁰³`` (older versions of ``golang.org/x/text`` than that of
Kubernetes put narrow spaces around the sign).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from kapi.cel.errors import EvaluationError, Issue
from kapi.cel.frame import Frame
from kapi.cel.functions import walks
from kapi.cel.syntax import Call, Expr, ListExpr, Literal, MapExpr, children
from kapi.cel.times import Duration, Timestamp
from kapi.cel.types import ANY, CelType, Value
from kapi.cel.values import format_double, from_key, type_of
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import quote

_MAX_PRECISION = 1000
_PRECISION = 6
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_REFUSED = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
}
#: clause -> kinds of types that it accepts
_ACCEPTED = {
    "s": frozenset(
        ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null")
    ),
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("int", "uint", "bool")),
    "o": frozenset(("int", "uint")),
    "x": frozenset(("int", "uint", "string", "bytes")),
}


def _clause(text: str, position: int) -> tuple[int, str, int]:
    """(position after the clause, its letter, precision) of what follows a percent sign."""
    precision = _PRECISION
    if text[position] == ".":
        end = position + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if end == len(text):
            raise _bad("error while parsing precision: could not find end of precision specifier")
        digits = text[position + 1 : end]
        if not digits:
            why = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            raise _bad("error while parsing precision: " + why)
        precision = int(digits[:6])
        if precision > _MAX_PRECISION:
            raise _bad(f"precision {digits} is too large")
        position = end
    letter = text[position]
    if letter not in "sdfebxXo":
        first = chr(letter.encode("utf-8", "surrogatepass")[0])
        raise _bad(f'unrecognized formatting clause "{first}"')
    return position + 1, letter, precision


def _bad(why: str) -> EvaluationError:
    return EvaluationError("could not parse formatting clause: " + why)


# evaluation


@walks
def formatted(frame: Frame, text: str, args: Value) -> str:
    """The formatted text; its length counts as an allocation of the frame."""
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
        if used >= len(args):
            raise EvaluationError(f"index {used} out of range")
        if position == len(text):
            raise EvaluationError("unexpected end of string")
        position, letter, precision = _clause(text, position)
        try:
            piece = _WRITERS[letter](args[used], precision)
        except EvaluationError as error:
            raise EvaluationError(f"error during formatting: {error}") from None
        frame.grow(len(piece))
        out.append(piece)
        used += 1
    result = "".join(out)
    frame.grow(len(result))
    return result


def _refuse(letter: str, value: object) -> EvaluationError:
    return EvaluationError(_REFUSED[letter].format(type_of(value).name))


def _plain(value: object, precision: int = 0) -> str:
    """A value in the form of %s."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, (Timestamp, Duration)):
        return str(value)
    if isinstance(value, CelType):
        return value.name
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_literal(item) for item in elements(value)) + "]"
    if isinstance(value, dict):
        pairs = sorted((_key(from_key(key)), _literal(item)) for key, item in entries(value))
        return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
    raise _refuse("s", value)


def _key(value: object) -> str:
    if value is None or isinstance(value, float):
        raise EvaluationError(f"no formatting function for map key of type {type_of(value).name}")
    return _literal(value)


def _literal(value: object) -> str:
    """A value inside of a list or map, in the notation of expressions."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return "b" + quote(_plain(value))
    if isinstance(value, Timestamp):
        return f"timestamp({quote(str(value))})"
    if isinstance(value, Duration):
        return f"duration({quote(str(value))})"
    if isinstance(value, float):
        special = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(value))
        return f"{Decimal(value):.6f}" if special is None else quote(special)
    if value is None or isinstance(value, (int, bool, CelType, list, tuple, dict)):
        return _plain(value)
    raise EvaluationError(f"no formatting function for {type_of(value).name}")


def _decimal(value: object, precision: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse("d", value)
    return str(int(value))


def _double(letter: str, value: object) -> float:
    if isinstance(value, str) and value in _NUMBERS:
        return _NUMBERS[value]
    if not isinstance(value, float):
        raise _refuse(letter, value)
    return value


def _special(value: float) -> str | None:
    if value != value:
        return "NaN"
    return {float("inf"): "∞", float("-inf"): "-∞"}.get(value)


def _fixed(value: object, precision: int) -> str:
    number = _double("f", value)
    special = _special(number)
    if special is not None:
        return special
    return f"{number:,.{precision}f}"


def _scientific(value: object, precision: int) -> str:
    number = _double("e", value)
    special = _special(number)
    if special is not None:
        return special
    mantissa, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    power = exponent.lstrip("+").translate(_SUPERSCRIPTS)
    return f"{mantissa}×10{power}".rjust(precision)  # upstream uses the precision as width


def _binary(value: object, precision: int) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return format(int(value), "b")
    raise _refuse("b", value)


def _octal(value: object, precision: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format(int(value), "o")
    raise _refuse("o", value)


def _hex(value: object, precision: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format(int(value), "x")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").hex()
    if isinstance(value, bytes):
        return value.hex()
    raise _refuse("x", value)


_WRITERS: dict[str, Callable[[Value, int], str]] = {
    "s": _plain,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
}


# check of literals


def check_format(call: Call) -> Issue | None:
    """The error of a literal format with a literal list of arguments, or None."""
    target = call.target
    if not isinstance(target, Literal) or not isinstance(target.value, str):
        return None
    if len(call.args) != 1 or not isinstance(call.args[0], ListExpr):
        return None
    text, args = target.value, call.args[0].elements
    position, requested = text.find("%"), 0
    while position >= 0:
        position += 1
        if text[position : position + 1] == "%":
            position = text.find("%", position + 1)
            continue
        if position == len(text):
            return Issue(call.offset, "unexpected end of string")
        if requested >= len(args):
            return Issue(call.offset, f"index {requested} out of range")
        try:
            position, letter, _ = _clause(text, position)
        except EvaluationError as error:
            return Issue(call.offset, str(error))
        bad = _unfit(args[requested], letter.lower())
        if bad is not None:
            assert bad.type is not None
            shown = _REFUSED[letter.lower()].format("google.protobuf.Any" if bad.type == ANY else bad.type.name)
            return Issue(bad.offset, f"error during formatting: {shown}")
        requested += 1
        position = text.find("%", position)
    if len(args) > requested:
        why = f"too many arguments supplied to string.format (expected {requested}, got {len(args)})"
        return Issue(call.offset, why)
    return None


def _unfit(node: Expr, letter: str) -> Expr | None:
    """The argument, or the element of a literal list or map, that the clause does not accept."""
    kind = node.type.kind if node.type is not None else "dyn"
    if kind not in _ACCEPTED[letter] and (kind != "dyn" or node.type == ANY):
        return node
    if letter == "s" and isinstance(node, (ListExpr, MapExpr)):
        return next((bad for item in children(node) if (bad := _unfit(item, letter)) is not None), None)
    return None
