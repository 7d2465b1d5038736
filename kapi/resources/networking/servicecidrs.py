"""ServiceCIDR, a range of cluster IPs, and IPAddress, an allocated address of one (networking.k8s.io/v1, KEP-1880).

Upstream: ``pkg/apis/networking/validation``, ``pkg/registry/networking``: servicecidr, ipaddress."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Column, FieldText, Resource, StrategyContext, TableColumns, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_cidr, check_ip, parse_network
from kapi.resources.shared.features import gate
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE
from kapi.resources.shared.names import is_dns1123_subdomain, is_path_segment_name
from kapi.resources.shared.rules import Errors, check, present, struct, unless_empty
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules

_CIDRS = Path("spec").child("cidrs")


def _cidrs(obj: Object) -> list[str]:
    return (obj.get("spec") or {}).get("cidrs") or []


def _keeps_sent_status(obj: Object, ctx: StrategyContext) -> bool:
    """Whether the status is kept: before 1.36 clients could write it with the object, unlike for all other types."""
    if gate(ctx, "ServiceCIDRStatusFieldWiping"):
        return False
    obj.setdefault("status", {})
    return True


class ServiceCIDRStrategy(PlainStrategy):
    namespaced = False
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if _keeps_sent_status(obj, ctx):
            return
        super().prepare_for_create(obj, ctx)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        if _keeps_sent_status(obj, ctx):
            return
        super().prepare_for_update(obj, old, ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        cidrs = _cidrs(obj)
        if not cidrs:
            errors.append(required(_CIDRS, "at least one CIDR required"))
            return
        if len(cidrs) > 2:
            # the internal type's field, as Go writes a value that has no JSON names
            errors.append(invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values"))
            return
        for i, cidr in enumerate(cidrs):
            errors += check_cidr(_CIDRS.index(i), cidr)
        parsed = [parse_network(cidr) for cidr in elements(cidrs)]
        versions = [network[1].version for network in parsed if network is not None]
        if len(versions) == 2 and versions[0] == versions[1]:
            detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            errors.append(invalid(_CIDRS, cidrs, detail))

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        new, before = _cidrs(obj), _cidrs(old)
        if len(new) == len(before):
            for i, (cidr, was) in enumerate(zip(new, before, strict=True)):
                if cidr != was:
                    errors.append(invalid(_CIDRS.index(i), cidr, IMMUTABLE))
        elif len(before) == 1 and len(new) == 2:
            # a second family may be added
            if new[0] != before[0]:
                errors.append(invalid(_CIDRS.index(0), new[0], IMMUTABLE))
            self.check(obj, old, errors, ctx)
        else:
            errors.append(invalid(_CIDRS, new or None, IMMUTABLE))


SERVICE_CIDR = Resource(
    *type_meta("networking.k8s.io/v1", "ServiceCIDR"),
    strategy=ServiceCIDRStrategy(),
    status=StatusOnlyStrategy,
    table=printing.table(
        printing.NAME,
        printing.column("CIDRs", lambda obj, now: ",".join(_cidrs(obj)), ".spec.cidrs"),
        printing.AGE,
        of="api.networking.v1.ServiceCIDR",
    ),
)

_PARENT = Path("spec").child("parentRef")
_REFERENCE = struct(
    unless_empty("group", check(is_dns1123_subdomain)),
    require("resource", then=check(is_path_segment_name)),
    require("name", then=check(is_path_segment_name)),
    unless_empty("namespace", check(is_path_segment_name)),
)


def address_name(name: str, prefix: bool) -> list[str]:
    """The rule for names: the name is the address in canonical form."""
    return [error.detail for error in check_ip(Path(), name)]


class IPAddressStrategy(PlainStrategy):
    namespaced = False
    name_rule = staticmethod(address_name)
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        parent = (obj.get("spec") or {}).get("parentRef")
        if present(parent, _PARENT, errors):
            _REFERENCE(parent, _PARENT, errors, None)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        parent = (obj.get("spec") or {}).get("parentRef")
        if parent != (old.get("spec") or {}).get("parentRef"):
            errors.append(invalid(_PARENT, internal("ParentReference", parent), IMMUTABLE))


def _parent(obj: Object, now: float) -> str:
    parent = (obj.get("spec") or {}).get("parentRef")
    if parent is None:
        return printing.NONE
    group, resource = parent.get("group", ""), parent.get("resource", "")
    text = (f"{resource}.{group}" if group else resource).lower()
    return "/".join([text, *([parent["namespace"]] if parent.get("namespace") else []), parent.get("name", "")])


#: upstream's rows have an age at the end, without a column
_TABLE = TableColumns(
    (printing.NAME.column, Column("ParentRef", description=FieldText("api.networking.v1.IPAddressSpec", "parentRef"))),
    lambda obj, now: [printing.name(obj, now), _parent(obj, now), printing.age(obj, now)],
)

IP_ADDRESS = Resource(
    *type_meta("networking.k8s.io/v1", "IPAddress"), short_names=("ip",), strategy=IPAddressStrategy(), table=_TABLE
)
