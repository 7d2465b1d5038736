"""Endpoints (v1), which EndpointSlice replaces.

Upstream: ``pkg/apis/core/validation``: ValidateEndpoints; ``pkg/registry/core/endpoint``."""

from __future__ import annotations

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_ip_legacy, ip_warnings, validate_endpoint_ip
from kapi.resources.shared.names import is_dns1123_label, is_label_key, is_port_number, subdomain_name
from kapi.resources.shared.rules import Errors, at, check, each, enum, same, struct, unless_empty
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_MANAGED_BY, _CONTROLLER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
_MAX_SHOWN = 3  # addresses in a table cell


def _address_ip(address: Object, path: Path, errors: Errors, ctx: object) -> None:
    errors += check_ip_legacy(path.child("ip"), address.get("ip", ""), ctx)


def _address_kind(address: Object, path: Path, errors: Errors, ctx: object) -> None:
    validate_endpoint_ip(address.get("ip", ""), path.child("ip"), errors)


def _some_address(subset: Object, path: Path, errors: Errors, ctx: object) -> None:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))


def _ports(subset: Object, path: Path, errors: Errors, ctx: object) -> None:
    ports = subset.get("ports") or []
    for port, here in each_of(path.child("ports"), ports):
        if len(ports) > 1 and not port.get("name"):
            errors.append(required(here.child("name")))
        _PORT(port, here, errors, ctx)


_ADDRESS = struct(
    _address_ip, unless_empty("hostname", check(is_dns1123_label)), at("nodeName", check(subdomain_name)), _address_kind
)
_PORT = struct(
    unless_empty("name", check(is_dns1123_label)),
    at("port", check(is_port_number), zero=0),
    require("protocol", then=enum("TCP", "UDP", "SCTP")),
    at("appProtocol", check(is_label_key)),
)
_SUBSET = struct(_some_address, at("addresses", each(_ADDRESS)), at("notReadyAddresses", each(_ADDRESS)), _ports)


class EndpointsStrategy(PlainStrategy):
    allow_create_on_update = True
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def default(self, obj: Object) -> None:
        for subset in elements(obj, "subsets"):
            for port in elements(subset, "ports"):
                port["protocol"] = port.get("protocol") or "TCP"

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        found: Errors = []
        each(_SUBSET)(obj.get("subsets") or [], Path("subsets"), found, ctx)
        # stored subsets may stay
        if found and (old is None or not same(old.get("subsets"), obj.get("subsets"))):
            errors += found

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY) == _CONTROLLER:
            return []
        warnings: list[str] = []
        for subset, here in each_of(Path("subsets"), obj.get("subsets")):
            for part in ("addresses", "notReadyAddresses"):
                for j, address in enumerate(elements(subset, part)):
                    path = here.child(part).index(j).child("ip")
                    warnings += ip_warnings(path, address.get("ip", ""))
        return warnings


def _listed(endpoints: Object, now: float) -> str:
    found: list[str] = []
    for subset in elements(endpoints, "subsets"):
        ips = [address.get("ip", "") for address in elements(subset, "addresses")]
        ports = subset.get("ports") or []
        if not ports:
            found += ips
        for port in elements(ports):
            found += [f"[{ip}]:{port['port']}" if ":" in ip else f"{ip}:{port['port']}" for ip in elements(ips)]
    if not endpoints.get("subsets"):
        return printing.NONE
    text = ",".join(found[:_MAX_SHOWN])
    return f"{text} + {len(found) - _MAX_SHOWN} more..." if len(found) > _MAX_SHOWN else text


RESOURCE = Resource(
    *type_meta("v1", "Endpoints"),
    plural="endpoints",
    short_names=("ep",),
    strategy=EndpointsStrategy(),
    table=printing.table(
        printing.NAME, printing.column("Endpoints", _listed, ".subsets"), printing.AGE, of="api.core.v1.Endpoints"
    ),
)
