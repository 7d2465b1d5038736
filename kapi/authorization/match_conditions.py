"""The match conditions of authorization webhooks: CEL over the SubjectAccessReview's spec (KEP-3221).

Upstream: apiserver ``authorization/cel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from kapi import cel
from kapi.cel.types import BOOL, STRING, CelType, StructField, StructType, list_of, map_of
from kapi.machinery.field import FieldError, Path, duplicate, internal, invalid, required
from kapi.machinery.golang import aggregate
from kapi.machinery.tree import Object


def _struct(name: str, /, **fields: CelType) -> StructType:
    return StructType(name, {key: StructField(key, kind) for key, kind in fields.items()})


_REQUIREMENT = _struct("kubernetes.SelectorRequirement", key=STRING, operator=STRING, values=list_of(STRING))
_FIELDS, _LABELS = (
    _struct(f"kubernetes.{word}SelectorAttributes", rawSelector=STRING, requirements=list_of(_REQUIREMENT))
    for word in ("Field", "Label")
)
_RESOURCE = _struct(
    "kubernetes.ResourceAttributes",
    namespace=STRING,
    verb=STRING,
    group=STRING,
    version=STRING,
    resource=STRING,
    subresource=STRING,
    name=STRING,
    fieldSelector=_FIELDS,
    labelSelector=_LABELS,
)
_PATHS = _struct("kubernetes.NonResourceAttributes", path=STRING, verb=STRING)
_REQUEST = _struct(
    "kubernetes.SubjectAccessReviewSpec",
    resourceAttributes=_RESOURCE,
    nonResourceAttributes=_PATHS,
    user=STRING,
    groups=list_of(STRING),
    extra=map_of(STRING, list_of(STRING)),
    uid=STRING,
)
_TEXTS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_MAX_CONDITIONS = 64
_QUICK_BUDGET = 5_000  # cost of all conditions that are evaluated at once: some milliseconds


@cache
def _environment() -> cel.Environment:
    return cel.Environment({"request": _REQUEST}, structs=(_REQUIREMENT, _FIELDS, _LABELS, _RESOURCE, _PATHS, _REQUEST))


class CELConditions:
    """The conditions of one webhook, all of which must hold.  A false condition decides, even if others have errors."""

    def __init__(self, programs: Sequence[tuple[str, cel.Program]]) -> None:
        self.programs = tuple(programs)

    def quick(self, review: Object) -> bool | None:
        """``matches`` within a few milliseconds; None when it would take longer, or a condition has an error."""
        request, left = _request(review["spec"]), _QUICK_BUDGET
        for _, program in self.programs:
            try:
                value, cost = program.run({"request": request}, left)
            except cel.CelError:
                return None
            if value is not True:
                return False if value is False else None
            left -= cost
        return True

    def matches(self, review: Object) -> bool:
        """Raises ValueError when no condition is false and one has an error.  Each condition has the budget of one call."""
        request = _request(review["spec"])
        errors: list[str] = []
        for expression, program in self.programs:
            try:
                value = program.evaluate({"request": request})
            except cel.CelError as error:
                errors.append(f"cel evaluation error: expression '{expression}' resulted in error: {error}")
                continue
            if value is False:
                return False
        if errors:
            raise ValueError(aggregate(errors))
        return True


def _request(spec: Object) -> Object:
    """The spec with every string field, "" when it is absent, as the expressions expect."""
    request: Object = {
        "user": spec.get("user", ""),
        "groups": spec.get("groups") or spec.get("group") or [],
        "uid": spec.get("uid", ""),
        "extra": spec.get("extra") or {},
    }
    resource = spec.get("resourceAttributes")
    if resource is not None:
        request["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **resource}
        for key in ("fieldSelector", "labelSelector"):
            selector = request["resourceAttributes"].pop(key, None) or {}
            kept = next((name for name in ("rawSelector", "requirements") if selector.get(name)), None)
            if kept is not None:  # one of them, and nothing that is empty
                request["resourceAttributes"][key] = {kept: selector[kept]}
    paths = spec.get("nonResourceAttributes")
    if paths is not None:
        request["nonResourceAttributes"] = {"verb": paths.get("verb", ""), "path": paths.get("path", "")}
    return request


def compile_conditions(conditions: Sequence[Object], path: Path) -> tuple[CELConditions | None, list[FieldError]]:
    """The compiled conditions (None without any), and the errors in them."""
    errors: list[FieldError] = []
    programs: list[tuple[str, cel.Program]] = []
    root = path.child("matchConditions")
    if len(conditions) > _MAX_CONDITIONS:
        from kapi.machinery.field import too_many

        errors.append(too_many(root, len(conditions), _MAX_CONDITIONS))
        return None, errors
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        at, expression = root.index(position).child("expression"), str(condition.get("expression") or "")
        if not expression.strip():
            errors.append(required(at, ""))
            continue
        if expression in seen:
            errors.append(duplicate(at, expression))
            continue
        seen.add(expression)
        try:
            programs.append((expression, _environment().compile(expression, mismatch=_no_bool)))
        except cel.CompileErrors as error:
            errors.append(uncompilable(at, expression, error))
    return (CELConditions(programs) if programs else None), errors


def _no_bool(result: CelType) -> str:
    return "" if result == BOOL else f"must evaluate to bool but got {result}"


def uncompilable(path: Path, expression: str, error: cel.CompileErrors) -> FieldError:
    """The error of an expression in a configuration file."""
    if isinstance(error, cel.ProgramError):
        return internal(path, error.reason)
    return invalid(path, expression, error.reason)
