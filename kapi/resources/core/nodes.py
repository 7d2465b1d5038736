"""Node (v1), and its annotations with JSON, which are older than the fields for the same data.

Upstream: ``pkg/apis/core/validation`` (ValidateNode, ValidateNodeSpecificAnnotations), ``pkg/registry/core/node``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from kapi.machinery.each import each, elements, entries
from kapi.machinery.field import ErrorType, FieldError, Path, duplicate, forbidden, internal, invalid, required
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import FieldText, Resource, StrategyContext, Subresource, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_cidr_legacy, cidr_warnings, parse_network
from kapi.resources.shared.affinity import EFFECTS
from kapi.resources.shared.go_json import value_error
from kapi.resources.shared.internal import internal as go_form
from kapi.resources.shared.metadata import validate_label_name, validate_metadata, validate_metadata_update
from kapi.resources.shared.names import is_config_map_key, is_label_value, label_name, subdomain_name
from kapi.resources.shared.resource_names import check_resource_quantity, round_resource_list
from kapi.resources.shared.rules import Errors, check, need, present, report_once, supported
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy, keep

ValidateTaints = Callable[[list[Object], Path, Errors], None]
TAINTS = "scheduler.alpha.kubernetes.io/taints"
AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_PATH = Path("metadata").child("annotations")
_META, _SPEC, _STATUS = Path("metadata"), Path("spec"), Path("status")
_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*")
_CIDR_FIXED = 'node updates may not change podCIDR except from "" to valid'
_ROLE_LABEL, _OLD_ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def validate_node_annotations(node: Object, validate_taints: ValidateTaints, errors: Errors) -> None:
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    if annotations.get(TAINTS):
        _taints(annotations[TAINTS], validate_taints, errors)
    if annotations.get(AVOID_PODS):
        _avoided(annotations[AVOID_PODS], errors)


def _taints(text: str, validate_taints: ValidateTaints, errors: Errors) -> None:
    problem = value_error(text.encode(), "[", "[]core.Taint")
    taints = _read(text) or [] if not problem else []
    problem = problem or next(filter(None, map(_taint_error, taints)), "")
    if problem:
        errors.append(invalid(_PATH, TAINTS, problem))
    elif taints:
        # names of fields may have any case
        read = [{name.lower(): value for name, value in entries(taint)} for taint in taints]
        validate_taints(read, _PATH.child(TAINTS), errors)


def _read(text: str) -> Tree:
    """Parses well-formed JSON; None when it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        return None


def _taint_error(taint: Tree) -> str:
    problem = value_error(json.dumps(taint).encode(), "{", "core.Taint")
    for name, value in {} if problem else (taint or {}).items():
        if name.lower() in ("key", "value", "effect") and not isinstance(value, str | None):
            kind = value_error(json.dumps(value).encode(), '"', "string").split(" into ")[0]
            problem = problem or f"{kind} into Go struct field Taint.{name.title()} of type string"
    return problem


def _avoided(text: str, errors: Errors) -> None:
    problem = value_error(text.encode(), "{", "v1.AvoidPods")
    if problem:
        errors.append(invalid(_PATH.child("AvoidPods"), AVOID_PODS, problem))
        return
    entries = (_read(text) or {}).get("preferAvoidPods")
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        signature = (entry or {}).get("podSignature") or {} if isinstance(entry, dict | None) else {}
        path = _PATH.child(AVOID_PODS).index(i).child("PodSignature")
        owner = signature.get("podController")
        if present(owner, path, errors) and owner.get("controller") is not True:
            errors.append(invalid(path.child("PodController", "Controller"), False, "must point to a controller"))


def validate_taints(taints: list[Object], path: Path, errors: Errors) -> None:
    """Checks keys, values and effects, and that there is one taint for each key and effect."""
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        here = path.index(i)
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        validate_label_name(key, here.child("key"), errors)
        report_once(is_label_value(value), value, here, errors, "value", between=";")
        if need(effect, here, errors, "effect"):
            supported(effect, EFFECTS, here, errors, "effect")
        if (key, effect) in seen:
            shown = go_form("Taint", taint)
            errors.append(FieldError(ErrorType.DUPLICATE, here, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))


def _validate_resources(node: Object, errors: Errors) -> None:
    for part in ("capacity", "allocatable"):
        for name, value in entries(node, "status", part):
            errors += check_resource_quantity(name, value, _STATUS.child(part, name))


def _validate_features(node: Object, errors: Errors) -> None:
    features, path = (node.get("status") or {}).get("declaredFeatures") or [], _STATUS.child("declaredFeatures")
    for i, feature in enumerate(elements(features)):
        if len(feature) > 253:
            detail = f'invalid feature name "{feature}": must be no more than 253 characters'
            errors.append(invalid(path.index(i), feature, detail))
        elif not _FEATURE.fullmatch(feature):
            detail = (
                f'invalid feature name "{feature}": must start with an UpperCamelCase segment, with subsequent segments '
                "separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters "
                "and slashes"
            )
            errors.append(invalid(path.index(i), feature, detail))
        if i + 1 < len(features):
            following = features[i + 1]
            if feature == following:
                errors.append(duplicate(path.index(i + 1), following))
            elif feature > following:
                errors.append(invalid(path.index(i + 1), following, "list must be sorted alphabetically"))


def _validate_node(node: Object, errors: Errors, ctx: StrategyContext) -> None:
    spec = node.get("spec") or {}
    validate_node_annotations(node, validate_taints, errors)
    validate_taints(spec.get("taints") or [], _META.child("taints"), errors)
    _validate_resources(node, errors)
    swap = ((node.get("status") or {}).get("nodeInfo") or {}).get("swap") or {}
    if swap.get("capacity") is not None and swap["capacity"] <= 0:
        errors.append(invalid(_META.child("nodeSwapStatus", "capacity"), swap["capacity"], "must be greater than zero"))
    _validate_features(node, errors)
    cidrs, path = spec.get("podCIDRs") or [], _SPEC.child("podCIDRs")
    for i, cidr in enumerate(cidrs):
        errors += check_cidr_legacy(path.index(i), cidr, ctx)
    if len(cidrs) > 1:
        parsed = [parse_network(cidr) for cidr in elements(cidrs)]
        if None in parsed:
            i = parsed.index(None)
            fault = f"invalid CIDR[{i}]: <nil> (invalid CIDR address: {cidrs[i]})"
            errors.append(internal(path, f"invalid PodCIDRs. failed to check with dual stack with error:{fault}"))
        versions = {network[1].version for network in elements(parsed) if network is not None}
        if None in parsed or len(versions) != 2 or len(cidrs) > 2:
            errors.append(invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))


def _config_map(source: Object, path: Path, errors: Errors) -> None:
    require("namespace", then=check(label_name))(source, path, errors, None)
    require("name", then=check(subdomain_name))(source, path, errors, None)
    require("kubeletConfigKey", then=check(is_config_map_key))(source, path, errors, None)


def _config_source(source: Object, path: Path, in_status: bool, errors: Errors) -> None:
    config_map = source.get("configMap")
    if config_map is None:
        errors.append(invalid(path, {"ConfigMap": None}, "exactly one reference subfield must be non-nil"))
        return
    here = path.child("configMap")
    for name in ("uid", "resourceVersion"):
        if in_status and not config_map.get(name):
            errors.append(required(here.child(name)))
        elif not in_status and config_map.get(name):
            errors.append(forbidden(here.child(name), f"{name} must not be set in spec"))
    _config_map(config_map, here, errors)


def _validate_change(node: Object, old: Object, errors: Errors) -> None:
    spec, before, status = node.get("spec") or {}, old.get("spec") or {}, node.get("status") or {}
    validate_node_annotations(node, validate_taints, errors)
    _validate_resources(node, errors)
    _validate_features(node, errors)
    seen: set[tuple[tuple[str, str], ...]] = set()
    for address, here in each(_STATUS.child("addresses"), status):
        key = tuple(sorted(address.items()))
        if key in seen:
            errors.append(duplicate(here, go_form("NodeAddress", address)))
        seen.add(key)
    old_cidrs, cidrs = before.get("podCIDRs") or [], spec.get("podCIDRs") or []
    if old_cidrs and len(old_cidrs) != len(cidrs):
        errors.append(forbidden(_SPEC.child("podCIDRs"), _CIDR_FIXED))
    elif old_cidrs:
        changed = sum(cidr != was for cidr, was in elements(zip(cidrs, old_cidrs, strict=True)))
        errors += [forbidden(_SPEC.child("podCIDRs"), _CIDR_FIXED)] * changed
    if before.get("providerID") and before["providerID"] != spec.get("providerID", ""):
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden(_SPEC.child("providerID"), detail))
    if spec.get("configSource") is not None:
        _config_source(spec["configSource"], _SPEC.child("configSource"), False, errors)
    for part in ("assigned", "active", "lastKnownGood"):
        source = (status.get("config") or {}).get(part)
        if source is not None:
            _config_source(source, _STATUS.child("config", part), True, errors)
    validate_taints(spec.get("taints") or [], _META.child("taints"), errors)
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.append(forbidden(_SPEC.child("externalID"), "may not be updated"))


class NodeStrategy(PlainStrategy):
    namespaced = False
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        single, cidrs = spec.get("podCIDR") or "", spec.get("podCIDRs") or []
        # the singular field takes precedence
        if single and single not in cidrs[:1]:
            spec["podCIDRs"] = [single]
        elif cidrs and not single:
            spec["podCIDR"] = cidrs[0]
        for part in ("capacity", "allocatable"):
            round_resource_list(status.get(part))
        if status.get("allocatable") is None and status.get("capacity") is not None:
            status["allocatable"] = dict(status["capacity"])

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is None:
            obj.get("spec", {}).pop("configSource", None)
            obj.get("status", {}).pop("config", None)
            return
        keep(obj, old, "status")
        if (old.get("spec") or {}).get("configSource") is None:
            obj.get("spec", {}).pop("configSource", None)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        _validate_node(obj, errors, ctx)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        errors: Errors = []
        validate_metadata(obj, errors, namespaced=False)
        _validate_node(obj, errors, ctx)
        validate_metadata_update(obj, old, errors)
        _validate_change(obj, old, errors)
        return errors

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        warnings: list[str] = []
        if spec.get("configSource") is not None:
            warnings.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        for cidr, here in each(_SPEC.child("podCIDRs"), spec):
            warnings += cidr_warnings(here, cidr)
        return warnings


class NodeStatusStrategy(PlainStatusStrategy):
    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        if (old.get("status") or {}).get("config") is None:
            (obj.get("status") or {}).pop("config", None)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        _validate_change(obj, old, errors)


def _info(node: Object, name: str) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get(name) or "")


def _status(node: Object, now: float) -> str:
    words: list[str] = []
    for condition in elements(node, "status", "conditions"):
        if condition.get("type") == "Ready":
            words = ["Ready" if condition.get("status") == "True" else "NotReady"]
    words = words or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, now: float) -> str:
    roles: set[str] = set()
    for key, value in entries(node["metadata"], "labels"):
        if key.startswith(_ROLE_LABEL):
            roles.add(key.removeprefix(_ROLE_LABEL))
        elif key == _OLD_ROLE_LABEL:
            roles.add(value)
    return ",".join(sorted(roles - {""})) or printing.NONE


def _address(node: Object, kind: str) -> str:
    for address in elements(node, "status", "addresses"):
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return printing.NONE


def _kernel(node: Object, now: float) -> str:
    architecture = _info(node, "architecture")
    kernel = _info(node, "kernelVersion") or printing.UNKNOWN
    return f"{kernel} ({architecture})" if architecture else kernel


RESOURCE = Resource(
    *type_meta("v1", "Node"),
    short_names=("no",),
    subresources=(
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="NodeProxyOptions", handler="proxy"),
    ),
    strategy=NodeStrategy(),
    status=NodeStatusStrategy,
    selectable_fields={
        "spec.unschedulable": lambda obj: "true" if (obj.get("spec") or {}).get("unschedulable") else "false"
    },
    table=printing.table(
        printing.NAME,
        printing.column("Status", _status, "The status of the node"),
        printing.column("Roles", _roles, "The roles of the node"),
        printing.AGE,
        printing.column(
            "Version", lambda node, now: _info(node, "kubeletVersion"), "Kubelet Version reported by the node."
        ),
        printing.column("Internal-IP", lambda node, now: _address(node, "InternalIP"), ".status.addresses", priority=1),
        printing.column("External-IP", lambda node, now: _address(node, "ExternalIP"), ".status.addresses", priority=1),
        printing.column(
            "OS-Image",
            lambda node, now: _info(node, "osImage") or printing.UNKNOWN,
            FieldText("api.core.v1.NodeSystemInfo", "osImage"),
            priority=1,
        ),
        printing.column(
            "Kernel-Version",
            _kernel,
            "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
            priority=1,
        ),
        printing.column(
            "Container-Runtime",
            lambda node, now: _info(node, "containerRuntimeVersion") or printing.UNKNOWN,
            FieldText("api.core.v1.NodeSystemInfo", "containerRuntimeVersion"),
            priority=1,
        ),
        of="api.core.v1.Node",
    ),
)
