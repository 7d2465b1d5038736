"""The nodes of a parsed expression (upstream: cel-spec ``syntax.proto``).

``offset`` is the position of a node for errors.  The checker sets ``type`` and, for calls, ``overloads``.  Nodes from macros
are like any other.
"""

from __future__ import annotations

import msgspec

from kapi.cel.types import CelType, Value


class _Checked(msgspec.Struct, eq=False, kw_only=True):
    type: CelType | None = None  # None until checked


class Expr(_Checked, eq=False):
    """A node."""

    offset: int


class Literal(Expr, eq=False):
    """A constant; ``value`` is the evaluator's value."""

    value: Value


class Ident(Expr, eq=False):
    """A name.  ``constant`` is set when it names a type or an enum value."""

    name: str
    constant: Value = None
    resolved: bool = False


class Select(Expr, eq=False):
    """``operand.field``; ``test`` for has(); ``variable`` when the whole chain is a qualified name."""

    operand: Expr
    field: str
    test: bool = False
    variable: str = ""
    constant: Value = None
    resolved: bool = False


class Call(Expr, eq=False):
    """``function(args)`` or ``target.function(args)``; operators are functions named as upstream names them."""

    function: str
    args: list[Expr]
    target: Expr | None = None
    overloads: list[Value] = []


class ListExpr(Expr, eq=False):
    """``[a, ?b]``: ``optional`` holds the indices of the optional elements."""

    elements: list[Expr]
    optional: frozenset[int] = frozenset()


class MapExpr(Expr, eq=False):
    """``{k: v, ?k: v}``: (key, value, optional, offset of the entry)."""

    entries: list[tuple[Expr, Expr, bool, int]]


class StructExpr(Expr, eq=False):
    """``Name{field: value}``."""

    name: str
    entries: list[tuple[str, Expr, bool, int]]


class Comprehension(Expr, eq=False):
    """A fold over a list or map, to which macros expand."""

    range: Expr
    var: str
    var2: str
    accu: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr


def children(node: Expr) -> list[Expr]:
    """The direct sub-expressions, in order of evaluation."""
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Call):
        return ([node.target] if node.target is not None else []) + node.args
    if isinstance(node, ListExpr):
        return list(node.elements)
    if isinstance(node, MapExpr):
        return [part for key, value, _, _ in node.entries for part in (key, value)]
    if isinstance(node, StructExpr):
        return [value for _, value, _, _ in node.entries]
    if isinstance(node, Comprehension):
        return [node.range, node.init, node.condition, node.step, node.result]
    return []


def idents(node: Expr) -> set[str]:
    """All plain names in an expression."""
    names: set[str] = set()
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, Ident):
            names.add(item.name)
        stack.extend(children(item))
    return names


def balanced(terms: list[Expr], ops: list[int], function: str) -> Expr:
    """A balanced tree of a chain of one logic operator: long chains stay shallow."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    left = balanced(terms[:middle], ops[: middle - 1], function)
    return Call(ops[middle - 1], function, [left, balanced(terms[middle:], ops[middle:], function)])


def qualified_name(tree: Expr) -> str | None:
    """``a.b.C`` as text, when the tree is nothing else."""
    parts: list[str] = []
    while isinstance(tree, Select) and not tree.test:
        parts.append(tree.field)
        tree = tree.operand
    if not isinstance(tree, Ident):
        return None
    parts.append(tree.name)
    return ".".join(reversed(parts))
