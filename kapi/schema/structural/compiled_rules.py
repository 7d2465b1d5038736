"""The rules of ``x-kubernetes-validations``, compiled (upstream: apiextensions ``schema/cel/compilation.go``)."""

from __future__ import annotations

from kapi.cel import CompileErrors, Environment, Program
from kapi.cel import types as t
from kapi.cel.sizes import SizeOf
from kapi.cel.syntax import idents
from kapi.machinery.freeing import has_parts
from kapi.machinery.tree import Object
from kapi.schema.structural.celtypes import DeclType, sizes
from kapi.schema.structural.field_path import field_path
from kapi.schema.structural.structure import Schema

_BASE: Environment | None = None


def base() -> Environment:
    """The environment of every rule, without its variables."""
    global _BASE
    if _BASE is None:
        _BASE = Environment()
    return _BASE


class Rule:
    """A compiled rule.  ``error`` and ``message_error`` are compile errors of the rule and its message, or ""."""

    __slots__ = ("source", "program", "error", "uses_old", "message", "message_error", "path", "optional_old")

    def __init__(self, source: Object) -> None:
        self.source = source
        self.program: Program | None = None
        self.error = ""
        self.uses_old = False
        self.message: Program | None = None
        self.message_error = ""
        self.path = ""
        self.optional_old = bool(source.get("optionalOldSelf"))

    @property
    def text(self) -> str:
        """The rule's name in errors."""
        return str(self.source.get("message") or self.source.get("rule") or "").strip()

    def default_message(self) -> str:
        message = self.source.get("message")
        return str(message).strip() if message else f"failed rule: {self.text}"


has_parts(Rule, "source", "program", "message")


def compile_rules(schema: Schema, declared: DeclType) -> list[Rule]:
    """The rules of one node of a schema."""
    variables = {"self": declared.type, "oldSelf": declared.type}
    plain = base().extend(variables)
    optional = base().extend({**variables, "oldSelf": t.optional_of(declared.type)})
    size_of = sizes(declared)
    found = []
    for source in schema.get("x-kubernetes-validations") or ():
        rule = Rule(source)
        text = source.get("rule") or ""
        if text.strip():
            _compile(rule, optional if rule.optional_old else plain, text, schema, size_of)
        found.append(rule)
    return found


def _no_bool(result: t.CelType) -> str:
    return "" if result.kind == "bool" else "cel expression must evaluate to a bool"


def _no_string(result: t.CelType) -> str:
    return "" if result.kind == "string" else "must evaluate to a string"


def _compile(rule: Rule, env: Environment, text: str, schema: Schema, size_of: SizeOf) -> None:
    try:
        program = env.compile(text, size_of=size_of, mismatch=_no_bool)
    except CompileErrors as errors:
        rule.error = errors.reason
        return
    rule.uses_old = "oldSelf" in idents(program.tree)
    rule.program = program
    message = rule.source.get("messageExpression")
    if message:
        try:
            rule.message = env.compile(message, size_of=size_of, mismatch=_no_string)
        except CompileErrors as errors:
            rule.message_error = f"messageExpression {errors.reason}"
            return
    path = rule.source.get("fieldPath")
    if path:
        try:
            rule.path = str(field_path(path, schema)[0])
        except ValueError:
            pass
