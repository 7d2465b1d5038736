"""The parser, by recursive descent: text to syntax tree, with macros expanded (upstream: cel-spec grammar, cel-go ``parser``).

It stops at the first syntax error; ``recovery`` then finds all of them.
"""

from __future__ import annotations

from kapi.cel.errors import CompileErrors, Issue, Source
from kapi.cel.lexer import Token, tokenize
from kapi.cel.macros import MACROS, MacroError, Macros
from kapi.cel.recovery import MAX_DEPTH, MAX_SYNTAX_ERRORS, syntax_errors
from kapi.cel.syntax import Call, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr, balanced, qualified_name
from kapi.machinery.checkpoint import checkpoint

RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
RELATIONS = {"==": "_==_", "!=": "_!=_", "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_"}
SUMS = {"+": "_+_", "-": "_-_"}
PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
WORDS = {"true": True, "false": False, "null": None}
MAX_CODE_POINTS = 100_000  # of an expression
_TOKENS_PER_CHECKPOINT = 16


class _Refused(Exception):
    """The text does not fit the grammar."""


class _TooDeep(Exception):
    """A limit of depth, with upstream's text."""


def parse(text: str, optional_syntax: bool = True, macros: Macros = MACROS) -> Expr:
    """The tree of an expression.  Raises CompileErrors."""
    source = Source(text)
    if len(text) > MAX_CODE_POINTS:
        raise CompileErrors(
            source, [Issue(-1, f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}")]
        )
    parser = _Parser(source, optional_syntax, macros)
    try:
        tree = parser.start()
    except _Refused:
        parser.issues += syntax_errors(parser.tokens, text)
        raise CompileErrors(source, _limited(parser.issues)) from None
    except _TooDeep as error:
        raise CompileErrors(source, [*parser.issues, Issue(-1, str(error))]) from None
    if parser.issues:
        raise CompileErrors(source, _limited(parser.issues))
    return tree


def _limited(issues: list[Issue]) -> list[Issue]:
    """Limits the errors: upstream stops at the 101st syntax error, and then reports only this."""
    syntax = sorted(
        (issue for issue in issues if issue.message.startswith("Syntax error")), key=lambda issue: issue.offset
    )
    return syntax[: MAX_SYNTAX_ERRORS + 1] if len(syntax) > MAX_SYNTAX_ERRORS else issues


class _Parser:
    def __init__(self, source: Source, optional_syntax: bool, macros: Macros = MACROS) -> None:
        self.issues: list[Issue] = []
        self.tokens = tokenize(source.text, self.issues)
        self.position = 0
        self.token = self.tokens[0]
        self.nesting = 0  # of expressions
        self.depth = 0  # of operators
        self.optional_syntax = optional_syntax
        self.macros = macros
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

    def expect(self, op: str) -> Token:
        if not self.at(op):
            raise _Refused
        return self.advance()

    def lone_comma(self, close: str) -> None:
        """Skips a comma that is alone between brackets, which is allowed."""
        if self.at(","):
            self.advance()
            if not self.at(close):
                raise _Refused

    def next_item(self) -> bool:
        """Skips a comma.  Returns whether there was one."""
        if not self.at(","):
            return False
        self.advance()
        return True

    def descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _TooDeep("max recursion depth exceeded")

    def start(self) -> Expr:
        tree = self.expression()
        if self.token.kind != "eof":
            raise _Refused
        return tree

    def expression(self) -> Expr:
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        tree = self.conditional_or()
        if self.at("?"):
            op = self.advance()
            then = self.conditional_or()
            self.expect(":")
            tree = Call(op.offset, "_?_:_", [tree, then, self.expression()])
        self.nesting -= 1
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
            if self.at("-") and self.peek().kind not in ("int", "float"):
                raise _Refused
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
        name = self.name()
        if self.at("(") and name.kind == "ident":
            op = self.advance()
            args = self.arguments()
            return self.call(op.offset, name.text, args, tree)
        return Select(dot.offset, tree, name.value or name.text)

    def name(self) -> Token:
        if self.token.kind == "ident" and self.token.text not in ("in", *WORDS):
            return self.advance()
        if self.token.kind == "escaped":
            return self.advance()
        raise _Refused

    def arguments(self) -> list[Expr]:
        args: list[Expr] = []
        if not self.at(")"):
            args.append(self.expression())
            while self.next_item():
                args.append(self.expression())
        self.expect(")")
        return args

    def call(self, offset: int, function: str, args: list[Expr], target: Expr | None) -> Expr:
        macro = self.macros.get((function, len(args), target is not None))
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
                    raise _Refused
                return self.identifier(".")
        raise _Refused

    def identifier(self, dot: str) -> Expr:
        token = self.advance()
        if not dot and token.text in WORDS:
            return Literal(token.offset, WORDS[token.text])
        if token.text == "in" or token.text in WORDS:
            raise _Refused
        if token.text in RESERVED:
            before = [*self.issues, Issue(token.offset, f"reserved identifier: {token.text}")]
            if self.at("("):
                self.advance()
                self.arguments()
            self.issues = before
            return Literal(token.offset, None)
        if self.at("("):
            op = self.advance()
            return self.call(op.offset, dot + token.text, self.arguments(), None)
        return Ident(token.offset, dot + token.text)

    def list(self) -> Expr:
        op = self.advance()
        elements: list[Expr] = []
        optional: set[int] = set()
        self.lone_comma("]")
        while not self.at("]"):
            if self.optional_mark():
                optional.add(len(elements))
            elements.append(self.expression())
            if not self.next_item():
                break
        self.expect("]")
        return ListExpr(op.offset, elements, frozenset(optional))

    def map(self) -> Expr:
        op = self.advance()
        entries: list[tuple[Expr, Expr, bool, int]] = []
        self.lone_comma("}")
        while not self.at("}"):
            optional = self.optional_mark()
            key = self.expression()
            colon = self.expect(":")
            entries.append((key, self.expression(), optional, colon.offset))
            if not self.next_item():
                break
        self.expect("}")
        return MapExpr(op.offset, entries)

    def struct(self, name: str) -> Expr:
        op = self.advance()
        entries: list[tuple[str, Expr, bool, int]] = []
        self.lone_comma("}")
        while not self.at("}"):
            optional = self.optional_mark()
            field = self.name()
            colon = self.expect(":")
            entries.append((field.value or field.text, self.expression(), optional, colon.offset))
            if not self.next_item():
                break
        self.expect("}")
        return StructExpr(op.offset, name, entries)
