"""Words and operators of CEL, and the lists of expected tokens in syntax errors (cel-spec, ANTLR)."""

from __future__ import annotations

from kapi.cel.lexer import Token

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


def begins_expression(token: Token) -> bool:
    if token.kind == "ident":
        return token.text != "in"
    return token.kind in _VALUES or token.kind == "op" and token.text in _BEGINNINGS


def begins_field(token: Token) -> bool:
    return token.kind == "escaped" or token.kind == "ident" and token.text not in ("in", *WORDS)
