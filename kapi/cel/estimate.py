"""The static cost estimate of an expression, from the declared sizes of its variables.

Sizes and costs are ranges of unsigned 64-bit numbers that saturate.
Upstream: cel-go ``checker/cost.go``, apiserver ``cel/library/cost.go``.
"""

from __future__ import annotations

import builtins

from kapi.cel import types
from kapi.cel.cost import AUTHORIZER_CHECK, COMPARISONS, NEW_LIST, REGEX, TRAVERSAL
from kapi.cel.macros import ACCU
from kapi.cel.sizes import (
    MAX_INCLUDES,
    MAX_UINT64,
    ONE,
    UNKNOWN,
    Entry,
    Local,
    Node,
    Range,
    Result,
    SizeOf,
    fixed,
    literal_size,
    replaced,
    scalar,
    times,
)
from kapi.cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kapi.cel.types import CelType
from kapi.cel.visitor import Visitor


def estimate(tree: Expr, size_of: SizeOf | None = None) -> Range:
    """The cost range of a checked tree."""
    return _Estimator(size_of or (lambda path, type_: None)).visit(tree)


class _Estimator(Visitor[Range]):
    def __init__(self, size_of: SizeOf) -> None:
        self.size_of = size_of
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, Entry] = {}
        self.locals: builtins.list[tuple[str, Local]] = []

    # where things are and how large

    def local(self, name: str) -> Local | None:
        for known, found in reversed(self.locals):
            if known == name:
                return found
        return None

    def path(self, node: Expr) -> tuple[str, ...]:
        if isinstance(node, Ident):
            found = self.local(node.name)
            if found is not None:
                return found.path
        return self.paths.get(id(node), ())

    def size(self, node: Expr) -> Range | None:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        known = literal_size(node)
        if known is not None:
            return known
        type_ = node.type or types.DYN
        known = self.size_of(self.path(node), type_)
        if known is not None:
            self.sizes[id(node)] = known
            return known
        if scalar(type_):
            return ONE
        if isinstance(node, Ident):
            found = self.local(node.name)
            if found is not None:
                return found.size
        return None

    def known(self, node: Expr) -> Range:
        return self.size(node) or UNKNOWN

    def entry(self, node: Expr) -> Entry | None:
        found = self.entries.get(id(node))
        if found is None and isinstance(node, Ident):
            variable = self.local(node.name)
            found = variable.entry if variable is not None else None
        return found

    # costs

    def literal(self, node: Literal) -> Range:
        return fixed(0)

    def ident(self, node: Ident) -> Range:
        variable = self.local(node.name)
        self.paths[id(node)] = variable.path if variable is not None else (node.name,)
        return ONE

    def struct(self, node: StructExpr) -> Range:
        total = fixed(40)
        for entry in node.entries:
            total = total.plus(self.visit(entry[1]))
        return total

    def select(self, node: Select) -> Range:
        if node.resolved:  # the qualified name of a type
            self.paths[id(node)] = (node.variable,)
            return ONE
        total = self.visit(node.operand)
        if node.test:
            return total
        target = node.operand.type
        if target is not None and target.kind in ("map", "struct", "param"):
            total = total.plus(ONE)
        self.paths[id(node)] = (*self.path(node.operand), node.field)
        return total

    def list(self, node: ListExpr) -> Range:
        total = fixed(10)
        item = Range(0 if not node.elements else MAX_UINT64, 0)
        for element in node.elements:
            total = total.plus(self.visit(element))
            item = item.union(self.known(element))
        self.entries[id(node)] = Entry("list", ONE, item)
        return total

    def map(self, node: MapExpr) -> Range:
        total = fixed(30)
        keys = values = Range(0 if not node.entries else MAX_UINT64, 0)
        for key, value, _, _ in node.entries:
            total = total.plus(self.visit(key)).plus(self.visit(value))
            keys = keys.union(self.known(key))
            values = values.union(self.known(value))
        self.entries[id(node)] = Entry("map", keys, values)
        return total

    def call(self, node: Call) -> Range:
        if node.function == "dyn":
            total = self.visit(node.args[0]).plus(ONE)
            self.copy(node, node.args[0])
            return total
        costs = [self.visit(arg) for arg in node.args]
        args = [self.node(arg) for arg in node.args]
        if not node.overloads:
            return fixed(0)
        total = fixed(0)
        target = None
        if node.target is not None:
            total = self.visit(node.target)
            target = self.node(node.target)
        combined = Range(MAX_UINT64, 0)
        size: Range | None = None
        for overload in node.overloads:
            result = self.function(node, overload.id, target, args, costs)
            combined = combined.union(result.cost)
            if result.size is not None:
                size = result.size if size is None else size.union(result.size)
            if overload.id in ("index_list", "index_map") and node.args:
                entry = self.entry(node.args[0])
                size = entry.value if entry is not None else None
                part = "@items" if overload.id == "index_list" else "@values"
                self.paths[id(node)] = (*self.path(node.args[0]), part)
            if size is None:
                size = self.size(node)
        if size is not None:
            self.sizes[id(node)] = size
        return total.plus(combined)

    def node(self, expr: Expr) -> Node:
        path = self.path(expr)
        if path and path[0] == ACCU:
            path = ()
        return Node(expr, path, expr.type or types.DYN, self.size(expr))

    def copy(self, target: Expr, source: Expr) -> None:
        size, entry = self.size(source), self.entry(source)
        if size is not None:
            self.sizes[id(target)] = size
        if entry is not None:
            self.entries[id(target)] = entry

    def fold(self, node: Comprehension) -> Range:
        total = self.visit(node.range).plus(self.visit(node.init))
        depth = len(self.locals)
        self.locals.append((node.accu, Local(self.path(node.init), self.size(node.init), self.entry(node.init))))
        if _is_bind(node):
            total = total.plus(self.visit(node.result))
            del self.locals[depth:]
            self.copy(node, node.result)
            return total
        self.iterate(node)
        each = self.visit(node.condition).plus(self.visit(node.step))
        step_entry = self.entry(node.step)
        del self.locals[depth + 1 :]
        total = total.plus(self.visit(node.result))
        del self.locals[depth:]
        count = self.known(node.range)
        total = total.plus(count.times(each))
        if isinstance(node.init, Literal):
            size = self.size(node.init)
            if size is not None:
                self.sizes[id(node)] = size
        elif isinstance(node.init, (ListExpr, MapExpr)):
            self.sizes[id(node)] = count
            if step_entry is not None:
                self.entries[id(node)] = step_entry
        return total

    def iterate(self, node: Comprehension) -> None:
        entry = self.entry(node.range)
        kind = entry.kind if entry is not None else (node.range.type.kind if node.range.type else "dyn")
        path = self.path(node.range)
        key, value = (entry.key, entry.value) if entry is not None else (None, None)
        listed = kind == "list"
        if node.var2:
            self.locals.append((node.var, Local((*path, "@indices" if listed else "@keys"), key, None)))
            self.locals.append((node.var2, Local((*path, "@items" if listed else "@values"), value, None)))
        elif listed:
            self.locals.append((node.var, Local((*path, "@items"), value, None)))
        else:
            self.locals.append((node.var, Local((*path, "@keys"), key, None)))

    # functions

    def function(
        self, node: Call, overload: str, target: Node | None, args: builtins.list[Node], costs: builtins.list[Range]
    ) -> Result:
        total = fixed(0)
        for cost in costs:
            total = total.plus(cost)
        library = self.lists(overload, target, args) or self.library(node.function, overload, target, args)
        if library is not None:
            return Result(library.cost.plus(total), library.size)
        sizes = [arg.size or UNKNOWN for arg in args]
        own = (target.size or UNKNOWN) if target is not None else UNKNOWN
        if overload == "string_format":
            return Result(own.by(TRAVERSAL).plus(total))
        if overload == "string_to_bytes":
            return Result(sizes[0].by(TRAVERSAL).plus(total), Range(sizes[0].min, times(sizes[0].max, 4)))
        if overload == "bytes_to_string":
            return Result(sizes[0].by(TRAVERSAL).plus(total), Range(sizes[0].min // 4, sizes[0].max))
        if overload == "strings_quote":
            # the largest size is an overflow upstream
            quoted = Range(sizes[0].min + 2, (2 * sizes[0].max + 2) & MAX_UINT64)
            return Result(sizes[0].by(TRAVERSAL).plus(total), quoted)
        if overload in ("starts_with_string", "ends_with_string"):
            return Result(sizes[0].by(TRAVERSAL).plus(total))
        if overload == "in_list":
            return Result(sizes[1].by(1).plus(total))
        if overload == "dra_includes_dyn_dyn":
            return Result(Range(0, MAX_INCLUDES).plus(total))
        if overload == "matches_string" and target is not None:
            return Result(own.plus(ONE).by(TRAVERSAL).times(sizes[0].by(REGEX)).plus(total))
        if overload == "contains_string":
            return Result(own.by(TRAVERSAL).times(sizes[0].by(TRAVERSAL)).plus(total))
        if overload in ("logical_and", "logical_or"):
            return Result(Range(costs[0].min, costs[0].plus(costs[1]).max))
        if overload == "conditional":
            return self.conditional(node, sizes, costs)
        if overload in ("add_string", "add_bytes", "add_list"):
            return self.addition(node, overload, sizes, total)
        if _compares(overload):
            smallest = min(sizes[0].max, sizes[1].max)
            return Result(Range(1 if smallest else 0, smallest).by(TRAVERSAL).plus(total))
        return Result(ONE.plus(total))

    def conditional(self, node: Call, sizes: builtins.list[Range], costs: builtins.list[Range]) -> Result:
        first, second = self.entry(node.args[1]), self.entry(node.args[2])
        merged = first.union(second) if first is not None else None
        if merged is not None:
            self.entries[id(node)] = merged
        return Result(costs[0].plus(costs[1].union(costs[2])), sizes[1].union(sizes[2]))

    def addition(self, node: Call, overload: str, sizes: builtins.list[Range], total: Range) -> Result:
        size = sizes[0].plus(sizes[1])
        first, second = self.entry(node.args[0]), self.entry(node.args[1])
        merged = first.union(second) if first is not None else None
        if merged is not None:
            self.entries[id(node)] = merged
        cost = ONE if overload == "add_list" else size.by(TRAVERSAL)
        return Result(cost.plus(total), size)

    def measure(self, node: Node) -> Range:
        return node.size or self.size_of(node.path, node.type) or UNKNOWN

    def element(self, node: Node) -> tuple[CelType, Range] | None:
        if not node.type.params:
            return None
        elem = node.type.params[0]
        path = (*node.path, "@items") if node.path else ()
        return elem, self.size_of(path, elem) or UNKNOWN

    def lists(self, overload: str, target: Node | None, args: builtins.list[Node]) -> Result | None:
        """The estimates of cel-go's libraries of lists and sets (``ext/lists.go``, ``ext/sets.go``)."""
        if overload.startswith("list_sets_"):
            product = self.measure(args[0]).times(self.measure(args[1]))
            return Result(product.by(2.0 if overload == "list_sets_equivalent_list" else 1.0).plus(ONE))
        if overload == "lists_range":
            return _new_list(fixed(_whole_literal(args[0], MAX_UINT64)))
        if target is None:
            return None
        size = self.measure(target)
        if overload == "list_slice":
            length = _whole_literal(args[1], size.max) - _whole_literal(args[0], 0)
            return _new_list(fixed(length % (MAX_UINT64 + 1)))
        if overload == "list_reverse":
            return _new_list(size)
        if overload in ("list_flatten", "list_flatten_int"):
            return _new_list(size, float(_whole_literal(args[0], MAX_UINT64)) if args else 1.0)
        if overload == "list_distinct":
            return _new_list(size.times(size), COMPARISONS)
        if overload.endswith(("_sort", "_sortByAssociatedKeys")):
            keys = self.measure(args[0]) if args else size
            factor = COMPARISONS + (TRAVERSAL if overload.startswith(("list_string_", "list_bytes_")) else 0)
            return _new_list(keys.times(keys), factor)
        return None

    def library(self, function: str, overload: str, target: Node | None, args: builtins.list[Node]) -> Result | None:
        """The estimates of Kubernetes' own libraries."""
        if function in _UNIT or overload == "cidr_ip":
            return Result(ONE)
        if function == "check":
            return Result(fixed(AUTHORIZER_CHECK))
        if function in ("fieldSelector", "labelSelector") and args:
            length = self.measure(args[0])
            return Result(fixed(10).plus(length.by(TRAVERSAL)).plus(length.by(0.5).by(50)))
        if function in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf") and target is not None:
            element = self.element(target)
            if element is None:
                return Result(self.measure(target).by(TRAVERSAL))
            each = ONE
            if element[0].kind in ("string", "bytes"):
                each = each.plus(element[1].by(TRAVERSAL))
            return Result(self.measure(target).times(each))
        if function in ("url", "jsonpatch.escapeKey") and len(args) == 1:
            size = self.measure(args[0])
            return Result(size.by(TRAVERSAL), size)
        if function in ("lowerAscii", "upperAscii", "substring", "trim") and target is not None:
            size = self.measure(target)
            return Result(size.by(TRAVERSAL), size)
        if function == "replace" and target is not None and len(args) >= 2:
            size = self.measure(target)
            return Result(size.by(2 * TRAVERSAL), replaced(size, self.measure(args[0]), self.measure(args[1])))
        if function == "split" and target is not None:
            size = self.measure(target)
            largest = size.max
            if len(args) > 1 and isinstance(args[1].expr, Literal) and isinstance(args[1].expr.value, int):
                largest = args[1].expr.value % (MAX_UINT64 + 1)
            return Result(size.by(2 * TRAVERSAL), Range(0, largest))
        if function == "join" and target is not None:
            return self.join(target, args)
        if function in ("find", "findAll") and target is not None and args:
            size = self.measure(target)
            cost = size.plus(ONE).by(TRAVERSAL).times(self.measure(args[0]).by(REGEX))
            return Result(cost, Range(0, size.max))
        if function in ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver") and args:
            return Result(self.measure(args[0]).by(TRAVERSAL))
        if function == "ip.isCanonical" and args:
            return Result(self.measure(args[0]).by(2 * TRAVERSAL))
        if function in ("containsIP", "containsCIDR") and args:
            return Result(self.containment(function, overload, args[0]))
        if function == "validate" and args:
            return Result(self.measure(args[0]).by(TRAVERSAL).by(128 * REGEX))
        if function == "_==_" and len(args) == 2 and args[0].type == args[1].type:
            return _named_equality(args)
        return None

    def containment(self, function: str, overload: str, inner: Node) -> Range:
        """The cost of a test whether a network contains an address or another network."""
        size = Range(4, 16)
        cost = size.plus(size).by(TRAVERSAL)
        if function == "containsCIDR":
            cost = cost.plus(size.by(TRAVERSAL)).plus(ONE)
        if overload.endswith("_string"):
            cost = cost.plus(self.measure(inner).by(TRAVERSAL))
        return cost

    def join(self, target: Node, args: builtins.list[Node]) -> Result:
        count = self.measure(target)
        element = self.element(target)
        size = count.times(element[1]) if element is not None else fixed(0)
        if args:
            size = size.plus(self.measure(args[0]).times(Range(max(count.min - 1, 0), max(count.max - 1, 0))))
        return Result(size.by(TRAVERSAL), size)


_UNIT = frozenset(
    "serviceAccount path group resource subresource namespace name allowed reason error errored masked prefixLength "
    "family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast format.named sign asInteger "
    "isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch getScheme getHostname "
    "getHost getPort getEscapedPath getQuery".split()
)


def _named_equality(args: builtins.list[Node]) -> Result | None:
    name = args[0].type.name
    if name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver") or name.startswith(
        "kubernetes.authorization"
    ):
        return Result(ONE)
    if name == "kubernetes.NamedFormat":
        return Result(Range(1, 64).by(TRAVERSAL))
    if name == "kubernetes.URL":
        size = args[1].size or ONE
        return Result(Range(1, size.max).by(TRAVERSAL))
    return None


def _new_list(size: Range, factor: float = 1.0) -> Result:
    return Result(size.by(factor).plus(fixed(NEW_LIST)), size)


def _whole_literal(node: Node, otherwise: int) -> int:
    """The value of a literal int, at least 0; ``otherwise`` for any other expression."""
    value = node.expr.value if isinstance(node.expr, Literal) else None
    return max(int(value), 0) if value.__class__ is int else otherwise


def _compares(overload: str) -> bool:
    if overload in ("equals", "not_equals"):
        return True
    return overload.endswith(("_string", "_bytes")) and overload.startswith(("less_", "greater_"))


def _is_bind(node: Comprehension) -> bool:
    return (
        isinstance(node.range, ListExpr)
        and not node.range.elements
        and isinstance(node.condition, Literal)
        and node.condition.value is False
        and node.accu != ACCU
    )
