"""JSONPath templates as kubectl knows them (upstream: client-go ``util/jsonpath``).

``{.items[*].metadata.name}``: text outside of braces stays; inside there are fields, subscripts, slices, unions, filters,
recursive descent, quoted text, and ``range``/``end``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kapi.cli.go_values import go_text, json_text
from kapi.machinery.brackets import closing_bracket, outside_quotes
from kapi.machinery.tree import Tree

_FIELD = re.compile(r"(?:\\.|[^\s.\[\]{}()'\"\\,@$=<>!|&])+")
_OPERATOR = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
#: from the values so far to the next ones; the second argument is the root
Step = Callable[[list[Tree], Tree], list[Tree]]


class JSONPathError(ValueError):
    """A template that cannot be read, or not be applied."""


class Template:
    """Reads ``text`` at once; ``allow_missing`` lets fields be absent.  Raises JSONPathError."""

    def __init__(self, text: str, *, allow_missing: bool = True) -> None:
        self.text = text
        self._allow = allow_missing
        self._nodes = list(self._parse(text))
        self._check()

    def _parse(self, text: str) -> Iterator[tuple[str, Tree]]:
        position = 0
        while position < len(text):
            start = text.find("{", position)
            if start < 0:
                yield "text", text[position:]
                return
            if start > position:
                yield "text", text[position:start]
            end = self._closing(text, start)
            yield from self._action(text[start + 1 : end].strip())
            position = end + 1

    def _closing(self, text: str, start: int) -> int:
        depth = 0
        for position, character in outside_quotes(text, start + 1, JSONPathError("unterminated quoted string")):
            if character == "[":
                depth += 1
            elif character == "]":
                depth -= 1
            elif character == "}" and depth <= 0:
                return position
        raise JSONPathError("unterminated array" if depth > 0 else "unclosed action")

    def _action(self, text: str) -> Iterator[tuple[str, Tree]]:
        if text == "end":
            yield "end", None
        elif re.match(r"range\b", text):
            yield "range", self._path(text[5:].strip())
        else:
            for piece in _pieces(text):
                if piece[:1] in "'\"":
                    yield "text", _unquoted(piece)
                else:
                    yield "path", self._path(piece)

    def _path(self, text: str) -> list[Step]:
        return _Reader(text, self._allow).steps()

    def _check(self) -> None:
        depth = 0
        for kind, _ in self._nodes:
            depth += {"range": 1, "end": -1}.get(kind, 0)
            if depth < 0:
                raise JSONPathError("not in range, nothing to end")

    def find(self, data: object) -> list[list[Tree]]:
        """The values of each path in the template."""
        return [values for kind, values in self._run(0, len(self._nodes), [data], data) if kind == "values"]

    def expand(self, data: object) -> str:
        """The template with its values put in."""
        parts = []
        for kind, value in self._run(0, len(self._nodes), [data], data):
            parts.append(value if kind == "text" else " ".join(_shown(one) for one in value))
        return "".join(parts)

    def _run(self, start: int, end: int, current: list[Tree], root: object) -> Iterator[tuple[str, Tree]]:
        position = start
        while position < end:
            kind, what = self._nodes[position]
            if kind == "text":
                yield "text", what
            elif kind == "path":
                yield "values", _follow(what, current, root)
            elif kind == "range":
                close = self._end_of(position, end)
                for value in _follow(what, current, root):
                    yield from self._run(position + 1, close, [value], root)
                position = close
            position += 1

    def _end_of(self, position: int, end: int) -> int:
        depth = 0
        for index in range(position, end):
            depth += {"range": 1, "end": -1}.get(self._nodes[index][0], 0)
            if depth == 0:
                return index
        return end


def relaxed(text: str) -> str:
    """``metadata.name``, ``.metadata.name`` and ``{.metadata.name}`` as a template.  Raises JSONPathError."""
    if not text:
        return text
    match = re.fullmatch(r"\{\.?([^{}]+)\}|\.?([^{}]+)", text)
    if match is None:
        raise JSONPathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'"
        )
    return "{." + (match[1] or match[2]) + "}"


def _follow(steps: list[Step], current: list[Tree], root: object) -> list[Tree]:
    for step in steps:
        current = step(current, root)
    return current


def _shown(value: object) -> str:
    return json_text(value) if isinstance(value, dict | list) else go_text(value)


def _pieces(text: str) -> list[str]:
    """Paths and quoted texts between blanks."""
    found, start, depth = [], 0, 0
    for position, character in outside_quotes(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character.isspace() and depth == 0:
            if position > start:
                found.append(text[start:position])
            start = position + 1
    if len(text) > start:
        found.append(text[start:])
    return found


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text[1:-1])


class _Reader:
    """One path."""

    def __init__(self, text: str, allow_missing: bool) -> None:
        self._text, self._allow, self._position = text, allow_missing, 0

    def steps(self) -> list[Step]:
        found: list[Step] = []
        text = self._text
        if text[:1] not in (".", "[", "@", "$", ""):
            match = _FIELD.match(text)
            if match is None:
                raise JSONPathError(f"unrecognized character in action: U+{ord(text[0]):04X} {text[0]!r}")
            raise JSONPathError(f"unrecognized identifier {match[0]}")
        while self._position < len(text):
            rest = text[self._position :]
            if rest.startswith(".."):
                self._position += 2
                found.append(_descend)
                match = _FIELD.match(text, self._position)
                if match:
                    self._position = match.end()
                    name = match[0]
                    found.append(_wildcard if name == "*" else self._field(name, among_all=True))
            elif rest[0] == ".":
                self._position += 1
                match = _FIELD.match(text, self._position)
                if match:
                    self._position = match.end()
                    name = re.sub(r"\\(.)", r"\1", match[0])
                    found.append(_wildcard if name == "*" else self._field(name))
            elif rest[0] == "[":
                found.append(self._subscript())
            elif rest[0] == "$":
                self._position += 1
                found.append(lambda values, root: [root])
            elif rest[0] == "@":
                self._position += 1
            else:
                raise JSONPathError(f"unrecognized character in action: U+{ord(rest[0]):04X} '{rest[0]}'")
        return found

    def _field(self, name: str, among_all: bool = False) -> Step:
        def step(values: list[Tree], root: object) -> list[Tree]:
            found = [value[name] for value in values if isinstance(value, dict) and name in value]
            if not found and not self._allow and not among_all:
                raise JSONPathError(f"{name} is not found")
            return found

        return step

    def _subscript(self) -> Step:
        text, start = self._text, self._position
        end = closing_bracket(text, start)
        if end < 0:
            raise JSONPathError("unterminated array")
        inner = text[start + 1 : end].strip()
        self._position = end + 1
        if inner.startswith("?("):
            if not inner.endswith(")"):
                raise JSONPathError("unclosed array expect ]")
            return self._filter(inner[2:-1].strip())
        parts = _split(inner, ",")
        if len(parts) > 1:
            steps = [self._one(part.strip()) for part in parts]
            return lambda values, root: [found for value in values for step in steps for found in step([value], root)]
        return self._one(inner)

    def _one(self, text: str) -> Step:
        if text == "*":
            return _wildcard
        if text[:1] in ("'", '"'):
            return self._field(_unquoted(text))
        match = re.fullmatch(r"(-?\d*)(?:(:)(-?\d*))?(?:(:)(-?\d*))?", text)
        if match is None or not text:
            if _FIELD.fullmatch(text.lstrip(".")):
                return self._field(text.lstrip("."))
            raise JSONPathError(f"invalid array index {text}")
        if match[2] is None:
            return self._index(int(match[1]))
        first, last, step = (int(part) if part else None for part in (match[1], match[3], match[5]))
        return lambda values, root: [
            one for value in values if isinstance(value, list) for one in value[slice(first, last, step)]
        ]

    def _index(self, index: int) -> Step:
        def step(values: list[Tree], root: object) -> list[Tree]:
            found = []
            for value in values:
                if not isinstance(value, list):
                    continue
                if not -len(value) <= index < len(value):
                    if self._allow and not value:
                        continue
                    raise JSONPathError(f"array index out of bounds: index {index}, length {len(value)}")
                found.append(value[index])
            return found

        return step

    def _filter(self, text: str) -> Step:
        parts = _split_operator(text)
        left, operator, right = parts
        first = self._operand(left)
        second = self._operand(right) if operator else None

        def step(values: list[Tree], root: object) -> list[Tree]:
            found = []
            for value in values:
                for item in value if isinstance(value, list) else [value]:
                    here = first(item, root)
                    if second is None:
                        if here:
                            found.append(item)
                        continue
                    there = second(item, root)
                    if len(here) == 1 and len(there) == 1 and _compare(here[0], operator, there[0]):
                        found.append(item)
            return found

        return step

    def _operand(self, text: str) -> Callable[[Tree, Tree], list[Tree]]:
        if text[:1] in ("'", '"'):
            known = _unquoted(text)
            return lambda item, root: [known]
        if text in ("true", "false"):
            return lambda item, root: [text == "true"]
        try:
            number: Tree = float(text) if "." in text or "e" in text else int(text)
            return lambda item, root: [number]
        except ValueError:
            steps = _Reader(text, True).steps()
            return lambda item, root: _follow(steps, [item], root)


def _split(text: str, mark: str) -> list[str]:
    found, start, depth = [], 0, 0
    for position, character in outside_quotes(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == mark and depth == 0:
            found.append(text[start:position])
            start = position + 1
    return [*found, text[start:]]


def _split_operator(text: str) -> tuple[str, str, str]:
    for position, _ in outside_quotes(text):
        match = _OPERATOR.match(text, position)
        if match:
            return text[:position].strip(), match[1], text[match.end() :].strip()
    return text, "", ""


def _compare(left: Tree, operator: str, right: Tree) -> bool:
    if isinstance(left, bool) != isinstance(right, bool) or isinstance(left, str) != isinstance(right, str):
        return operator == "!="
    match operator:
        case "==":
            return bool(left == right)
        case "!=":
            return bool(left != right)
    try:
        return bool({"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[operator])
    except TypeError:
        return False


def _wildcard(values: list[Tree], root: object) -> list[Tree]:
    found: list[Tree] = []
    for value in values:
        if isinstance(value, list):
            found += value
        elif isinstance(value, dict):
            found += [value[key] for key in sorted(value)]
    return found


def _descend(values: list[Tree], root: object) -> list[Tree]:
    """The values and all below them."""
    found: list[Tree] = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        found.append(value)
        if isinstance(value, dict):
            waiting += [value[key] for key in sorted(value, reverse=True)]
        elif isinstance(value, list):
            waiting += reversed(value)
    return found
