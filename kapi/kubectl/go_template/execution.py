"""Executes a template's parse tree with JSON values (upstream: ``text/template`` exec.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from kapi.kubectl.go_template.functions import FUNCTIONS, FunctionError, Signature
from kapi.kubectl.go_template.lexer import TemplateError
from kapi.kubectl.go_template.nodes import (
    MISSING,
    Action,
    Branch,
    Call,
    Chain,
    Command,
    Constant,
    Dot,
    Field,
    Identifier,
    Int,
    Jump,
    Node,
    Pipe,
    Text,
    Variable,
    absent,
    type_name,
)  # fmt: skip
from kapi.kubectl.go_template.parser import Parser
from kapi.machinery.golang import quote, value_text
from kapi.machinery.tree import Tree

MAX_DEPTH = 100000  # Go's limit, for the message; Python's own limit is reached before
_NOTHING: Tree = object()  # there is no previous command in the pipeline


class _Broken(Exception):
    """``break``, or ``continue``."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Template:
    """Parses ``text``; without ``allow_missing`` a missing key is an error.  Raises TemplateError."""

    def __init__(self, text: str, *, allow_missing: bool = True) -> None:
        self.text, self._allow = text, allow_missing
        self._templates = Parser(text, FUNCTIONS).templates

    def execute(self, data: object, write: Callable[[str], object]) -> None:
        """Writes the output piece by piece, up to an error.  Raises TemplateError."""
        _State(self.text, self._templates, write, self._allow).run("output", data)


class _State:
    def __init__(
        self, text: str, templates: dict[str, list[Node]], write: Callable[[str], object], allow: bool
    ) -> None:
        self._text, self._templates, self._write, self._allow = text, templates, write, allow
        self._variables: list[tuple[str, Tree, bool]] = []  # name, value, and whether it is an interface
        self._name = ""
        # messages name the type interface {} for a value of a map or list, and the actual type for the result of a pipeline
        self._dot_is_interface = False
        self._at = Node(0)  # the node that messages name

    def run(self, name: str, data: object) -> None:
        outer = self._variables, self._name, self._dot_is_interface
        self._variables, self._name, self._dot_is_interface = [("$", data, False)], name, False
        try:
            self._walk_all(data, self._templates[name])
        except RecursionError:
            self._fail(f"exceeded maximum template depth ({MAX_DEPTH})")
        self._variables, self._name, self._dot_is_interface = outer

    def _fail(self, message: str) -> NoReturn:
        before = self._text[: self._at.position]
        column = len(before.rpartition("\n")[2].encode())
        raise TemplateError(
            f"template: output:{before.count(chr(10)) + 1}:{column}: executing {quote(self._name)} at <{self._at}>: "
            f"{message}"
        )

    # nodes

    def _walk_all(self, dot: object, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._at = node
            match node:
                case Text():
                    self._write(node.text)
                case Action():
                    value = self._pipe(dot, node.pipe)
                    if not node.pipe.variables:
                        self._at = node
                        self._write("<no value>" if absent(value) else value_text(value))
                case Branch(kind="range"):
                    self._range(dot, node)
                case Branch():
                    self._branch(dot, node)
                case Call():
                    self._call(dot, node)
                case Jump():
                    raise _Broken(node.kind)

    def _branch(self, dot: object, node: Branch) -> None:
        known, outer = len(self._variables), self._dot_is_interface
        value = self._pipe(dot, node.pipe)
        if value and node.kind == "with":
            self._dot_is_interface = False
            self._walk_all(value, node.body)
            self._dot_is_interface = outer
        else:
            self._walk_all(dot, node.body if value else node.otherwise)
        del self._variables[known:]

    def _range(self, dot: object, node: Branch) -> None:
        known, outer = len(self._variables), self._dot_is_interface
        value = self._pipe(dot, node.pipe)
        names = node.pipe.variables
        begin = len(self._variables)
        pairs: Iterable[tuple[Tree, Tree]]
        if isinstance(value, list):
            pairs = ((Int(index), one) for index, one in enumerate(value))
        elif isinstance(value, dict):
            pairs = ((key, value[key]) for key in sorted(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            if len(names) > 1:
                self._fail(f"can't use {value} to iterate over more than one variable")
            pairs = ((type(value)(one), type(value)(one)) for one in range(value))
        elif absent(value):
            pairs = ()
        else:
            self._fail(f"range can't iterate over {value_text(value)}")
        ran = False
        for key, one in pairs:
            ran = self._dot_is_interface = True
            for name, found in zip(names, (one,) if len(names) == 1 else (key, one), strict=False):
                if node.pipe.assigns:
                    self._assign(name, found)
                else:
                    self._variables[begin - len(names) + names.index(name)] = (name, found, True)
            try:
                self._walk_all(one, node.body)
            except _Broken as jump:
                if jump.kind == "break":
                    break
            finally:
                del self._variables[begin:]
        self._dot_is_interface = outer
        if not ran:
            self._walk_all(dot, node.otherwise)
        del self._variables[known:]

    def _call(self, dot: object, node: Call) -> None:
        if node.name not in self._templates:
            self._fail(f"template {quote(node.name)} not defined")
        data = self._pipe(dot, node.pipe) if node.pipe is not None else MISSING
        self.run(node.name, data)

    # values

    def _pipe(self, dot: object, pipe: Pipe) -> Tree:
        self._at = pipe
        value = _NOTHING
        for command in pipe.commands:
            value = self._command(dot, command, value)
        for name in pipe.variables:
            if pipe.assigns:
                self._assign(name, value)
            else:
                self._variables.append((name, value, False))
        return value

    def _assign(self, name: str, value: object) -> None:
        for index in range(len(self._variables) - 1, -1, -1):
            if self._variables[index][0] == name:
                self._variables[index] = (name, value, False)
                return
        self._fail(f"undefined variable: {name}")

    def _command(self, dot: object, command: Command, final: object) -> Tree:
        first = command.arguments[0]
        if isinstance(first, Identifier):
            return self._function(dot, first, command, command.arguments[1:], final)
        if isinstance(first, Field | Variable | Chain):
            return self._value(dot, first, len(command.arguments) > 1 or final is not _NOTHING)
        self._at = first
        if len(command.arguments) > 1 or final is not _NOTHING:
            self._fail(f"can't give argument to non-function {first}")
        if isinstance(first, Constant) and first.value is None:
            self._fail("nil is not a command")
        return self._value(dot, first)

    def _value(self, dot: Tree, node: Node, has_arguments: bool = False) -> Tree:
        """The value of an operand."""
        self._at = node
        match node:
            case Constant():
                return node.value
            case Dot():
                return dot
            case Field():
                return self._fields(dot, node.names, has_arguments, self._dot_is_interface)
            case Variable():
                found, interface = next(entry[1:] for entry in reversed(self._variables) if entry[0] == node.name)
                if not node.names and has_arguments:
                    self._fail(f"can't give argument to non-function {node}")
                return self._fields(found, node.names, has_arguments, interface)
            case Chain():
                inner = self._value(dot, node.inner)
                return self._fields(inner, node.names, has_arguments, is_interface=False)
            case Pipe():
                return self._pipe(dot, node)
            case Identifier():
                return self._function(dot, node, node, [], _NOTHING)
        raise AssertionError(node)

    def _fields(self, value: object, names: list[str], has_arguments: bool, is_interface: bool) -> Tree:
        for number, name in enumerate(names):
            if value is MISSING:
                if not self._allow:
                    self._fail(f"nil data; no entry for key {quote(name)}")
                return MISSING
            if value is None:
                self._fail(f"nil pointer evaluating interface {{}}.{name}")
            if not isinstance(value, dict):
                kind = "interface {}" if is_interface or number else type_name(value)
                self._fail(f"can't evaluate field {name} in type {kind}")
            if has_arguments and number == len(names) - 1:
                self._fail(f"{name} is not a method but has arguments")
            if name not in value and not self._allow:
                self._fail(f"map has no entry for key {quote(name)}")
            value = value.get(name, MISSING)
        return value

    # functions

    def _function(self, dot: object, name: Identifier, shown: Node, arguments: list[Node], final: object) -> Tree:
        self._at = name
        if name.name in ("and", "or"):
            return self._choice(dot, name.name, shown, arguments, final)
        signature: Signature = FUNCTIONS[name.name]
        count = len(arguments) + (final is not _NOTHING)
        if signature.maximum is not None and count != signature.minimum and count > signature.maximum:
            self._fail(f"wrong number of args for {name.name}: want {signature.minimum} got {count}")
        if count < signature.minimum:
            want = f"at least {signature.minimum}" if signature.maximum is None else str(signature.minimum)
            self._fail(f"wrong number of args for {name.name}: want {want} got {count}")
        given = [self._argument(dot, one, index in signature.strings) for index, one in enumerate(arguments)]
        if final is not _NOTHING:
            if len(given) in signature.strings and not isinstance(final, str):
                self._fail(f"wrong type for value; expected string; got {type_name(final)}")
            given.append(final)
        try:
            if name.name == "call":
                self._cannot_call(arguments, given)
            return signature.function(*given)
        except FunctionError as error:
            self._at = shown
            self._fail(f"error calling {name.name}: {error}")

    def _cannot_call(self, arguments: list[Node], given: list[Tree]) -> NoReturn:
        """Raises the error of ``call``: JSON values are never functions."""
        if absent(given[0]):
            raise FunctionError("call of nil")
        shown = str(arguments[0]) if arguments else value_text(given[0])
        raise FunctionError(f"non-function {shown} of type {type_name(given[0])}")

    def _argument(self, dot: Tree, node: Node, text: bool) -> Tree:
        self._at = node
        if text and isinstance(node, Constant):
            if node.value is None:
                self._fail("cannot assign nil to string")
            if not isinstance(node.value, str):
                self._fail(f"expected string; found {node}")
        value = self._value(dot, node)
        if text and not isinstance(value, str):
            self._at = node
            if value is MISSING:
                self._fail("invalid value; expected string")
            self._fail(f"wrong type for value; expected string; got {type_name(value)}")
        return value

    def _choice(self, dot: object, name: str, shown: Node, arguments: list[Node], final: object) -> Tree:
        """``and`` and ``or`` do not evaluate the arguments after the one that decides."""
        self._at = shown
        if not arguments and final is _NOTHING:
            self._fail(f"wrong number of args for {name}: want at least 1 got 0")
        value: Tree = MISSING
        for node in arguments:
            value = self._argument(dot, node, text=False)
            if bool(value) == (name == "or"):
                return value
        return value if final is _NOTHING else final
