"""Deployment (apps/v1): defaults, validation, strategy, table (upstream: ``pkg/apis/apps``, ``pkg/registry/apps/deployment``)."""

from __future__ import annotations

from msgspec.structs import replace

from kapi.codecs.reading import DecodingError
from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object
from kapi.resources.definition import SCALE, Resource, StrategyContext, type_meta
from kapi.resources.shared.internal import internal
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import template_options
from kapi.resources.shared.printing import AGE, NAME, column, field_column, table, without_annotation
from kapi.resources.shared.replicas import (
    NOT_NEGATIVE,
    ReplicasStatusStrategy,
    ReplicasStrategy,
    count,
    number_of,
    parse_int,
    plain,
    template_columns,
    validate_at_most_all,
    validate_counts,
    validate_int_or_percent,
    validate_selector,
    validate_template_for_replicas,
)
from kapi.resources.shared.rules import Errors, not_supported, same
from kapi.resources.shared.selectors import is_convertible
from kapi.resources.shared.strategies import keep

_SPEC = Path("spec")

ROLLBACK = "deprecated.deployment.rollback.to"
_VIEW = without_annotation(ROLLBACK)


def _rollback(obj: Object) -> int | None:
    """The revision to roll back to, a field of upstream's internal type.  Raises DecodingError when it is not a number."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(ROLLBACK)
    if not text:
        return None
    try:
        return parse_int(text)
    except ValueError as error:
        cause = f"failed to parse annotation[{ROLLBACK}]={text} as int64: {error}"
        raise DecodingError(f'Deployment in version "v1" cannot be handled as a Deployment: {cause}', cause) from None


def default_deployment(obj: Object) -> None:
    revision = _rollback(obj)
    if revision is not None:
        obj["metadata"]["annotations"] = {**obj["metadata"]["annotations"], ROLLBACK: str(revision)}
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_pod_template(spec.setdefault("template", {}))


def _validate_strategy(strategy: Object, path: Path, errors: Errors) -> None:
    kind = strategy.get("type", "")
    if kind == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(field.forbidden(path.child("rollingUpdate"), text))
    elif kind != "RollingUpdate":
        value = internal("DeploymentStrategy", strategy)
        errors.append(not_supported(path, value, ("Recreate", "RollingUpdate")))
    else:  # defaults have set the numbers
        here, rolling = path.child("rollingUpdate"), strategy["rollingUpdate"]
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        validate_int_or_percent(unavailable, here.child("maxUnavailable"), errors)
        validate_int_or_percent(surge, here.child("maxSurge"), errors)
        if number_of(unavailable) == 0 and number_of(surge) == 0:
            errors.append(field.invalid(here.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
        validate_at_most_all(unavailable, here.child("maxUnavailable"), errors)


class DeploymentStrategy(ReplicasStrategy):
    empty_status = {}

    def default(self, obj: Object) -> None:
        default_deployment(obj)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(obj, old, ctx)
        if not same(obj["metadata"].get("annotations"), old["metadata"].get("annotations")):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        if spec.get("replicas", 0) < 0:
            errors.append(field.invalid(_SPEC.child("replicas"), spec["replicas"], NOT_NEGATIVE))
        validate_selector(spec.get("selector"), _SPEC.child("selector"), errors, "deployment")
        options = template_options(ctx, None if old is None else old["spec"].get("template"))
        validate_template_for_replicas(spec, _SPEC, errors, options)
        _validate_strategy(spec.get("strategy") or {}, _SPEC.child("strategy"), errors)
        validate_counts(spec, _SPEC, errors, ("minReadySeconds", "revisionHistoryLimit"))
        revision = _rollback(obj)
        if revision is not None and revision < 0:
            errors.append(field.invalid(_SPEC.child("rollback", "version"), revision, NOT_NEGATIVE))
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            here = _SPEC.child("progressDeadlineSeconds")
            if deadline < 0:
                errors.append(field.invalid(here, deadline, NOT_NEGATIVE))
            if deadline <= spec.get("minReadySeconds", 0):
                errors.append(field.invalid(here, deadline, "must be greater than minReadySeconds"))


class DeploymentStatusStrategy(ReplicasStatusStrategy):
    counters = (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas",
        "terminatingReplicas", "collisionCount",
    )  # fmt: skip
    limited = ("updatedReplicas", "readyReplicas", "availableReplicas")
    reset_fields = ("spec", "metadata.labels")

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare(obj, old, ctx)
        keep(obj["metadata"], old["metadata"], "labels")


def _selector(obj: Object, now: float) -> str:
    selector = obj["spec"].get("selector")
    if selector is not None and not is_convertible(selector):
        return "<invalid>"
    return selector_text(selector)


RESOURCE = Resource(
    *type_meta("apps/v1", "Deployment"),
    short_names=("deploy",),
    categories=("all",),
    subresources=(SCALE,),
    strategy=DeploymentStrategy(),
    status=DeploymentStatusStrategy,
    table=replace(
        table(
            NAME,
            column(
                "Ready",
                plain("{}/{}", count("status", "readyReplicas"), count("spec", "replicas")),
                "Number of the pod with ready state",
            ),
            field_column("Up-to-date", ".status.updatedReplicas", empty=0),
            field_column("Available", ".status.availableReplicas", empty=0),
            AGE,
            *template_columns("spec", "template"),
            column("Selector", _selector, ".spec.selector", priority=1),
            of="api.apps.v1.Deployment",
        ),
        view=_VIEW,
    ),
)
