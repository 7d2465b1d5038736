"""The spec of claims and of their templates (upstream: ``pkg/apis/resource/{v1,validation}``)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery.each import each, elements
from kapi.machinery.field import Path, forbidden, internal, invalid, required
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.resources.definition import StrategyContext
from kapi.resources.resource import devices
from kapi.resources.shared.features import gate
from kapi.resources.shared.gated import gated
from kapi.resources.shared.names import is_dns1123_subdomain
from kapi.resources.shared.rules import Errors, need, not_supported, report

#: request -> its alternatives (none for a plain request)
Requests = Mapping[str, frozenset[str]]
_MAX_ALTERNATIVES = 8
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_CHOICE = "exactly one of `exactly` or `firstAvailable` is required"

_REQUEST = "devices.requests.*"
#: paths in the spec of a claim
GATED = (
    gated("DRAPrioritizedList", f"{_REQUEST}.firstAvailable"),
    gated("DRADeviceTaints", f"{_REQUEST}.exactly.tolerations", f"{_REQUEST}.firstAvailable.*.tolerations"),
    gated(
        "DRAConsumableCapacity",
        "devices.constraints.*.distinctAttribute",
        f"{_REQUEST}.exactly.capacity",
        f"{_REQUEST}.firstAvailable.*.capacity",
    ),
)


def default_claim_spec(spec: Object) -> None:
    for request in elements(spec, "devices", "requests"):
        for wish in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if wish is None:
                continue
            wish["allocationMode"] = wish.get("allocationMode") or "ExactCount"
            if wish["allocationMode"] == "ExactCount" and not wish.get("count"):
                wish["count"] = 1
            default_tolerations(wish)


def default_tolerations(owner: Object) -> None:
    for toleration in elements(owner, "tolerations"):
        toleration["operator"] = toleration.get("operator") or "Equal"


def requests_of(spec: Object) -> Requests:
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in elements(request, "firstAvailable"))
        for request in elements(spec, "devices", "requests")
    }


def check_request_reference(name: str, requests: Requests, path: Path, errors: Errors) -> None:
    """A reference to a request: ``request`` or ``request/alternative``."""
    parts = name.split("/")
    if len(parts) > 2:
        errors.append(invalid(path, name, _NO_REQUEST))
        return
    for part in parts:
        devices.check_label(part, path, errors)
    if parts[0] not in requests or (len(parts) == 2 and parts[1] not in requests[parts[0]]):
        errors.append(invalid(path, name, _NO_REQUEST))


def check_references(names: list[str], requests: Requests, path: Path, errors: Errors) -> None:
    def reference(name: str, here: Path) -> None:
        check_request_reference(name, requests, here, errors)

    devices.check_set(names, devices.REQUESTS, reference, lambda name: str(name), path, errors)


def validate_claim_spec(spec: Object, path: Path, errors: Errors, ctx: StrategyContext, *, stored: bool) -> None:
    claim, here = spec.get("devices") or {}, path.child("devices")
    requests = requests_of(spec)

    def constraint(value: Object, at: Path) -> None:
        check_references(value.get("requests") or [], requests, at.child("requests"), errors)
        if value.get("matchAttribute") is not None:
            devices.check_full_name(value["matchAttribute"], at.child("matchAttribute"), errors)
        elif value.get("distinctAttribute") is not None:
            devices.check_full_name(value["distinctAttribute"], at.child("distinctAttribute"), errors)
        elif not gate(ctx, "DRAConsumableCapacity"):
            errors.append(required(at.child("matchAttribute")))
        else:
            detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            errors.append(required(at, detail))

    def config(value: Object, at: Path) -> None:
        check_references(value.get("requests") or [], requests, at.child("requests"), errors)
        devices.check_configuration(value, at, errors)

    def name(request: Object) -> str:
        return str(request.get("name", ""))

    asked = claim.get("requests") or []
    devices.check_set(
        asked,
        devices.REQUESTS,
        lambda value, at: _request(value, at, errors, ctx, stored),
        name,
        here.child("requests"),
        errors,
    )
    constraints = claim.get("constraints") or []
    devices.check_list(constraints, devices.CONSTRAINTS, constraint, here.child("constraints"), errors)
    devices.check_list(claim.get("config") or [], devices.CONFIGS, config, here.child("config"), errors)


def _request(request: Object, path: Path, errors: Errors, ctx: StrategyContext, stored: bool) -> None:
    devices.check_label(request.get("name", ""), path.child("name"), errors)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        errors.append(invalid(path, None, f"{_CHOICE}, but multiple fields are set"))
    elif exactly is not None:
        _wish(exactly, path.child("exactly"), errors, ctx, stored)
    elif alternatives:

        def alternative(value: Object, here: Path) -> None:
            devices.check_label(value.get("name", ""), here.child("name"), errors)
            _wish(value, here, errors, ctx, stored)

        here = path.child("firstAvailable")
        devices.check_set(alternatives, _MAX_ALTERNATIVES, alternative, lambda sub: sub.get("name", ""), here, errors)
    else:
        errors.append(required(path, _CHOICE))


def _wish(wish: Object, path: Path, errors: Errors, ctx: StrategyContext, stored: bool) -> None:
    """The rules for exact requests and alternatives."""
    name, here = wish.get("deviceClassName", ""), path.child("deviceClassName")
    if need(name, here, errors):
        report(is_dns1123_subdomain(name), name, here, errors)
    devices.check_selectors(wish.get("selectors") or [], path.child("selectors"), errors, ctx, stored=stored)
    mode, count = wish.get("allocationMode", ""), wish.get("count", 0)
    if mode == "All":
        if count:
            errors.append(invalid(path.child("count"), count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(path.child("count"), count, "must be greater than zero"))
    else:
        errors.append(not_supported(path.child("allocationMode"), mode, ("All", "ExactCount")))
    for toleration, place in each(path.child("tolerations"), wish):
        devices.check_toleration(toleration, place, errors)


def check_admin_access(spec: Object, ctx: StrategyContext, errors: Errors) -> None:
    """Checks admin access, which is allowed in namespaces with a label for it."""
    for i, request in enumerate(elements(spec, "devices", "requests")):
        if (request.get("exactly") or {}).get("adminAccess"):
            path = Path("spec").child("devices", "requests").index(i).child("adminAccess")
            check_admin_namespace(path, ctx, errors)
            return


def check_admin_namespace(path: Path, ctx: StrategyContext, errors: Errors) -> None:
    lister = ctx.listers.get(GroupResource("", "namespaces"))
    namespace = None if lister is None else lister.get("", ctx.namespace)
    if namespace is None:
        text = f'could not retrieve namespace to verify admin access: namespaces "{ctx.namespace}" not found'
        errors.append(internal(path, text))
    elif (namespace["metadata"].get("labels") or {}).get(ADMIN_LABEL) != "true":
        detail = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        errors.append(forbidden(path, detail))
