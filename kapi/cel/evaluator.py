"""Compiles a syntax tree to closures (upstream: cel-go ``interpreter``).

Each closure takes the Frame and returns a value or raises EvaluationError.  Cost is counted as in upstream; the frame also limits
allocations and, optionally, time.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

from kapi.cel import types
from kapi.cel.checker import Scope
from kapi.cel.errors import Cancelled, EvaluationError
from kapi.cel.frame import Frame, Step
from kapi.cel.functions import Overload
from kapi.cel.literals import CONVERSIONS
from kapi.cel.macros import ACCU, UNUSED
from kapi.cel.operators import SPECIAL, appending, inserting, otherwise, when
from kapi.cel.overload_calls import direct, dispatched, folded, member
from kapi.cel.reading import (
    Bound,
    accumulated,
    bound,
    certain,
    constant,
    is_constant,
    local,
    optional_field,
    plain_field,
    present,
    started,
    struct_field,
    unbound,
    value_of,
    variable,
)
from kapi.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    qualified_name,
)
from kapi.cel.types import CelType, StructField, StructType, Value
from kapi.cel.values import Failed, Message, Optional, from_key, go_type, no_overload, to_key
from kapi.cel.visitor import Visitor


class Compiler(Visitor[Step]):
    """Compiles one checked (or, with dynamic dispatch, unchecked) tree."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.locals: list[tuple[str, int]] = []
        self.readers: dict[int, Callable[[int], Step]] = {}  # of slots that are not plain variables
        self.slots = 0

    def literal(self, node: Literal) -> Step:
        return constant(node.value)

    # names

    def slot(self, name: str) -> int | None:
        for known, index in reversed(self.locals):
            if known == name:
                return index
        return None

    def new_slot(self, name: str) -> int:
        index = self.slots
        self.slots += 1
        self.locals.append((name, index))
        return index

    def ident(self, node: Ident) -> Step:
        index = None if node.resolved else self.slot(node.name)
        if index is not None:
            return self.readers.get(index, local)(index)
        if node.resolved and node.constant is not None:
            return constant(node.constant)
        return self.variable(node.name, checked=node.type is not None)

    def variable(self, name: str, checked: bool = True) -> Step:
        if checked:
            return variable(name)
        names = self.scope.candidates(name)
        for candidate in names:
            if candidate in self.scope.constants and candidate not in self.scope.variables:
                return constant(self.scope.constants[candidate][1])
            if candidate in self.scope.structs:
                return constant(self.scope.structs[candidate])

        def search(frame: Frame) -> Value:
            frame.cost += 1
            for candidate in names:
                if candidate in frame.globals:
                    return frame.globals[candidate]
            raise EvaluationError(f"undeclared reference to '{name}' (in container '{self.scope.container}')")

        return search

    # fields

    def select(self, node: Select) -> Step:
        if node.variable:
            if node.resolved and node.constant is not None:
                return constant(node.constant)
            return variable(node.variable)
        if node.type is None and not node.test:
            name = qualified_name(node)
            if name is not None and self.slot(name.partition(".")[0]) is None:
                for candidate in self.scope.candidates(name):
                    if candidate in self.scope.variables:
                        return variable(candidate)
                    if candidate in self.scope.constants:
                        return constant(self.scope.constants[candidate][1])
        operand = started(self.visit(node.operand), node.operand)
        target = node.operand.type
        if isinstance(target, StructType) and node.field in target.fields:
            field = target.fields[node.field]
            if node.test:
                return present(operand, field.name, field.null_is_absent)
            return struct_field(operand, field)
        if node.test:
            return present(operand, node.field)
        name = node.field
        if target is not None and types.is_optional(target):
            return optional_field(operand, self.named(target, name))
        return plain_field(operand, name)

    @staticmethod
    def named(target: CelType | None, name: str) -> StructField:
        if target is not None and types.is_optional(target):
            target = target.params[0]
        known = target.fields.get(name) if isinstance(target, StructType) else None
        return StructField(name, types.DYN) if known is None else known

    # calls

    def call(self, node: Call) -> Step:
        special = SPECIAL.get(node.function)
        if special is not None and node.target is None:
            return special(self, node)
        if node.type is None:
            return self.unchecked_call(node)
        nodes = ([node.target] if node.target is not None else []) + node.args
        return self.invoke(node, nodes, node.overloads)

    def unchecked_call(self, node: Call) -> Step:
        if node.target is not None:
            prefix = qualified_name(node.target)
            full = self.scope.function(f"{prefix}.{node.function}") if prefix is not None else None
            if full is not None and self.slot(str(prefix).partition(".")[0]) is None:
                return self.invoke(node, node.args, self.scope.functions[full])
            nodes = [node.target, *node.args]
            found = self.scope.functions.get(node.function, [])
        else:
            nodes = node.args
            name = self.scope.function(node.function)
            found = self.scope.functions[name] if name is not None else []
        member = node.target is not None
        fitting = [item for item in found if item.member == member and len(item.args) == len(nodes)]
        if not found:
            return unbound(node.function)
        return self.invoke(node, nodes, fitting)

    def invoke(self, node: Call, nodes: list[Expr], overloads: list[Overload]) -> Step:
        args = [self.visit(item) for item in nodes]
        if node.function in ("or", "orValue") and node.target is not None:
            return otherwise(args, node.function == "orValue")
        if [item.id for item in overloads] == ["in_list"] and is_constant(args[1]):
            found = member(args[0], value_of(args[1]))
            if found is not None:
                return found
        step = self.call_of(nodes, args, overloads)
        return folded(step) if node.function in CONVERSIONS and len(args) == 1 and is_constant(*args) else step

    @staticmethod
    def call_of(nodes: Sequence[Expr], args: builtins.list[Step], overloads: Sequence[Overload]) -> Step:
        if len(overloads) == 1 and all(certain(item.type) for item in nodes):
            return direct(args, overloads[0])
        return dispatched(args, [item for item in overloads if len(item.args) == len(args)])

    # aggregates: those of constants are made once

    def list(self, node: ListExpr) -> Step:
        items = [self.visit(item) for item in node.elements]
        if not node.optional:

            def plain(frame: Frame) -> Value:
                try:
                    return [item(frame) for item in items]
                finally:
                    frame.cost += 10

            return folded(plain) if is_constant(*items) else plain
        optional = node.optional

        def mixed(frame: Frame) -> Value:
            frame.cost += 10
            values = []
            for index, item in enumerate(items):
                value = item(frame)
                if index in optional:
                    if value.__class__ is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional list element from non-optional value {value}"
                        )
                    if not value.present:
                        continue
                    value = value.value()
                values.append(value)
            return values

        return mixed

    def map(self, node: MapExpr) -> Step:
        entries = [(self.visit(key), self.visit(value), optional) for key, value, optional, _ in node.entries]

        def build(frame: Frame) -> Value:
            frame.cost += 30
            result: dict[Value, Value] = {}
            for key_step, value_step, optional in entries:
                given = key_step(frame)
                key = given if given is None or isinstance(given, float) else to_key(given)
                value = value_step(frame)
                if optional:
                    if value.__class__ is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional entry '{key}' from non-optional value {value}"
                        )
                    if not value.present:
                        result.pop(key, None)
                        continue
                    value = value.value()
                result[key] = value  # the last value of a key counts
            return result

        known = all(is_constant(key, value) and not optional for key, value, optional in entries)
        return folded(build) if known else build

    def struct(self, node: StructExpr) -> Step:
        struct: StructType | None = None
        for candidate in self.scope.candidates(node.name):
            struct = struct or self.scope.structs.get(candidate)
        if struct is None:
            raise EvaluationError(f"unknown type: {node.name}")
        made = struct
        entries = [
            (made.fields[name].name if name in made.fields else name, self.visit(value), optional)
            for name, value, optional, _ in node.entries
        ]

        def build(frame: Frame) -> Value:
            frame.cost += 40
            fields: dict[str, Value] = {}
            for name, step, optional in entries:
                value = step(frame)
                if optional:
                    if not value.present:
                        continue
                    value = value.value()
                fields[name] = value
            return Message(made, fields)

        return build

    # comprehensions

    def fold(self, node: Comprehension) -> Step:
        if node.var == UNUSED:
            return self.let(node)
        ranged = self.visit(node.range)
        init = _own(self.visit(node.init))
        depth = len(self.locals)
        accu = self.new_slot(node.accu)
        self.readers[accu] = accumulated
        var = self.new_slot(node.var)
        var2 = self.new_slot(node.var2) if node.var2 else -1
        condition = self.visit(node.condition)
        endless = isinstance(node.condition, Literal)
        step = self.in_place(node.step, accu) or self.visit(node.step)
        del self.locals[depth + 1 :]
        result = self.visit(node.result)
        del self.locals[depth:]

        def run(frame: Frame) -> Value:
            items = ranged(frame)
            slots = frame.slots
            value = init(frame)
            saved = slots[accu]
            slots[accu] = value
            mapping = isinstance(items, dict)
            if not mapping and not isinstance(items, (list, tuple)):
                shown = go_type(items)
                raise EvaluationError(
                    f"unsupported comprehension range type: {shown}"
                    if var2 >= 0
                    else f"got '{shown}', expected iterable type"
                )
            if var2 >= 0:
                items = items.items() if mapping else enumerate(items)
            for item in items:
                frame.tick()
                if var2 >= 0:
                    item, slots[var2] = item
                slots[var] = from_key(item) if mapping else item
                if not endless:
                    go_on = condition(frame)
                    if go_on is not True:
                        if go_on is False:
                            break
                        raise no_overload()
                try:
                    slots[accu] = step(frame)
                except Cancelled:
                    raise
                except EvaluationError as error:
                    slots[accu] = Failed(error)
            try:
                return result(frame)
            finally:
                slots[accu] = saved

        return run

    def let(self, node: Comprehension) -> Step:
        init = self.visit(node.init)
        depth = len(self.locals)
        slot = self.new_slot(node.accu)
        self.readers[slot] = bound
        result = self.visit(node.result)
        del self.locals[depth:]
        unused = Bound(init)

        def run(frame: Frame) -> Value:
            frame.slots[slot] = unused
            return result(frame)

        return run

    def in_place(self, node: Expr, accu: int) -> Step | None:
        """The step of a macro that builds a list or map in place: nothing else can refer to the accumulator."""
        if not isinstance(node, Call):
            return None
        if node.function == "_?_:_" and isinstance(node.args[2], Ident) and node.args[2].name == ACCU:
            inner = self.in_place(node.args[1], accu)
            return None if inner is None else when(self.visit(node.args[0]), inner, accu)
        if not node.args or not isinstance(node.args[0], Ident) or node.args[0].name != ACCU:
            return None
        if node.function == "_+_" and isinstance(node.args[1], ListExpr) and not node.args[1].optional:
            elements = node.args[1].elements
            return appending(self.visit(elements[0]), accu) if len(elements) == 1 else None
        if node.function == "cel.@mapInsert":
            return inserting([self.visit(arg) for arg in node.args[1:]], accu)
        return None


def _own(step: Step) -> Step:
    """An empty list or map is a new one in each evaluation, since it is filled in place."""
    if not is_constant(step) or not isinstance(value_of(step), (list, dict)):
        return step
    value = value_of(step)
    return lambda frame: value.copy()
