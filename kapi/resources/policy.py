"""PodDisruptionBudget (policy/v1): validation, strategy, table (upstream: ``pkg/apis/policy``, ``pkg/registry/policy``)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import selectors
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.printing import AGE, NAME, Reader, column, table
from kapi.resources.shared.replicas import count, validate_at_most_all, validate_counts, validate_int_or_percent
from kapi.resources.shared.rules import Errors, not_supported
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC, _STATUS = Path("spec"), Path("status")
_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_spec(spec: Object, errors: Errors, *, allow_invalid_values: bool = False) -> None:
    bounds = [part for part in ("minAvailable", "maxUnavailable") if spec.get(part) is not None]
    if len(bounds) == 2:
        text = "minAvailable and maxUnavailable cannot be both set"
        errors.append(field.invalid(_SPEC, internal("PodDisruptionBudgetSpec", spec), text))
    for part in bounds:
        validate_int_or_percent(spec[part], _SPEC.child(part), errors)
        validate_at_most_all(spec[part], _SPEC.child(part), errors)
    selectors.validate_label_selector(
        spec.get("selector"), _SPEC.child("selector"), errors, allow_invalid_values=allow_invalid_values
    )
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported(_SPEC.child("unhealthyPodEvictionPolicy"), policy, _POLICIES))


class DisruptionBudgetStrategy(PlainStrategy):
    allow_unconditional_update = False
    reset_fields = ("status",)
    generation_parts = ("spec",)
    empty_status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []  # upstream checks metadata only by the rules for any type
        validate_spec(obj["spec"], errors)
        return errors

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        found: Errors = []
        selectors.validate_label_selector(old["spec"].get("selector"), _SPEC, found)
        errors: list[FieldError] = []
        validate_spec(obj["spec"], errors, allow_invalid_values=bool(found))
        return errors


class DisruptionBudgetStatusStrategy(PlainStatusStrategy):
    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        status = obj.get("status") or {}
        validate_conditions(status.get("conditions") or [], _STATUS.child("conditions"), errors)
        validate_counts(status, _STATUS, errors, _COUNTERS)
        return errors


def _bound(part: str) -> Reader:
    def read(obj: Object, now: float) -> str:
        value = obj["spec"].get(part)
        return "N/A" if value is None else str(value)

    return read


POD_DISRUPTION_BUDGET = Resource(
    *type_meta("policy/v1", "PodDisruptionBudget"),
    short_names=("pdb",),
    strategy=DisruptionBudgetStrategy(),
    status=DisruptionBudgetStatusStrategy,
    table=table(
        NAME,
        column("Min Available", _bound("minAvailable"), "The minimum number of pods that must be available."),
        column("Max Unavailable", _bound("maxUnavailable"), "The maximum number of pods that may be unavailable."),
        column(
            "Allowed Disruptions",
            count("status", "disruptionsAllowed"),
            "Calculated number of pods that may be disrupted at this time.",
            "integer",
        ),
        AGE,
    ),
)
