"""Mutations that leave out one rule at a time: the report of an error, or what a table or a declaration lists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

#: a statement that reports or raises an error; a rule in a declaration; an entry of a table
OPERATORS = ("DropReport", "DropRaise", "DropRule", "DropEntry")
_OF_RULES = frozenset({"struct", "all_of", "first_of", "at", "unless_empty", "each", "each_key", "each_value"})
#: never true, but the compiler does not know: the code within stays
_NEVER = "if not __name__: "


class Place(NamedTuple):
    """Where text is replaced: characters of the source, and what stands there instead."""

    operator: str
    line: int
    begin: int
    end: int
    text: str


def places(source: str) -> list[Place]:
    """All of a source, in its order."""
    return list(_Found(source).within(ast.parse(source), False))


def applied(source: str, place: Place) -> str:
    return source[: place.begin] + place.text + source[place.end :]


class _Found:
    def __init__(self, source: str) -> None:
        self._source = source
        lines = source.splitlines(keepends=True)
        self._begins = [0]
        self._lines = lines
        for line in lines:
            self._begins.append(self._begins[-1] + len(line))

    def within(self, node: ast.AST, in_function: bool) -> Iterator[Place]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt) and in_function:
                if isinstance(child, ast.Raise):
                    if "NotImplementedError" not in ast.unparse(child):  # every subclass has its own method
                        yield self._never("DropRaise", child)
                elif _reports(child):
                    yield self._never("DropReport", child)
            elif not in_function and isinstance(child, ast.Call):
                yield from self._rules(child)
            elif not in_function and isinstance(child, ast.Tuple | ast.List | ast.Set | ast.Dict):
                yield from self._entries(child)
            if isinstance(child, ast.Subscript) and not in_function:
                continue  # a type: dict[str, int]
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from self.within(child, in_function or inner)

    def _never(self, operator: str, node: ast.stmt) -> Place:
        begin = self._at(node.lineno, node.col_offset)
        return Place(operator, node.lineno, begin, begin, _NEVER)

    def _rules(self, call: ast.Call) -> Iterator[Place]:
        """Of a combinator with several rules: one of ``at("name", rule)`` is left out with it."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in _OF_RULES:
            rules = [each for each in call.args if not isinstance(each, ast.Constant)]
            for rule in rules if len(rules) > 1 or name in ("struct", "each") else ():
                begin, end = self._range(rule)
                yield Place("DropRule", rule.lineno, begin, end, "(lambda *_: ())")

    def _entries(self, table: ast.Tuple | ast.List | ast.Set | ast.Dict) -> Iterator[Place]:
        if isinstance(table, ast.Dict):
            ranges = [
                (
                    self._range(key)[0] if key is not None else self._range(value)[0] - 2,
                    self._range(value)[1],
                    value.lineno,
                )
                for key, value in zip(table.keys, table.values, strict=True)
            ]
        elif isinstance(getattr(table, "ctx", ast.Load()), ast.Load):
            ranges = [(*self._range(each), each.lineno) for each in table.elts]
        else:
            return
        if len(ranges) < 2:
            return
        for number, (begin, end, line) in enumerate(ranges):
            if number + 1 < len(ranges):
                yield Place("DropEntry", line, begin, ranges[number + 1][0], "")
            else:
                comma = self._source[end:].lstrip().startswith(",")
                yield Place("DropEntry", line, ranges[number - 1][1], end, "" if comma else ",")

    def _range(self, node: ast.expr) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno or 0, node.end_col_offset or 0)

    def _at(self, line: int, byte: int) -> int:
        return self._begins[line - 1] + len(self._lines[line - 1].encode()[:byte].decode())


def _reports(node: ast.stmt) -> bool:
    """``errors.append(...)``, ``errors += ...`` and ``check(value, path, errors)``."""
    if isinstance(node, ast.AugAssign):
        return _is_errors(node.target)
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    call = node.value
    return (isinstance(call.func, ast.Attribute) and _is_errors(call.func.value)) or any(map(_is_errors, call.args))


def _is_errors(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("errors", "found", "warnings")
