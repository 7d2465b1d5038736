"""JSONPath templates, such as ``{.items[*].metadata.name}`` (upstream: client-go ``util/jsonpath``).

Text outside of braces is copied.  Inside of braces there are fields, subscripts, slices, unions, filters, recursive descent,
quoted text, numbers, and ``range``/``end``.  A pair of braces is a chain of steps; each takes the values of the previous one.

A reader that wants only the first value gives a ``limit``: the number of values that a step keeps, because ``..`` after ``..``
and unions find the same values many times.  It bounds the work on a client's object.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import NamedTuple, Protocol

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import costly, elements, entries, popped
from kapi.machinery.golang import type_name, value_text
from kapi.machinery.tree import Tree

Values = list[Tree]
Step = Callable[[Values], Values]
_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_NUMBER = re.compile(r"[+-]?[.\d]*", re.ASCII)
_DICT_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?", re.ASCII)
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|)")
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
MAX_INT = (1 << 63) - 1
MAX_RANGES = 100  # in each other


class JSONPathError(ValueError):
    """An error in a template, found by parsing or evaluating it."""


class Followed(Protocol):
    def follow(self, values: Values) -> Values: ...


def constant_text(text: str) -> Step:
    """A step whose result is the text, independent of the values."""
    return lambda values: [text]


def constant(value: Tree) -> Step:
    """A step that replaces each value by a constant."""
    return lambda values: [value for _ in values]


def unknown(name: str) -> Step:
    def step(values: Values) -> Values:
        raise JSONPathError(f"unrecognized identifier {name}")

    return step


def field(name: str, allow_missing: bool) -> Step:
    def step(values: Values) -> Values:
        found = [value[name] for value in values if isinstance(value, dict) and name in value]
        if values and not found and not allow_missing:
            raise JSONPathError(f"{name} is not found")
        return found

    return step


def _gathered(parts: Iterable[Iterable[Tree]], limit: int) -> Values:
    """The values of all parts, up to the limit."""
    found: Values = []
    for part in elements(parts):
        found += part
        if len(found) > limit:
            del found[limit:]
            break
    return found


def _members(value: Tree) -> Sequence[Tree]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return value.encode() if isinstance(value, str) else ()


def wildcard(limit: int) -> Step:
    return lambda values: _gathered(map(_members, values), limit)


@dataclass(slots=True)
class Descent:
    """``..``: the values and all values in them, except numbers, booleans and empty ones; ``once``: each only once."""

    limit: int
    once: bool

    def __call__(self, values: Values) -> Values:
        found: Values = []
        seen: set[int] | None = set() if self.once and len(values) > 1 else None
        waiting = values[::-1]
        for value in popped(waiting):
            if isinstance(value, dict | list) and value:
                if seen is not None:
                    if id(value) in seen:
                        continue
                    seen.add(id(value))
                waiting += reversed(_members(value))
            elif not (isinstance(value, str) and value):
                continue
            found.append(value)
            if len(found) >= self.limit:
                break
        return found


def union(chains: Iterable[Followed], limit: int) -> Step:
    members = list(chains)
    return lambda values: _gathered((member.follow(values) for member in members), limit)


@dataclass(slots=True)
class Slice:
    """``[first:last:stride]``; ``single`` is ``[first]``.  An index past the ends is an error."""

    first: int | None
    last: int | None
    stride: int | None
    single: bool
    limit: int

    def __call__(self, values: Values) -> Values:
        return _gathered(self._parts(values), self.limit)

    def _parts(self, values: Values) -> Iterable[Values]:
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JSONPathError(f"{type_name(value)} is not array or slice")
            length = len(value)
            first, last = self._bounds(length)
            if first == last:
                return
            for index, bad in ((first, not 0 <= first < length), (last - 1, not 0 <= last <= length)):
                if bad:
                    raise JSONPathError(f"array index out of bounds: index {index}, length {length}")
            if first > last:
                raise JSONPathError(f"starting index {first} is greater than ending index {last}")
            if self.stride is not None and self.stride <= 0:
                raise JSONPathError("step must be > 0")
            yield value[first : last : self.stride or 1]

    def _bounds(self, length: int) -> tuple[int, int]:
        first = self.first or 0
        last = first + 1 if self.single else length if self.last is None else self.last
        if last < 0 or (last == 0 and self.single):
            last += length
        return (first + length if first < 0 else first), last


def existing(inner: Step) -> Step:
    """The items for which a path has a value."""

    def step(values: Values) -> Values:
        found = []
        for item in elements(_items(values)):
            try:
                if inner([item]):
                    found.append(item)
            except JSONPathError:
                continue
        return found

    return step


def compared(left: Step, operator: str, right: Step) -> Step:
    """The items for which the comparison of both sides holds; each side must have one value."""

    def step(values: Values) -> Values:
        found = []
        for item in elements(_items(values)):
            one = left([item])
            other = right([item]) if len(one) == 1 else one
            if len(other) > 1:
                raise JSONPathError("can only compare one element at a time")
            if one and other and _holds(one[0], operator, other[0]):
                found.append(item)
        return found

    return step


def _items(values: Values) -> Iterable[Tree]:
    for value in values:
        if not isinstance(value, list):
            raise JSONPathError(f"{value_text(value)} is not array or slice and cannot be filtered")
        yield from value


def _holds(left: object, operator: str, right: object) -> bool:
    if operator in ("==", "!=") and type(left) is type(right) and isinstance(left, str | int | float):
        return (left == right) is (operator == "==")
    if operator not in ("<", ">", "==", "!=", "<=", ">="):
        raise JSONPathError(f"unrecognized filter operator {operator}")
    for side in (left, right):
        if not isinstance(side, str | int | float):
            raise JSONPathError("invalid type for comparison")
    if type(left) is not type(right):
        raise JSONPathError("incompatible types for comparison")
    if isinstance(left, str) and isinstance(right, str):
        return _ordered(left, operator, right)
    if isinstance(left, bool) or not isinstance(left, int | float) or not isinstance(right, int | float):
        raise JSONPathError("invalid type for comparison")
    return _ordered(left, operator, right)


def _ordered(left: str | float, operator: str, right: str | float) -> bool:
    order = (left > right) - (left < right)  # type: ignore[operator]  # both are of one type
    return {"<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}[operator]


class Below:
    """All values in one object, for the templates that begin with ``..``: the object is walked once for all of them."""

    def __init__(self, top: Tree) -> None:
        self._top = top
        self._values: Values | None = None
        self._by_name: dict[str, Values] | None = None

    def values(self, descent: Descent) -> Values:
        """The values that ``..`` finds."""
        if self._values is None:
            self._values = descent([self._top])
        return self._values

    def named(self, name: str, descent: Descent) -> Values:
        """The values that ``..name`` finds."""
        if self._by_name is None:
            found: dict[str, Values] = {}
            for value in elements(self.values(descent)):
                if isinstance(value, dict):
                    for key, member in entries(value):
                        found.setdefault(key, []).append(member)
            self._by_name = found
        return self._by_name.get(name, [])


class Chain(NamedTuple):
    """A pair of braces, or text.  ``word`` is ``range`` or ``end`` when it begins with that; ``fields`` has the names of the
    steps that are fields, by their places."""

    steps: list[Step]
    word: str = ""
    fields: dict[int, str] = {}  # never changed

    def follow(self, values: Values) -> Values:
        for step in costly(self.steps):
            values = step(values)
        return values

    @property
    def step(self) -> Step:
        """The chain as one step."""
        return self.steps[0] if len(self.steps) == 1 else self.follow

    def follow_below(self, below: Below) -> Values:
        """Like ``follow`` for a chain that begins with ``..``."""
        descent, done = self.steps[0], 2 if 1 in self.fields else 1
        assert isinstance(descent, Descent)
        values = below.named(self.fields[1], descent) if done == 2 else below.values(descent)
        for step in costly(self.steps[done:]):
            values = step(values)
        return values


def read_template(text: str, allow_missing: bool, limit: int | None = None) -> list[Chain]:
    """Raises JSONPathError."""
    found, place = [], 0
    while place < len(text):
        checkpoint()
        start = text.find("{", place)
        end = start if start >= 0 else len(text)
        if end > place:
            found.append(Chain([constant_text(text[place:end])]))
        if start < 0:
            break
        reader = _Reader(text, start + 1, allow_missing, limit or sys.maxsize, once=limit is not None)
        found.append(reader.chain())
        place = reader.place
    return found


class _First(list[Values]):
    """Keeps the first of the values that are appended."""

    def append(self, values: Values) -> None:
        if not self:
            super().append(values)


class Template:
    """Parses ``text``; without ``allow_missing`` a missing field is an error.  Raises JSONPathError."""

    def __init__(self, text: str, *, allow_missing: bool = True, limit: int | None = None) -> None:
        self.text = text
        self._chains = read_template(text, allow_missing, limit)
        only = self._chains[0] if len(self._chains) == 1 and not self._chains[0].word else None
        self._only = only
        self._descends = only is not None and bool(only.steps) and isinstance(only.steps[0], Descent)

    def first(self, data: object, below: Below | None = None) -> Values:
        """The values of the first part; ``below`` has those in ``data``.  Raises JSONPathError."""
        if self._only is None:
            found = _First()
            self._run(self._chains, 0, data, found, 0)
            return found[0] if found else []
        if below is not None and self._descends:
            return self._only.follow_below(below)
        return self._only.follow([data])

    def find(self, data: object) -> list[Values]:
        """The values of each part of the template.  Raises JSONPathError."""
        if self._only is not None:
            return [self._only.follow([data])]
        found: list[Values] = []
        self._run(self._chains, 0, data, found, 0)
        return found

    def _run(self, chains: Sequence[Chain], start: int, data: object, found: list[Values] | None, ranges: int) -> int:
        """Evaluates from ``start`` to the ``end`` of the range; returns its index.  ``found`` None: no values are kept."""
        if ranges > MAX_RANGES:
            raise JSONPathError(f"more than {MAX_RANGES} ranges in each other")
        place = start
        while place < len(chains):
            chain = chains[place]
            if chain.word == "end":
                if not ranges:
                    raise JSONPathError("not in range, nothing to end")
                return place
            if found is None:  # in a range over nothing: only its end is searched
                place = self._run(chains, place + 1, None, None, ranges + 1) + 1 if chain.word == "range" else place + 1
                continue
            values = chain.follow([data])
            if chain.word == "range":
                end = len(chains)
                for value in elements(values):
                    end = self._run(chains, place + 1, value, found, ranges + 1)
                if not values:
                    end = self._run(chains, place + 1, None, None, ranges + 1)
                # without an end, the rest is evaluated once more, as by kubectl
                place = end if end < len(chains) else place
            else:
                found.append(values)
            place += 1
        return place


def read_fields(text: str) -> list[str | None]:
    """The parts of the path in a pair of braces: names of fields, None for parts of another kind.  Raises JSONPathError."""
    reader = _Reader(text, 1, True, sys.maxsize, once=False)
    reader.chain()
    return [reader.fields.get(number) for number in range(reader.count)]


class _Reader:
    """Parses one pair of braces; ``place`` is behind the ``{``, finally behind the ``}``."""

    def __init__(self, text: str, place: int, allow_missing: bool, limit: int, *, once: bool) -> None:
        self._text, self.place, self._allow, self._limit, self._once = text, place, allow_missing, limit, once
        self._steps: list[Step] = []
        self._word = ""
        self.fields: dict[int, str] = {}  # the names of steps that are fields, by the places of these steps

    @property
    def count(self) -> int:
        return len(self._steps)

    def chain(self) -> Chain:
        text = self._text
        while True:
            checkpoint()
            rest = text[self.place : self.place + 3]
            if rest[:1] in ("", "\n", "\r"):
                raise JSONPathError("unclosed action")
            if rest[0] == "}":
                self.place += 1
                return Chain(self._steps, self._word, self.fields)
            if rest == "[?(":
                self._filter()
            elif rest[:2] == "..":
                self._recursive()
            elif rest[0] in " @$":
                self.place += 1
            else:
                self._reader_of(rest[0])()

    def _reader_of(self, character: str) -> Callable[[], None]:
        if character == "[":
            return self._array
        if character in "\"'":
            return self._quote
        if character == ".":
            self.place += 1
            return self._field
        if character in "+-" or character.isdecimal():
            return self._number
        if character == "_" or character.isalnum():
            return self._identifier
        shown = f" '{character}'" if character.isprintable() else ""
        raise JSONPathError(f"unrecognized character in action: U+{ord(character):04X}{shown}")

    def _to_terminator(self, escapes: bool) -> str:
        start, text = self.place, self._text
        while self.place < len(text) and text[self.place] not in _TERMINATORS:
            self.place += 2 if escapes and text[self.place] == "\\" else 1
        self.place = min(self.place, len(text))
        return text[start : self.place]

    def _field(self) -> None:
        name = self._to_terminator(escapes=True)
        if name != "*":
            name = self.fields[len(self._steps)] = name.replace("\\", "")
        self._steps.append(wildcard(self._limit) if name == "*" else field(name, self._allow))

    def _recursive(self) -> None:
        if self._steps and isinstance(self._steps[-1], Descent):
            raise JSONPathError("invalid multiple recursive descent")
        self.place += 2
        self._steps.append(Descent(self._limit, self._once))
        following = self._text[self.place : self.place + 1]
        if following == "_" or following.isalnum():
            self._field()

    def _number(self) -> None:
        match = _NUMBER.match(self._text, self.place)
        text = match[0] if match else ""
        self.place += len(text)
        try:
            number = float(text)
        except ValueError:
            number = inf
        if isinf(number):
            raise JSONPathError(f"cannot parse number {text}")
        self._steps.append(constant(number if "." in text else int(text)))

    def _identifier(self) -> None:
        name = self._to_terminator(escapes=False)
        if name in ("true", "false"):
            self._steps.append(constant(name == "true"))
        elif name in ("range", "end"):
            self._word = name
        else:
            self._steps.append(unknown(name))

    def _quote(self) -> None:
        text, start, quote = self._text, self.place, self._text[self.place]
        self.place += 1
        while True:
            character = text[self.place : self.place + 1]
            if character in ("", "\n"):
                raise JSONPathError("unterminated quoted string")
            self.place += 1
            if character == quote and text[self.place - 2] != "\\":
                break
        self._steps.append(constant_text(_unquoted(text[start : self.place])))

    def _array(self) -> None:
        text, start = self._text, self.place
        end = text.find("]", start)
        if end < 0 or "\n" in text[start:end]:
            raise JSONPathError("unterminated array")
        self.place = end + 1
        inner = text[start + 1 : end]
        if inner == "*":
            inner = ":"
        parts = inner.split(",")
        if len(parts) > 1:
            self._steps.append(
                union([self._inner(f"[{part.strip(' ')}]", self._once) for part in elements(parts)], self._limit)
            )
        elif match := _DICT_KEY.fullmatch(inner):
            named = self._inner(f".{match[1]}", self._once)
            self.fields.update((len(self._steps) + place, name) for place, name in named.fields.items())
            self._steps += named.steps
        elif match := _SLICE.fullmatch(inner):
            first, second, third = (_index((part or "").removeprefix(":")) for part in match.groups())
            self._steps.append(Slice(first, second, third, match[2] is None, self._limit))
        else:
            raise JSONPathError(f"invalid array index {inner}")

    def _inner(self, text: str, once: bool = False) -> Chain:
        """``once`` is for parts of the path itself: a side of a comparison is an error when it has two values."""
        return _Reader(text + "}", 0, self._allow, self._limit, once=once).chain()

    def _filter(self) -> None:
        """One side of a comparison may be quoted text with brackets in it."""
        text, start = self._text, self.place + 3
        self.place, quote, closed = start, "", False
        while True:
            character = text[self.place : self.place + 1]
            if character in ("", "\n"):
                raise JSONPathError("unterminated filter")
            self.place += 1
            if character in "\"'":
                if not quote:
                    quote = character
                elif character == quote and text[self.place - 2] != "\\":
                    closed = True
            elif character == ")" and bool(quote) == closed:
                break
        inner = text[start : self.place - 1]
        if text[self.place : self.place + 1] != "]":
            raise JSONPathError("unclosed array expect ]")
        self.place += 1
        match = _COMPARISON.fullmatch(inner)
        if match is None:
            self._steps.append(existing(self._inner(inner).step))
        else:
            self._steps.append(compared(self._inner(match[1]).step, match[2], self._inner(match[3]).step))


def _index(text: str) -> int | None:
    """None for no text.  Raises JSONPathError when it is not an integer of 64 bits."""
    try:
        if not text:
            return None
        if -MAX_INT - 1 <= (number := int(text)) <= MAX_INT:
            return number
    except ValueError:  # a single sign, or more digits than Python reads
        pass
    raise JSONPathError(f"array index {text} is not a number")


def _unquoted(text: str) -> str:
    quote = text[0]

    def character(match: re.Match[str]) -> str:
        letter, *codes, octal = match.groups()
        if letter is not None and (letter not in "'\"" or letter == quote):
            return _LETTERS.get(letter, letter)
        number = int(octal, 8) if octal else int(next(filter(None, codes), "-1"), 16)
        if 0 <= number < (0x100 if octal else 0xD800) or 0xDFFF < number <= sys.maxunicode:
            return chr(number)
        raise JSONPathError(f"unquote string {text} error invalid syntax")

    return _ESCAPE.sub(character, text[1:-1])
