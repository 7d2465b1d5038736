"""DaemonSet (apps/v1): defaults, validation, strategy, table (upstream: ``pkg/apis/apps``, ``pkg/registry/apps/daemonset``).

The template's generation is a field of upstream's internal type; in the API, and here, it is an annotation.
"""

from __future__ import annotations

from msgspec.structs import replace

from kapi.codecs.reading import DecodingError
from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, equal
from kapi.resources.definition import FieldText, Resource, StrategyContext, type_meta
from kapi.resources.shared import selectors
from kapi.resources.shared.internal import internal
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import template_options, validate_pod_template
from kapi.resources.shared.printing import AGE, NAME, column, field_column, labels, table, without_annotation
from kapi.resources.shared.replicas import (
    SELECTOR,
    ReplicasStatusStrategy,
    ReplicasStrategy,
    number_of,
    parse_int,
    template_columns,
    template_warnings,
    validate_always_restart,
    validate_at_most_all,
    validate_counts,
    validate_fit,
    validate_fixed_selector,
    validate_int_or_percent,
)
from kapi.resources.shared.rules import Errors, not_supported, same

GENERATION = "deprecated.daemonset.template.generation"
_SPEC = Path("spec")
_COUNTERS = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
    "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
)  # fmt: skip


def template_generation(obj: Object) -> int:
    """The generation in the annotation; 0 without one.  Raises DecodingError when it is not a number."""
    text = (obj["metadata"].get("annotations") or {}).get(GENERATION)
    if text is None:
        return 0
    try:
        return parse_int(text)
    except ValueError as error:
        message = f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {error}'
        raise DecodingError(message, str(error)) from None


def _set_generation(obj: Object, generation: int) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, GENERATION: str(generation)}


def _validate_rolling(rolling: Object, path: Path, errors: Errors) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for rule in (validate_int_or_percent, validate_at_most_all):
        rule(unavailable, path.child("maxUnavailable"), errors)
        rule(surge, path.child("maxSurge"), errors)
    if number_of(unavailable) and number_of(surge):
        errors.append(field.invalid(path.child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_of(unavailable) and not number_of(surge):
        errors.append(field.required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))


def _validate_strategy(strategy: Object, path: Path, errors: Errors) -> None:
    kind = strategy.get("type", "")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        value = internal("DaemonSetUpdateStrategy", strategy)
        errors.append(not_supported(path, value, ("RollingUpdate", "OnDelete")))
    else:  # defaults have set the numbers
        _validate_rolling(strategy["rollingUpdate"], path.child("rollingUpdate"), errors)


class DaemonSetStrategy(ReplicasStrategy):
    generation_parts = ()
    fixed_selector = False  # because it is checked first
    empty_status = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("updateStrategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("maxUnavailable", 1)
        rolling = strategy.get("rollingUpdate")
        if rolling is not None:  # the internal type has no absent numbers
            rolling.setdefault("maxUnavailable", 0)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_pod_template(spec.setdefault("template", {}))
        metadata = obj.setdefault("metadata", {})
        generation = template_generation(obj)
        if (metadata.get("annotations") or {}).get(GENERATION) != str(generation):
            _set_generation(obj, generation)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        obj["metadata"]["generation"] = 1
        _set_generation(obj, max(template_generation(obj), 1))

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(obj, old, ctx)
        generation = template_generation(old)
        if not same(obj["spec"].get("template"), old["spec"].get("template")):
            generation += 1
        if not equal(obj["spec"], old["spec"]):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        _set_generation(obj, generation)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        options = template_options(ctx, None if old is None else old["spec"].get("template"))
        if old is not None:
            options.allow_invalid_selector_values |= selectors.has_invalid_values(old["spec"].get("selector"))
            validate_fixed_selector(obj, old, errors)
        selector, template, here = spec.get("selector"), spec.get("template") or {}, _SPEC.child("template")
        selectors.validate_label_selector(
            selector, _SPEC.child("selector"), errors, allow_invalid_values=options.allow_invalid_selector_values
        )
        if selector is None or selectors.is_convertible(selector):
            validate_fit(selector, template, here, errors)
        if selector is not None and selectors.is_empty(selector):
            errors.append(field.invalid(_SPEC.child("selector"), selector, "empty selector is invalid for daemonset"))
        validate_pod_template(template, here, errors, options)
        validate_always_restart(template, here, errors, "DaemonSet")
        validate_counts(spec, _SPEC, errors, ("minReadySeconds",))
        _validate_strategy(spec.get("updateStrategy") or {}, _SPEC.child("updateStrategy"), errors)
        validate_counts(spec, _SPEC, errors, ("revisionHistoryLimit",))

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return template_warnings(obj["spec"].get("template"))

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if template_generation(obj) == template_generation(old):
            return []
        return template_warnings(obj["spec"].get("template"))


class DaemonSetStatusStrategy(ReplicasStatusStrategy):
    counters = _COUNTERS
    limited = ()

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare(obj, old, ctx)
        _set_generation(obj, template_generation(old))  # a part of the spec upstream


RESOURCE = Resource(
    *type_meta("apps/v1", "DaemonSet"),
    short_names=("ds",),
    categories=("all",),
    strategy=DaemonSetStrategy(),
    status=DaemonSetStatusStrategy,
    table=replace(
        table(
            NAME,
            field_column("Desired", ".status.desiredNumberScheduled", empty=0, type="integer"),
            field_column("Current", ".status.currentNumberScheduled", empty=0, type="integer"),
            field_column("Ready", ".status.numberReady", empty=0, type="integer"),
            field_column("Up-to-date", ".status.updatedNumberScheduled", empty=0, type="integer"),
            field_column("Available", ".status.numberAvailable", empty=0, type="integer"),
            column(
                "Node Selector",
                lambda obj, now: labels((obj["spec"].get("template") or {}).get("spec", {}).get("nodeSelector")),
                FieldText("api.core.v1.PodSpec", "nodeSelector"),
            ),
            AGE,
            *template_columns("spec", "template"),
            SELECTOR,
            of="api.apps.v1.DaemonSet",
        ),
        view=without_annotation(GENERATION),
    ),
)
