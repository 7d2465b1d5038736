"""The type checker: resolves names, selects overloads and types every node (upstream: cel-go ``checker``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kapi.cel import types
from kapi.cel.errors import CompileErrors, Issue, Source
from kapi.cel.functions import Overload
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
    children,
    qualified_name,
)
from kapi.cel.types import CelType, StructType, Substitution, Value, display
from kapi.cel.values import type_of
from kapi.cel.visitor import Visitor
from kapi.machinery import checkpoint

_MAX_TYPE_SIZE = 1000


class Scope(msgspec.Struct, eq=False):
    """The declarations for names: variables, constants (types), functions, struct types; and the container."""

    variables: Mapping[str, CelType]
    constants: Mapping[str, tuple[CelType, Value]]
    functions: Mapping[str, list[Overload]]
    structs: Mapping[str, StructType]
    container: str = ""
    homogeneous: bool = True

    def candidates(self, name: str) -> list[str]:
        """The full names that a name may stand for, innermost container first."""
        if name.startswith("."):
            return [name[1:]]
        found: list[str] = []
        container = self.container
        while container:
            found.append(f"{container}.{name}")
            container = container.rpartition(".")[0]
        found.append(name)
        return found

    def function(self, name: str) -> str | None:
        for candidate in self.candidates(name):
            if candidate in self.functions:
                return candidate
        return None


def check(tree: Expr, source: Source, scope: Scope) -> CelType:
    """Checks the tree in place and returns its type.  Raises CompileErrors."""
    checker = _Checker(scope, source)
    checker.visit(tree)
    if checker.issues:
        raise CompileErrors(source, checker.issues)
    checker.finish(tree)
    assert tree.type is not None
    return tree.type


class _Checker(Visitor[CelType]):
    def __init__(self, scope: Scope, source: Source) -> None:
        self.scope, self.source = scope, source
        self.subst = Substitution()
        self.issues: list[Issue] = []
        self.locals: list[tuple[str, CelType]] = []

    def error(self, node: Expr | int, message: str) -> None:
        self.issues.append(Issue(node if isinstance(node, int) else node.offset, message))

    def finish(self, tree: Expr) -> None:
        """Replaces type parameters by their types, unbound ones by dyn."""
        stack = [tree]
        known: dict[int, tuple[CelType, CelType]] = {}
        while stack:
            node = stack.pop()
            if checkpoint.running is not None:
                checkpoint.checkpoint()
            if node.type is not None and (node.type.params or node.type.kind == "param"):
                node.type = self.subst.finished(node.type, known)
            stack.extend(children(node))

    def visited(self, node: Expr, found: CelType) -> None:
        if found.size > _MAX_TYPE_SIZE:  # each ``{x: x}`` doubles it
            raise CompileErrors(self.source, [Issue(node.offset, "the type of this expression is too large")])
        node.type = found

    def literal(self, node: Literal) -> CelType:
        return type_of(node.value)

    def expect(self, node: Expr, expected: CelType) -> None:
        assert node.type is not None
        if not self.subst.assignable(expected, node.type):
            self.mismatch(node, expected, node.type)

    def mismatch(self, node: Expr | int, expected: CelType, found: CelType) -> None:
        self.error(
            node,
            f"expected type '{display(self.subst.resolve(expected))}' but found '{display(self.subst.resolve(found))}'",
        )

    # names

    def local(self, name: str) -> CelType | None:
        for known, type_ in reversed(self.locals):
            if known == name:
                return type_
        return None

    def lookup(self, name: str) -> tuple[str, CelType, Value, bool] | None:
        """(full name, type, constant, is constant) of a global name."""
        for candidate in self.scope.candidates(name):
            if candidate in self.scope.variables:
                return candidate, self.scope.variables[candidate], None, False
            if candidate in self.scope.constants:
                type_, value = self.scope.constants[candidate]
                return candidate, type_, value, True
            if candidate in self.scope.structs:
                struct = self.scope.structs[candidate]
                return candidate, types.type_of(struct), struct, True
        return None

    def ident(self, node: Ident) -> CelType:
        found_local = self.local(node.name)
        if found_local is not None:
            return found_local
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return types.ERROR
        node.name, type_, node.constant, _ = found
        node.resolved = True
        return type_

    def undeclared(self, node: Expr, name: str) -> None:
        self.error(node, f"undeclared reference to '{name}' (in container '{self.scope.container}')")

    def select(self, node: Select) -> CelType:
        if not node.test:
            name = qualified_name(node)
            if name is not None and self.local(name.partition(".")[0]) is None:
                found = self.lookup(name)
                if found is not None:
                    node.variable, type_, node.constant, node.resolved = found
                    return type_
        target = self.subst.resolve(self.visit(node.operand))
        type_ = self.field(node, target, node.field)
        return types.BOOL if node.test else type_

    def field(self, node: Expr, target: CelType, field: str) -> CelType:
        target = self.subst.resolve(target)
        if types.is_optional(target):
            inner = self.field(node, target.params[0], field)
            return inner if types.is_optional(inner) else types.optional_of(inner)
        kind = target.kind
        if kind in ("dyn", "error"):
            return types.DYN
        if kind == "map":
            return target.params[1]
        if isinstance(target, StructType):
            known = target.fields.get(field)
            if known is None:
                self.error(node, f"undefined field '{field}'")
                return types.ERROR
            return known.type
        if kind == "param":
            self.subst.assignable(types.DYN, target)
            self.subst.bound.setdefault(target.name, types.DYN)
            return types.DYN
        if kind == "opaque":  # a message without a description, upstream
            self.error(node, f"unexpected failed resolution of '{target.name}'")
        else:
            self.error(node, f"type '{display(target)}' does not support field selection")
        return types.ERROR

    # calls

    def call(self, node: Call) -> CelType:
        if node.function == "_?._":
            return self.optional_select(node)
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix is not None:
                full = self.scope.function(f"{prefix}.{node.function}")
                if full is not None and self.local(prefix.partition(".")[0].lstrip(".")) is None:
                    node.target, node.function = None, full
                    return self.resolve_call(node, [self.visit(arg) for arg in node.args])
            target = self.visit(node.target)
            arg_types = [self.visit(arg) for arg in node.args]
            if node.function not in self.scope.functions:
                self.undeclared(node, node.function)
                return types.ERROR
            return self.resolve_call(node, [target, *arg_types])
        arg_types = [self.visit(arg) for arg in node.args]
        found = self.scope.function(node.function)
        if found is None:
            self.undeclared(node, node.function)
            return types.ERROR
        node.function = found
        return self.resolve_call(node, arg_types)

    def optional_select(self, node: Call) -> CelType:
        target = self.subst.resolve(self.visit(node.args[0]))
        field = node.args[1]
        assert isinstance(field, Literal)
        field.type = types.STRING
        node.overloads = self.scope.functions["_?._"]
        inner = self.field(node, target, str(field.value))
        return inner if types.is_optional(inner) else types.optional_of(inner)

    def resolve_call(self, node: Call, args: Sequence[CelType]) -> CelType:
        if node.function in ("_&&_", "_||_"):
            return self.logic(node)
        member = node.target is not None
        result: CelType | None = None
        chosen: list[Overload] = []
        given = list(args)
        for overload in self.scope.functions[node.function]:
            if overload.member != member or len(overload.args) != len(given):
                continue
            expected: list[CelType] = overload.args
            returned = overload.result
            if overload.params:
                *expected, returned = self.subst.instantiate([*expected, returned], overload.params)
            if not self.subst.assignable_all(expected, given):
                continue
            chosen.append(overload)
            returned = self.subst.resolve(returned)
            if result is None:
                result = returned
            elif result.kind != "dyn" and returned != result:
                result = types.DYN
        if result is None:
            shown = [display(self.subst.finished(type_, {})) for type_ in given]
            signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
            self.error(node, f"found no matching overload for '{node.function}' applied to '{signature}'")
            return types.ERROR
        node.overloads = chosen
        return result

    def logic(self, node: Call) -> CelType:
        """Checks that each operand is a bool; each other operand is a separate error."""
        before = len(self.issues)
        for arg in node.args:
            self.expect(arg, types.BOOL)
        node.overloads = self.scope.functions[node.function]
        return types.BOOL if len(self.issues) == before else types.ERROR

    # aggregates

    def joined(self, previous: CelType | None, current: CelType) -> CelType:
        if previous is None:
            return current
        if self.subst.assignable(previous, current):
            return types.most_general(self.subst.resolve(previous), self.subst.resolve(current))
        return types.DYN

    def unwrapped(self, element: CelType, node: Expr) -> CelType:
        element = self.subst.resolve(element)
        if types.is_optional(element):
            return element.params[0]
        if element.kind == "dyn":
            return element
        self.mismatch(node, types.optional_of(element), element)
        return element

    def list(self, node: ListExpr) -> CelType:
        elem: CelType | None = None
        for index, item in enumerate(node.elements):
            found = self.visit(item)
            if index in node.optional:
                found = self.unwrapped(found, item)
            elem = self.joined(elem, found)
        return types.list_of(elem if elem is not None else self.subst.fresh())

    def map(self, node: MapExpr) -> CelType:
        key: CelType | None = None
        value: CelType | None = None
        for key_node, value_node, optional, _ in node.entries:
            key = self.joined(key, self.visit(key_node))
            found = self.visit(value_node)
            if optional:
                found = self.unwrapped(found, value_node)
            value = self.joined(value, found)
        if key is None or value is None:
            key, value = self.subst.fresh(), self.subst.fresh()
        return types.map_of(key, value)

    def struct(self, node: StructExpr) -> CelType:
        struct: StructType | None = None
        for candidate in self.scope.candidates(node.name):
            struct = self.scope.structs.get(candidate)
            if struct is not None:
                break
        if struct is None:
            if self.lookup(node.name) is not None:
                self.error(node, f"'{node.name}' is not a message type")
            else:
                self.undeclared(node, node.name)
            return types.ERROR
        node.name = struct.name
        for name, value, optional, offset in node.entries:
            found = self.visit(value)
            if optional:
                found = self.unwrapped(found, value)
            field = struct.fields.get(name)
            if field is None and struct.claims_all:
                shown = display(self.subst.resolve(found))
                self.error(offset, f"expected type of field '{name}' is '' but provided type is '{shown}'")
            elif field is None:
                self.error(offset, f"undefined field '{name}'")
            elif not self.subst.assignable(field.type, found):
                self.error(
                    offset,
                    f"expected type of field '{name}' is '{display(field.type)}' "
                    f"but provided type is '{display(self.subst.resolve(found))}'",
                )
        return struct

    def fold(self, node: Comprehension) -> CelType:
        ranged = self.subst.resolve(self.visit(node.range))
        accu = self.visit(node.init)
        first: CelType
        second: CelType | None = None
        if ranged.kind == "list":
            first = ranged.params[0]
            if node.var2:
                first, second = types.INT, ranged.params[0]
        elif ranged.kind == "map":
            first, second = ranged.params
        elif ranged.kind in ("dyn", "error", "param") and ranged != types.ANY:
            if ranged.kind == "param":
                self.subst.bound.setdefault(ranged.name, types.DYN)
            first, second = types.DYN, types.DYN
        else:
            self.error(
                node.range,
                f"expression of type '{display(ranged)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
            first, second = types.ERROR, types.ERROR
        depth = len(self.locals)
        self.locals.append((node.accu, accu))
        self.locals.append((node.var, first))
        if node.var2:
            assert second is not None
            self.locals.append((node.var2, second))
        self.visit(node.condition)
        self.expect(node.condition, types.BOOL)
        self.visit(node.step)
        self.expect(node.step, accu)
        del self.locals[depth + 1 :]
        result = self.visit(node.result)
        del self.locals[depth:]
        return self.subst.resolve(result)
