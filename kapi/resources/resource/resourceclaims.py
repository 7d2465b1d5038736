"""ResourceClaim (resource.k8s.io/v1): devices that pods request, with the allocated devices in the status; templates of claims.

Upstream: ``pkg/apis/resource/validation``, ``pkg/registry/resource/{resourceclaim,resourceclaimtemplate}``.
"""

from __future__ import annotations

import re
from typing import ClassVar

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import FieldError, Path, forbidden, invalid, required
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, Subresource, type_meta
from kapi.resources.resource import devices
from kapi.resources.resource.claim_spec import (
    GATED,
    Requests,
    check_admin_access,
    check_admin_namespace,
    check_references,
    check_request_reference,
    default_claim_spec,
    default_tolerations,
    requests_of,
    validate_claim_spec,
)
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_interface_address
from kapi.resources.shared.affinity import validate_node_selector
from kapi.resources.shared.claims import validate_template_metadata
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.rules import Errors, at_most, fits, need, same, supported
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules

#: driver, pool, device, share
DeviceID = tuple[str, str, str, str]
_SPEC, _STATUS = Path("spec"), Path("status")
_MAX_USERS, _MAX_RESULTS, _MAX_CONDITIONS, _MAX_ADDRESSES = 256, 32, 8, 16  # of list items
_MAX_DATA, _MAX_INTERFACE, _MAX_HARDWARE = 10 * 1024, 256, 128  # bytes
_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_UUID_BYTES, _URN = 36, "urn:uuid:"
_NORMAL_FORM = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)

_RESULT = "status.allocation.devices.results.*"
_GATED_STATUS = (
    gated("DRAResourceClaimDeviceStatus", "status.devices"),
    gated(
        "DRAConsumableCapacity",
        f"{_RESULT}.shareID",
        f"{_RESULT}.consumedCapacity",
        "status.devices.*.shareID",
        also=[
            "spec.devices.constraints.*.distinctAttribute",
            "spec.devices.requests.*.exactly.capacity",
            "spec.devices.requests.*.firstAvailable.*.capacity",
        ],
    ),
    gated("DRADeviceBindingConditions", f"{_RESULT}.bindingConditions", f"{_RESULT}.bindingFailureConditions"),
)


class ResourceClaimStrategy(PlainStrategy):
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.CHANGED_METADATA, UpdateRules.TYPE)

    def default(self, obj: Object) -> None:
        default_claim_spec(obj.get("spec") or {})
        for result in elements(_results(obj.get("status") or {})):
            default_tolerations(result)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        super().prepare(obj, old, ctx)
        drop_disabled(GATED, obj.get("spec") or {}, None if old is None else old.get("spec") or {}, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        check_admin_access(obj.get("spec") or {}, ctx, errors)
        return errors + super().validate(obj, ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_claim_spec(obj.get("spec") or {}, _SPEC, errors, ctx, stored=old is not None)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        if not same(obj.get("spec"), old.get("spec")):
            shown = internal("DynamicResourceClaimSpec", obj.get("spec") or {})
            errors.append(invalid(_SPEC, shown, "field is immutable"))


class ResourceClaimStatusStrategy(StatusOnlyStrategy):
    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        """Drops the status of devices that are no longer allocated."""
        status = obj.get("status") or {}
        gone = allocated(old.get("status") or {}) - allocated(status)
        kept = [device for device in elements(status, "devices") if device_id(device) not in gone]
        status.pop("devices", None)
        if kept:
            status["devices"] = kept
        drop_disabled(_GATED_STATUS, obj, old, ctx)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        if not _admin_result(old.get("status") or {}):
            path = _admin_result(obj.get("status") or {})
            if path is not None:
                check_admin_namespace(path, ctx, errors)
        return errors + ctx.guard_errors + super().validate_update(obj, old, ctx)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status, before = obj.get("status") or {}, old.get("status") or {}
        requests = requests_of(obj.get("spec") or {})
        users, here = status.get("reservedFor") or [], _STATUS.child("reservedFor")
        devices.check_set(
            users, _MAX_USERS, lambda user, at: _user(user, at, errors), lambda user: user.get("uid", ""), here, errors
        )
        known = allocated(status)
        devices.check_set(
            status.get("devices") or [],
            -1,
            lambda device, at: _device(device, known, at, errors),
            device_id,
            _STATUS.child("devices"),
            errors,
            _shown_id,
        )
        allocation = status.get("allocation")
        if users and allocation is None:
            errors.append(forbidden(here, "may not be specified when `allocated` is not set"))
        elif users and obj["metadata"].get("deletionTimestamp"):
            if any(user not in (before.get("reservedFor") or []) for user in users):
                detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
                errors.append(forbidden(here, detail))
        path = _STATUS.child("allocation")
        if allocation is None:
            return
        if before.get("allocation") is None:
            _allocation(allocation, requests, path, errors)
        elif not same(allocation, before["allocation"]):
            errors.append(invalid(path, internal("AllocationResult", allocation), "field is immutable"))


def _results(status: Object) -> list[Object]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _admin_result(status: Object) -> Path | None:
    for result, here in each_of(_STATUS.child("allocation", "devices", "results"), _results(status)):
        if result.get("adminAccess"):
            return here.child("adminAccess")
    return None


def device_id(device: Object) -> DeviceID:
    """The identity of a device, or of a share of one."""
    driver, pool, name = (device.get(part, "") for part in ("driver", "pool", "device"))
    return driver, pool, name, device.get("shareID") or ""


def _shown_id(device: Object) -> Object:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), device_id(device), strict=True))


def allocated(status: Object) -> set[DeviceID]:
    """The allocated devices."""
    return {device_id(result) for result in elements(_results(status))}


def _user(user: Object, path: Path, errors: Errors) -> None:
    errors += [required(path.child(name)) for name in ("resource", "name", "uid") if not user.get(name)]


def _share(share: str | None, path: Path, errors: Errors) -> None:
    if share is None:
        return
    problem = _uuid_problem(share)
    if problem:
        errors.append(invalid(path, share, f"error validating uid: {problem}"))
    elif len(share) != _UUID_BYTES or share != share.lower():
        errors.append(invalid(path, share, _NORMAL_FORM))


def _uuid_problem(text: str) -> str:
    """The error of Go's ``github.com/google/uuid`` for a text in none of a UUID's four forms."""
    size = len(text.encode())
    if size == _UUID_BYTES + len(_URN):
        if text[: len(_URN)].lower() != _URN:
            return f"invalid urn prefix: {quote(text[: len(_URN)])}"
        text = text[len(_URN) :]
    elif size == _UUID_BYTES + 2:
        if text[0] + text[-1] != "{}":
            return "invalid bracketed UUID format"
        text = text[1:-1]
    elif size not in (_UUID_BYTES, 32):
        return f"invalid UUID length: {size}"
    return "" if _UUID.fullmatch(text) else "invalid UUID format"


def _allocation(allocation: Object, requests: Requests, path: Path, errors: Errors) -> None:
    given, here = allocation.get("devices") or {}, path.child("devices")

    def result(value: Object, at: Path) -> None:
        check_request_reference(value.get("request", ""), requests, at.child("request"), errors)
        devices.check_driver(value.get("driver", ""), at.child("driver"), errors)
        devices.check_pool(value.get("pool", ""), at.child("pool"), errors)
        devices.check_label(value.get("device", ""), at.child("device"), errors)
        devices.check_binding_conditions(value, at, errors)
        _share(value.get("shareID"), at.child("shareID"), errors)

    def config(value: Object, at: Path) -> None:
        source = value.get("source", "")
        if need(source, at, errors, "source"):
            supported(source, ("FromClaim", "FromClass"), at, errors, "source")
        check_references(value.get("requests") or [], requests, at.child("requests"), errors)
        devices.check_configuration(value, at, errors)

    devices.check_list(given.get("results") or [], _MAX_RESULTS, result, here.child("results"), errors)
    devices.check_list(given.get("config") or [], 2 * devices.CONFIGS, config, here.child("config"), errors)
    if allocation.get("nodeSelector") is not None:
        validate_node_selector(allocation["nodeSelector"], path.child("nodeSelector"), errors)


def _device(device: Object, known: set[DeviceID], path: Path, errors: Errors) -> None:
    devices.check_driver(device.get("driver", ""), path.child("driver"), errors)
    devices.check_pool(device.get("pool", ""), path.child("pool"), errors)
    devices.check_label(device.get("device", ""), path.child("device"), errors)
    _share(device.get("shareID"), path.child("shareID"), errors)
    if device_id(device) not in known:
        errors.append(invalid(path, _shown_id(device), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or []
    at_most(len(conditions), _MAX_CONDITIONS, path, errors, "conditions")
    validate_conditions(conditions, path.child("conditions"), errors)
    if device.get("data") is not None:
        devices.check_raw(device["data"], path.child("data"), _MAX_DATA, errors)
    network, here = device.get("networkData") or {}, path.child("networkData")
    for name, limit in (("interfaceName", _MAX_INTERFACE), ("hardwareAddress", _MAX_HARDWARE)):
        fits(len((network.get(name) or "").encode()), limit, here, errors, name)

    def address(text: str, at: Path) -> None:
        errors.extend(check_interface_address(at, text))

    devices.check_set(network.get("ips") or [], _MAX_ADDRESSES, address, lambda ip: str(ip), here.child("ips"), errors)


def _state(obj: Object, now: float) -> str:
    status, going = obj.get("status") or {}, bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if going else []
    if status.get("allocation") is None:
        if not going:
            states.append("pending")
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


_STRATEGY = ResourceClaimStrategy()
STATUS_STRATEGY = ResourceClaimStatusStrategy(_STRATEGY)

RESOURCE_CLAIM = Resource(
    *type_meta("resource.k8s.io/v1", "ResourceClaim"),
    subresources=(Subresource("status", strategy=STATUS_STRATEGY, tabular=False),),
    returns_deleted=True,
    strategy=_STRATEGY,
    table=printing.table(
        printing.NAME,
        printing.column("State", _state, "A summary of the current state (allocated, pending, reserved, etc.)."),
        printing.AGE,
    ),
)


class ResourceClaimTemplateStrategy(PlainStrategy):
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)

    def default(self, obj: Object) -> None:
        default_claim_spec((obj.get("spec") or {}).get("spec") or {})

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        super().prepare(obj, old, ctx)
        before = None if old is None else (old.get("spec") or {}).get("spec") or {}
        drop_disabled(GATED, (obj.get("spec") or {}).get("spec") or {}, before, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        check_admin_access((obj.get("spec") or {}).get("spec") or {}, ctx, errors)
        return errors + super().validate(obj, ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        template = obj.get("spec") or {}
        validate_template_metadata(template.get("metadata") or {}, _SPEC.child("metadata"), errors)
        validate_claim_spec(template.get("spec") or {}, _SPEC.child("spec"), errors, ctx, stored=old is not None)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        if not same(obj.get("spec"), old.get("spec")):
            shown = internal("DynamicResourceClaimTemplateSpec", obj.get("spec") or {})
            errors.append(invalid(_SPEC, shown, "field is immutable"))


RESOURCE_CLAIM_TEMPLATE = Resource(
    *type_meta("resource.k8s.io/v1", "ResourceClaimTemplate"),
    returns_deleted=True,
    strategy=ResourceClaimTemplateStrategy(),
    table=printing.table(printing.NAME, printing.AGE),
)
