"""Makes the parse tree of tokens (upstream: ``text/template/parse`` parse.go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import NoReturn

from kapi.kubectl.go_template.lexer import Lexer, Token
from kapi.kubectl.go_template.nodes import (
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
)  # fmt: skip
from kapi.machinery.golang import quote

_OPERANDS = ("bool", "char", "dot", "field", "identifier", "number", "raw", "string", "variable", "(")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_END, _ELSE = "end", "else"
MAX_INT = 2**63 - 1


class Parser:
    """``templates`` are the parse trees by name; that of the text itself is called "output".  Raises TemplateError."""

    def __init__(self, text: str, functions: Container[str]) -> None:
        self._lexer, self._functions = Lexer(text), functions
        self._iterator = self._lexer.tokens()
        self._next: list[Token] = []  # tokens that were put back, the next one last
        self._last = Token("eof", "", 0)
        self._variables = ["$"]
        self._loops = 0
        self.templates: dict[str, list[Node]] = {}
        self._add("output", self._whole())

    # tokens

    def _take(self) -> Token:
        self._last = self._next.pop() if self._next else next(self._iterator)
        return self._last

    def _give_back(self, *tokens: Token) -> None:
        self._next += reversed(tokens)

    def _peek(self) -> Token:
        token = self._take()
        self._give_back(token)
        return token

    def _take_solid(self) -> Token:
        token = self._take()
        while token.kind == "space":
            token = self._take()
        return token

    def _peek_solid(self) -> Token:
        token = self._take_solid()
        self._give_back(token)
        return token

    def _fail(self, message: str) -> NoReturn:
        raise self._lexer.error(message, self._last.position)

    def _unexpected(self, token: Token, context: str) -> NoReturn:
        self._fail(f"unexpected {token} in {context}")

    def _expect(self, kinds: tuple[str, ...], context: str) -> Token:
        token = self._take_solid()
        if token.kind not in kinds:
            self._unexpected(token, context)
        return token

    # lists of nodes

    def _whole(self) -> list[Node]:
        nodes: list[Node] = []
        while self._peek().kind != "eof":
            token = self._take()
            if token.kind == "left":
                inner = self._take_solid()
                if (inner.kind, inner.text) == ("keyword", "define"):
                    self._define()
                    continue
                self._give_back(inner)
            self._give_back(token)
            node = self._item()
            if isinstance(node, str):
                self._fail("unexpected {{" + node + "}}")
            nodes.append(node)
        return nodes

    def _define(self) -> None:
        name = self._unquoted(self._expect(("string", "raw"), "define clause").text)
        self._expect(("right",), "define clause")
        outer, self._variables = self._variables, ["$"]
        loops, self._loops = self._loops, 0
        body, end = self._list()
        if end != _END:
            self._fail("unexpected {{else}} in define clause")
        self._add(name, body)
        self._variables, self._loops = outer, loops

    def _add(self, name: str, body: list[Node]) -> None:
        """Adds a template; an empty one is replaced by another of the same name."""
        known, empty = self.templates.get(name), _is_empty(body)
        if known is None or _is_empty(known):
            self.templates[name] = body
        elif not empty:
            self._fail(f"template: multiple definition of template {quote(name)}")

    def _list(self) -> tuple[list[Node], str]:
        """The nodes, and whether ``end`` or ``else`` follows them."""
        nodes: list[Node] = []
        while self._peek_solid().kind != "eof":
            node = self._item()
            if isinstance(node, str):
                return nodes, node
            nodes.append(node)
        self._fail("unexpected EOF")

    def _item(self) -> Node | str:
        token = self._take_solid()
        if token.kind == "text":
            return Text(token.position, token.text)
        if token.kind != "left":
            self._unexpected(token, "input")
        return self._action()

    def _action(self) -> Node | str:
        """A node, or "end" or "else"."""
        token = self._take_solid()
        known: dict[str, Callable[[Token], Node | str]] = {
            "if": self._branch, "with": self._branch, "range": self._branch, "template": self._template,
            "block": self._block, "break": self._jump, "continue": self._jump, "end": self._end, "else": self._else,
        }  # fmt: skip
        if token.kind == "keyword" and token.text in known:
            return known[token.text](token)
        self._give_back(token)
        return Action(token.position, self._pipe("command", "right"))

    def _end(self, token: Token) -> str:
        self._expect(("right",), "end")
        return _END

    def _else(self, token: Token) -> str:
        after = self._peek_solid()
        if after.kind != "keyword" or after.text not in ("if", "with"):
            self._expect(("right",), "else")
        return _ELSE

    def _jump(self, token: Token) -> Jump:
        after = self._take_solid()
        if after.kind != "right":
            self._unexpected(after, "{{" + token.text + "}}")
        if not self._loops:
            self._fail("{{" + token.text + "}} outside {{range}}")
        return Jump(token.position, token.text)

    def _branch(self, token: Token) -> Branch:
        kind, known = token.text, len(self._variables)
        pipe = self._pipe(kind, "right")
        self._loops += kind == "range"
        body, end = self._list()
        self._loops -= kind == "range"
        otherwise: list[Node] = []
        if end == _ELSE:
            after = self._peek_solid()
            if kind != "range" and (after.kind, after.text) == ("keyword", kind):
                otherwise = [self._branch(self._take_solid())]
            else:
                otherwise, end = self._list()
                if end != _END:
                    self._fail("expected end; found {{else}}")
        del self._variables[known:]
        return Branch(pipe.position, kind, pipe, body, otherwise)

    def _template(self, token: Token) -> Call:
        name = self._expect(("string", "raw"), "template clause")
        pipe = None
        if self._take_solid().kind != "right":
            self._give_back(self._last)
            pipe = self._pipe("template clause", "right")
        return Call(name.position, self._unquoted(name.text), pipe)

    def _block(self, token: Token) -> Call:
        name = self._expect(("string", "raw"), "block clause")
        pipe = self._pipe("block clause", "right")
        outer, self._variables = self._variables, ["$"]
        body, end = self._list()
        if end != _END:
            self._fail("unexpected {{else}} in block clause")
        self._variables = outer
        self._add(self._unquoted(name.text), body)
        return Call(name.position, self._unquoted(name.text), pipe)

    # pipelines

    def _pipe(self, context: str, end: str) -> Pipe:
        pipe = Pipe(self._peek_solid().position)
        self._declarations(pipe, context)
        while True:
            token = self._take_solid()
            if token.kind == end:
                break
            if token.kind not in _OPERANDS and (token.kind, token.text) != ("keyword", "nil"):
                self._unexpected(token, context)
            self._give_back(token)
            pipe.commands.append(self._command())
        if not pipe.commands:
            self._fail(f"missing value for {context}")
        for number, command in enumerate(pipe.commands[1:], 2):
            if isinstance(command.arguments[0], Constant | Dot):
                self._fail(f"non executable command in pipeline stage {number}")
        return pipe

    def _declarations(self, pipe: Pipe, context: str) -> None:
        while self._peek_solid().kind == "variable":
            variable = self._take_solid()
            after = self._peek()
            follows = self._peek_solid()
            if follows.kind in ("=", ":="):
                self._take_solid()
                pipe.assigns = follows.kind == "="
                pipe.variables.append(variable.text)
                if not pipe.assigns:
                    self._variables.append(variable.text)
                return
            if follows.kind == ",":
                self._take_solid()
                pipe.variables.append(variable.text)
                self._variables.append(variable.text)
                if context != "range" or len(pipe.variables) > 1:
                    self._fail(f"too many declarations in {context}")
                if self._peek_solid().kind not in ("variable", "right", ")"):
                    self._fail("range can only initialize variables")
                continue
            if after.kind == "space":
                self._give_back(after)
            self._give_back(variable)
            return

    def _known(self, name: str) -> None:
        if name not in self._variables:
            self._fail(f'undefined variable "{name}"')

    def _command(self) -> Command:
        command = Command(self._peek_solid().position)
        while True:
            self._peek_solid()
            operand = self._operand()
            if operand is not None:
                command.arguments.append(operand)
            token = self._take()
            if token.kind == "space":
                continue
            if token.kind in ("right", ")"):
                self._give_back(token)
            elif token.kind != "|":
                self._unexpected(token, "operand")
            break
        if not command.arguments:
            self._fail("empty command")
        return command

    def _operand(self) -> Node | None:
        term = self._term()
        if term is None or self._peek().kind != "field":
            return term
        position = self._peek().position
        names: list[str] = []
        while self._peek().kind == "field":
            names.append(self._take().text[1:])
        if isinstance(term, Field):
            return Field(position, term.names + names)
        if isinstance(term, Variable):
            return Variable(position, term.name, names)
        if isinstance(term, Constant | Dot):
            self._fail(f"unexpected . after term {quote(str(term))}")
        return Chain(position, term, names)

    def _term(self) -> Node | None:
        token = self._take_solid()
        kind, text, position = token
        match kind:
            case "identifier":
                if text not in self._functions:
                    self._fail(f'function "{text}" not defined')
                return Identifier(position, text)
            case "dot":
                return Dot(position)
            case "keyword" if text == "nil":
                return Constant(position, None, text)
            case "variable":
                self._known(text)
                return Variable(position, text, [])
            case "field":
                return Field(position, [text[1:]])
            case "bool":
                return Constant(position, text == "true", text)
            case "string" | "raw":
                return Constant(position, self._unquoted(text), text)
            case "char":
                found = self._unquoted(text)
                if not found:
                    self._fail("invalid syntax")
                if len(found) != 1:
                    self._fail(f"malformed character constant: {text}")
                return Constant(position, Int(ord(found)), text)
            case "number":
                return Constant(position, self._number(text), text)
            case "(":
                return self._pipe("parenthesized pipeline", ")")
        self._give_back(token)
        return None

    def _number(self, text: str) -> int | float:
        digits = text.replace("_", "")
        digits_only = digits.lstrip("+-").isdecimal()
        if re.fullmatch(r"[+-]?0[0-9]+", digits):
            digits = "0o" + digits.lstrip("+-").lstrip("0") if set(digits) <= set("+-01234567") else ""
        number: int | float | None = None
        decimal = float.fromhex if "0x" in digits.lower() and "p" in digits.lower() else float
        for read in (lambda: int(digits, 0), lambda: decimal(digits)):
            try:
                number = read()
                break
            except ValueError:
                continue
        if number is None and not digits_only:
            self._fail(f"illegal number syntax: {quote(text)}")
        if isinstance(number, float):
            return number
        if number is None or abs(number) > MAX_INT:
            self._fail(f"integer overflow: {quote(text)}")
        return Int(number)

    def _unquoted(self, text: str) -> str:
        if text[0] == "`":
            return text[1:-1].replace("\r", "")

        def replaced(match: re.Match[str]) -> str:
            code = match[1]
            if code[0] in "xuU" and len(code) > 1 and _is_character(number := int(code[1:], 16)):
                return chr(number)
            if code[0].isdigit() and len(code) == 3 and (number := int(code, 8)) < 256:
                return chr(number)
            if code not in _SHORT and code != text[0]:
                self._fail("invalid syntax")
            return _SHORT.get(code, code)

        return _ESCAPE.sub(replaced, text[1:-1])


def _is_character(number: int) -> bool:
    return number < 0xD800 or 0xE000 <= number < 0x110000


def _is_empty(body: list[Node]) -> bool:
    return all(isinstance(node, Text) and not node.text.strip() for node in body)
