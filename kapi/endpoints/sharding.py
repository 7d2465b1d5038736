"""The shard selector of a list or watch: an expression in CEL that is parsed, but not evaluated.

Upstream: apiserver ``sharding``.
"""

from __future__ import annotations

import re

from kapi.cel.arithmetic import Uint
from kapi.cel.errors import CompileErrors
from kapi.cel.parser import parse
from kapi.cel.syntax import Call, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kapi.machinery.each import elements
from kapi.machinery.golang import quote
from kapi.machinery.sharding import NAMESPACE, UID, Shards

_DIGITS = 16  # hexadecimal digits of a bound
_END = "0x10000000000000000"  # the end of all hashes, 2^64, has one more
_NO_HEX = re.compile("[^0-9a-f]")
#: numbers with which cel-go's errors name the kinds of expressions
_KINDS = {Call: 1, Ident: 3, ListExpr: 4, Literal: 5, MapExpr: 6, Select: 7, StructExpr: 8}
_GO_TYPES = {
    bool: "bool",
    int: "int64",
    Uint: "uint64",
    float: "float64",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
}


class ShardSelectorError(ValueError):
    """An invalid selector; the text is upstream's."""


def parse_shards(text: str) -> Shards:
    """The shard of a selector: ``shardRange(field, '0x...', '0x...')``, once or several times with ``||`` in between.

    Raises ShardSelectorError.
    """
    text = text.strip()
    if not text:
        raise ShardSelectorError("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    try:
        tree = parse(text, optional_syntax=False, macros={})
    except CompileErrors as error:
        raise ShardSelectorError(f"CEL parse error: {error.issues[0].message}") from None
    found: list[tuple[str, int, int]] = []
    _collect(tree, found)
    key = found[0][0]
    for other, _, _ in found:
        if other != key:
            raise ShardSelectorError(f"all shard ranges must use the same field, got {quote(key)} and {quote(other)}")
    return Shards.of(key, ((start, end) for _, start, end in found))


def _collect(node: Expr, found: list[tuple[str, int, int]]) -> None:
    if not isinstance(node, Call):
        raise ShardSelectorError(
            f"unexpected expression kind {_KINDS[type(node)]}; expected shardRange() call or || operator"
        )
    if node.function == "_||_":
        for side in elements(node.args):
            _collect(side, found)
    elif node.function == "shardRange":
        found.append(_range(node.args))
    else:
        raise ShardSelectorError(f"unsupported function {quote(node.function)}; only shardRange() and || are allowed")


def _range(args: list[Expr]) -> tuple[str, int, int]:
    if len(args) != 3:
        raise ShardSelectorError(f"shardRange() requires exactly 3 arguments, got {len(args)}")
    field = _field(args[0])
    if field not in (UID, NAMESPACE):
        raise ShardSelectorError(f"unsupported field path {quote(field)}; supported: {UID}, {NAMESPACE}")
    start, end = _bound(args[1], "hexStart"), _bound(args[2], "hexEnd")
    if int(start, 16) >= int(end, 16):
        raise ShardSelectorError(f"shard range start {start} must be less than end {end}")
    return field, int(start, 16), int(end, 16)


def _field(node: Expr) -> str:
    names: list[str] = []
    while isinstance(node, Select):
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        raise ShardSelectorError(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), "
            f"got expression kind {_KINDS[type(node)]}"
        )
    return ".".join((node.name, *reversed(names)))


def _bound(node: Expr, name: str) -> str:
    if not isinstance(node, Literal):
        kind = _KINDS[type(node)]
        raise ShardSelectorError(f"{name} must be a string literal (e.g. '0xff'), got expression kind {kind}")
    text = node.value
    if not isinstance(text, str):
        raise ShardSelectorError(f"{name} must be a string literal, got {_GO_TYPES[type(text)]}")
    if not text.startswith("0x"):
        raise ShardSelectorError(f"{name} must have '0x' prefix, got {quote(text)}")
    digits = text[2:]
    if not digits:
        raise ShardSelectorError(f"{name}: hex value is required after '0x'")
    size = len(digits.encode())
    if size > _DIGITS + 1:
        raise ShardSelectorError(f"{name}: hex value too long ({size} chars, max {_DIGITS + 1}): {quote(digits)}")
    wrong = _NO_HEX.search(digits)
    if wrong is not None:
        raise ShardSelectorError(f"{name}: invalid hex character {quote(wrong[0])} in {quote(text)}")
    if size > _DIGITS and text != _END:
        raise ShardSelectorError(f"{name}: 17-digit hex value must be '{_END}' (2^64), got {quote(text)}")
    if size < _DIGITS:
        padded = f"0x{digits:0>{_DIGITS}}"
        raise ShardSelectorError(
            f"{name} must be a 0x-prefixed 16-digit hex value, got {quote(text)} (did you mean {quote(padded)}?)"
        )
    return text
