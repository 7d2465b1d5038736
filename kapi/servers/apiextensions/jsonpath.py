"""Kubernetes' JSONPath, as printer columns and selectable fields use it (upstream: client-go ``util/jsonpath``).

A path finds a list of values in a value, without missing ones.  Columns and fields use the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements, entries, popped
from kapi.machinery.tree import Tree

_QUOTED_OR_BRACKET = re.compile(r"""'(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?|[\[\]]""", re.DOTALL)


def closing_bracket(text: str, opening: int) -> int:
    """The index of the bracket that closes the one at ``opening``, or -1.  Brackets in quotes do not count."""
    depth = 0
    for match in elements(_QUOTED_OR_BRACKET.finditer(text, opening)):
        if match[0] == "[":
            depth += 1
        elif match[0] == "]":
            depth -= 1
            if not depth:
                return match.start()
    return -1


_Step = Callable[[list[Tree]], list[Tree]]
_NAME = re.compile(r"(?:[^.\[\]'\"\\]|\\.)+")
_SLICE = re.compile(r"(-?[0-9]*)(?::(-?[0-9]*))?(?::(-?[0-9]*))?")
_FILTER = re.compile(r"(.+?)(==|!=|<=|>=|<|>)(.+)", re.DOTALL)


MAX_FOUND = 100_000  # values of a step: ``..`` after ``..`` finds each value many times


class JSONPathError(ValueError):
    """A malformed path."""


class Below:
    """All values below the top of one object, for paths that begin with ``..``; the object is walked once for all such paths."""

    def __init__(self, top: Tree) -> None:
        self._top = top
        self._values: list[Tree] | None = None
        self._by_name: dict[str, list[Tree]] | None = None

    def values(self) -> list[Tree]:
        """The values that ``..`` finds."""
        if self._values is None:
            self._values = _descend([self._top])
        return self._values

    def named(self, name: str) -> list[Tree]:
        """The values that ``..name`` finds."""
        if self._by_name is None:
            found: dict[str, list[Tree]] = {}
            for value in elements(self.values()):
                if isinstance(value, dict):
                    for key, member in entries(value):
                        found.setdefault(key, []).append(member)
            self._by_name = found
        return self._by_name.get(name, [])


class Path:
    """A compiled path.

    ``repeats``: a value is found as often as ``..`` leads to it; otherwise once, which is enough when only the first is used.
    """

    def __init__(self, text: str, repeats: bool = False) -> None:
        """Raises JSONPathError."""
        self._steps = _compiled(text, repeats)

    def find(self, value: Tree, below: Below | None = None) -> list[Tree]:
        """The values that are found in a value; ``below`` has all values below it."""
        found, path = [value], self._steps
        if below is not None and path and path[0] is _descend:
            if len(path) > 1 and isinstance(path[1], _Field):
                found, path = below.named(path[1].name), path[2:]
            else:
                found, path = below.values(), path[1:]
        for step in path:
            if len(found) > MAX_FOUND:
                found = found[:MAX_FOUND]
            found = step(found)
            if not found:
                break
        return found

    @property
    def name(self) -> str | None:
        """The name when this is the path of one member."""
        only = self._steps[0] if len(self._steps) == 1 else None
        return only.name if isinstance(only, _Field) else None


def _compiled(text: str, repeats: bool) -> list[_Step]:
    found: list[_Step] = []
    position = 0
    while position < len(text):
        checkpoint()
        if text.startswith("..", position):
            # the first one starts at one value, so that it finds none twice
            found.append(_descend_repeatedly if repeats and found else _descend)
            position += 2
            if position < len(text) and text[position] not in "[.":
                name, position = _name(text, position)
                found.append(_Field(name))
        elif text[position] == ".":
            position += 1
            if position == len(text):
                break
            if text[position] in ".[":
                continue
            name, position = _name(text, position)
            found.append(_wildcard if name == "*" else _Field(name))
        elif text[position] == "[":
            end = closing_bracket(text, position)
            if end < 0:
                raise JSONPathError("unterminated array")
            found.append(_bracket(text[position + 1 : end]))
            position = end + 1
        else:
            name, position = _name(text, position)
            found.append(_Field(name))
    return found


def _name(text: str, position: int) -> tuple[str, int]:
    match = _NAME.match(text, position)
    if match is None:
        raise JSONPathError(f"unrecognized character in path: {text[position:]}")
    return re.sub(r"\\(.)", r"\1", match.group()), match.end()


class _Field:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, values: list[Tree]) -> list[Tree]:
        name = self.name
        return [value[name] for value in values if isinstance(value, dict) and name in value]


def _joined(parts: Iterable[Iterable[Tree]]) -> list[Tree]:
    """The values of all parts, up to the limit of a step: a union can name the same list many times."""
    found: list[Tree] = []
    for part in elements(parts):
        found.extend(part)
        if len(found) > MAX_FOUND:
            break
    return found


def _wildcard(values: list[Tree]) -> list[Tree]:
    return _joined(
        value if isinstance(value, list) else [value[key] for key in sorted(value)]
        for value in values
        if isinstance(value, (list, dict))
    )


def _descend(values: list[Tree]) -> list[Tree]:
    """The values and all values below them, each once."""
    return _walk(values, set() if len(values) > 1 else None)


def _descend_repeatedly(values: list[Tree]) -> list[Tree]:
    return _walk(values, None)


def _walk(values: list[Tree], seen: set[int] | None) -> list[Tree]:
    found: list[Tree] = []
    stack = values[::-1]
    for value in popped(stack):
        if len(found) >= MAX_FOUND:
            break
        if isinstance(value, (dict, list)):
            if seen is not None:
                if id(value) in seen:
                    continue
                seen.add(id(value))
            if isinstance(value, dict):
                stack.extend([value[key] for key in sorted(value, reverse=True)])
            else:
                stack.extend(reversed(value))
        found.append(value)
    return found


def _bracket(body: str) -> _Step:
    body = body.strip()
    if body == "*":
        return _wildcard
    if body.startswith("?(") and body.endswith(")"):
        return _filter(body[2:-1])
    if body[:1] in ("'", '"') and body[-1:] == body[:1]:
        return _Field(body[1:-1])
    if "," in body:
        parts = [_bracket(part) for part in elements(body.split(","))]
        return lambda values: _joined(part(values) for part in parts)
    match = _SLICE.fullmatch(body)
    if match is None or not body:
        raise JSONPathError(f"invalid array index {body}")
    try:
        start, stop, step = (int(part) if part else None for part in match.groups())
    except ValueError:
        raise JSONPathError(f"invalid array index {body}") from None
    if ":" not in body:
        assert start is not None
        return _index(start)
    if step == 0:
        raise JSONPathError("step must be greater than 0")
    return lambda values: _joined(value[start:stop:step] for value in values if isinstance(value, list))


def _index(number: int) -> _Step:
    return lambda values: [
        value[number] for value in values if isinstance(value, list) and -len(value) <= number < len(value)
    ]


def _filter(text: str) -> _Step:
    match = _FILTER.fullmatch(text.strip())
    if match is None or "\n" in match.group(1).strip() or "\n" in match.group(3).strip():
        exists = _operand(text)
        return lambda values: [item for item in elements(_wildcard(values)) if exists(item)]
    left, operator, right = _operand(match.group(1)), match.group(2), _operand(match.group(3))

    def keep(item: object) -> bool:
        one, other = left(item), right(item)
        return len(one) == 1 and len(other) == 1 and _compare(one[0], operator, other[0])

    return lambda values: _joined(
        [item for item in elements(value) if keep(item)] for value in values if isinstance(value, list)
    )


def _operand(text: str) -> Callable[[Tree], list[Tree]]:
    text = text.strip()
    if text.startswith("@"):
        path = Path(text[1:], repeats=True)
        name = path.name
        if name is None:
            return path.find
        return lambda value: [value[name]] if isinstance(value, dict) and name in value else []
    constant: Tree
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        constant = text[1:-1]
    elif text in ("true", "false"):
        constant = text == "true"
    else:
        try:
            constant = float(text) if "." in text else int(text)
        except ValueError:
            raise JSONPathError(f"unrecognized identifier {text}") from None
    found = [constant]
    return lambda value: found


def _compare(one: Tree, operator: str, other: Tree) -> bool:
    if isinstance(one, bool) is not isinstance(other, bool) or isinstance(one, str) is not isinstance(other, str):
        return operator == "!="
    if operator == "==":
        return bool(one == other)
    if operator == "!=":
        return bool(one != other)
    try:
        return bool(
            one < other
            if operator == "<"
            else one > other
            if operator == ">"
            else one <= other
            if operator == "<="
            else one >= other
        )
    except TypeError:
        return False
