"""The nodes of a parsed expression (upstream: cel-spec ``syntax.proto``).

``offset`` is the position of a node for errors.  The checker sets ``type`` and, for calls, ``overloads``.  Nodes from macros
are like any other.
"""

from __future__ import annotations

from kapi.cel.types import CelType, Value


class Expr:
    """A node.  ``type`` is None until checked."""

    __slots__ = ("offset", "type")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.type: CelType | None = None


class Literal(Expr):
    """A constant; ``value`` is the evaluator's value."""

    __slots__ = ("value",)

    def __init__(self, offset: int, value: Value) -> None:
        super().__init__(offset)
        self.value = value


class Ident(Expr):
    """A name.  ``constant`` is set when it names a type or an enum value."""

    __slots__ = ("name", "constant", "resolved")

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name
        self.constant: Value = None
        self.resolved = False


class Select(Expr):
    """``operand.field``; ``test`` for has(); ``variable`` when the whole chain is a qualified name."""

    __slots__ = ("operand", "field", "test", "variable", "constant", "resolved")

    def __init__(self, offset: int, operand: Expr, field: str, test: bool = False) -> None:
        super().__init__(offset)
        self.operand = operand
        self.field = field
        self.test = test
        self.variable = ""
        self.constant: Value = None
        self.resolved = False


class Call(Expr):
    """``function(args)`` or ``target.function(args)``; operators are functions named as upstream names them."""

    __slots__ = ("function", "target", "args", "overloads")

    def __init__(self, offset: int, function: str, args: list[Expr], target: Expr | None = None) -> None:
        super().__init__(offset)
        self.function = function
        self.target = target
        self.args = args
        self.overloads: list[Value] = []


class ListExpr(Expr):
    """``[a, ?b]``: ``optional`` holds the indices of the optional elements."""

    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[Expr], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(offset)
        self.elements = elements
        self.optional = optional


class MapExpr(Expr):
    """``{k: v, ?k: v}``: (key, value, optional, offset of the entry)."""

    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[tuple[Expr, Expr, bool, int]]) -> None:
        super().__init__(offset)
        self.entries = entries


class StructExpr(Expr):
    """``Name{field: value}``."""

    __slots__ = ("name", "entries")

    def __init__(self, offset: int, name: str, entries: list[tuple[str, Expr, bool, int]]) -> None:
        super().__init__(offset)
        self.name = name
        self.entries = entries


class Comprehension(Expr):
    """A fold over a list or map, to which macros expand."""

    __slots__ = ("range", "var", "var2", "accu", "init", "condition", "step", "result")

    def __init__(
        self,
        offset: int,
        range_: Expr,
        var: str,
        var2: str,
        accu: str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> None:
        super().__init__(offset)
        self.range = range_
        self.var = var
        self.var2 = var2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result


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
