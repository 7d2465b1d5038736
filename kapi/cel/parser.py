"""The parser, by recursive descent: text to syntax tree, with macros expanded (upstream: cel-spec grammar, cel-go ``parser``).

Syntax errors list the expected tokens as ANTLR does.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.cel.errors import CompileErrors, Issue, Source
from kapi.cel.lexer import Token, tokenize
from kapi.cel.macros import MACROS, MacroError
from kapi.cel.syntax import Call, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr, balanced, qualified_name
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements

_LITERALS = "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
EXPRESSION = f"'[', '{{', '(', '.', '-', '!', {_LITERALS}"
#: closing bracket -> the tokens that may follow the opening one, in the grammar's order
AFTER_OPENING = {
    ")": f"'[', '{{', '(', ')', '.', '-', '!', {_LITERALS}",
    "]": f"'[', ']', '{{', '(', '.', ',', '-', '!', '?', {_LITERALS}",
    "}": f"'[', '{{', '}}', '(', '.', ',', '-', '!', '?', {_LITERALS}",
}
FIELDS = "'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER"
_BEGINNINGS = frozenset(["[", "{", "(", ".", "-", "!"])
_VALUES = frozenset(["int", "uint", "float", "string", "bytes", "ident"])
RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
RELATIONS = {"==": "_==_", "!=": "_!=_", "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_"}
SUMS = {"+": "_+_", "-": "_-_"}
PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
WORDS = {"true": True, "false": False, "null": None}
MAX_CODE_POINTS = 100_000  # of an expression
MAX_DEPTH = 250  # of nesting
_CLOSING = ")]}"
_TOKENS_PER_CHECKPOINT = 16


def begins_expression(token: Token) -> bool:
    if token.kind == "ident":
        return token.text != "in"
    return token.kind in _VALUES or token.kind == "op" and token.text in _BEGINNINGS


def begins_field(token: Token) -> bool:
    return token.kind == "escaped" or token.kind == "ident" and token.text not in ("in", *WORDS)


class _Stop(Exception):
    """Ends parsing after the issue that was just added."""


def parse(text: str, optional_syntax: bool = True) -> Expr:
    """The tree of an expression.  Raises CompileErrors."""
    source = Source(text)
    if len(text) > MAX_CODE_POINTS:
        raise CompileErrors(
            source, [Issue(-1, f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}")]
        )
    parser = _Parser(source, optional_syntax)
    try:
        tree = parser.start()
    except _Stop:
        raise CompileErrors(source, parser.issues) from None
    if parser.issues:
        raise CompileErrors(source, parser.issues)
    return tree


class _Parser:
    def __init__(self, source: Source, optional_syntax: bool) -> None:
        self.issues: list[Issue] = []
        self.tokens = tokenize(source.text, self.issues)
        self.position = 0
        self.token = self.tokens[0]
        self.depth = 0
        self.optional_syntax = optional_syntax
        self.source = source

    def advance(self) -> Token:
        token = self.token
        if not self.position % _TOKENS_PER_CHECKPOINT:
            checkpoint()
        self.position += 1
        self.token = self.tokens[min(self.position, len(self.tokens) - 1)]
        return token

    def peek(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def at(self, op: str) -> bool:
        return self.token.kind == "op" and self.token.text == op

    def fail(self, offset: int, message: str) -> _Stop:
        self.issues.append(Issue(offset, message))
        return _Stop()

    def mismatch(self, expected: str) -> _Stop:
        return self.fail(self.token.offset, f"Syntax error: mismatched input '{self.token.text}' expecting {expected}")

    def expect(self, op: str) -> Token:
        if self.at(op):
            return self.advance()
        following = self.peek()
        if following.kind == "op" and following.text == op:
            raise self.fail(self.token.offset, f"Syntax error: extraneous input '{self.token.text}' expecting '{op}'")
        if self.token.kind == "eof" and op in _CLOSING and self._unclosed() == 1:
            raise self.fail(self.token.offset, f"Syntax error: missing '{op}' at '<EOF>'")
        raise self.mismatch(f"'{op}'")

    def close(self, op: str, after_comma: bool) -> None:
        """The end of a list, map or message, before which a comma may be."""
        if self.at(op):
            self.advance()
        elif after_comma:
            self.expect(op)
        else:
            following = self.peek()
            word = "extraneous" if following.kind == "op" and following.text in (op, ",") else "mismatched"
            expected = f"{{'{op}', ','}}"
            raise self.fail(self.token.offset, f"Syntax error: {word} input '{self.token.text}' expecting {expected}")

    def _unclosed(self) -> int:
        """The number of brackets that are open at the end of the text."""
        marks = [token.text for token in elements(self.tokens) if token.kind == "op"]
        return sum(map(marks.count, "([{")) - sum(map(marks.count, _CLOSING))

    def opened(self, close: str, expected: str, begins: Callable[[Token], bool]) -> bool:
        """Call it after an opening bracket: whether there is something in it other than a single comma."""
        marks = ("?", ",") if close != ")" else ()
        token = self.token

        def fits(token: Token) -> bool:
            return begins(token) or token.kind == "op" and token.text in (close, *marks)

        if not fits(token):
            word = "extraneous" if fits(self.peek()) and token.kind != "eof" else "mismatched"
            raise self.fail(token.offset, f"Syntax error: {word} input '{token.text}' expecting {{{expected}}}")
        if marks and self.at(","):
            self.advance()
            if not self.at(close):
                raise self.mismatch(f"'{close}'")
        return not self.at(close)

    def descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")

    def start(self) -> Expr:
        tree = self.expression()
        if self.token.kind != "eof":
            word = "extraneous" if self.peek().kind == "eof" else "mismatched"
            raise self.fail(self.token.offset, f"Syntax error: {word} input '{self.token.text}' expecting <EOF>")
        return tree

    def expression(self) -> Expr:
        self.descend()
        tree = self.conditional_or()
        if self.at("?"):
            op = self.advance()
            then = self.conditional_or()
            self.expect(":")
            tree = Call(op.offset, "_?_:_", [tree, then, self.expression()])
        self.depth -= 1
        return tree

    def conditional_or(self) -> Expr:
        terms, ops = [self.conditional_and()], []
        while self.at("||"):
            ops.append(self.advance().offset)
            terms.append(self.conditional_and())
        return balanced(terms, ops, "_||_")

    def conditional_and(self) -> Expr:
        terms, ops = [self.relation()], []
        while self.at("&&"):
            ops.append(self.advance().offset)
            terms.append(self.relation())
        return balanced(terms, ops, "_&&_")

    def relation(self) -> Expr:
        tree = self.sum()
        depth = self.depth
        while True:
            function = RELATIONS.get(self.token.text) if self.token.kind == "op" else None
            if function is None and self.token.kind == "ident" and self.token.text == "in":
                function = "@in"
            if function is None:
                self.depth = depth
                return tree
            self.descend()
            op = self.advance()
            tree = Call(op.offset, function, [tree, self.sum()])

    def sum(self) -> Expr:
        tree = self.product()
        depth = self.depth
        while self.token.kind == "op" and self.token.text in SUMS:
            self.descend()
            op = self.advance()
            tree = Call(op.offset, SUMS[op.text], [tree, self.product()])
        self.depth = depth
        return tree

    def product(self) -> Expr:
        tree = self.unary()
        depth = self.depth
        while self.token.kind == "op" and self.token.text in PRODUCTS:
            self.descend()
            op = self.advance()
            tree = Call(op.offset, PRODUCTS[op.text], [tree, self.unary()])
        self.depth = depth
        return tree

    def unary(self) -> Expr:
        if self.token.kind == "op" and self.token.text in ("!", "-"):
            op = self.token
            if op.text == "-" and self.peek().kind in ("int", "float"):
                self.advance()
                number = self.advance()
                return self.member(Literal(op.offset, -number.value))
            count = 0
            while self.at(op.text):
                if op.text == "-" and count and self.peek().kind in ("int", "float"):
                    break
                count += 1
                self.advance()
            inner = self.unary() if self.at("-") else self.member(self.primary())
            if count % 2 == 0:
                return inner
            return Call(op.offset, "!_" if op.text == "!" else "-_", [inner])
        return self.member(self.primary())

    def member(self, tree: Expr) -> Expr:
        depth = self.depth
        while self.token.kind == "op":
            text = self.token.text
            if text == ".":
                self.descend()
                tree = self.dotted(tree)
            elif text == "[":
                self.descend()
                op = self.advance()
                optional = self.optional_mark()
                index = self.expression()
                self.expect("]")
                tree = Call(op.offset, "_[?_]" if optional else "_[_]", [tree, index])
            elif text == "{":
                name = qualified_name(tree)
                if name is None:
                    break
                tree = self.struct(name)
            else:
                break
        self.depth = depth
        return tree

    def optional_mark(self) -> bool:
        if not self.at("?"):
            return False
        op = self.advance()
        if not self.optional_syntax:
            self.issues.append(Issue(op.offset, "unsupported syntax '?'"))
        return True

    def dotted(self, tree: Expr) -> Expr:
        dot = self.advance()
        if self.at("?"):
            self.optional_mark()
            name = self.name()
            return Call(dot.offset, "_?._", [tree, Literal(name.offset, name.value or name.text)])
        name = self.name(escaped=True)
        if self.at("(") and name.kind == "ident":
            op = self.advance()
            args = self.arguments(")")
            return self.call(op.offset, name.text, args, tree)
        return Select(dot.offset, tree, name.value or name.text)

    def name(self, escaped: bool = True) -> Token:
        if self.token.kind == "ident" and self.token.text not in ("in", *WORDS):
            return self.advance()
        if self.token.kind == "escaped" and escaped:
            return self.advance()
        if self.token.kind == "eof":
            raise self.fail(
                self.token.offset,
                f"Syntax error: no viable alternative at input '{self.tokens[self.position - 1].text}'",
            )
        raise self.fail(
            self.token.offset,
            f"Syntax error: no viable alternative at input '{self.tokens[self.position - 1].text}{self.token.text}'",
        )

    def arguments(self, close: str) -> list[Expr]:
        args: list[Expr] = []
        if not self.opened(close, AFTER_OPENING[close], begins_expression):
            self.advance()
            return args
        while True:
            args.append(self.expression())
            if self.at(","):
                self.advance()
                continue
            self.expect(close)
            return args

    def call(self, offset: int, function: str, args: list[Expr], target: Expr | None) -> Expr:
        macro = MACROS.get((function, len(args), target is not None))
        if macro is not None:
            try:
                expanded = macro(offset, target, args)
            except MacroError as error:
                self.issues.append(Issue(error.offset, error.message))
                return Literal(offset, None)
            if expanded is not None:
                return expanded
        return Call(offset, function, args, target)

    def primary(self) -> Expr:
        token = self.token
        kind = token.kind
        if kind in ("int", "uint", "float", "string", "bytes"):
            self.advance()
            if kind == "int" and token.value > 2**63 - 1:
                self.issues.append(Issue(token.offset, "invalid int literal"))
            if kind == "float" and token.value in (float("inf"),):
                self.issues.append(Issue(token.offset, "invalid double literal"))
            return Literal(token.offset, token.value)
        if kind == "ident":
            return self.identifier("")
        if kind == "op":
            if token.text == "(":
                self.advance()
                tree = self.expression()
                self.expect(")")
                return tree
            if token.text == "[":
                return self.list()
            if token.text == "{":
                return self.map()
            if token.text == ".":
                self.advance()
                if self.token.kind != "ident":
                    raise self.mismatch("IDENTIFIER")
                return self.identifier(".")
        if kind == "escaped":
            raise self.fail(
                token.offset, "Syntax error: mismatched input '" + token.text + "' expecting {" + EXPRESSION + "}"
            )
        if token.kind != "eof" and begins_expression(self.peek()):
            text = f"Syntax error: extraneous input '{token.text}' expecting {{{EXPRESSION}}}"
            raise self.fail(token.offset, text)
        raise self.mismatch("{" + EXPRESSION + "}")

    def identifier(self, dot: str) -> Expr:
        token = self.advance()
        if not dot and token.text in WORDS:
            return Literal(token.offset, WORDS[token.text])
        if token.text == "in" or token.text in WORDS:
            raise self.fail(token.offset, f"Syntax error: mismatched input '{token.text}' expecting {{{EXPRESSION}}}")
        if token.text in RESERVED:
            self.issues.append(Issue(token.offset, f"reserved identifier: {token.text}"))
        if self.at("("):
            op = self.advance()
            return self.call(op.offset, dot + token.text, self.arguments(")"), None)
        return Ident(token.offset, dot + token.text)

    def list(self) -> Expr:
        op = self.advance()
        self.descend()
        elements: list[Expr] = []
        optional: set[int] = set()
        comma = not self.opened("]", AFTER_OPENING["]"], begins_expression)
        while not self.at("]"):
            if self.optional_mark():
                optional.add(len(elements))
            elements.append(self.expression())
            comma = self.at(",")
            if not comma:
                break
            self.advance()
        self.close("]", comma)
        self.depth -= 1
        return ListExpr(op.offset, elements, frozenset(optional))

    def map(self) -> Expr:
        op = self.advance()
        self.descend()
        entries: list[tuple[Expr, Expr, bool, int]] = []
        comma = not self.opened("}", AFTER_OPENING["}"], begins_expression)
        while not self.at("}"):
            optional = self.optional_mark()
            key = self.expression()
            colon = self.expect(":")
            entries.append((key, self.expression(), optional, colon.offset))
            comma = self.at(",")
            if not comma:
                break
            self.advance()
        self.close("}", comma)
        self.depth -= 1
        return MapExpr(op.offset, entries)

    def struct(self, name: str) -> Expr:
        op = self.advance()
        entries: list[tuple[str, Expr, bool, int]] = []
        comma = not self.opened("}", FIELDS, begins_field)
        while not self.at("}"):
            optional = self.optional_mark()
            field = self.name()
            colon = self.expect(":")
            entries.append((field.value or field.text, self.expression(), optional, colon.offset))
            comma = self.at(",")
            if not comma:
                break
            self.advance()
        self.close("}", comma)
        return StructExpr(op.offset, name, entries)
