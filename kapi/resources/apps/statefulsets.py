"""StatefulSet (apps/v1): defaults, validation, strategy, table (upstream: ``apis/apps``, ``registry/apps/statefulset``)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.each import each, elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, equal
from kapi.resources.definition import SCALE, Resource, StrategyContext, type_meta
from kapi.resources.shared import selectors
from kapi.resources.shared.claims import default_claim_spec, validate_claim_spec
from kapi.resources.shared.features import gate
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_annotations, validate_labels
from kapi.resources.shared.names import is_dns1123_label, label_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import template_options, validate_pod_annotations, validate_pod_template
from kapi.resources.shared.podwarnings import claim_spec_warnings
from kapi.resources.shared.printing import AGE, NAME, column, table
from kapi.resources.shared.replicas import (
    ReplicasStrategy,
    count,
    number_of,
    plain,
    template_columns,
    template_warnings,
    validate_always_restart,
    validate_at_most_all,
    validate_at_most_replicas,
    validate_collisions,
    validate_counts,
    validate_fit,
    validate_int_or_percent,
    validate_selector,
)
from kapi.resources.shared.rules import Errors, need, not_supported, report, same
from kapi.resources.shared.strategies import PlainStatusStrategy

_SPEC, _STATUS = Path("spec"), Path("status")
_COUNTERS = (
    "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
    "collisionCount",
)  # fmt: skip
_MUTABLE = (
    "replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)  # fmt: skip
_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_HISTORY = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"


def _default_claim(claim: Object) -> None:
    claim.update(kind="PersistentVolumeClaim", apiVersion="v1")  # the client's values are replaced, as upstream
    claim.setdefault("metadata", {})
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


def _validate_strategy(strategy: Object, path: Path, errors: Errors) -> None:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    here = path.child("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            value = internal("RollingUpdateStatefulSetStrategy", rolling)
            errors.append(field.invalid(here, value, "only allowed for updateStrategy 'RollingUpdate'"))
    elif kind != "RollingUpdate":
        value = internal("StatefulSetUpdateStrategy", strategy)
        errors.append(field.invalid(path, value, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling is not None:
        validate_counts(rolling, here, errors, ("partition",))
        unavailable = rolling.get("maxUnavailable")
        if unavailable is not None:
            place = here.child("maxUnavailable")
            validate_int_or_percent(unavailable, place, errors)
            if number_of(unavailable) == 0:
                errors.append(field.invalid(place, unavailable, "cannot be 0"))
            validate_at_most_all(unavailable, place, errors)


def _validated_template(spec: Object) -> Object:
    """The template as it will be in pods: with volumes for the claims, and the names that the controller sets."""
    template = spec.get("template") or {}
    pod, claims = template.get("spec") or {}, spec.get("volumeClaimTemplates") or []
    if not (pod.get("subdomain") or pod.get("hostname") or claims):
        return template
    changed = {key: value for key, value in pod.items() if key not in ("subdomain", "hostname")}
    if claims:
        names = list(dict.fromkeys((claim.get("metadata") or {}).get("name", "") for claim in claims))
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in names]
        volumes += [volume for volume in elements(pod, "volumes") if volume.get("name", "") not in names]
        changed["volumes"] = volumes
    return {**template, "spec": changed}


def validate_spec(
    spec: Object, errors: Errors, options: PodOptions, *, update: bool = False, skip_template: bool = False
) -> None:
    policy = spec.get("podManagementPolicy", "")
    if need(policy, _SPEC, errors, "podManagementPolicy") and policy not in ("OrderedReady", "Parallel"):
        errors.append(field.invalid(_SPEC.child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'"))
    _validate_strategy(spec.get("updateStrategy") or {}, _SPEC.child("updateStrategy"), errors)
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    for part in ("whenDeleted", "whenScaled") if retention is not None else ():
        value = retention.get(part, "") if retention else ""
        if value not in ("Retain", "Delete"):
            here = _SPEC.child("persistentVolumeClaimRetentionPolicy", part)
            errors.append(not_supported(here, value, ("Retain", "Delete")))
    if not update:
        for claim, place in each(_SPEC.child("volumeClaimTemplates"), spec):
            validate_claim_spec(claim.get("spec") or {}, place.child("spec"), errors)
    validate_counts(spec, _SPEC, errors, ("replicas", "minReadySeconds"))
    start = (spec.get("ordinals") or {}).get("start", 0)
    if start < 0:
        errors.append(field.invalid(_SPEC.child("ordinals.start"), start, "must be greater than or equal to 0"))
    service = spec.get("serviceName")
    report(is_dns1123_label(service) if service and not update else (), service, _SPEC, errors, "serviceName")
    selector = spec.get("selector")
    validate_selector(selector, _SPEC.child("selector"), errors, "statefulset")
    if selector is not None and not selectors.is_convertible(selector):
        errors.append(field.invalid(_SPEC.child("selector"), selector, ""))
    else:
        _validate_template(spec, selector, errors, options, skip_template)
    validate_always_restart(spec.get("template") or {}, _SPEC.child("template"), errors, "StatefulSet")


def _validate_template(spec: Object, selector: Object | None, errors: Errors, options: PodOptions, skip: bool) -> None:
    template, here = _validated_template(spec), _SPEC.child("template")
    validate_fit(selector, template, here, errors)
    if not skip:
        validate_pod_template(template, here, errors, options)
    metadata = template.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    validate_labels(metadata.get("labels") or {}, here.child("labels"), errors)  # upstream checks these twice
    validate_annotations(annotations, here.child("annotations"), errors)
    validate_pod_annotations(annotations, template.get("spec") or {}, here.child("annotations"), errors, options)


class StatefulSetStrategy(ReplicasStrategy):
    name_rule = staticmethod(label_name)
    empty_status = {"replicas": 0, "availableReplicas": 0}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == "RollingUpdate" and rolling is not None:
            rolling.setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for part in ("whenDeleted", "whenScaled"):
            retention[part] = retention.get(part) or "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("serviceName", "")
        default_pod_template(spec.setdefault("template", {}))
        for claim in elements(spec, "volumeClaimTemplates"):
            _default_claim(claim)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        super().prepare(obj, old, ctx)
        rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate")
        before = ((old or {}).get("spec", {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
        if not gate(ctx, "MaxUnavailableStatefulSet") and before.get("maxUnavailable") is None and rolling:
            rolling.pop("maxUnavailable", None)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_spec(obj["spec"], errors, template_options(ctx))

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        spec, before = obj["spec"], old["spec"]
        found: Errors = []
        if not equal(spec.get("template"), before.get("template")):
            validate_spec(before, found, template_options(ctx, before.get("template")), update=True)
        options = template_options(ctx, before.get("template"))
        validate_spec(spec, errors, options, update=True, skip_template=bool(found))
        if any(not same(spec.get(key), before.get(key)) for key in {*spec, *before}.difference(_MUTABLE)):
            errors.append(field.forbidden(_SPEC, _FORBIDDEN))

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return template_warnings(obj["spec"].get("template")) + self._spec_warnings(obj, ())

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        warnings: list[str] = []
        if obj["metadata"].get("generation") != old["metadata"].get("generation"):
            warnings = template_warnings(obj["spec"].get("template"))
        return warnings + self._spec_warnings(obj, ("Spec",))

    @staticmethod
    def _spec_warnings(obj: Object, below: tuple[str, ...]) -> list[str]:
        warnings: list[str] = []
        for claim, place in each(_SPEC.child("volumeClaimTemplates"), obj["spec"]):
            here = place.child(*below)
            warnings += claim_spec_warnings(claim.get("spec") or {}, here)
        if obj["spec"].get("revisionHistoryLimit", 0) < 0:
            warnings.append(_HISTORY)
        return warnings


class StatefulSetStatusStrategy(PlainStatusStrategy):
    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[field.FieldError]:
        status = obj.get("status") or {}
        errors: Errors = []
        validate_counts(status, _STATUS, errors, _COUNTERS)
        limited = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        validate_at_most_replicas(status, _STATUS, errors, limited, "cannot be greater than status.readyReplicas")
        errors += super().validate_update(obj, old, ctx)
        validate_collisions(status, old.get("status") or {}, _STATUS, errors)
        return errors


RESOURCE = Resource(
    *type_meta("apps/v1", "StatefulSet"),
    short_names=("sts",),
    categories=("all",),
    subresources=(SCALE,),
    strategy=StatefulSetStrategy(),
    status=StatefulSetStatusStrategy,
    table=table(
        NAME,
        column(
            "Ready",
            plain("{}/{}", count("status", "readyReplicas"), count("spec", "replicas")),
            "Number of the pod with ready state",
        ),
        AGE,
        *template_columns("spec", "template"),
    ),
)
