"""Small changes to a source file, by the operators of cosmic-ray."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

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
    "admission", "apiextensions", "authentication", "authorization", "codecs", "endpoints", "filters", "machinery", "registry",
    "resources", "schema", "serving", "store", "watchcache", "wire",
)  # fmt: skip


class Mutation(NamedTuple):
    """The ``number``-th place in a file where an operator can change something.  ``path`` is relative to the checkout."""

    path: Path
    operator: str
    number: int
    line: int

    def applied(self, source: str) -> str:
        """The mutated source."""
        made: str | None = mutate_code(source, _operator(self.operator), self.number)
        assert made is not None, self
        return made


class _Lines(Visitor):  # type: ignore[misc]
    """The line of each place, in the order in which cosmic-ray counts them."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator
        self.found: list[int] = []

    def visit(self, node: Any) -> Any:
        self.found += [start[0] for start, _ in self._operator.mutation_positions(node)]
        return node


def _operator(name: str) -> Any:
    return get_operator(f"core/{name}")()


def mutations_of(path: Path, source: str) -> list[Mutation]:
    """All of one file, but for those of conditions that only a type checker knows."""
    tree, lines = get_ast(source), source.splitlines()
    found = []
    for name in OPERATORS:
        places = _Lines(_operator(name))
        places.walk(tree)
        found += [
            Mutation(path, name, number, line)
            for number, line in enumerate(places.found)
            if "TYPE_CHECKING" not in lines[line - 1]
        ]
    return found


def sample(root: Path, chance: random.Random, packages: Sequence[str] = PACKAGES) -> Iterator[Mutation]:
    """Endless and at random; long files come more often, as more can be wrong in them.  None comes twice."""
    files = [file for package in packages for file in sorted((root / "kapi" / package).rglob("*.py"))]
    if not files:
        raise LookupError(f"no files in {', '.join(packages)}")
    weights = [file.stat().st_size for file in files]
    seen: set[Mutation] = set()
    while True:
        file = chance.choices(files, weights)[0]
        known = mutations_of(file.relative_to(root), file.read_text())
        fresh = [each for each in known if each not in seen]
        if fresh:
            chosen = chance.choice(fresh)
            seen.add(chosen)
            yield chosen
