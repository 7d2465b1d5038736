"""IPAddress (networking.k8s.io/v1): an allocated address of a ServiceCIDR (KEP-1880).

Upstream: ``pkg/apis/networking/validation``, ``pkg/registry/networking/ipaddress``."""

from __future__ import annotations

from kapi.machinery.field import Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Column, FieldText, Resource, StrategyContext, TableColumns
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_ip
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE
from kapi.resources.shared.names import is_dns1123_subdomain, is_path_segment_name
from kapi.resources.shared.rules import Errors, check, present, struct, unless_empty
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

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

RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="IPAddress",
    short_names=("ip",),
    strategy=IPAddressStrategy(),
    table=_TABLE,
)
