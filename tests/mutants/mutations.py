"""Small changes to a source file: by the operators of cosmic-ray, or one rule less (``dropped.py``)."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from tests.mutants import dropped

#: what decides, counts or loops; not the operators of types in annotations
OPERATORS = (
    "AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceBreakWithContinue", "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_GtE_Gt", "ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_NotEq_Eq", "ReplaceContinueWithBreak", "ReplaceFalseWithTrue", "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse", "ZeroIterationForLoop",
)  # fmt: skip
#: rules, rights, storage and protocols
PACKAGES = (
    "admission", "authentication", "authorization", "codecs", "endpoints", "filters", "machinery", "registry", "resources",
    "schema", "servers/apiextensions", "serving", "store", "watchcache", "wire",
)  # fmt: skip
#: how a class is made, and what only guards against a mistake of the code itself or tells how much a cache keeps
_UNSEEN = frozenset({"frozen", "slots", "eq", "gc", "kw_only", "usedforsecurity", "maxsize"})
_LOGS = frozenset({"_log", "log", "_logger", "logger"})
#: words in the names of constants that say how much a cache keeps, or how much is done in one piece: any number near it does
_AMOUNTS = frozenset({
    "CACHE", "CACHED", "KEPT", "REMEMBERED", "SHARED", "ONCE", "CHECKPOINT", "TURN", "PIECE", "SLICE", "BATCH", "LARGE",
    "PACKED", "SCANNED", "HELD",
})  # fmt: skip
_CACHES = frozenset({"lru_cache", "cached_function", "memoized"})
_MIN_AMOUNT = 8  # a smaller number becomes quite another one


class Mutation(NamedTuple):
    """The ``number``-th place in a file where an operator can change something.  ``path`` is relative to the checkout."""

    path: Path
    operator: str
    number: int
    line: int
    function: str | None  # the outermost in whose body it is; without one it is what an import executes

    def applied(self, source: str) -> str:
        """The mutated source."""
        if self.operator in dropped.OPERATORS:
            return dropped.applied(source, dropped.places(source)[self.number])
        made: str | None = mutate_code(source, _operator(self.operator), self.number)
        assert made is not None, self
        return made


class _Places(Visitor):  # type: ignore[misc]
    """The line and column of each place of each operator, in the order in which cosmic-ray counts them."""

    def __init__(self) -> None:
        self._operators = {name: _operator(name) for name in OPERATORS}
        self.found: dict[str, list[tuple[int, int]]] = {name: [] for name in OPERATORS}

    def visit(self, node: Any) -> Any:
        for name, operator in self._operators.items():
            self.found[name] += [start for start, _ in operator.mutation_positions(node)]
        return node


class _Ranges(ast.NodeVisitor):
    """Where no test looks, and where the functions are."""

    def __init__(self) -> None:
        self.untested: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._functions: list[tuple[range, str]] = []
        self._names: list[str] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._leave_out(node.returns)
            if not any(name.endswith("()") for name in self._names):
                name = ".".join([*self._names, node.name])
                self._functions.append((range(node.body[0].lineno, (node.end_lineno or 0) + 1), name))
            self._within(node, f"{node.name}()")
        elif isinstance(node, ast.ClassDef):
            self._within(node, node.name)
        else:
            if isinstance(node, ast.AnnAssign | ast.arg):
                self._leave_out(node.annotation)
            elif isinstance(node, ast.Assign) and _is_amount(node):
                for each in ast.walk(node.value):
                    if isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value >= _MIN_AMOUNT:
                        self._leave_out(each)
            elif isinstance(node, ast.Compare):
                self._leave_out_bounds(node)
            elif isinstance(node, ast.keyword) and node.arg in _UNSEEN:
                self._leave_out(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
                for keyword in node.keywords:  # strict
                    self._leave_out(keyword.value)
            elif isinstance(node, ast.Assert) or _is_of_types(node) or _is_log(node) or _is_cache(node):
                self._leave_out(node)
            self.generic_visit(node)

    def function(self, line: int) -> str | None:
        return next((name for lines, name in self._functions if line in lines), None)

    def _within(self, node: ast.AST, name: str) -> None:
        self._names.append(name)
        self.generic_visit(node)
        self._names.pop()

    def _leave_out_bounds(self, node: ast.Compare) -> None:
        """Whether ``size > _MAX_CACHED_BYTES`` holds at the bound itself."""
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            amount = any(not _AMOUNTS.isdisjoint(_words(side)) for side in (left, right))
            if amount and isinstance(operator, ast.Gt | ast.GtE | ast.Lt | ast.LtE):
                begin = left.end_lineno or 0, left.end_col_offset or 0
                self.untested.append((begin, (right.lineno, right.col_offset)))

    def _leave_out(self, node: ast.AST | None) -> None:
        if isinstance(node, ast.expr | ast.stmt):
            end = node.end_lineno or 0, node.end_col_offset or 0
            self.untested.append(((node.lineno, node.col_offset), end))


def _is_of_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _is_cache(node: ast.AST) -> bool:
    """``lru_cache(100)``."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _CACHES


def _is_amount(node: ast.Assign) -> bool:
    """``_MAX_CACHED_BYTES = 16 * 1024``: a product."""
    names = {word for target in node.targets for word in _words(target)}
    kinds = (ast.Constant, ast.Name, ast.BinOp, ast.Mult, ast.Load)
    return (
        not names.isdisjoint(_AMOUNTS)
        and names.isdisjoint({"DEFAULT", "SECONDS"})
        and all(isinstance(each, kinds) for each in ast.walk(node.value))
    )


def _words(name: ast.expr) -> set[str]:
    return set(ast.unparse(name).rpartition(".")[2].split("_")) if isinstance(name, ast.Name | ast.Attribute) else set()


def _is_log(node: ast.AST) -> bool:
    """A call of a logger: its texts and numbers are for readers of logs; or whether Twisted logs what a factory does."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]).rpartition(".")[2] == "noisy"
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value).rpartition(".")[2] in _LOGS
    )


def _operator(name: str) -> Any:
    return get_operator(f"core/{name}")()


def mutations_of(path: Path, source: str) -> list[Mutation]:
    """All of one file, but for those in annotations, assertions (they are for the type checker), calls of a logger, and
    what tells how a class or a cache is made or how much is done in one piece, with the bounds of that.
    """
    ranges = _Ranges()
    ranges.visit(ast.parse(source))
    places = _Places()
    places.walk(get_ast(source))
    return [
        Mutation(path, operator, number, place[0], ranges.function(place[0]))
        for operator, found in places.found.items()
        for number, place in enumerate(found)
        if not any(start <= place < end for start, end in ranges.untested)
    ]


def rules_of(path: Path, source: str) -> list[Mutation]:
    """One for each rule of a file, without that rule."""
    ranges = _Ranges()
    ranges.visit(ast.parse(source))
    return [
        Mutation(path, place.operator, number, place.line, ranges.function(place.line))
        for number, place in enumerate(dropped.places(source))
    ]


def all_rules(root: Path, packages: Sequence[str]) -> Iterator[Mutation]:
    """Of each file, in order."""
    for file in _files(root, packages):
        yield from rules_of(file.relative_to(root), file.read_text())


def _files(root: Path, packages: Sequence[str]) -> list[Path]:
    files = [
        file
        for package in packages
        for path in (root / "kapi" / package,)
        for file in ([path] if path.suffix else sorted(path.rglob("*.py")))
    ]
    if not files:
        raise LookupError(f"no files in {', '.join(packages)}")
    return files


def sample(root: Path, chance: random.Random, packages: Sequence[str] = PACKAGES) -> Iterator[Mutation]:
    """Endless and at random; long files come more often, as more can be wrong in them.  None comes twice."""
    files = _files(root, packages)
    weights = [file.stat().st_size for file in files]
    known: dict[Path, list[Mutation]] = {}
    seen: set[Mutation] = set()
    while True:
        file = chance.choices(files, weights)[0]
        if file not in known:
            known[file] = mutations_of(file.relative_to(root), file.read_text())
        fresh = [each for each in known[file] if each not in seen]
        if fresh:
            chosen = chance.choice(fresh)
            seen.add(chosen)
            yield chosen
