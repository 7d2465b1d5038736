"""Pod (v1): strategies of the pod and of its subresources, table, selectable fields (upstream: ``pkg/registry/core/pod``)."""

from __future__ import annotations

from kapi.machinery import field, tree
from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Object
from kapi.resources.core import pod_printing
from kapi.resources.core.pod_status import drop_disabled_status, validate_pod_status
from kapi.resources.core.pod_update import (
    prepare_resize,
    validate_ephemeral_update,
    validate_pod_resize,
    validate_pod_update,
)
from kapi.resources.definition import Resource, Strategy, StrategyContext, Subresource, selectable, type_meta
from kapi.resources.shared.addresses import ip_warnings
from kapi.resources.shared.affinity import pod_terms
from kapi.resources.shared.compute import qos_class
from kapi.resources.shared.containers import validate_image
from kapi.resources.shared.features import gate
from kapi.resources.shared.gated import drop_disabled_fields
from kapi.resources.shared.metadata import METADATA, validate_metadata, validate_metadata_update
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.poddefaults import default_pod, name_service_account
from kapi.resources.shared.podspec import validate_pod_spec
from kapi.resources.shared.podtemplate import APP_ARMOR, relax, validate_pod_annotations, validate_profiles_match
from kapi.resources.shared.podwarnings import app_armor_field, pod_warnings
from kapi.resources.shared.replicas import hostname_warning
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.security import app_armor, containers_with_paths
from kapi.resources.shared.strategies import keep, keep_metadata

_SPEC, _ROOT = Path("spec"), Path("")
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


def _options(ctx: StrategyContext, old: Object | None = None) -> PodOptions:
    options = PodOptions(ctx)
    if old is not None:
        relax(options, old["spec"], old["metadata"])
    return options


def _validate_whole(pod: Object, errors: Errors, options: PodOptions) -> None:
    """The rules for the metadata and spec of all pods."""
    metadata, spec = pod["metadata"], pod["spec"]
    validate_metadata(pod, errors)
    annotations = metadata.get("annotations")
    if annotations:
        validate_pod_annotations(annotations, spec, METADATA.child("annotations"), errors, options)
    validate_pod_spec(spec, _SPEC, errors, options, metadata)
    if not spec.get("serviceAccountName"):
        for volume, place in each(_SPEC.child("volumes"), spec):
            for j, source in enumerate(elements(volume, "projected", "sources")):
                if source.get("serviceAccountToken") is not None:
                    here = place.child("projected", "sources").index(j)
                    text = "must not be specified when serviceAccountName is not set"
                    errors.append(field.forbidden(here.child("serviceAccountToken"), text))
    for part in ("containers", "initContainers"):
        for container, place in each(_SPEC.child(part), spec):
            validate_image(container, place, errors)


def _merge_label_keys(spec: Object, labels: Object, spread: bool) -> None:
    """Adds the pod's own labels to the selectors that name their keys (matchLabelKeys, mismatchLabelKeys)."""
    terms = pod_terms(spec.get("affinity"))
    terms += (spec.get("topologySpreadConstraints") or ()) if spread else ()
    for term in terms:
        selector = term.get("labelSelector")
        if selector is None:
            continue
        for part, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in elements(term, part):
                if key in labels:
                    expression = {"key": key, "operator": operator, "values": [labels[key]]}
                    selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), expression]


def _set_app_armor_profiles(pod: Object, warnings: list[str]) -> None:
    """Sets AppArmor profiles from the deprecated annotations of containers without one, and warns of them."""
    annotations, spec = pod["metadata"].get("annotations") or {}, pod["spec"]
    if not any(key.startswith(APP_ARMOR) for key in annotations) or (spec.get("os") or {}).get("name") == "windows":
        return
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, _ in elements(containers_with_paths(spec, _SPEC)):
        key = APP_ARMOR + container.get("name", "")
        context = container.get("securityContext") or {}
        if key not in annotations or context.get("appArmorProfile") is not None:
            continue
        profile = _profile(annotations[key])
        if profile is not None and profile == whole:
            continue
        if profile is not None:
            container["securityContext"] = {**context, "appArmorProfile": profile}
        place = METADATA.child("annotations").key(key)
        warnings.append(f'{place}: deprecated since v1.30; use the "appArmorProfile" field instead')


def _profile(annotation: str) -> Object | None:
    """The valid profile of an annotation."""
    profile = app_armor_field(annotation)
    errors: Errors = []
    if profile is not None:
        app_armor(profile, _ROOT, errors, None)
    return None if errors else profile


def _raise_generation(pod: Object, old: Object) -> None:
    if not tree.equal(pod["spec"], old["spec"]):
        pod["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


class PodStrategy(Strategy):
    reset_fields: tuple[str, ...] = ("status",)
    covers_metadata = covers_metadata_changes = True

    def default(self, obj: Object) -> None:
        default_pod(obj)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        drop_disabled_fields(spec, None, ctx)
        name_service_account(spec)
        obj["metadata"]["generation"] = 1
        pod_level = gate(ctx, "PodLevelResources")
        own = (obj.get("status") or {}).get("qosClass")
        status: Object = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": ctx.now or None,
                    "reason": "SchedulingGated",
                    "message": _GATED,
                }
            ]
        status["qosClass"] = own or qos_class(spec, pod_level)
        obj["status"] = status
        if spec.get("affinity") or spec.get("topologySpreadConstraints"):
            spread = gate(ctx, "MatchLabelKeysInPodTopologySpreadSelectorMerge")
            _merge_label_keys(spec, obj["metadata"].get("labels") or {}, spread)
        _set_app_armor_profiles(obj, ctx.warnings)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        options, spec = _options(ctx), obj["spec"]
        _validate_whole(obj, errors, options)
        if spec.get("ephemeralContainers"):
            errors.append(field.forbidden(_SPEC.child("ephemeralContainers"), "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            text = "cannot be set until all schedulingGates have been cleared"
            errors.append(field.forbidden(_SPEC.child("nodeName"), text))
        annotations = obj["metadata"].get("annotations")
        if annotations:
            validate_profiles_match(annotations, spec, _SPEC, errors)
        return errors

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        text = "this is used in the Pod's hostname, which can result in surprising behavior; "
        return hostname_warning(obj, text) + pod_warnings(obj["spec"], obj["metadata"], _ROOT)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        drop_disabled_fields(obj["spec"], old["spec"], ctx)
        name_service_account(obj["spec"])
        keep(obj, old, "status")
        _raise_generation(obj, old)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        options = _options(ctx, old)
        validate_metadata_update(obj, old, errors)
        _validate_whole(obj, errors, options)
        validate_pod_update(obj, old, errors, options)
        return errors

    def graceful_delete(self, obj: Object, options: Object, ctx: StrategyContext) -> int | None:
        period = options.get("gracePeriodSeconds")
        if period is None:
            period = obj["spec"].get("terminationGracePeriodSeconds") or 0
        if not obj["spec"].get("nodeName"):
            period = 0
        if (obj.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            period = 0
        return 1 if period < 0 else int(period)


class _PodPartStrategy(PodStrategy):
    """A subresource that writes one part of a pod."""

    reset_fields: tuple[str, ...] = ()

    def default(self, obj: Object) -> None:
        default_pod(obj)


class PodStatusStrategy(_PodPartStrategy):
    reset_fields = ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        keep(obj, old, "spec")
        keep(obj["metadata"], old["metadata"], "deletionTimestamp")
        keep(obj["metadata"], old["metadata"], "ownerReferences")
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        _keep_observed(status, before)
        drop_disabled_status(status, before, ctx)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        validate_metadata_update(obj, old, errors)
        validate_pod_status(obj, old, errors, _options(ctx, old))
        return errors

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        warnings: list[str] = []
        for name in ("podIPs", "hostIPs"):
            for entry, here in each_of(Path("status").child(name), (obj.get("status") or {}).get(name)):
                warnings += ip_warnings(here.child("ip"), entry.get("ip", ""))
        return warnings


def _keep_observed(status: Object, before: Object) -> None:
    """Keeps observed generations when the client does not send any."""
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in elements(before, "conditions"):
        known.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in elements(status, "conditions"):
        observed = known.get(condition.get("type", ""))
        generation = observed.pop(0) if observed else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


class _SpecPartStrategy(_PodPartStrategy):
    """A subresource that changes a part of the spec, and thereby the generation."""

    def prepare_part(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        """Undoes all changes outside of the part."""
        raise NotImplementedError

    def validate_part(self, obj: Object, old: Object, errors: list[FieldError], options: PodOptions) -> None:
        """Appends the errors of the rules for the part."""
        raise NotImplementedError

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        self.prepare_part(obj, old, ctx)
        keep(obj, old, "status")
        keep_metadata(obj, old)
        _raise_generation(obj, old)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        options = _options(ctx, old)
        validate_metadata_update(obj, old, errors)
        _validate_whole(obj, errors, options)
        self.validate_part(obj, old, errors, options)
        return errors


class EphemeralContainersStrategy(_SpecPartStrategy):
    def prepare_part(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        added = obj["spec"].get("ephemeralContainers")
        obj["spec"] = tree.copy(old["spec"])
        obj["spec"].pop("ephemeralContainers", None)
        if added:
            obj["spec"]["ephemeralContainers"] = added
        drop_disabled_fields(obj["spec"], old["spec"], ctx)

    def validate_part(self, obj: Object, old: Object, errors: list[FieldError], options: PodOptions) -> None:
        validate_ephemeral_update(obj, old, errors, options)


class ResizeStrategy(_SpecPartStrategy):
    def prepare_part(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        prepare_resize(obj, tree.copy(old))

    def validate_part(self, obj: Object, old: Object, errors: list[FieldError], options: PodOptions) -> None:
        validate_pod_resize(obj, old, errors, options)


def _pod_ip(pod: Object) -> str:
    addresses = (pod.get("status") or {}).get("podIPs")
    return str(addresses[0].get("ip", "")) if addresses else ""


STRATEGY = PodStrategy()

RESOURCE = Resource(
    *type_meta("v1", "Pod"),
    returns_deleted=True,
    graceful=True,
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("attach", ("create", "get"), kind="PodAttachOptions", handler="attach"),
        Subresource("binding", ("create",), kind="Binding", handler="binding"),
        Subresource("ephemeralcontainers", strategy=EphemeralContainersStrategy(), tabular=False),  # fmt: skip
        Subresource("eviction", ("create",), group="policy", version="v1", kind="Eviction", handler="eviction"),
        Subresource("exec", ("create", "get"), kind="PodExecOptions", handler="exec"),
        Subresource("log", ("get",), handler="log"),
        Subresource("portforward", ("create", "get"), kind="PodPortForwardOptions", handler="portforward"),
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="PodProxyOptions", handler="proxy"),
        Subresource("resize", strategy=ResizeStrategy(), tabular=False),
        Subresource("status", strategy=PodStatusStrategy()),
    ),
    strategy=STRATEGY,
    table=pod_printing.TABLE,
    selectable_fields={
        "spec.nodeName": selectable("spec.nodeName"),
        "spec.restartPolicy": selectable("spec.restartPolicy"),
        "spec.schedulerName": selectable("spec.schedulerName"),
        "spec.serviceAccountName": selectable("spec.serviceAccountName"),
        "spec.hostNetwork": lambda pod: "true" if pod["spec"].get("hostNetwork") else "false",
        "status.phase": selectable("status.phase"),
        "status.podIP": _pod_ip,
        "status.podIPs": lambda pod: "",  # supported, but no pod matches a value, as upstream
        "status.nominatedNodeName": selectable("status.nominatedNodeName"),
        "spec.host": selectable("spec.nodeName"),
    },
)

BINDING = Resource("", "v1", "Binding", verbs=("create",), handler="bindings")
