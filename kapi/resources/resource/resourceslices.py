"""ResourceSlice (resource.k8s.io/v1): the devices that a driver has on a node or in a pool.

Upstream: ``pkg/apis/resource/validation`` ValidateResourceSlice, ``pkg/registry/resource/resourceslice``."""

from __future__ import annotations

import re

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, duplicate, forbidden, invalid, not_found, required, too_many
from kapi.machinery.golang import quote
from kapi.machinery.quantities import add, ceiling, compare, value_of
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, selectable, type_meta
from kapi.resources.resource import devices
from kapi.resources.shared import printing
from kapi.resources.shared.affinity import validate_node_selector
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.names import is_dns1123_subdomain
from kapi.resources.shared.resource_names import is_native
from kapi.resources.shared.rules import Errors, fits, need, present, report
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")
_MAX_DEVICES, _MAX_ADVANCED_DEVICES, _MAX_COUNTER_SETS, _MAX_COUNTERS, _MAX_CONSUMED_SETS = 128, 64, 8, 32, 2
_MAX_NAMES, _MAX_VALUES, _MAX_STRING, _MAX_TAINTS, _MAX_OPTIONS = 32, 48, 64, 16, 10
_MAX_KEY = 63 + 1 + 32
_UNION = (("int", "bool", "string", "version"), ("ints", "bools", "strings", "versions"))
_PRE = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_NUMBER = r"(?:0|[1-9][0-9]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?", re.ASCII
)
_PLACES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_PLACES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)

_DEVICE = "spec.devices.*"
_GATED = (
    gated("DRADeviceTaints", f"{_DEVICE}.taints"),
    gated(
        "DRAPartitionableDevices",
        "spec.sharedCounters",
        "spec.perDeviceNodeSelection",
        *(f"{_DEVICE}.{name}" for name in ("consumesCounters", "nodeName", "nodeSelector", "allNodes")),
    ),
    gated(
        "DRADeviceBindingConditions DRAResourceClaimDeviceStatus",
        *(f"{_DEVICE}.{name}" for name in ("bindingConditions", "bindingFailureConditions", "bindsToNode")),
    ),
    gated("DRAConsumableCapacity", f"{_DEVICE}.allowMultipleAllocations", f"{_DEVICE}.capacity.*.requestPolicy"),
    gated("DRANodeAllocatableResources", f"{_DEVICE}.nodeAllocatableResourceMappings"),
    gated("DRAListTypeAttributes", *(f"{_DEVICE}.attributes.*.{name}" for name in _UNION[1])),
)


class ResourceSliceStrategy(PlainStrategy):
    namespaced = False
    generation_parts = ("spec",)

    def default(self, obj: Object) -> None:
        for device in elements(_devices(obj.get("spec") or {})):
            for mapping in elements((device.get("nodeAllocatableResourceMappings") or {}).values()):
                mapping.setdefault("allocationMultiplier", "1")

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        for device in elements(_devices(obj.get("spec") or {})):
            for taint in elements(device, "taints"):
                taint["timeAdded"] = taint.get("timeAdded") or ctx.now

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        drop_disabled(_GATED, obj, None, ctx)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(obj, old, ctx)
        drop_disabled(_GATED, obj, old, ctx)  # afterwards, since a dropped field also raises the generation

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        _validate_spec(spec, None if old is None else old.get("spec") or {}, errors, _gives_both(spec, ctx))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        driver = (obj.get("spec") or {}).get("driver", "")
        if driver == driver.lower():
            return []
        return [f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"]


def _devices(spec: Object) -> list[Object]:
    return spec.get("devices") or []


def _gives_both(spec: Object, ctx: StrategyContext) -> bool:
    """Whether counters and devices are given: an empty list counts in Go, but is missing in a decoded object."""
    given = {name for name in ("sharedCounters", "devices") if spec.get(name) is not None}
    sent = ctx.sent() if len(given) < 2 and ctx.sent is not None else None
    sent = sent.get("spec") if isinstance(sent, dict) else None
    if isinstance(sent, dict):
        given |= {name for name in ("sharedCounters", "devices") if sent.get(name) is not None}
    return len(given) == 2


def _validate_spec(spec: Object, old: Object | None, errors: Errors, gives_both: bool) -> None:
    pool = spec.get("pool") or {}
    devices.check_driver(spec.get("driver", ""), _SPEC.child("driver"), errors)
    _pool(pool, _SPEC.child("pool"), errors)
    if old is not None:
        old_pool = (old.get("pool") or {}).get("name")
        validate_immutable(pool.get("name"), old_pool, _SPEC.child("pool", "name"), errors)
        for part in ("driver", "nodeName"):
            validate_immutable(spec.get(part), old.get(part), _SPEC.child(part), errors)
    _places(spec, errors)
    if gives_both:
        errors.append(invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed"))
    per_device = bool(spec.get("perDeviceNodeSelection"))
    before = {device.get("name", ""): device for device in elements(_devices(old or {}))}

    def device_rule(device: Object, here: Path) -> None:
        _device(device, before.get(device.get("name", "")), per_device, here, errors)

    def name(item: Object) -> str:
        return str(item.get("name", ""))

    limit = _MAX_ADVANCED_DEVICES if any(_is_advanced(device) for device in elements(_devices(spec))) else _MAX_DEVICES
    devices.check_set(_devices(spec), limit, device_rule, name, _SPEC.child("devices"), errors)
    devices.check_set(
        spec.get("sharedCounters") or [],
        _MAX_COUNTER_SETS,
        lambda item, here: _counter_set(item, "name", _MAX_COUNTERS, here, errors),
        name,
        _SPEC.child("sharedCounters"),
        errors,
    )


def _is_advanced(device: Object) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    attributes = (device.get("attributes") or {}).values()
    return any(attribute.get(name) is not None for attribute in elements(attributes) for name in _UNION[1])


def _pool(pool: Object, path: Path, errors: Errors) -> None:
    devices.check_pool(pool.get("name", ""), path.child("name"), errors)
    slices, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if slices <= 0:
        errors.append(invalid(path.child("resourceSliceCount"), slices, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid(path.child("generation"), generation, "must be greater than or equal to zero"))


def _node_name(name: str, path: Path, errors: Errors) -> None:
    report(is_dns1123_subdomain(name), name, path, errors)


def _places(spec: Object, errors: Errors) -> None:
    """The nodes from which the devices can be accessed."""
    chosen: list[str] = []
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if name:
        chosen.append("`nodeName`")
        _node_name(name, _SPEC.child("nodeName"), errors)
    elif name is not None:
        errors.append(invalid(_SPEC.child("nodeName"), name, "must be either unset or set to a non-empty string"))
    if selector is not None:
        chosen.append("`nodeSelector`")
        validate_node_selector(selector, _SPEC.child("nodeSelector"), errors)
        terms = selector.get("nodeSelectorTerms")
        if len(terms or []) != 1:
            here, shown = _SPEC.child("nodeSelector", "nodeSelectorTerms"), internal("NodeSelectorTerm", terms)
            errors.append(invalid(here, shown, "must have exactly one node selector term"))
    for part in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(part):
            chosen.append(f"`{part}`")
        elif spec.get(part) is not None:
            errors.append(invalid(_SPEC.child(part), False, "must be either unset or set to true"))
    if need(chosen, _SPEC, errors, detail=_PLACES) and len(chosen) > 1:
        text = "{" + ", ".join(chosen) + "}"
        errors.append(invalid(_SPEC, text, f"{_PLACES}, but multiple fields are set"))


def _shortened(key: str) -> str:
    if len(key) <= _MAX_KEY:
        return key
    rest = _MAX_KEY - len("...")
    return key[: (rest + 1) // 2] + "..." + key[len(key) - rest // 2 :]


def _counter_set(item: Object, name: str, limit: int, path: Path, errors: Errors) -> None:
    """Checks counters: ``name`` is the name of a set, ``counterSet`` names the set from which a device consumes."""
    if need(item.get(name), path, errors, name):
        devices.check_label(item[name], path.child(name), errors)
    counters, here = item.get("counters") or {}, path.child("counters")
    if not counters:
        errors.append(required(here))
    elif len(counters) > limit:
        errors.append(too_many(here, len(counters), limit))
    else:
        for key in elements(ordered(counters)):
            devices.check_label(key, here, errors)


def _device(device: Object, old: Object | None, per_device: bool, path: Path, errors: Errors) -> None:
    devices.check_label(device.get("name", ""), path.child("name"), errors)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > _MAX_NAMES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_NAMES}"
        errors.append(invalid(path, len(attributes) + len(capacity), detail))
    values = sum(
        sum(len(attribute.get(name) or []) for name in _UNION[1]) or 1 for attribute in elements(attributes.values())
    )
    if values > _MAX_VALUES:
        errors.append(invalid(path, values, f"the total number of attribute values must not exceed {_MAX_VALUES}"))
    for key in elements(ordered(attributes)):
        here = path.child("attributes")
        devices.check_qualified_name(key, here, errors)
        _attribute(attributes[key], here.key(_shortened(key)), errors)
    for key in elements(ordered(capacity)):
        here = path.child("capacity")
        devices.check_qualified_name(key, here, errors)
        _capacity(capacity[key], bool(device.get("allowMultipleAllocations")), here.key(_shortened(key)), errors)
    taints = device.get("taints") or []
    if old is None or taints != (old.get("taints") or []):
        here = path.child("taints")
        devices.check_list(taints, _MAX_TAINTS, lambda taint, at: devices.check_taint(taint, at, errors), here, errors)
    devices.check_set(
        device.get("consumesCounters") or [],
        _MAX_CONSUMED_SETS,
        lambda item, here: _counter_set(item, "counterSet", _MAX_COUNTERS, here, errors),
        lambda item: item.get("counterSet", ""),
        path.child("consumesCounters"),
        errors,
    )
    _device_place(device, per_device, path, errors)
    devices.check_binding_conditions(device, path, errors)
    _mappings(device.get("nodeAllocatableResourceMappings") or {}, capacity, path, errors)


def _device_place(device: Object, per_device: bool, path: Path, errors: Errors) -> None:
    name, selector, everywhere = (device.get(part) for part in ("nodeName", "nodeSelector", "allNodes"))
    if not per_device:
        if (name, selector, everywhere) != (None, None, None):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec"
            )
            errors.append(invalid(path, None, detail))
        return
    chosen: list[str] = []
    if name:
        chosen.append("`nodeName`")
        _node_name(name, path.child("nodeName"), errors)
    elif name is not None:
        errors.append(invalid(path.child("nodeName"), name, "must not be empty"))
    if selector is not None:
        chosen.append("`nodeSelector`")
        validate_node_selector(selector, path.child("nodeSelector"), errors)
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        errors.append(invalid(path.child("allNodes"), False, "must be either unset or set to true"))
    if need(chosen, path, errors, detail=_DEVICE_PLACES) and len(chosen) > 1:
        errors.append(invalid(path, "{" + ", ".join(chosen) + "}", _DEVICE_PLACES))


def _mappings(mappings: Object, capacity: Object, path: Path, errors: Errors) -> None:
    for name in elements(ordered(mappings)):
        here = path.child("nodeAllocatableResourceMappings").key(name)
        mapping = mappings[name]
        multiplier, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if not is_native(name):
            errors.append(invalid(here, name, "must be a node allocatable resource name"))
        if multiplier is not None and value_of(multiplier) <= 0:
            errors.append(invalid(here.child("allocationMultiplier"), multiplier, "must be positive"))
        if key == "":
            errors.append(invalid(here.child("capacityKey"), "", "capacityKey must not be an empty string"))
        elif key is not None and key not in capacity:
            errors.append(not_found(here.child("capacityKey"), key))


def _attribute(attribute: Object, path: Path, errors: Errors) -> None:
    """Exactly one value, or one list of values."""
    given = [name for names in _UNION for name in names if attribute.get(name) is not None]
    for name in given:
        value, here = attribute[name], path.child(name)
        if name in _UNION[1] and not value:
            errors.append(invalid(here, value, "must not be empty if specified"))
        texts = [(value, here)] if name in ("string", "version") else []
        if name in ("strings", "versions"):
            texts = [(text, here.index(i)) for i, text in enumerate(value)]
        for text, place in texts:
            if name.startswith("version") and not _SEMVER.fullmatch(text):
                errors.append(invalid(place, text, "must be a string compatible with semver.org spec 2.0.0"))
            fits(len(text.encode()), _MAX_STRING, place, errors)
    if not given:
        errors.append(invalid(path, "", "exactly one value must be specified"))
    elif len(given) > 1:
        errors.append(invalid(path, internal("DeviceAttribute", attribute), "exactly one value must be specified"))


def _capacity(capacity: Object, shared: bool, path: Path, errors: Errors) -> None:
    policy, here = capacity.get("requestPolicy"), path.child("requestPolicy")
    if policy is None:
        return
    if not shared:
        errors.append(forbidden(here, "allowMultipleAllocations must be true"))
        return
    values, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and span is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        errors.append(forbidden(here, detail))
    elif values:
        if present(default, here, errors, "default", detail="required when validValues is defined"):
            _valid_values(values, default, str(capacity.get("value", "0")), here.child("validValues"), errors)
    elif span is not None:
        if present(default, here, errors, "default", detail="required when validRange is defined"):
            _valid_range(span, default, str(capacity.get("value", "0")), here.child("validRange"), errors)


def _valid_values(values: list[str], default: str, most: str, path: Path, errors: Errors) -> None:
    for i in elements(range(1, len(values))):
        if compare(values[i - 1], values[i]) > 0:
            errors.append(invalid(path.index(i), values[i], "values must be sorted in ascending order"))
    if len(values) > _MAX_OPTIONS:
        errors.append(too_many(path, len(values), _MAX_OPTIONS))
    else:
        for value, here in each_of(path, values):
            if compare(value, most) > 0:
                errors.append(invalid(here, value, f"option is larger than capacity value: {most}"))
        seen: set[int] = set()
        for value, here in each_of(path, values):
            if ceiling(value) in seen:
                errors.append(duplicate(here, str(ceiling(value))))
            seen.add(ceiling(value))
    if len(values) > _MAX_OPTIONS or all(compare(value, default) for value in values):
        errors.append(invalid(path, default, "default value is not valid according to the requestPolicy"))


def _valid_range(span: Object, default: str, most: str, path: Path, errors: Errors) -> None:
    low, high, step = span.get("min"), span.get("max"), span.get("step")
    if low is None:
        errors.append(required(path.child("min"), "required when validRange is defined"))
        return
    if compare(low, most) > 0:
        errors.append(invalid(path.child("min"), low, f"min is larger than capacity value: {most}"))
    if compare(default, low) < 0:
        errors.append(invalid(path.child("min"), default, f"default is less than min: {low}"))
    if high is not None:
        here = path.child("max")
        if compare(low, high) > 0:
            errors.append(invalid(here, low, f"min is larger than max: {high}"))
        if compare(high, most) > 0:
            errors.append(invalid(here, high, f"max is larger than capacity value: {most}"))
        if compare(default, high) > 0:
            errors.append(invalid(here, default, f"default is more than max: {high}"))
    if step is None:
        return
    here = path.child("step")
    added = add(low, step)
    if compare(added, most) > 0:
        errors.append(invalid(here, step, f"one step {added} is larger than capacity value: {most}"))
    for value in [default] + ([high] if high is not None else []):
        if ceiling(step) and (ceiling(value) - ceiling(low)) % ceiling(step):
            errors.append(invalid(here, value, f"value is not a multiple of a given step ({step}) from ({low})"))


RESOURCE = Resource(
    *type_meta("resource.k8s.io/v1", "ResourceSlice"),
    returns_deleted=True,
    strategy=ResourceSliceStrategy(),
    selectable_fields={"spec.nodeName": selectable("spec.nodeName"), "spec.driver": selectable("spec.driver")},
    unsupported_field="field label not supported for resource.k8s.io/{version}, Kind=ResourceSlice: {}",
    table=printing.table(
        printing.NAME,
        printing.field_column("Node", ".spec.nodeName"),
        printing.field_column("Driver", ".spec.driver"),
        printing.field_column("Pool", ".spec.pool.name", of="api.resource.v1.ResourcePool"),
        printing.AGE,
        of="api.resource.v1.ResourceSlice",
    ),
)
