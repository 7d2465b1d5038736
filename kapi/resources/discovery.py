"""EndpointSlice (discovery.k8s.io/v1).

Upstream: ``pkg/apis/discovery/validation``, ``pkg/registry/discovery/endpointslice``.
"""

from __future__ import annotations

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, invalid, required, too_many
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_ip, check_ip_legacy, ip_warnings, is_ipv6, validate_endpoint_ip
from kapi.resources.shared.features import gate
from kapi.resources.shared.names import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_key,
    is_label_value,
    subdomain_name,
)
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    check,
    distinct,
    enum,
    need,
    report_once,
    same,
    struct,
    supported,
)
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20000, 8
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_MAX_SHOWN = 3  # entries in a table cell
_NODE_NAME = at("nodeName", check(subdomain_name))
_PORT_TAIL = struct(
    at("protocol", enum("TCP", "UDP", "SCTP")),  # only a missing list gets a default
    at("appProtocol", check(is_label_key)),
)


def _fully_qualified(name: str, path: Path, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
        return
    name = name.removesuffix(".")
    problems = is_dns1123_subdomain(name)
    if problems:
        errors.append(invalid(path, name, ",".join(problems)))
        return
    if "." not in name:
        errors.append(invalid(path, name, "should be a domain with at least two segments separated by dots"))
        return
    for label in name.split("."):
        report_once(is_dns1123_label(label), label, path, errors)


def _address(address: str, kind: str, path: Path, listed: Path, errors: Errors, ctx: StrategyContext) -> None:
    if kind == "FQDN":
        _fully_qualified(address, path, errors)
    elif kind in ("IPv4", "IPv6"):
        found = check_ip_legacy(path, address, ctx) if kind == "IPv4" else check_ip(path, address)
        errors += found
        if found:
            return
        if is_ipv6(address) != (kind == "IPv6"):
            errors.append(invalid(listed, address, f"must be an {kind} address"))
        validate_endpoint_ip(address, path, errors)


def _hints(hints: Object, path: Path, errors: Errors, ctx: object) -> None:
    rules: tuple[tuple[str, Rule], ...] = (("forZones", check(is_label_value)), ("forNodes", check(subdomain_name)))
    for part, rule in rules:
        named = hints.get(part) or []
        if len(named) > _MAX_HINTS:
            errors.append(too_many(path.child(part), len(named), _MAX_HINTS))
            return
        seen: set[str] = set()
        for hint, place in each_of(path.child(part), named):
            name, here = hint.get("name", ""), place.child("name")
            distinct(name, seen, here, errors)
            rule(name, here, errors, ctx)


_HOSTNAME_AND_HINTS = struct(at("hostname", check(is_dns1123_label)), at("hints", _hints))


def _endpoints(endpoints: list[Object], kind: str, path: Path, errors: Errors, ctx: StrategyContext) -> None:
    if len(endpoints) > _MAX_ENDPOINTS:
        errors.append(too_many(path, len(endpoints), _MAX_ENDPOINTS))
        return
    for endpoint, here in each_of(path, endpoints):
        addresses, listed = endpoint.get("addresses") or [], here.child("addresses")
        if (
            need(addresses, listed, errors, detail="must contain at least 1 address")
            and len(addresses) > _MAX_ADDRESSES
        ):
            errors.append(too_many(listed, len(addresses), _MAX_ADDRESSES))
        for address, place in each_of(listed, addresses):
            _address(address, kind, place, listed, errors, ctx)
        _NODE_NAME(endpoint, here, errors, None)
        _HOSTNAME_AND_HINTS(endpoint, here, errors, None)


def _ports(ports: list[Object], path: Path, errors: Errors) -> None:
    if len(ports) > _MAX_PORTS:
        errors.append(too_many(path, len(ports), _MAX_PORTS))
        return
    seen: set[str] = set()
    for port, place in each_of(path, ports):
        here, name = place, port.get("name") or ""
        if name:
            check(is_dns1123_label)(name, here.child("name"), errors, None)
        distinct(name, seen, here, errors, "name")
        _PORT_TAIL(port, here, errors, None)


def _drop_disabled(obj: Object, old: Object | None, ctx: StrategyContext) -> None:
    """Without the gate, drops the nodes of hints, unless the stored slice has some."""
    if gate(ctx, "PreferSameTrafficDistribution"):
        return
    if any("forNodes" in (endpoint.get("hints") or {}) for endpoint in elements(old or {}, "endpoints")):
        return
    for endpoint in elements(obj, "endpoints"):
        (endpoint.get("hints") or {}).pop("forNodes", None)


class EndpointSliceStrategy(PlainStrategy):
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)
    immutable = ("addressType",)

    def default(self, obj: Object) -> None:
        for port in elements(obj, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["metadata"]["generation"] = 1
        _drop_disabled(obj, None, ctx)
        self._drop_topology(obj)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        parts = {*obj, *old} - {"metadata", "kind", "apiVersion"}
        labels_differ = not same(obj["metadata"].get("labels"), old["metadata"].get("labels"))
        if labels_differ or any(not same(obj.get(part), old.get(part)) for part in parts):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        _drop_disabled(obj, old, ctx)
        if not same(obj.get("endpoints"), old.get("endpoints")):
            self._drop_topology(obj)

    def _drop_topology(self, obj: Object) -> None:
        for endpoint in elements(obj, "endpoints"):
            endpoint.pop("deprecatedTopology", None)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        kind = obj.get("addressType") or ""
        if need(kind, Path("addressType"), errors):
            supported(kind, _ADDRESS_TYPES, Path("addressType"), errors)
        _ports(obj.get("ports") or [], Path("ports"), errors)
        found: Errors = []
        _endpoints(obj.get("endpoints") or [], kind, Path("endpoints"), found, ctx)
        # stored endpoints may stay
        if found and (old is None or not same(old.get("endpoints"), obj.get("endpoints"))):
            errors += found

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        deprecated = ["spec.addressType: FQDN endpoints are deprecated"] if obj.get("addressType") == "FQDN" else []
        return deprecated + self._address_warnings(obj)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return self._address_warnings(obj)

    def _address_warnings(self, obj: Object) -> list[str]:
        if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY) in _CONTROLLERS:
            return []
        warnings: list[str] = []
        for endpoint, here in each_of(Path("endpoints"), obj.get("endpoints")):
            for j, address in enumerate(elements(endpoint, "addresses")):
                warnings += ip_warnings(here.child("addresses").index(j), address)
        return warnings


def _some(entries: list[str]) -> str:
    text = ",".join(entries[:_MAX_SHOWN])
    if len(entries) > _MAX_SHOWN:
        return f"{text} + {len(entries) - _MAX_SHOWN} more..."
    return text or printing.UNSET


def _port(port: Object) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


def _addresses(endpoint_slice: Object, now: float) -> str:
    return _some([ip for endpoint in elements(endpoint_slice, "endpoints") for ip in elements(endpoint, "addresses")])


ENDPOINT_SLICE = Resource(
    *type_meta("discovery.k8s.io/v1", "EndpointSlice"),
    strategy=EndpointSliceStrategy(),
    table=printing.table(
        printing.NAME,
        printing.column(
            "AddressType",
            printing.value("addressType"),
            "addressType specifies the type of address carried by this EndpointSlice. All addresses in this "
            "slice must be the same type. This field is immutable after creation. The following address "
            "types are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 "
            "Address. * FQDN: Represents a Fully Qualified Domain Name. (Deprecated) The EndpointSlice "
            'controller only generates, and kube-proxy only processes, slices of addressType "IPv4" and '
            '"IPv6". No semantics are defined for the "FQDN" type.',
        ),
        printing.column("Ports", lambda obj, now: _some([_port(port) for port in elements(obj, "ports")]), ".ports"),
        printing.column("Endpoints", _addresses, ".endpoints"),
        printing.AGE,
        of="api.discovery.v1.EndpointSlice",
    ),
)
