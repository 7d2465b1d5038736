"""A syntax tree becomes closures over a Frame (upstream: cel-go ``interpreter``).

Every closure takes the frame and returns a value or raises EvaluationError.  Cost is counted as upstream counts it;
besides it the frame bounds what may be allocated and, if asked to, the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kapi.cel import types
from kapi.cel.checker import Scope, qualified_name
from kapi.cel.cost import runtime_cost
from kapi.cel.errors import BudgetExceeded, Cancelled, EvaluationError, TimeExceeded
from kapi.cel.functions import Overload
from kapi.cel.macros import ACCU, UNUSED
from kapi.cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kapi.cel.types import CelType, StructType
from kapi.cel.values import NONE, MapList, Message, Optional, SetList, equal, from_key, no_overload, to_key, type_of

Step = Callable[["Frame"], Any]

#: code points, bytes and elements one evaluation may allocate
MAX_ALLOCATION = 8_000_000
#: cost of a single call, or elements of a comparison, that is not begun when time is short
_LONG = 20_000
#: units that are not allocated at once when time is short
_LARGE = 200_000


class Frame:
    """The state of one evaluation."""

    __slots__ = ("globals", "slots", "cost", "limit", "deadline", "allocated")

    def __init__(self, variables: Mapping[str, Any], slots: int, limit: int, deadline: float) -> None:
        self.globals = variables
        self.slots: list[Any] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.deadline = deadline
        self.allocated = 0

    def grow(self, amount: int) -> None:
        """Accounts for an allocation."""
        self.allocated += amount
        if self.allocated > MAX_ALLOCATION:
            raise BudgetExceeded()
        if self.deadline and (amount > _LARGE or time.monotonic() > self.deadline):
            raise TimeExceeded()

    def tick(self) -> None:
        """Called once an iteration."""
        if self.cost > self.limit:
            raise BudgetExceeded()
        if self.deadline and time.monotonic() > self.deadline:
            raise TimeExceeded()


class Compiler:
    """Compiles one checked (or, with dynamic dispatch, unchecked) tree."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.locals: list[tuple[str, int]] = []
        self.slots = 0

    def compile(self, node: Expr) -> Step:
        if isinstance(node, Literal):
            value = node.value
            return lambda frame: value
        if isinstance(node, Ident):
            return self.ident(node)
        if isinstance(node, Select):
            return self.select(node)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, ListExpr):
            return self.list(node)
        if isinstance(node, MapExpr):
            return self.map(node)
        if isinstance(node, StructExpr):
            return self.struct(node)
        assert isinstance(node, Comprehension)
        return self.fold(node)

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
            return _local(index)
        if node.resolved and node.constant is not None:
            return _constant(node.constant)
        return self.variable(node.name, checked=node.type is not None)

    def variable(self, name: str, checked: bool = True) -> Step:
        if checked:
            return _global(name)
        names = self.scope.candidates(name)
        for candidate in names:
            if candidate in self.scope.constants and candidate not in self.scope.variables:
                return _constant(self.scope.constants[candidate][1])
            if candidate in self.scope.structs:
                return _constant(self.scope.structs[candidate])

        def search(frame: Frame) -> Any:
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
                return _constant(node.constant)
            return _global(node.variable)
        if node.type is None and not node.test:
            name = qualified_name(node)
            if name is not None and self.slot(name.split(".", 1)[0]) is None:
                for candidate in self.scope.candidates(name):
                    if candidate in self.scope.variables:
                        return _global(candidate)
                    if candidate in self.scope.constants:
                        return _constant(self.scope.constants[candidate][1])
        operand = self.compile(node.operand)
        target = node.operand.type
        if isinstance(target, StructType) and node.field in target.fields:
            field = target.fields[node.field]
            if node.test:
                return _has(operand, field.name)
            return _struct_field(operand, field.name, field.convert)
        if node.test:
            return _has(operand, node.field)
        name = node.field
        if target is not None and types.is_optional(target):
            inner = target.params[0]
            return _optional_field(operand, *self.named(inner, name))
        return _field(operand, name)

    @staticmethod
    def named(target: CelType | None, field: str) -> tuple[str, Callable[[Any], Any] | None]:
        if target is not None and types.is_optional(target):
            target = target.params[0]
        if isinstance(target, StructType) and field in target.fields:
            known = target.fields[field]
            return known.name, known.convert
        return field, None

    # calls

    def call(self, node: Call) -> Step:
        special = _SPECIAL.get(node.function)
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
            if full is not None and self.slot(str(prefix).split(".", 1)[0]) is None:
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
            return _unbound(node.function)
        return self.invoke(node, nodes, fitting)

    def invoke(self, node: Call, nodes: list[Expr], overloads: list[Overload]) -> Step:
        args = [self.compile(item) for item in nodes]
        if len(overloads) == 1 and all(_certain(item.type) for item in nodes):
            return _direct(args, overloads[0])
        return _dispatch(args, [item for item in overloads if len(item.args) == len(args)])

    # aggregates

    def list(self, node: ListExpr) -> Step:
        items = [self.compile(item) for item in node.elements]
        if not node.optional:

            def plain(frame: Frame) -> Any:
                values = [item(frame) for item in items]
                frame.cost += 10
                return values

            return plain
        optional = node.optional

        def mixed(frame: Frame) -> Any:
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
            frame.cost += 10
            return values

        return mixed

    def map(self, node: MapExpr) -> Step:
        entries = [(self.compile(key), self.compile(value), optional) for key, value, optional, _ in node.entries]

        def build(frame: Frame) -> Any:
            result: dict[Any, Any] = {}
            for key_step, value_step, optional in entries:
                key = to_key(key_step(frame))
                value = value_step(frame)
                if optional:
                    if value.__class__ is not Optional:
                        raise EvaluationError(
                            f"cannot initialize optional entry '{key}' from non-optional value {value}"
                        )
                    if not value.present:
                        continue
                    value = value.value()
                if key in result:
                    raise EvaluationError(f"Failed with repeated key: {from_key(key)}")
                result[key] = value
            frame.cost += 30
            return result

        return build

    def struct(self, node: StructExpr) -> Step:
        struct: StructType | None = None
        for candidate in self.scope.candidates(node.name):
            struct = struct or self.scope.structs.get(candidate)
        if struct is None:
            raise EvaluationError(f"unknown type: {node.name}")
        made = struct
        entries = [
            (made.fields[name].name if name in made.fields else name, self.compile(value), optional)
            for name, value, optional, _ in node.entries
        ]

        def build(frame: Frame) -> Any:
            fields: dict[str, Any] = {}
            for name, step, optional in entries:
                value = step(frame)
                if optional:
                    if not value.present:
                        continue
                    value = value.value()
                fields[name] = value
            frame.cost += 40
            return Message(made, fields)

        return build

    # comprehensions

    def fold(self, node: Comprehension) -> Step:
        if node.var == UNUSED:
            return self.let(node)
        ranged = self.compile(node.range)
        init = self.compile(node.init)
        depth = len(self.locals)
        accu = self.new_slot(node.accu)
        var = self.new_slot(node.var)
        var2 = self.new_slot(node.var2) if node.var2 else -1
        condition = self.compile(node.condition)
        endless = isinstance(node.condition, Literal)
        step = self.in_place(node.step, accu) or self.compile(node.step)
        del self.locals[depth + 1 :]
        result = self.compile(node.result)
        del self.locals[depth:]

        def run(frame: Frame) -> Any:
            items = ranged(frame)
            slots = frame.slots
            value = init(frame)
            saved = slots[accu]
            slots[accu] = value
            mapping = isinstance(items, dict)
            if not mapping and not isinstance(items, (list, tuple)):
                raise no_overload()
            index = 0
            for item in items:
                frame.tick()
                if mapping:
                    item = from_key(item)
                if var2 >= 0:
                    slots[var], slots[var2] = (item, items[to_key(item)]) if mapping else (index, item)
                    index += 1
                else:
                    slots[var] = item
                if not endless:
                    go_on = condition(frame)
                    if go_on is not True:
                        if go_on is False:
                            break
                        raise no_overload()
                slots[accu] = step(frame)
            answer = result(frame)
            slots[accu] = saved
            return answer if answer.__class__ is not _Failed else answer.throw()

        return run

    def let(self, node: Comprehension) -> Step:
        init = self.compile(node.init)
        depth = len(self.locals)
        slot = self.new_slot(node.accu)
        result = self.compile(node.result)
        del self.locals[depth:]

        def run(frame: Frame) -> Any:
            frame.slots[slot] = init(frame)
            frame.cost += 10  # the empty range
            return result(frame)

        return run

    def in_place(self, node: Expr, accu: int) -> Step | None:
        """The step of a macro that collects: appends to the accumulator, which nothing else can see, without a copy."""
        if not isinstance(node, Call):
            return None
        if node.function == "_?_:_" and isinstance(node.args[2], Ident) and node.args[2].name == ACCU:
            inner = self.in_place(node.args[1], accu)
            return None if inner is None else _when(self.compile(node.args[0]), inner, accu)
        if not node.args or not isinstance(node.args[0], Ident) or node.args[0].name != ACCU:
            return None
        if node.function == "_+_" and isinstance(node.args[1], ListExpr) and not node.args[1].optional:
            elements = node.args[1].elements
            return _appending(self.compile(elements[0]), accu) if len(elements) == 1 else None
        if node.function == "cel.@mapInsert":
            return _inserting([self.compile(arg) for arg in node.args[1:]], accu)
        return None


def _certain(type_: CelType | None) -> bool:
    return type_ is not None and type_.kind not in ("dyn", "param", "null", "error", "wrapper", "opaque")


def _local(index: int) -> Step:
    def read(frame: Frame) -> Any:
        frame.cost += 1
        return frame.slots[index]

    return read


def _constant(value: Any) -> Step:
    def read(frame: Frame) -> Any:
        frame.cost += 1
        return value

    return read


def _global(name: str) -> Step:
    def read(frame: Frame) -> Any:
        frame.cost += 1
        try:
            value = frame.globals[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        return value(frame) if value.__class__ is Lazy else value

    return read


class Lazy:
    """A variable computed when first used: ``compute(frame)`` charges its own cost."""

    __slots__ = ("compute", "state")

    def __init__(self, compute: Callable[[Frame], Any]) -> None:
        self.compute = compute
        self.state: tuple[Any] | EvaluationError | None = None

    def __call__(self, frame: Frame) -> Any:
        if self.state is None:
            try:
                self.state = (self.compute(frame),)
            except Cancelled:
                raise
            except EvaluationError as error:
                self.state = error
        if isinstance(self.state, EvaluationError):
            raise self.state
        return self.state[0]


def get_field(value: Any, name: str) -> Any:
    """A field or entry by name.  Raises EvaluationError."""
    if isinstance(value, dict):
        try:
            return value[name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None
    raise no_overload()


def _field(operand: Step, name: str) -> Step:
    def read(frame: Frame) -> Any:
        value = operand(frame)
        frame.cost += 1
        if value.__class__ is Optional:
            if not value.present:
                return NONE
            inner = value.value()
            return NONE if isinstance(inner, dict) and name not in inner else _member(inner, name, None)
        return get_field(value, name)

    return read


def _struct_field(operand: Step, name: str, convert: Callable[[Any], Any] | None) -> Step:
    def read(frame: Frame) -> Any:
        value = operand(frame)
        frame.cost += 1
        found = get_field(value, name)
        return found if convert is None else convert(found)

    return read


def _member(value: Any, name: str, convert: Callable[[Any], Any] | None) -> Any:
    found = get_field(value, name)
    if convert is not None:
        found = convert(found)
    return found if found.__class__ is Optional else Optional(found)


def _optional_field(operand: Step, name: str, convert: Callable[[Any], Any] | None) -> Step:
    def read(frame: Frame) -> Any:
        value = operand(frame)
        frame.cost += 1
        if value.__class__ is Optional:
            if not value.present:
                return NONE
            value = value.value()
        if not isinstance(value, dict):
            raise no_overload()
        if name not in value:
            return NONE
        return _member(value, name, convert)

    return read


def _has(operand: Step, name: str) -> Step:
    def test(frame: Frame) -> Any:
        value = operand(frame)
        if value.__class__ is Optional:
            if not value.present:
                return False
            value = value.value()
        if isinstance(value, dict):
            return name in value
        raise no_overload()

    return test


# calls


def _unbound(name: str) -> Step:
    def fail(frame: Frame) -> Any:
        raise EvaluationError(f"unbound function: {name}")

    return fail


def _direct(args: list[Step], overload: Overload) -> Step:
    impl = overload.impl
    assert impl is not None
    cost = runtime_cost(overload)
    if len(args) == 1 and cost is None:
        only = args[0]

        def unary(frame: Frame) -> Any:
            value = only(frame)
            frame.cost += 1
            try:
                return impl(value)
            except (TypeError, AttributeError):
                raise no_overload() from None

        return unary

    def invoke(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        return apply(frame, overload, cost, values)

    return invoke


def apply(frame: Frame, overload: Overload, cost: Any, values: list[Any]) -> Any:
    """Runs an implementation, charging what it costs and what it allocates."""
    impl = overload.impl
    assert impl is not None
    if cost is not None:
        before = cost.before(values)
        if before:
            frame.cost += before
            frame.tick()
            if frame.deadline and before > _LONG:
                raise TimeExceeded()  # one call that may outlast any slice of time
        if cost.grows:
            frame.grow(cost.growth(values))
    else:
        frame.cost += 1
    try:
        result = impl(frame, *values) if getattr(impl, "wants_frame", False) else impl(*values)
    except EvaluationError:
        raise
    except (TypeError, AttributeError):
        raise no_overload() from None
    except (OverflowError, ValueError, RecursionError, MemoryError) as error:
        raise EvaluationError(str(error) or error.__class__.__name__) from None
    if cost is not None and cost.after is not None:
        frame.cost += cost.after(values, result)
        frame.tick()
    return result


def _dispatch(args: list[Step], overloads: list[Overload]) -> Step:
    costs = [runtime_cost(item) for item in overloads]
    pairs = list(zip(overloads, costs, strict=False))

    def invoke(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        fixed = tuple(values)
        for overload, cost in pairs:
            if overload.accepts(fixed):
                return apply(frame, overload, cost, values)
        raise no_overload()

    return invoke


class _Failed:
    """An error that waits in an accumulator: a later element may still decide."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error

    def throw(self) -> Any:
        raise self.error


def _and(compiler: Compiler, node: Call) -> Step:
    return _logic(compiler, node, deciding=False)


def _or(compiler: Compiler, node: Call) -> Step:
    return _logic(compiler, node, deciding=True)


def _logic(compiler: Compiler, node: Call, deciding: bool) -> Step:
    left, right = compiler.compile(node.args[0]), compiler.compile(node.args[1])
    accumulating = isinstance(node.args[0], Ident) and node.args[0].name == ACCU
    neutral = not deciding

    def decide(frame: Frame) -> Any:
        failure: EvaluationError | None = None
        try:
            value = left(frame)
            if value is deciding:
                return deciding
            if value is not neutral:
                failure = value.error if value.__class__ is _Failed else no_overload()
        except Cancelled:
            raise
        except EvaluationError as error:
            failure = error
        try:
            value = right(frame)
            if value is deciding:
                return deciding
            if value is not neutral:
                failure = failure or no_overload()
        except Cancelled:
            raise
        except EvaluationError as error:
            failure = failure or error
        if failure is None:
            return neutral
        if accumulating:
            return _Failed(failure)
        raise failure

    return decide


def _ternary(compiler: Compiler, node: Call) -> Step:
    test, then, other = (compiler.compile(arg) for arg in node.args)

    def choose(frame: Frame) -> Any:
        value = test(frame)
        if value is True:
            return then(frame)
        if value is False:
            return other(frame)
        raise no_overload()

    return choose


def _not_strictly_false(compiler: Compiler, node: Call) -> Step:
    inner = compiler.compile(node.args[0])

    def test(frame: Frame) -> Any:
        try:
            value = inner(frame)
        except Cancelled:
            raise
        except EvaluationError:
            return True
        frame.cost += 1
        return value is not False

    return test


def _not(compiler: Compiler, node: Call) -> Step:
    inner = compiler.compile(node.args[0])

    def negate(frame: Frame) -> Any:
        value = inner(frame)
        frame.cost += 1
        if value is True:
            return False
        if value is False:
            return True
        if value.__class__ is _Failed:
            raise value.error
        raise no_overload()

    return negate


def _equality(compiler: Compiler, node: Call) -> Step:
    left, right = compiler.compile(node.args[0]), compiler.compile(node.args[1])
    positive = node.function == "_==_"
    unit = positive and all(_opaque(arg.type) for arg in node.args[:1])

    def test(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        frame.cost += 1 if unit else _equality_cost(one, other)
        if isinstance(one, (list, tuple, dict)):
            frame.tick()
            if frame.deadline and len(one) > _LONG:
                raise TimeExceeded()
        try:
            return equal(one, other) is positive
        except RecursionError:
            raise EvaluationError("values are nested too deeply") from None

    return test


def _opaque(type_: CelType | None) -> bool:
    return type_ is not None and "." in type_.name and not isinstance(type_, StructType)


def _equality_cost(one: Any, other: Any) -> int:
    smaller = min(_units(one), _units(other))
    return -(-smaller // 10)


def _units(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple, dict)) else 1


def _index(compiler: Compiler, node: Call) -> Step:
    operand, key = compiler.compile(node.args[0]), compiler.compile(node.args[1])

    def read(frame: Frame) -> Any:
        value, at = operand(frame), key(frame)
        frame.cost += 1
        if value.__class__ is Optional:
            if not value.present:
                return NONE
            try:
                found = index(value.value(), at)
            except _Absent:
                return NONE
            return found if found.__class__ is Optional else Optional(found)
        return index(value, at)

    return read


def _optional_index(compiler: Compiler, node: Call) -> Step:
    operand, key = compiler.compile(node.args[0]), compiler.compile(node.args[1])

    def read(frame: Frame) -> Any:
        value, at = operand(frame), key(frame)
        frame.cost += 1
        if value.__class__ is Optional:
            if not value.present:
                return NONE
            value = value.value()
        try:
            found = index(value, at)
        except _Absent:
            return NONE
        return found if found.__class__ is Optional else Optional(found)

    return read


def _optional_select(compiler: Compiler, node: Call) -> Step:
    field = node.args[1]
    assert isinstance(field, Literal)
    name, convert = compiler.named(node.args[0].type, str(field.value))
    return _optional_field(compiler.compile(node.args[0]), name, convert)


class _Absent(EvaluationError):
    """There is no such element."""


def index(value: Any, at: Any) -> Any:
    """An element of a list or entry of a map.  Raises EvaluationError."""
    if isinstance(value, (list, tuple)):
        if at.__class__ is bool or not isinstance(at, (int, float)):
            raise EvaluationError(f"unsupported index type '{type_of(at).name}' in list")
        if isinstance(at, float):
            if at != at or at != int(at):
                raise EvaluationError(f"unsupported index value {at} in list")
            at = int(at)
        if not 0 <= at < len(value):
            raise _Absent(f"index out of bounds: {at}")
        return value[at]
    if isinstance(value, dict):
        try:
            if isinstance(at, float):
                at = int(at) if at == at and abs(at) < 2**64 and at == int(at) else at
            found = value[to_key(at) if not isinstance(at, float) else at]
        except KeyError:
            raise _Absent(f"no such key: {at}") from None
        return found
    raise no_overload()


def _add(compiler: Compiler, node: Call) -> Step:
    """Addition of anything: numbers at once, lists by what their schema says of them."""
    overloads = node.overloads or compiler.scope.functions["_+_"]
    nodes = node.args
    if len(overloads) == 1 and overloads[0].id == "add_int64" and all(_certain(item.type) for item in nodes):
        return _direct([compiler.compile(item) for item in nodes], overloads[0])
    general = _dispatch([_held(index) for index in (0, 1)], overloads)
    left, right = compiler.compile(nodes[0]), compiler.compile(nodes[1])

    def add(frame: Frame) -> Any:
        one: Any = left(frame)
        other: Any = right(frame)
        if one.__class__ is str and other.__class__ is str or one.__class__ is bytes and other.__class__ is bytes:
            total = len(one) + len(other)
            frame.cost += -(-total // 10)
            frame.grow(total)
            return one + other  # type: ignore[operator]
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            frame.cost += 1
            frame.grow(len(one) + len(other))
            return concatenate(one, other)
        return general(_Pair(frame, one, other))  # type: ignore[arg-type]

    return add


class _Pair:
    """A frame that holds two operands for the general dispatch."""

    __slots__ = ("frame", "values")

    def __init__(self, frame: Frame, one: Any, other: Any) -> None:
        self.frame = frame
        self.values = (one, other)

    @property
    def cost(self) -> int:
        return self.frame.cost

    @cost.setter
    def cost(self, value: int) -> None:
        self.frame.cost = value

    def tick(self) -> None:
        self.frame.tick()

    def grow(self, amount: int) -> None:
        self.frame.grow(amount)


def _held(index: int) -> Step:
    return lambda frame: frame.values[index]  # type: ignore[attr-defined]


def concatenate(one: Any, other: Any) -> Any:
    """``+`` of lists: sets keep one of equal elements, keyed lists take over the right's element of a key."""
    if isinstance(one, SetList):
        added = SetList(one)
        added.extend(item for item in other if not any(equal(item, known) for known in one))
        return added
    if isinstance(one, MapList):
        places = {one.key_of(item): place for place, item in enumerate(one)}
        merged = list(one)
        for item in other:
            place = places.get(one.key_of(item))
            if place is None:
                merged.append(item)
            else:
                merged[place] = item
        return MapList(merged, one.keys)
    return [*one, *other]


def _when(test: Step, then: Step, accu: int) -> Step:
    def step(frame: Frame) -> Any:
        value = test(frame)
        if value is True:
            return then(frame)
        if value is False:
            frame.cost += 1
            return frame.slots[accu]
        raise no_overload()

    return step


def _appending(element: Step, accu: int) -> Step:
    def step(frame: Frame) -> Any:
        frame.cost += 1
        value = element(frame)
        frame.cost += 11
        frame.allocated += 1
        items = frame.slots[accu]
        items.append(value)
        return items

    return step


def _inserting(parts: list[Step], accu: int) -> Step:
    def step(frame: Frame) -> Any:
        frame.cost += 1
        mapping = frame.slots[accu]
        values = [part(frame) for part in parts]
        frame.cost += 1
        if len(values) == 2:
            entries = {to_key(values[0]): values[1]}
        elif isinstance(values[0], dict):
            entries = values[0]
        else:
            raise no_overload()
        for key, value in entries.items():
            if key in mapping:
                raise EvaluationError(f"insert failed: key {from_key(key)} already exists")
            mapping[key] = value
        return mapping

    return step


_SPECIAL: dict[str, Callable[[Compiler, Call], Step]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _ternary,
    "@not_strictly_false": _not_strictly_false,
    "!_": _not,
    "_==_": _equality,
    "_!=_": _equality,
    "_[_]": _index,
    "_[?_]": _optional_index,
    "_?._": _optional_select,
    "_+_": _add,
}
