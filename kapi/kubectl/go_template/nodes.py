"""The parse tree of a template (upstream: ``text/template/parse`` node.go), and the types of values with their Go names.

``str`` of a node is how messages show it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kapi.machinery.golang import quote


class Int(int):
    """An ``int`` of Go, made by the template; integers of JSON are Python's ``int``, and ``int64`` in Go."""


class Missing:
    """The value of a missing key."""

    def __bool__(self) -> bool:
        return False


MISSING = Missing()


def type_name(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case Int():
            return "int"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
    return "<nil>"


def absent(value: object) -> bool:
    return value is None or value is MISSING


@dataclass(slots=True)
class Node:
    """``position`` is an offset in the template's text."""

    position: int


@dataclass(slots=True)
class Text(Node):
    text: str


@dataclass(slots=True)
class Constant(Node):
    """``value`` is a bool, a string, a number, or None for ``nil``."""

    value: bool | str | int | float | None
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class Dot(Node):
    def __str__(self) -> str:
        return "."


@dataclass(slots=True)
class Field(Node):
    """``.a.b``"""

    names: list[str]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


@dataclass(slots=True)
class Variable(Node):
    """``$x.a``"""

    name: str
    names: list[str]

    def __str__(self) -> str:
        return self.name + "".join(f".{name}" for name in self.names)


@dataclass(slots=True)
class Identifier(Node):
    """The name of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Command(Node):
    """A function or a value, and its arguments."""

    arguments: list[Node] = field(default_factory=list)

    def __str__(self) -> str:
        return " ".join(f"({one})" if isinstance(one, Pipe) else str(one) for one in self.arguments)


@dataclass(slots=True)
class Pipe(Node):
    """Commands, each with the previous result as argument, and the variables for the last result."""

    variables: list[str] = field(default_factory=list)
    assigns: bool = False
    commands: list[Command] = field(default_factory=list)

    def __str__(self) -> str:
        head = ", ".join(self.variables) + (" = " if self.assigns else " := ") if self.variables else ""
        return head + " | ".join(str(command) for command in self.commands)


@dataclass(slots=True)
class Chain(Node):
    """Fields of a parenthesized value."""

    inner: Node
    names: list[str]

    def __str__(self) -> str:
        inner = f"({self.inner})" if isinstance(self.inner, Pipe) else str(self.inner)
        return inner + "".join(f".{name}" for name in self.names)


@dataclass(slots=True)
class Action(Node):
    pipe: Pipe

    def __str__(self) -> str:
        return "{{" + str(self.pipe) + "}}"


@dataclass(slots=True)
class Branch(Node):
    """``if``, ``with`` or ``range``."""

    kind: str
    pipe: Pipe
    body: list[Node]
    otherwise: list[Node]


@dataclass(slots=True)
class Jump(Node):
    """``break`` or ``continue``."""

    kind: str


@dataclass(slots=True)
class Call(Node):
    """``{{template "name" pipe}}``"""

    name: str
    pipe: Pipe | None

    def __str__(self) -> str:
        return "{{template " + quote(self.name) + (f" {self.pipe}" if self.pipe is not None else "") + "}}"
