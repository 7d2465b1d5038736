"""Validation with the rules of ``x-kubernetes-validations``.

Upstream: apiextensions ``schema/cel``, KEP-2876, KEP-4008 (ratcheting).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kapi.cel import PER_CALL_LIMIT, RUNTIME_BUDGET, BudgetExceeded, EvaluationError, TimeExceeded
from kapi.cel.environment import EVALUATION
from kapi.cel.frame import Frame
from kapi.cel.values import NONE, Optional
from kapi.machinery.each import each_of, entries
from kapi.machinery.field import OMIT, FieldError, Path, duplicate, forbidden, invalid, required
from kapi.machinery.freeing import has_parts
from kapi.machinery.tree import Object, Tree
from kapi.schema.structural.celtypes import DeclType, declare, escape
from kapi.schema.structural.compiled_rules import Rule, compile_rules
from kapi.schema.structural.correlation import ABSENT, is_unchanged, old_item, old_items
from kapi.schema.structural.structure import Schema, additional, anywhere, embedded

_MAX_MESSAGE_BYTES = 5 * 1024  # of a message from messageExpression
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
_UNTYPED = "rule compiler initialization error: failed to convert to declType for CEL validation rules"


class Budget:
    """The cost limit of all rules of one object; ``spent`` when no further rule may run.

    After ``seconds`` (0: no limit) an evaluation raises TimeExceeded.
    """

    __slots__ = ("remaining", "deadline")

    def __init__(self, remaining: int = RUNTIME_BUDGET, seconds: float = 0.0) -> None:
        self.remaining = remaining
        self.deadline = time.monotonic() + seconds if seconds else 0.0

    @property
    def spent(self) -> bool:
        return self.remaining < 0


class _Ratchet:
    """A part of the new object with its old value: errors of an unchanged part become warnings (ratcheting)."""

    __slots__ = ("current", "parent", "value", "schema")

    def __init__(self, value: Tree, current: Tree, schema: Schema, parent: _Ratchet | None = None) -> None:
        self.value, self.current, self.schema = value, current, schema
        self.parent = parent

    def unchanged(self) -> bool:
        if self.current is not ABSENT:
            return is_unchanged(self.value, self.current, self.schema)
        return self.parent is not None and self.parent.unchanged()

    def below(self, value: object, old: object, schema: Schema) -> _Ratchet:
        if self.current is ABSENT:
            return self
        return _Ratchet(value, old, schema, self)


_NEVER = _Ratchet(None, ABSENT, {})


@dataclass(slots=True)
class _Run:
    """One validation: with ``warn`` errors of unchanged parts are warnings."""

    budget: Budget
    warn: Callable[[str], None] | None
    errors: list[FieldError]

    def stop(self, error: FieldError) -> None:
        """Adds the error after which no further rule runs."""
        self.errors.append(error)
        self.budget.remaining = -1

    def add(self, error: FieldError, rule: Rule, ratchet: _Ratchet) -> None:
        if not rule.uses_old and self.warn is not None and ratchet.unchanged():
            self.warn(str(error))
        else:
            self.errors.append(error)


class RuleValidator:
    """The rules of a schema node and of all nodes below it."""

    __slots__ = ("schema", "rules", "convert", "items", "extra", "fields", "is_root", "untyped")

    def __init__(self, schema: Schema, declared: DeclType | None, is_root: bool) -> None:
        self.schema = schema
        self.is_root = is_root
        self.convert = declared.convert if declared is not None else None
        ruled = bool(schema.get("x-kubernetes-validations"))
        self.rules = compile_rules(schema, declared) if declared is not None and ruled else []
        #: the node has rules, but no type: ``items`` of an object, for example
        self.untyped = declared is None and ruled
        self.items: RuleValidator | None = None
        self.extra: RuleValidator | None = None
        self.fields: dict[str, RuleValidator] = {}
        elem = declared.elem if declared is not None else None
        items, extra = schema.get("items"), additional(schema)
        if isinstance(items, dict) and has_rules(items):
            self.items = RuleValidator(items, elem, embedded(items))
        if extra is not None and has_rules(extra):
            self.extra = RuleValidator(extra, elem, embedded(extra))
        for name, field in (schema.get("properties") or {}).items():
            if not has_rules(field):
                continue
            escaped = escape(name)
            if escaped is None:
                below = declare(field, embedded(field))
            else:  # a field whose type is not known has no rules
                below = None if declared is None else declared.fields.get(escaped)
            if below is not None:
                self.fields[name] = RuleValidator(field, below, embedded(field))

    def validate(
        self, path: Path, value: object, old: object, budget: Budget, warn: Callable[[str], None] | None = None
    ) -> list[FieldError]:
        """The errors of all rules for a value; ``old`` is None or ABSENT when there is none.

        With ``warn`` (an update) errors of unchanged parts are warnings.
        """
        run = _Run(budget, warn, [])
        before = ABSENT if old is None else old
        ratchet = _Ratchet(value, before, self.schema) if warn is not None else _NEVER
        began = time.monotonic()
        try:
            self._walk(path, value, before, ratchet, run)
        finally:
            EVALUATION.observe(time.monotonic() - began)
        return run.errors

    def _walk(self, path: Path, value: object, old: object, ratchet: _Ratchet, run: _Run) -> None:
        budget = run.budget
        if value is None or budget.spent:
            return
        if self.rules or self.untyped:
            self._run_rules(path, value, None if old is ABSENT else old, ratchet, run)
            if budget.spent:
                return
        if isinstance(value, list):
            if self.items is not None:
                before = old_items(old, self.schema)
                for item, here in each_of(path, value):
                    earlier = old_item(before, self.schema, item)
                    ratcheted = ratchet.below(item, earlier, self.items.schema)
                    self.items._walk(here, item, earlier, ratcheted, run)
                    if budget.spent:
                        return
        elif isinstance(value, dict):
            known = old if isinstance(old, dict) else {}
            for name, item in entries(value):
                earlier = known.get(name, ABSENT)
                if self.extra is not None and name not in (self.schema.get("properties") or {}):
                    ratcheted = ratchet.below(item, earlier, self.extra.schema)
                    self.extra._walk(path.key(name), item, earlier, ratcheted, run)
                field = self.fields.get(name)
                if field is not None:
                    # clients cannot change the type of an object: old and new ones are converted to the same
                    fixed = ratchet.parent is None and name in ("apiVersion", "kind")
                    ratcheted = _NEVER if fixed else ratchet.below(item, earlier, field.schema)
                    field._walk(path.child(name), item, earlier, ratcheted, run)
                if budget.spent:
                    return

    def _run_rules(self, path: Path, value: object, old: object, ratchet: _Ratchet, run: _Run) -> None:
        type_ = self.schema.get("type") or ""
        shown = str(path) or "<nil>"
        if self.untyped:
            run.errors.append(invalid(shown, type_, _UNTYPED))
            return
        if run.budget.remaining <= 0:
            run.stop(invalid(shown, type_, _OUT_OF_BUDGET))
            return
        try:
            mine = value if self.convert is None else self.convert(value)
            before = old if self.convert is None or old is None else self.convert(old)
        except EvaluationError as error:
            run.errors.append(invalid(shown, type_, str(error)))
            return
        plain: Object = {"self": mine}
        if old is not None:
            plain["oldSelf"] = before
        for rule in self.rules:
            if rule.error:
                run.errors.append(invalid(shown, type_, f"rule compile error: {rule.error}"))
                continue
            if rule.program is None or (rule.uses_old and old is None and not rule.optional_old):
                continue
            variables = (
                {"self": mine, "oldSelf": NONE if old is None else Optional(before)} if rule.optional_old else plain
            )
            if not self._run_rule(rule, path, value, variables, plain, ratchet, run):
                return

    def _run_rule(
        self, rule: Rule, path: Path, value: object, variables: Object, plain: Object, ratchet: _Ratchet, run: _Run
    ) -> bool:
        """Runs one rule; False when no further rule may run.  In ``plain``, the variables of messages, no value is optional."""
        assert rule.program is not None
        budget = run.budget
        type_ = self.schema.get("type") or ""
        shown = str(path) or "<nil>"
        frame = Frame(variables, 0, PER_CALL_LIMIT, budget.deadline)
        failure: EvaluationError | None = None
        result: Tree = None
        try:
            result = rule.program.run_in(frame)
        except TimeExceeded:
            raise
        except EvaluationError as error:
            failure = error
        if frame.cost > budget.remaining:
            run.stop(invalid(shown, type_, _OUT_OF_BUDGET))
            return False
        budget.remaining -= frame.cost
        if failure is not None:
            return _evaluation_failed(shown, type_, failure, rule, run)
        if result is True:
            return True
        target = Path(rule.path, path) if rule.path and not str(path) else _joined(path, rule.path)
        detail = None
        if rule.message is not None:
            detail, stop = _message(rule, plain, budget)
            if stop is not None:
                run.add(invalid(str(target) or "<nil>", type_, stop), rule, ratchet)
                budget.remaining = -1
                return False
        if detail is None:
            detail = rule.default_message()
        bad = OMIT if type_ in ("object", "array") else value
        run.add(_reason(str(target) or "<nil>", bad, detail, rule.source.get("reason")), rule, ratchet)
        return True


has_parts(RuleValidator, "schema", "rules", "items", "extra", "fields")


def _joined(path: Path, below: str) -> Path:
    if not below:
        return path
    return Path(("." if str(path) else "") + below, path)


def _evaluation_failed(shown: str, type_: str, failure: EvaluationError, rule: Rule, run: _Run) -> bool:
    text = str(failure)
    if isinstance(failure, BudgetExceeded):
        detail = "no further validation rules will be run due to call cost exceeds limit for rule"
        run.stop(invalid(shown, type_, f"'{text}': {detail}: {rule.text}"))
        return False
    if text.startswith("no such overload"):
        detail = "call arguments did not match a supported operator, function or macro signature for rule"
        run.errors.append(invalid(shown, type_, f"'{text}': {detail}: {rule.text}"))
    else:
        run.errors.append(invalid(shown, type_, f"{text} evaluating rule: {rule.text}"))
    return True


def _message(rule: Rule, variables: Object, budget: Budget) -> tuple[str | None, str | None]:
    """(message or None, error that ends all validation or None)."""
    assert rule.message is not None
    frame = Frame(variables, 0, PER_CALL_LIMIT, budget.deadline)
    value: Tree = None
    exceeded = False
    try:
        value = rule.message.run_in(frame)
    except TimeExceeded:
        raise
    except EvaluationError as error:
        exceeded = isinstance(error, BudgetExceeded)
    if frame.cost > budget.remaining:
        return None, _MESSAGE_OUT_OF_BUDGET
    budget.remaining -= frame.cost
    if exceeded:
        stop = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
        return None, f'{stop}: "{rule.source.get("messageExpression")}"'
    if not isinstance(value, str):
        return None, None
    value = value.strip()
    if not value or "\n" in value or len(value.encode()) > _MAX_MESSAGE_BYTES:
        return None, None
    return value, None


def _reason(path: str, value: object, detail: str, reason: str | None) -> FieldError:
    if reason == "FieldValueForbidden":
        return forbidden(path, detail)
    if reason == "FieldValueRequired":
        return required(path, detail)
    if reason == "FieldValueDuplicate":
        return duplicate(path, value)
    return invalid(path, value, detail)


def has_rules(schema: Schema | None) -> bool:
    """Whether there is any rule in the schema."""
    return anywhere(schema, lambda part: part.get("x-kubernetes-validations"))


def validator(schema: Schema | None, is_root: bool = True) -> RuleValidator | None:
    """The compiled rules of a schema, or None when it has none."""
    if schema is None or not has_rules(schema):
        return None
    return RuleValidator(schema, declare(schema, is_root), is_root)
