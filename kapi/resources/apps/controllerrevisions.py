"""ControllerRevision (apps/v1): validation, strategy, table (upstream: ``pkg/registry/apps/controllerrevision``)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.machinery.raw import member_text, text_of
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.printing import AGE, NAME, NONE, column, table
from kapi.resources.shared.replicas import count, validate_counts
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_DATA, _ROOT = Path("data"), Path("")


class ControllerRevisionStrategy(PlainStrategy):
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_counts(obj, _ROOT, errors, ("revision",))
        if old is not None:
            # bytes are compared, as upstream: a patch may change them without a change of the value, as it encodes JSON again
            before = member_text(ctx.stored, "data") if ctx.stored else None
            if before is not None and before != text_of(obj.get("data")):
                errors.append(field.invalid(_DATA, obj.get("data"), "field is immutable"))
            elif before is None:
                validate_immutable(obj.get("data"), old.get("data"), _DATA, errors)
        elif obj.get("data") is None:
            errors.append(field.required(_DATA, "data is mandatory"))
        elif not isinstance(obj["data"], dict):
            errors.append(field.required(_DATA, "data must be a valid JSON object"))


def _controller(obj: Object, now: float) -> str:
    for owner in elements(obj["metadata"], "ownerReferences"):
        if owner.get("controller"):
            group, slash, _ = owner.get("apiVersion", "").partition("/")
            kind = owner.get("kind", "").lower()
            return f"{kind}{'.' + group if slash else ''}/{owner.get('name', '')}"
    return NONE


RESOURCE = Resource(
    *type_meta("apps/v1", "ControllerRevision"),
    strategy=ControllerRevisionStrategy(),
    table=table(
        NAME,
        column("Controller", _controller, "Controller of the object"),
        column("Revision", count("revision"), ".revision"),
        AGE,
        of="api.apps.v1.ControllerRevision",
    ),
)
