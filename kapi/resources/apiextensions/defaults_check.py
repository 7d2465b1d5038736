"""Defaults in a schema must be valid values themselves (upstream: apiextensions ``schema/defaulting/validation.go``)."""

from __future__ import annotations

from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.golang import aggregate
from kapi.machinery.tree import Tree, copy
from kapi.resources.apiextensions.embedded import coerce, metadata_errors
from kapi.schema.structural.correlation import ABSENT
from kapi.schema.structural.pruning import prune, root
from kapi.schema.structural.rules import Budget, validator
from kapi.schema.structural.structure import Schema, embedded
from kapi.schema.structural.values import value_errors

_META = ("metadata", "apiVersion", "kind")


def default_errors(path: Path, schema: Schema, require_pruned: bool) -> list[FieldError]:
    """Errors of every default of a whole object's schema."""
    errors: list[FieldError] = []
    whole = root(schema)
    _walk(path, whole, whole, (), False, require_pruned, errors)
    return errors


def _walk(
    path: Path,
    schema: Schema,
    top: Schema,
    steps: tuple[str | int, ...],
    inside_meta: bool,
    require_pruned: bool,
    errors: list[FieldError],
) -> None:
    if embedded(schema):
        inside_meta, top, steps = False, schema, ()
    value = schema.get("default")
    if value is not None:
        at = path.child("default")
        if inside_meta:
            _in_metadata(at, value, schema, top, steps, errors)
        else:
            _plain(at, value, schema, require_pruned, errors)
    items = schema.get("items")
    if isinstance(items, dict):
        _walk(path.child("items"), items, top, (*steps, 0), inside_meta, require_pruned, errors)
    for name, prop in (schema.get("properties") or {}).items():
        below = inside_meta or (embedded(schema) and name in _META)
        _walk(path.child("properties").key(name), prop, top, (*steps, name), below, require_pruned, errors)


def _in_metadata(
    at: Path, value: object, schema: Schema, top: Schema, steps: tuple[str | int, ...], errors: list[FieldError]
) -> None:
    obj: Tree = copy(value)
    for step in reversed(steps):
        obj = [obj] if step == 0 else {step: obj}
    if not isinstance(obj, dict):
        return
    obj.setdefault("kind", "Validation")
    obj.setdefault("apiVersion", "validation/v1")
    problem = coerce(Path(""), obj, root(top), drop=False)
    if problem is not None:
        errors.append(invalid(at, value, f"must result in valid metadata: {problem}"))
        return
    problems = metadata_errors(Path(""), obj, top, is_root=True)
    if problems:
        shown = aggregate(map(str, problems))
        errors.append(invalid(at, value, f"must result in valid metadata: {shown}"))
        return
    errors.extend(value_errors(value, schema, at, either=False) or _rule_errors(at, value, schema))


def _plain(at: Path, value: object, schema: Schema, require_pruned: bool, errors: list[FieldError]) -> None:
    if require_pruned:
        pruned = copy(value)
        prune(pruned, schema, embedded(schema))
        if pruned != value:
            errors.append(invalid(at, value, "must not have unknown fields"))
    shaped = copy(value)
    problem = coerce(at, shaped, schema, drop=False)
    if problem is not None:
        errors.append(problem)
        return
    problems = metadata_errors(at, shaped, schema, is_root=embedded(schema))
    errors.extend(problems or value_errors(value, schema, at, either=False) or _rule_errors(at, value, schema))


def _rule_errors(at: Path, value: object, schema: Schema) -> list[FieldError]:
    rules = validator(schema, embedded(schema))
    if rules is None:
        return []
    found = rules.validate(at, value, value, Budget())
    return found or rules.validate(at, value, ABSENT, Budget())
