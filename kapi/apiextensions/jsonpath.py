"""Kubernetes' JSONPath, as printer columns and selectable fields use it (upstream: client-go ``util/jsonpath``).

A path compiles to a function from a value to the list of values found; what is missing is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kapi.machinery.brackets import closing_bracket
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.tree import Tree

Find = Callable[[Tree], list[Tree]]
_Step = Callable[[list[Tree]], list[Tree]]
_NAME = re.compile(r"(?:[^.\[\]'\"\\]|\\.)+")
_SLICE = re.compile(r"(-?[0-9]*)(?::(-?[0-9]*))?(?::(-?[0-9]*))?")
_FILTER = re.compile(r"(.+?)(==|!=|<=|>=|<|>)(.+)", re.DOTALL)


#: values that a step may find: ``..`` after ``..`` finds each value many times
MAX_FOUND = 100_000


class JSONPathError(ValueError):
    """A path that cannot be read."""


def compile_path(text: str) -> Find:
    """Reads ``.a.b[0]['c'][?(@.x=="y")].z``.  Raises JSONPathError."""
    steps = _steps(text)

    def find(value: object) -> list[Tree]:
        found = [value]
        for step in steps:
            found = step(found)[:MAX_FOUND]
            if not found:
                break
        return found

    return find


def _steps(text: str) -> list[_Step]:
    steps: list[_Step] = []
    position = 0
    while position < len(text):
        if text.startswith("..", position):
            steps.append(_descend)
            position += 2
            if position < len(text) and text[position] not in "[.":
                name, position = _name(text, position)
                steps.append(_field(name))
        elif text[position] == ".":
            position += 1
            if position == len(text):
                break
            if text[position] in ".[":
                continue
            name, position = _name(text, position)
            steps.append(_wildcard if name == "*" else _field(name))
        elif text[position] == "[":
            end = closing_bracket(text, position)
            if end < 0:
                raise JSONPathError("unterminated array")
            steps.append(_bracket(text[position + 1 : end]))
            position = end + 1
        else:
            name, position = _name(text, position)
            steps.append(_field(name))
    return steps


def _name(text: str, position: int) -> tuple[str, int]:
    match = _NAME.match(text, position)
    if match is None:
        raise JSONPathError(f"unrecognized character in path: {text[position:]}")
    return re.sub(r"\\(.)", r"\1", match.group()), match.end()


def _field(name: str) -> _Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _wildcard(values: list[Tree]) -> list[Tree]:
    found: list[Tree] = []
    for value in values:
        if isinstance(value, list):
            found.extend(value)
        elif isinstance(value, dict):
            found.extend(value[key] for key in sorted(value))
    return found


def _descend(values: list[Tree]) -> list[Tree]:
    found: list[Tree] = []
    stack = list(reversed(values))
    while stack and len(found) < MAX_FOUND:
        checkpoint()
        value = stack.pop()
        found.append(value)
        if isinstance(value, dict):
            stack.extend(reversed([value[key] for key in sorted(value)]))
        elif isinstance(value, list):
            stack.extend(reversed(value))
    return found


def _bracket(body: str) -> _Step:
    body = body.strip()
    if body == "*":
        return _wildcard
    if body.startswith("?(") and body.endswith(")"):
        return _filter(body[2:-1])
    if body[:1] in ("'", '"') and body[-1:] == body[:1]:
        return _field(body[1:-1])
    if "," in body:
        parts = [_bracket(part) for part in body.split(",")]
        return lambda values: [item for part in parts for item in part(values)]
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
    return lambda values: [item for value in values if isinstance(value, list) for item in value[start:stop:step]]


def _index(number: int) -> _Step:
    return lambda values: [
        value[number] for value in values if isinstance(value, list) and -len(value) <= number < len(value)
    ]


def _filter(text: str) -> _Step:
    match = _FILTER.fullmatch(text.strip())
    if match is None or "\n" in match.group(1).strip() or "\n" in match.group(3).strip():
        exists = _operand(text)
        return lambda values: [item for item in _wildcard(values) if exists(item)]
    left, operator, right = _operand(match.group(1)), match.group(2), _operand(match.group(3))

    def keep(item: object) -> bool:
        one, other = left(item), right(item)
        return len(one) == 1 and len(other) == 1 and _compare(one[0], operator, other[0])

    return lambda values: [item for value in values if isinstance(value, list) for item in value if keep(item)]


def _operand(text: str) -> Find:
    text = text.strip()
    if text.startswith("@"):
        return compile_path(text[1:])
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
    return lambda value: [constant]


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
